/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 1, of the alloc lens: what a call of an allocator's function asks for, by the function and
 * its arguments.
 */
#ifndef SONDE_BPF_REQUEST_H
#define SONDE_BPF_REQUEST_H

#include "lib/base.bpf.h"
#include "sonde/alloc.h"

/* What a call asks for that will fail since its product overflows. */
#define NO_SIZE (~0ull)

/* a * b, or NO_SIZE. */
static __always_inline __u64 product(__u64 a, __u64 b)
{
	__u64 big = a > b ? a : b, small = a > b ? b : a;
	__u64 high = (big >> 32) * small, low = (big & ~0u) * small;

	if (!(big >> 32))
		return low;
	if (small >> 32 || high >> 32 || (high << 32) + low < low)
		return NO_SIZE;
	return (high << 32) + low;
}

static __always_inline __u64 requested(struct pt_regs *ctx, __u32 op)
{
	switch (op) {
	case SONDE_ALLOC_CALLOC:
		return product(PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx));
	case SONDE_ALLOC_REALLOC:
	case SONDE_ALLOC_MEMALIGN:
		return PT_REGS_PARM2(ctx);
	case SONDE_ALLOC_POSIX_MEMALIGN:
		return PT_REGS_PARM3(ctx);
	case SONDE_ALLOC_REALLOCARRAY:
		return product(PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx));
	default:
		return PT_REGS_PARM1(ctx);
	}
}

static __always_inline bool gives_back(__u32 op)
{
	return op == SONDE_ALLOC_FREE || op == SONDE_ALLOC_DELETE || op == SONDE_ALLOC_DELETE_SIZED;
}

static __always_inline bool takes_old(__u32 op)
{
	return op == SONDE_ALLOC_REALLOC || op == SONDE_ALLOC_REALLOCARRAY;
}

#endif
