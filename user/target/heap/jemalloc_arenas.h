/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What jemalloc's arenas have handed out, by its own statistics (stats.allocated): for each arena,
 * how many blocks of each small class are in use, and of each large class how many were handed out
 * and given back. No symbol and no code of a stripped library names their places, so they are
 * learned: a scratch process makes an arena of its own, takes a number of blocks of each class that
 * occurs nowhere else, and these numbers are looked for in its memory. What is learned is trusted
 * as little as what is derived: another scratch process has to confirm it.
 *
 * stats.allocated holds more than what the program has: what threads keep in their caches, and what
 * jemalloc took for itself.
 */
#ifndef SONDE_TARGET_HEAP_JEMALLOC_ARENAS_H
#define SONDE_TARGET_HEAP_JEMALLOC_ARENAS_H

#include "target/heap/heap.h"

struct sonde_jemalloc_arenas {
	uint64_t array; /* address in the file of the pointers to arenas; 0: not known         */
	int64_t n_small, n_large; /* classes                                                      */
	int64_t small, small_step; /* in an arena: count of the first class in use, and from there
				    * to the next class's */
	int64_t large, large_step; /* likewise; how many were handed out, then how many came back */
};

/* Learn from a scratch process with module @m of @mods, as @pid has it. 0 or -errno with @why. */
int sonde_jemalloc_arenas_learn(pid_t pid, const struct sonde_modules *mods, size_t m,
				const char *build_id, struct sonde_jemalloc_arenas *out, char *why,
				size_t size);
/* stats.allocated of @pid, where the library's addresses begin at @bias. 0 or -errno. */
int sonde_jemalloc_arenas_read(pid_t pid, uint64_t bias, const struct sonde_jemalloc_arenas *a,
			       uint64_t *bytes);

#endif
