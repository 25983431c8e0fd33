/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The random numbers of the resampling: SplitMix64 (Steele, Lea and Flood, 2014). A seed that is
 * kept with the result gives the same result on any machine.
 */
#ifndef SONDE_JUDGE_STATS_RNG_H
#define SONDE_JUDGE_STATS_RNG_H

#include <stdint.h>

struct sonde_rng {
	uint64_t state; /* begins as the seed: any value will do */
};

static inline uint64_t sonde_rng_next(struct sonde_rng *r)
{
	uint64_t z = r->state += 0x9E3779B97F4A7C15u;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

/* In [0, @n). The bias of a product without rejection is below n / 2^64. */
static inline uint64_t sonde_rng_below(struct sonde_rng *r, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)sonde_rng_next(r) * n) >> 64);
}

/* In [0, 1), 53 bits. */
static inline double sonde_rng_unit(struct sonde_rng *r)
{
	return (double)(sonde_rng_next(r) >> 11) * 0x1p-53;
}

#endif
