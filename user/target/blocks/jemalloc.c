// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * jemalloc 5's radix tree from page to size class: two levels of 18 bits over pages of 4 KiB. A
 * leaf's word has the class's number in its upper 16 bits, the address of the extent's descriptor
 * below, and in bit 0 whether the extent is cut into blocks of the class. A descriptor begins with
 * a word of fields, the extent's address and its size (extent_t of 5.0 to 5.2, edata_t since 5.3).
 *
 * The classes are the same in every build for x86-64: 8 bytes, then four sizes to each doubling.
 */
#include <errno.h>

#include "core/mem.h"
#include "target/blocks/jemalloc.h"

#define PAGE	   4096ull
#define LEAF_BITS  18
#define MAX_SLAB   39 /* classes up to 14 KiB share extents */
#define ALIGNMENTS 2

/* Descriptors lie on 64 bytes, and on 128 since 5.3, which keeps more flags below. */
static const uint64_t alignment[ALIGNMENTS] = {128, 64};

struct extent {
	uint64_t bits, address, size;
};

size_t sonde_jemalloc_classes(uint64_t *bytes, size_t max)
{
	size_t n = 0;

	bytes[n++] = 8;
	for (unsigned i = 1; i <= 4; i++)
		bytes[n++] = 16 * i;
	for (unsigned lg = 6; lg < 63; lg++)
		for (uint64_t i = 5; i <= 8 && n < max; i++)
			if (lg < 62 || i < 8)
				bytes[n++] = i << (lg - 2);
	return n;
}

static bool holds(const struct extent *e, uint64_t page)
{
	uint64_t start = e->address & -PAGE; /* a large block may begin within its first page */

	return page >= start && page - start < (e->size & -PAGE);
}

/* One that is not cut up is as large as its class, with a page more where blocks are shifted. */
static bool has_class_size(const struct sonde_alloc_domain *d, const struct extent *e,
			   uint64_t class)
{
	uint64_t size = e->size & -PAGE;

	return class < d->n_classes &&
	       (size == d->class_bytes[class] || size == d->class_bytes[class] + PAGE);
}

enum sonde_agreement sonde_jemalloc_check(const struct sonde_blocks *b,
					  const struct sonde_alloc_domain *d, uint64_t word,
					  uint64_t page)
{
	uint64_t class = word >> 48;
	bool slab = word & 1;

	if (class == d->n_classes && !(word << 16))
		return SONDE_SAYS_NOTHING; /* of a page that was given back */
	for (size_t i = 0; i < ALIGNMENTS; i++) {
		struct extent e;
		uint64_t at = (word & ((1ull << 47) - 1)) & -alignment[i];

		if (!sonde_blocks_in_heap(b, at) || sonde_blocks_read(b, at, &e, sizeof(e)) ||
		    !holds(&e, page))
			continue;
		if (slab ? class < MAX_SLAB : has_class_size(d, &e, class))
			return SONDE_AGREES;
		/* Not in use now: its class is none or what it was. */
		return SONDE_SAYS_NOTHING;
	}
	return SONDE_DISAGREES;
}

int sonde_jemalloc_learn(const struct sonde_blocks *b, struct sonde_alloc_domain *out)
{
	out->page_shift = 12;
	out->leaf_bits = LEAF_BITS;
	out->n_classes = (uint32_t)sonde_jemalloc_classes(out->class_bytes, SONDE_BLOCK_CLASSES);
	return sonde_blocks_find_root(b, out, sonde_jemalloc_check);
}
