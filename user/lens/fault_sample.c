// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From sampled faults to the time of all. Of a series' plain faults one in some is timed
 * (sonde/fault.h); the others are taken to have lasted as long as those timed in the same interval
 * did on average. The invariant: where every fault was timed, the result is the sum and no
 * estimate.
 */
#include <math.h>

#include "lens/fault_priv.h"

#define Z95 1.96

/* Mean of the plain faults, from the samples between two readings, else of all, else of those timed
 * before sampling began. */
static double plain_mean(const struct sonde_fault_sum *now, const struct sonde_fault_sum *was)
{
	if (now->timed > was->timed)
		return (double)(now->plain_ns - was->plain_ns) / (double)(now->timed - was->timed);
	if (now->timed)
		return (double)now->plain_ns / (double)now->timed;
	return now->count > now->plain ? (double)now->ns / (double)(now->count - now->plain) : 0;
}

/*
 * Half width of the 95 % interval of the plain faults' total: that of a mean of `timed` out of
 * `plain` drawn without replacement, times `plain` (Cochran, Sampling Techniques, 2.7). The squares
 * are of ns / 16.
 */
static double plain_error(const struct sonde_fault_sum *s)
{
	double n = (double)s->timed, all = (double)s->plain, mean, var;

	if (n < 2 || n >= all)
		return 0;
	mean = (double)s->plain_ns / n;
	var = ((double)s->plain_sq * 256 - n * mean * mean) / (n - 1);
	return var > 0 ? Z95 * all * sqrt(var / n * (1 - n / all)) : 0;
}

void fault_time_update(struct fault_time *t, const struct sonde_fault_sum *now)
{
	const struct sonde_fault_sum *was = &t->sum;

	t->ns += (double)(now->ns - was->ns);
	if (now->plain > was->plain)
		t->ns += (double)(now->plain - was->plain) * plain_mean(now, was);
	t->sum = *now;
	t->error_ns = plain_error(now);
}

/*
 * A bucket of a sampled series holds faults that stand for themselves and, for every one of a
 * sample, `every`. The remainder and the quotient tell them apart, and even where more than `every`
 * stood for themselves the sum is right.
 */
bool fault_hist_fit(uint64_t *buckets, size_t n, uint32_t every, uint64_t count)
{
	uint64_t alone = 0, samples = 0, done = 0, given = 0, plain;

	for (size_t i = 0; i < n; i++) {
		alone += buckets[i] % every;
		samples += buckets[i] / every;
	}
	if (alone + samples * every == count)
		return true;
	if (!samples || count < alone + samples)
		return false;
	plain = count - alone;
	for (size_t i = 0; i < n; i++) {
		uint64_t share;

		done += buckets[i] / every;
		share = (uint64_t)((double)plain * ((double)done / (double)samples) + 0.5);
		buckets[i] = buckets[i] % every + share - given;
		given = share;
	}
	return true;
}
