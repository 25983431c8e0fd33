/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where a target's allocator keeps its locks. */
#ifndef SONDE_LENS_ALLOC_LOCKS_H
#define SONDE_LENS_ALLOC_LOCKS_H

#include "target/target.h"

/* Fill map @fd (stall_ranges) for @t. Without its entry a target's allocator locks count as
 * futexes. */
void sonde_alloc_locks_seed(const struct sonde_target *t, int fd);

#endif
