/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 1, of the alloc lens: how large a block is. By its address: glibc's header, jemalloc's
 * radix tree, gperftools' page map, each the allocator's own and read from the process that runs.
 * By its request, where the allocator rounds by a rule: its size classes. Both give the same number
 * for the same block, so that what is handed out and what is given back cancel exactly.
 *
 * The invariant: a table is read for live blocks only, at the entry of what gives them back or at
 * the return of what made them, so that no entry can be on its way.
 */
#ifndef SONDE_BPF_BLOCK_H
#define SONDE_BPF_BLOCK_H

#include "lib/base.bpf.h"
#include "sonde/alloc.h"

/* One per allocator of a target that has tables. Sized before load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sonde_alloc_domain);
} alloc_domains SEC(".maps");

#define CHUNK_MAPPED 2

/* More than an address space holds (2^47 bytes): such a call fails; it is counted, its bytes are
 * not, since a few of them would wrap the sum. */
#define ABSURD(size) ((size) >> 47)

static __always_inline struct sonde_alloc_domain *block_domain(__u64 cookie)
{
	__u32 i = SONDE_ALLOC_COOKIE_DOMAIN(cookie);

	return bpf_map_lookup_elem(&alloc_domains, &i);
}

static __always_inline bool block_word(__u64 *to, __u64 at)
{
	return !bpf_probe_read_user(to, sizeof(*to), (void *)at);
}

/*
 * Bytes of the chunk behind a pointer of glibc's: the size is in the word before it, its lowest
 * three bits are flags. A chunk that is a mapping of its own begins as many bytes earlier as the
 * word before that says. This is what mallinfo2 adds up in uordblks and hblkhd.
 */
static __always_inline __u64 block_header(__u64 ptr)
{
	__u64 size, before;

	if (!block_word(&size, ptr - 8))
		return 0;
	if (!(size & CHUNK_MAPPED))
		return size & ~7ull;
	return block_word(&before, ptr - 16) ? (size & ~7ull) + before : 0;
}

/* The second level's word for the page that @ptr is in, or 0. */
static __always_inline __u64 block_leaf(const struct sonde_alloc_domain *d, __u64 ptr)
{
	__u64 page = (ptr & ((1ull << 48) - 1)) >> (d->page_shift & 63);
	__u64 leaf, word;

	if (!d->root || !block_word(&leaf, d->root + (page >> (d->leaf_bits & 63)) * 8) || !leaf)
		return 0;
	page &= (1ull << (d->leaf_bits & 63)) - 1;
	return block_word(&word, leaf + page * 8) ? word : 0;
}

static __always_inline __u64 block_class(const struct sonde_alloc_domain *d, __u64 class)
{
	return class < d->n_classes ? d->class_bytes[class & (SONDE_BLOCK_CLASSES - 1)] : 0;
}

static __always_inline __u64 block_span(const struct sonde_alloc_domain *d, __u64 span)
{
	__u64 pages;
	__u8 class = 0;

	if (!span || bpf_probe_read_user(&class, 1, (void *)(span + d->class_offset)))
		return 0;
	if (class)
		return block_class(d, class);
	return block_word(&pages, span + 8) ? pages << (d->page_shift & 63) : 0;
}

/* Bytes of the live block at @ptr, 0 for none. One that cannot be told is a drop. */
static __always_inline __u64 block_bytes(__u64 cookie, __u64 ptr)
{
	struct sonde_alloc_domain *d;
	__u64 bytes = 0;

	if (!ptr)
		return 0;
	if (SONDE_ALLOC_COOKIE_RULE(cookie) == SONDE_BLOCK_HEADER) {
		bytes = block_header(ptr);
	} else {
		d = block_domain(cookie);
		if (d && SONDE_ALLOC_COOKIE_RULE(cookie) == SONDE_BLOCK_RTREE)
			bytes = block_class(d, block_leaf(d, ptr) >> 48);
		else if (d)
			bytes = block_span(d, block_leaf(d, ptr));
	}
	if (!bytes)
		count_drop(SONDE_LENS_ALLOC, SONDE_DROP_COPY_FAULT);
	return bytes;
}

static __always_inline __u32 lg_floor(__u64 v)
{
	__u32 lg = 0;

#define HALF(bits)                                                                                 \
	if (v >> (bits)) {                                                                         \
		v >>= (bits);                                                                      \
		lg += (bits);                                                                      \
	}
	HALF(32)
	HALF(16)
	HALF(8)
	HALF(4)
	HALF(2)
	HALF(1)
#undef HALF
	return lg;
}

static __always_inline __u64 round_up(__u64 n, __u64 power_of_two)
{
	return (n + power_of_two - 1) & -power_of_two;
}

/* jemalloc: 8, multiples of 16 up to 128, then four sizes to each doubling. */
static __always_inline __u64 rtree_request(__u64 size)
{
	__u32 lg;

	if (size <= 8)
		return 8;
	lg = lg_floor(size * 2 - 1);
	return round_up(size, 1ull << (lg < 7 ? 4 : lg - 3));
}

/* gperftools: its table of sizes, and whole pages beyond that. */
static __always_inline __u64 pagemap_request(const struct sonde_alloc_domain *d, __u64 size)
{
	__u64 i = size <= 1024 ? (size + 7) >> 3 : (size + 127 + (120 << 7)) >> 7;

	if (size > d->max_small)
		return round_up(size, 1ull << (d->page_shift & 63));
	/* One 64-bit register is checked and used: 6.1 does not tie a shifted copy to its origin.
	 */
	__asm__ volatile("" : "+r"(i));
	return i < SONDE_BLOCK_SIZES ? d->size_bytes[i] : 0;
}

/*
 * Bytes of the block that a request for @size gets, by the allocator's classes. @align 0 or 1: no
 * special alignment.
 */
static __always_inline __u64 block_request(__u64 cookie, __u64 size, __u64 align)
{
	struct sonde_alloc_domain *d;

	if (ABSURD(size) || ABSURD(align))
		return 0;
	d = block_domain(cookie);
	if (!d)
		return 0;
	if (align > 1)
		size = size ?: 1; /* 0 bytes get an address of their own, at the alignment */
	if (align > 1 && align <= 1ull << (d->page_shift & 63))
		size = round_up(size, align);
	else if (align > 1)
		return round_up(size, 1ull << (d->page_shift & 63)); /* whole pages */
	if (SONDE_ALLOC_COOKIE_RULE(cookie) == SONDE_BLOCK_RTREE)
		return rtree_request(size);
	return pagemap_request(d, size);
}

#endif
