/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is a derived layout right? A scratch process with the same library goes through known states; at
 * each, every field read from outside must equal what the library says, and over all states every
 * field must have been non-zero and have changed: equality alone would accept an offset whose field
 * never moved.
 */
#ifndef SONDE_TARGET_HEAP_CONFIRM_H
#define SONDE_TARGET_HEAP_CONFIRM_H

#include "target/heap/heap.h"

/* 0: trusted. -EINVAL: refused, with the field and state in @why; -EOPNOTSUPP or -errno: could not
 * be tried, with the reason in @why. */
int sonde_heap_confirm(const struct sonde_heap_layout *layout, pid_t pid,
		       const struct sonde_modules *mods, size_t m, char *why, size_t size);

/* The module with that build-id: 0 or -ENOENT. */
int sonde_heap_find_module(const struct sonde_modules *mods, const char *build_id, size_t *out);

#endif
