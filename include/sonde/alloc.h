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
	sonde_u64 chunk_in;  /* bytes of the chunks handed out, headers and rounding included     */
	sonde_u64 chunk_out; /* likewise, given back                                             */
	sonde_u64 inner;     /* hits that counted nothing: an outer function had the call        */
	sonde_u64 pad[2];
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

/*
 * Cookie of a site: the operation, a flag, how far the stack pointer is below the return address, and
 * the target's number (a link is bound to one process, so its cookie can say which).
 */
#define SONDE_ALLOC_COOKIE_OP(c)     ((sonde_u32)(c)&0xff)
#define SONDE_ALLOC_COOKIE_SP(c)     ((sonde_u32)((c) >> 16) & 0xffff)
#define SONDE_ALLOC_COOKIE_TARGET(c) ((sonde_u32)((c) >> 32))
/* operator new whose second argument is an alignment */
#define SONDE_ALLOC_COOKIE_ALIGNED   (1u << 8)
#define SONDE_ALLOC_COOKIE(op, aligned, sp_delta, target)                                          \
	((sonde_u64)(op) | ((aligned) ? SONDE_ALLOC_COOKIE_ALIGNED : 0) |                          \
	 (sonde_u64)((sp_delta)&0xffff) << 16 | (sonde_u64)(target) << 32)

#endif
