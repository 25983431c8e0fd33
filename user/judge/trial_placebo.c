// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The control pair against itself: each period is cut in two where nothing was done, at many
 * places, and the change of the pair across the cut is what noise looks like. A part is shorter
 * than the periods that are compared, so the change is scaled to their lengths: errors fall with
 * the root of the length.
 */
#include <math.h>

#include "core/mem.h"
#include "judge/stats_dist.h"
#include "judge/trial_impl.h"

#define SPLITS	    50 /* a period, at most */
#define MIN_WINDOWS 16

/* Enough values in each part for the quantile to be had at all? */
static bool has_enough(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
		       const struct sonde_range *part)
{
	double least = (double)sonde_stats_order_floor(m->q, k->alpha / 2);

	if (m->stat != SONDE_TRIAL_QUANTILE)
		return true;
	for (size_t s = 0; s < k->t->n_servers; s++)
		for (int i = 0; i < 2 && k->control[s] != 0; i++)
			if (sonde_view_count(sonde_work_view(k, m->source, s), &part[i], 1) < least)
				return false;
	return true;
}

static double inverse(double n)
{
	return n > 0 ? 1 / n : 0;
}

/* |change| across a cut at @at of @r, as if its parts were as long as the real periods. */
static double split(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
		    struct sonde_range r, uint32_t at)
{
	struct sonde_range part[2] = {{r.from, at}, {at, r.to}};
	double real = inverse((double)k->n[SONDE_BEFORE]) + inverse((double)k->n[SONDE_AFTER]);
	double here = inverse(at - r.from) + inverse(r.to - at);

	if (!has_enough(k, m, part))
		return NAN;
	return sqrt(real / here) * fabs(sonde_work_weighted(k, m, k->control, part[1]) -
					sonde_work_weighted(k, m, k->control, part[0]));
}

void sonde_placebo_make(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			struct sonde_placebo *out)
{
	double v[SPLITS * SONDE_PERIODS], margin = log1p(m->margin);
	struct sonde_placebo p = {.spread = NAN, .over = NAN};
	/* Growth is a property of the whole period: cut in two it is another figure. */
	bool possible = k->control && m->stat != SONDE_TRIAL_GROWTH;
	size_t over = 0;

	for (int period = SONDE_BEFORE; possible && period < SONDE_PERIODS; period++) {
		struct sonde_range r = sonde_work_period(k, period);
		uint32_t n = r.to - r.from, places = n / 2 < SPLITS ? n / 2 : SPLITS;

		for (uint32_t i = 0; n >= MIN_WINDOWS && i < places; i++) {
			/* The middle half of the period: a short part says little. */
			uint32_t at =
				r.from + n / 4 + (uint32_t)((uint64_t)(n / 2) * i / (places - 1));
			double change = split(k, m, r, at);

			if (isnan(change))
				continue;
			over += change > margin;
			v[p.splits++] = change;
		}
	}
	if (p.splits) {
		qsort(v, p.splits, sizeof(*v), sonde_stats_ascending);
		p.spread = sonde_stats_rank_quantile(v, p.splits, 0.95);
		p.over = (double)over / (double)p.splits;
	}
	*out = p;
}
