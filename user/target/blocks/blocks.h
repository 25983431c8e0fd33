/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where an allocator keeps the sizes of its blocks, found in the memory of the very process.
 * Nothing is taken from names, offsets or code of one build: a table is recognised by what it must
 * hold. Its first level lies in the allocator's data; at the places that follow from where the heap
 * is it has the addresses of leaves; and what a leaf says of a page agrees with the page's own
 * descriptor.
 *
 * The invariant: a table is found once and unambiguously, and dozens of pages agree with it, or it
 * is not found.
 */
#ifndef SONDE_TARGET_BLOCKS_H
#define SONDE_TARGET_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sonde/alloc.h"
#include "target/maps.h"

struct sonde_allocator;

struct sonde_range {
	uint64_t start, end;
};

struct sonde_range_list {
	struct sonde_range *r;
	size_t n, cap;
};

/* The memory of a process as the search sees it. */
struct sonde_blocks {
	pid_t pid;
	struct sonde_range_list data; /* what the module may write: .data and .bss */
	struct sonde_range_list heap; /* anonymous and writable, the rest          */
};

/*
 * Learn the tables of @a, which is module @m of process @pid. 0; -ENOENT: no such table, or two
 * that could be it; -ENODATA: nothing is allocated yet; -EOPNOTSUPP: @a has none; -errno.
 */
int sonde_blocks_learn(pid_t pid, const struct sonde_allocator *a, const struct sonde_module *m,
		       struct sonde_alloc_domain *out);

/*
 * Do tables lie at the same place in a scratch process that loads the same file? 0: they do;
 * -EINVAL: no, and @why says how; -EOPNOTSUPP: it could not be tried, for the reason in @why.
 */
int sonde_blocks_confirm(pid_t pid, const struct sonde_allocator *a,
			 const struct sonde_modules *mods, size_t m,
			 const struct sonde_alloc_domain *d, char *why, size_t size);

/* For the allocators' descriptions. */

/* Copy from the process: 0 or -errno; all or nothing. */
int sonde_blocks_read(const struct sonde_blocks *b, uint64_t at, void *to, size_t len);
bool sonde_blocks_in_heap(const struct sonde_blocks *b, uint64_t at);

/* What a leaf's word says of the page at @page: does it agree with the page's descriptor? */
enum sonde_agreement { SONDE_DISAGREES, SONDE_SAYS_NOTHING, SONDE_AGREES };
typedef enum sonde_agreement (*sonde_page_check)(const struct sonde_blocks *b,
						 const struct sonde_alloc_domain *d, uint64_t word,
						 uint64_t page);

/*
 * Find the first level's array of a two-level table with the shifts of @d; d->root is set. 0 or
 * -ENOENT or -errno.
 */
int sonde_blocks_find_root(const struct sonde_blocks *b, struct sonde_alloc_domain *d,
			   sonde_page_check check);

#endif
