/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What bpf/alloc.bpf.c and user/lens/alloc.c agree on: the cookie of a probe site and the layout of
 * the counters. Counters live in memory-mapped arrays of `lanes` copies, a CPU adding to its own
 * lane; lanes may be fewer than CPUs (the sum stays exact, adds are atomic), which bounds the
 * memory.
 */
#ifndef SONDE_ALLOC_H
#define SONDE_ALLOC_H

#include "event.h"
#include "hist.h"

/* What the call's arguments mean. Reaches BPF as part of the cookie: append, never renumber. */
enum sonde_alloc_op {
	SONDE_ALLOC_MALLOC = 1,	  /* size = arg0                                             */
	SONDE_ALLOC_CALLOC = 2,	  /* size = arg0 * arg1, overflow fails                      */
	SONDE_ALLOC_REALLOC = 3,  /* old = arg0, size = arg1                                 */
	SONDE_ALLOC_MEMALIGN = 4, /* size = arg1 (memalign, aligned_alloc)                   */
	SONDE_ALLOC_POSIX_MEMALIGN = 5, /* out = arg0, size = arg2, returns 0 or an errno */
	SONDE_ALLOC_VALLOC = 6,	       /* size = arg0                                             */
	SONDE_ALLOC_PVALLOC = 7,       /* size = arg0, rounded up to pages                        */
	SONDE_ALLOC_NEW = 8,	       /* size = arg0, may throw: never a return probe            */
	SONDE_ALLOC_FREE = 9,	       /* old = arg0                                              */
	SONDE_ALLOC_DELETE = 10,       /* old = arg0                                              */
	SONDE_ALLOC_DELETE_SIZED = 11, /* old = arg0, size = arg1                                 */
	SONDE_ALLOC_REALLOCARRAY = 12, /* old = arg0, size = arg1 * arg2                          */
	SONDE_ALLOC__MAX
};

/* Rows of one target: indexed by enum sonde_alloc_op, so a power of two above its maximum. */
#define SONDE_ALLOC_ROWS 16

/* All in a cache line, and a cache line for itself. */
struct sonde_alloc_row {
	sonde_u64 calls;
	sonde_u64 bytes;     /* asked for                                                        */
	sonde_u64 failed;    /* returned no memory                                               */
	sonde_u64 chunk_in;  /* bytes of the blocks handed out, rounding (glibc: and header) included */
	sonde_u64 chunk_out; /* likewise, given back                                             */
	sonde_u64 inner;     /* hits that counted nothing: an outer function had the call        */
	sonde_u64 unseen; /* calls whose pointer nobody saw, under --sites                        */
	sonde_u64 pad;
};

/* Fixed at load, in section `.rodata.alloc`. */
struct sonde_alloc_geometry {
	sonde_u32 targets; /* targets that have counters                                          */
	sonde_u32 lane_mask; /* lanes - 1; lanes is a power of two */
};

static inline __attribute__((always_inline)) sonde_u32
sonde_alloc_row_index(sonde_u32 lane, sonde_u32 targets, sonde_u32 target, sonde_u32 op)
{
	return (lane * targets + target) * SONDE_ALLOC_ROWS + (op & (SONDE_ALLOC_ROWS - 1));
}

static inline __attribute__((always_inline)) sonde_u32
sonde_alloc_bucket_index(sonde_u32 lane, sonde_u32 targets, sonde_u32 target, sonde_u32 bucket)
{
	return (lane * targets + target) * SONDE_HIST_BUCKETS + bucket;
}

/* How the size of a block is learned from its address. */
enum sonde_block_rule {
	SONDE_BLOCK_UNKNOWN = 0,
	SONDE_BLOCK_HEADER = 1,	 /* glibc: the word before the block                              */
	SONDE_BLOCK_RTREE = 2,	 /* jemalloc 5: a radix tree from page to size class              */
	SONDE_BLOCK_PAGEMAP = 3, /* gperftools: a two-level table from page to span               */
};

#define SONDE_BLOCK_CLASSES 256
/* gperftools' index of sizes: by 8 bytes up to 1 KiB, by 128 bytes from there to 256 KiB. */
#define SONDE_BLOCK_SIZES   2176

/*
 * Where one allocator of one process keeps the sizes of its blocks. Both tables are found by the
 * block's page: root[page >> leaf_bits] is the address of a leaf, leaf[page & mask] a word: jemalloc's
 * has the size class in its upper 16 bits, gperftools' is the address of a span.
 */
struct sonde_alloc_domain {
	sonde_u64 root; /* address of the first level's array, in the process; 0: not known      */
	sonde_u32 page_shift;
	sonde_u32 leaf_bits;
	sonde_u32 n_classes;
	sonde_u32 class_offset; /* gperftools: where in a span its size class is, one byte         */
	sonde_u64 max_small;	/* gperftools: larger requests are whole pages                     */
	sonde_u64 class_bytes[SONDE_BLOCK_CLASSES]; /* usable bytes of a block of that class       */
	sonde_u32 size_bytes[SONDE_BLOCK_SIZES]; /* gperftools: usable bytes by index of size      */
};

/*
 * Cookie of a site: the operation, flags, how far the stack pointer is below the return address, the
 * target's number (a link is bound to one process, so its cookie can say which), and which of the
 * allocators' tables its blocks are found in.
 */
#define SONDE_ALLOC_COOKIE_OP(c)     ((sonde_u32)(c)&0xff)
#define SONDE_ALLOC_COOKIE_RULE(c)   ((sonde_u32)((c) >> 10) & 3)
#define SONDE_ALLOC_COOKIE_SP(c)     ((sonde_u32)((c) >> 16) & 0xffff)
#define SONDE_ALLOC_COOKIE_TARGET(c) ((sonde_u32)((c) >> 32) & 0xffff)
#define SONDE_ALLOC_COOKIE_DOMAIN(c) ((sonde_u32)((c) >> 48))
#define SONDE_ALLOC_COOKIE_INSN(c)   ((sonde_u32)((c) >> 12) & 1) /* enum sonde_insn_kind       */
/* The second argument is an alignment (operator new, delete), or the third one may hold one's power
 * of two in its low bits (sdallocx). */
#define SONDE_ALLOC_COOKIE_ALIGNED   (1u << 8)
#define SONDE_ALLOC_COOKIE_SIZE	     (1u << 9) /* returns the block's new size, no pointer        */
/* The `ret` instructions at which its calls can end are probed as well. */
#define SONDE_ALLOC_COOKIE_TRACKED   (1u << 12)
#define SONDE_ALLOC_COOKIE_BLOCK(rule, domain)                                                     \
	((sonde_u64)(rule) << 10 | (sonde_u64)(domain) << 48)
#define SONDE_ALLOC_COOKIE_OF_INSN(kind) ((sonde_u64)(kind) << 12)
#define SONDE_ALLOC_COOKIE(op, flags, sp_delta, target)                                            \
	((sonde_u64)(op) | (sonde_u64)(flags) | (sonde_u64)((sp_delta)&0xffff) << 16 |             \
	 (sonde_u64)(target) << 32)

#endif
