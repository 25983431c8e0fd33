/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Inside of the proc lens, for its test. */
#ifndef SONDE_LENS_PROC_H
#define SONDE_LENS_PROC_H

#include <stdint.h>

/* Divide @all ns of CPU into user and system by what ticks say of each; *user_ns and *sys_ns hold what was
 * said before (0 at first) and never shrink. They add up to @all unless that is less than before. */
void sonde_proc_split(uint64_t all, uint64_t utime_ns, uint64_t stime_ns, uint64_t *user_ns,
		      uint64_t *sys_ns);

#endif
