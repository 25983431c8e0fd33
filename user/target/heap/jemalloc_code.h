/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where jemalloc's allocation and deallocation paths count a thread's bytes, from their code. The
 * counters lie in the thread's own block, at a fixed distance from the thread pointer that is
 * either a constant (in an executable) or read from a word that the dynamic linker fills (in a
 * library).
 */
#ifndef SONDE_TARGET_HEAP_JEMALLOC_CODE_H
#define SONDE_TARGET_HEAP_JEMALLOC_CODE_H

#include <stddef.h>
#include <stdint.h>

/* The counter is at thread pointer + (word at @word, 0: none) + @offset. */
struct sonde_jemalloc_place {
	uint64_t word; /* address in the file */
	int64_t offset;
};

/*
 * The counter that the function of @len bytes at @code, loaded at @vaddr, adds to on its fast path:
 * the one 64-bit place relative to the thread pointer that is written, and compared with the
 * threshold beside it (5.3), or added to in memory (5.0 to 5.2). 0; -ENOENT: no such place,
 * -EEXIST: several.
 */
int sonde_jemalloc_counter(const uint8_t *code, size_t len, uint64_t vaddr,
			   struct sonde_jemalloc_place *out);

#endif
