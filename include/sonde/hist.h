/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one histogram scheme: log-linear, 7 mantissa bits, so a bucket is at most 1/128 of its value wide
 * and its middle is within 0.4 % of every value in it. Both sides of the kernel boundary use the same
 * index, so merging is addition and always exact. Values at or above 2^42 (73 minutes in ns, 4 TiB in
 * bytes) fall into the last bucket, which holds nothing else.
 *
 *   v < 128            index = v                                  (exact)
 *   2^e <= v < 2^(e+1) index = (e - 6) * 128 + ((v >> (e - 7)) & 127), for e in 7..41
 */
#ifndef SONDE_HIST_H
#define SONDE_HIST_H

#include "config.h"

#define SONDE_HIST_MANTISSA_BITS 7
#define SONDE_HIST_SUB		 (1u << SONDE_HIST_MANTISSA_BITS)
#define SONDE_HIST_MAX_LOG2	 42
/* One more than the octaves need: what is too large has a bucket of its own. */
#define SONDE_HIST_BUCKETS	 ((SONDE_HIST_MAX_LOG2 - SONDE_HIST_MANTISSA_BITS + 1) * SONDE_HIST_SUB + 1)

/* floor(log2(v)) for v > 0, without a builtin that BPF lacks. */
static inline __attribute__((always_inline)) sonde_u32 sonde_hist_log2(sonde_u64 v)
{
	sonde_u32 r = 0;

	if (v >> 32) {
		v >>= 32;
		r += 32;
	}
	if (v >> 16) {
		v >>= 16;
		r += 16;
	}
	if (v >> 8) {
		v >>= 8;
		r += 8;
	}
	if (v >> 4) {
		v >>= 4;
		r += 4;
	}
	if (v >> 2) {
		v >>= 2;
		r += 2;
	}
	return r + (sonde_u32)(v >> 1);
}

/* Bucket of `v`, in [0, SONDE_HIST_BUCKETS). */
static inline __attribute__((always_inline)) sonde_u32 sonde_hist_index(sonde_u64 v)
{
	sonde_u32 e;

	if (v < SONDE_HIST_SUB)
		return (sonde_u32)v;
	if (v >> SONDE_HIST_MAX_LOG2)
		return SONDE_HIST_BUCKETS - 1;
	e = sonde_hist_log2(v);
	return (e - SONDE_HIST_MANTISSA_BITS + 1) * SONDE_HIST_SUB +
	       ((sonde_u32)(v >> (e - SONDE_HIST_MANTISSA_BITS)) & (SONDE_HIST_SUB - 1));
}

#endif
