// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The interval of quantiles: a joint circular block bootstrap. A draw takes the same windows of all
 * servers, which keeps what they have in common: the load. It is done for blocks of the length that
 * the data asks for (1 h at least), of twice that, and of a day where there are enough days; the
 * widest interval counts, since a block that is too short hides what neighbouring windows share.
 */
#include <errno.h>
#include <math.h>

#include "core/clock.h"
#include "core/mem.h"
#include "judge/stats_dist.h"
#include "judge/trial_impl.h"

#define LENGTHS	    3
#define MIN_WINDOWS 8
#define MIN_DAYS    7 /* for blocks of a day */
#define GROUP_SHARE 4
#define GROUP_LEAST 200
#define MAX_MISSING 0.01 /* of the resamples: a quantile that a draw had no values for */

struct boot {
	const struct sonde_trial_work *k;
	struct sonde_draw draw[SONDE_PERIODS];
	size_t block[SONDE_PERIODS];
	double *theta; /* [metric][server][period][resample]: logarithms */
	size_t *hint;  /* [metric][server][period] */
	double *sums;  /* [4][resample]: effect, its two parts, and room to sort */
};

static size_t theta_at(const struct boot *b, size_t metric, size_t server, int period)
{
	return (metric * b->k->t->n_servers + server) * SONDE_PERIODS + (size_t)period;
}

/* Rows of some queries are hints, and many: an error that is known to 3 % will do for them. */
static unsigned int resamples_of(const struct sonde_trial_work *k,
				 const struct sonde_trial_metric *m)
{
	unsigned int fewer = k->resamples / GROUP_SHARE;

	return !*m->group || fewer < GROUP_LEAST ? k->resamples : fewer;
}

static bool is_resampled(const struct sonde_trial *t, const struct sonde_trial_metric *m)
{
	return t->sources[m->source].kind == SONDE_TRIAL_HIST;
}

/* ---- block length ---- */

/* What the series of a contrast asks for; the mean of the first histogram stands for all metrics,
 * since all share one draw. */
static double asked_length(const struct sonde_trial_work *k)
{
	const struct sonde_trial *t = k->t;
	struct sonde_trial_metric m = {.stat = SONDE_TRIAL_MEAN};
	double most = 1;

	while (m.source < t->n_sources && t->sources[m.source].kind != SONDE_TRIAL_HIST)
		m.source++;
	for (size_t c = 0; c < k->n_contrasts && m.source < t->n_sources; c++) {
		for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++) {
			const struct sonde_trial_period *at = p ? &t->after : &t->before;
			sonde_autofree double *x =
				sonde_work_series(k, &m, k->contrasts[c].weight, p);
			struct sonde_block_length b;
			size_t n = 0;

			for (size_t i = 0; x && i < at->to - at->from; i++)
				if (!isnan(x[i]))
					x[n++] = x[i];
			if (x && !sonde_stats_block_length(x, n, &b))
				most = fmax(most, b.circular);
		}
	}
	return ceil(most);
}

/* At least three blocks in either period. */
static bool set_length(struct boot *b, double length)
{
	for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++) {
		double cap = ceil((double)b->k->n[p] / 3);

		b->block[p] = (size_t)fmax(1, fmin(length, cap));
	}
	return true;
}

/* Lengths to try, in windows. Returns how many. */
static size_t lengths(const struct sonde_trial_work *k, double *out)
{
	double windows_per_s = (double)SONDE_NS_PER_SEC / (double)k->t->window_ns;
	double day = 24 * 3600 * windows_per_s, hour = ceil(3600 * windows_per_s);
	size_t shortest = k->n[SONDE_AFTER], n = 0;

	if (k->t->options.block) {
		out[0] = (double)k->t->options.block;
		return 1;
	}
	if (k->n[SONDE_BEFORE] && k->n[SONDE_BEFORE] < shortest)
		shortest = k->n[SONDE_BEFORE];
	out[n++] = fmax(asked_length(k), hour);
	out[n] = 2 * out[0];
	n++;
	if ((double)shortest >= MIN_DAYS * day && day > out[1])
		out[n++] = day;
	return n;
}

size_t sonde_boot_block(const struct sonde_trial_work *k, int period)
{
	double length[LENGTHS];

	lengths(k, length);
	return (size_t)fmax(1, fmin(length[0], ceil((double)k->n[period] / 3)));
}

/* ---- resampling ---- */

static double resampled(struct boot *b, size_t metric, size_t server, int period)
{
	const struct sonde_trial_metric *m = &b->k->t->metrics[metric];
	struct sonde_view *view = sonde_work_view(b->k, m->source, server);
	const struct sonde_draw *d = &b->draw[period];
	double v;

	if (m->stat == SONDE_TRIAL_MEAN)
		v = sonde_view_mean(view, d->ranges, d->n);
	else
		v = sonde_view_quantile(view, d->ranges, d->n, m->q,
					&b->hint[theta_at(b, metric, server, period)]);
	return v > 0 ? log(v) : NAN;
}

static void resample_all(struct boot *b)
{
	const struct sonde_trial *t = b->k->t;
	struct sonde_rng rng = {t->options.seed};

	for (unsigned int r = 0; r < b->k->resamples; r++) {
		for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++)
			sonde_draw_blocks(&b->draw[p], &rng, sonde_work_period(b->k, p).from,
					  b->k->n[p], b->block[p]);
		for (size_t m = 0; m < t->n_metrics; m++) {
			if (!is_resampled(t, &t->metrics[m]) ||
			    r >= resamples_of(b->k, &t->metrics[m]))
				continue;
			for (size_t s = 0; s < t->n_servers; s++)
				for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++)
					b->theta[theta_at(b, m, s, p) * b->k->resamples + r] =
						b->k->n[p] ? resampled(b, m, s, p) : 0;
		}
	}
}

/* ---- from resamples to an effect ---- */

static double weighted(const struct boot *b, size_t metric, const double *weight, int period,
		       unsigned int r)
{
	double sum = 0;

	for (size_t s = 0; s < b->k->t->n_servers; s++)
		if (weight[s] != 0)
			sum += weight[s] *
			       b->theta[theta_at(b, metric, s, period) * b->k->resamples + r];
	return sum;
}

static double period_df(const struct boot *b, int period)
{
	return fmax(2, (double)b->k->n[period] / (double)b->block[period] - 1);
}

/* Resamples of one contrast of one metric into its error. False: too many had no value. */
static bool summarise(struct boot *b, size_t metric, const double *weight, struct sonde_effect *out)
{
	unsigned int n = resamples_of(b->k, &b->k->t->metrics[metric]), have = 0;
	double *all = b->sums, *part[SONDE_PERIODS] = {all + n, all + 2 * (size_t)n};
	struct sonde_estimate e[SONDE_PERIODS];
	double a = b->k->alpha;

	for (unsigned int r = 0; r < n; r++) {
		double before = weighted(b, metric, weight, SONDE_BEFORE, r);
		double after = weighted(b, metric, weight, SONDE_AFTER, r);

		if (isnan(before) || isnan(after))
			continue;
		part[SONDE_BEFORE][have] = before;
		part[SONDE_AFTER][have] = after;
		all[have++] = after - before;
	}
	if (have < 2 || have < (1 - MAX_MISSING) * n)
		return false;
	for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++) {
		out->variance[p] = b->k->n[p] ? sonde_stats_variance(part[p], have) : 0;
		e[p] = (struct sonde_estimate){0, sqrt(out->variance[p]), period_df(b, p)};
	}
	out->e = sonde_stats_change(b->k->n[SONDE_BEFORE] ? &e[SONDE_BEFORE] : NULL,
				    &e[SONDE_AFTER]);
	out->e.se = sqrt(sonde_stats_variance(all, have));
	out->block = b->block[SONDE_AFTER];
	qsort(all, have, sizeof(*all), sonde_stats_ascending);
	out->low = sonde_stats_rank_quantile(all, have, a / 2);
	out->high = sonde_stats_rank_quantile(all, have, 1 - a / 2);
	out->low2 = sonde_stats_rank_quantile(all, have, a);
	out->high2 = sonde_stats_rank_quantile(all, have, 1 - a);
	return true;
}

static double half_width(const struct boot *b, const struct sonde_effect *e)
{
	return e->e.df > 0 ? sonde_stats_t_quantile(1 - b->k->alpha / 2, e->e.df) * e->e.se : -1;
}

static void keep_widest(struct boot *b, struct sonde_effect *out)
{
	const struct sonde_trial_work *k = b->k;

	for (size_t m = 0; m < k->t->n_metrics; m++) {
		for (size_t c = 0; c < k->n_contrasts; c++) {
			struct sonde_effect one = {0};
			struct sonde_effect *best = &out[m * k->n_contrasts + c];

			if (is_resampled(k->t, &k->t->metrics[m]) &&
			    summarise(b, m, k->contrasts[c].weight, &one) &&
			    half_width(b, &one) > half_width(b, best))
				*best = one;
		}
	}
}

static int run_length(struct boot *b, double length, struct sonde_effect *out)
{
	int err;

	set_length(b, length);
	err = sonde_draw_init(&b->draw[SONDE_BEFORE], b->k->n[SONDE_BEFORE],
			      b->block[SONDE_BEFORE]);
	err = err ? err
		  : sonde_draw_init(&b->draw[SONDE_AFTER], b->k->n[SONDE_AFTER],
				    b->block[SONDE_AFTER]);
	if (!err) {
		resample_all(b);
		keep_widest(b, out);
	}
	sonde_draw_fini(&b->draw[SONDE_BEFORE]);
	sonde_draw_fini(&b->draw[SONDE_AFTER]);
	return err;
}

int sonde_effect_resample(const struct sonde_trial_work *k, struct sonde_effect *out)
{
	size_t cells = k->t->n_metrics * k->t->n_servers * SONDE_PERIODS;
	struct boot b = {.k = k};
	double length[LENGTHS];
	size_t n;
	int err = 0;

	memset(out, 0, k->t->n_metrics * k->n_contrasts * sizeof(*out));
	if (k->n[SONDE_AFTER] < MIN_WINDOWS ||
	    (k->n[SONDE_BEFORE] && k->n[SONDE_BEFORE] < MIN_WINDOWS))
		return -ENODATA;
	b.theta = calloc(cells * k->resamples + 1, sizeof(*b.theta));
	b.hint = malloc((cells + 1) * sizeof(*b.hint));
	b.sums = calloc(3 * (size_t)k->resamples, sizeof(*b.sums));
	if (!b.theta || !b.hint || !b.sums)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < cells; i++)
		b.hint[i] = SIZE_MAX;
	n = err ? 0 : lengths(k, length);
	for (size_t i = 0; i < n && !err; i++)
		err = run_length(&b, length[i], out);
	free(b.theta);
	free(b.hint);
	free(b.sums);
	return err;
}
