/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What every lens stands on, asked before anything is made, so that its lack is one sentence and
 * not a dozen failures further down.
 */
#ifndef SONDE_ATTACH_HOST_H
#define SONDE_ATTACH_HOST_H

/* Raises the limit on open files as far as it goes. 0 or -EMFILE (logged): too few to begin with.
 */
int sonde_host_files(void);
/* Our pids are the kernel's, and its types can be read. 0, -EOPNOTSUPP or -errno (logged). */
int sonde_host_check(void);
/* Log why @what cannot be loaded where libbpf said ESRCH: it could not read the kernel's types,
 * whatever the cause. Never -ESRCH: to everybody else that is a process that is gone. */
int sonde_host_no_types(const char *what);

#endif
