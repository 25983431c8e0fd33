// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The interval of means and levels: the contrast of each window, averaged over batches that are
 * long against its memory, so that the batches' spread tells the error. Nothing random. The effect
 * itself is that of the sums, since windows do not weigh the same.
 */
#include <errno.h>
#include <math.h>

#include "core/clock.h"
#include "core/mem.h"
#include "judge/trial_impl.h"

#define DAY_S (24.0 * 3600)

/* Correlation time of a series with gaps: what is there, put together. */
static double correlation(const double *x, size_t n)
{
	sonde_autofree double *there = calloc(n + 1, sizeof(*there));
	struct sonde_block_length b;
	size_t have = 0;

	for (size_t i = 0; there && i < n; i++)
		if (!isnan(x[i]))
			there[have++] = x[i];
	return there && !sonde_stats_block_length(there, have, &b) ? b.correlation : 0.5;
}

struct sonde_batching sonde_work_batching(const struct sonde_trial_work *k, const double *x,
					  size_t n)
{
	double per_day = DAY_S * (double)SONDE_NS_PER_SEC / (double)k->t->window_ns;

	return sonde_stats_batching(n, per_day, correlation(x, n));
}

static int period_estimate(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			   const double *weight, int period, struct sonde_effect *effect,
			   struct sonde_estimate *out)
{
	const struct sonde_trial *t = k->t;
	const struct sonde_trial_period *p = period == SONDE_AFTER ? &t->after : &t->before;
	sonde_autofree double *x = sonde_work_series(k, m, weight, period);
	struct sonde_batching b;
	int err;

	if (!x)
		return -ENOMEM;
	b = sonde_work_batching(k, x, p->to - p->from);
	err = b.count ? sonde_stats_batch_mean(x, b.count * b.length, b.length, out) : -ENODATA;
	if (err)
		return err;
	effect->batches[period] = (size_t)out->df + 1;
	effect->short_batches = effect->short_batches || b.short_batches;
	effect->variance[period] = out->se * out->se;
	return 0;
}

int sonde_effect_batches(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			 const double *weight, struct sonde_effect *out)
{
	struct sonde_effect effect = {.low = NAN, .high = NAN, .low2 = NAN, .high2 = NAN};
	struct sonde_estimate part[SONDE_PERIODS];
	bool baseline = k->n[SONDE_BEFORE] > 0;
	int err = 0;

	if (baseline)
		err = period_estimate(k, m, weight, SONDE_BEFORE, &effect, &part[SONDE_BEFORE]);
	err = err ? err : period_estimate(k, m, weight, SONDE_AFTER, &effect, &part[SONDE_AFTER]);
	if (err)
		return err;
	effect.e = sonde_stats_change(baseline ? &part[SONDE_BEFORE] : NULL, &part[SONDE_AFTER]);
	*out = effect;
	return 0;
}
