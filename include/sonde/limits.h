/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sizes that BPF programs and user space must agree on. A record that crosses the ring carries no
 * pointers and no size that is not bounded by one of these.
 */
#ifndef SONDE_LIMITS_H
#define SONDE_LIMITS_H

#define SONDE_MAX_TARGETS     256  /* thread groups observed at once (prefork children count)     */
#define SONDE_MAX_SITES	      64   /* probe sites in one multi-link                               */
#define SONDE_TEXT_BYTES      1024 /* request bytes captured per query; its full length is kept   */
#define SONDE_COMM_BYTES      16   /* TASK_COMM_LEN                                               */
#define SONDE_RING_BYTES      (4u << 20) /* event ring; must be a power of two and page aligned   */
#define SONDE_INDEX_BYTES     64   /* index name as a query handler reports it                    */

#endif
