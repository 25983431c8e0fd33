// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rows of verdicts; see trial.h. Tests form families: primary metrics of treated arms against the
 * control, primary metrics between treated arms, and the rest. The first two are adjusted by Holm's
 * method, the rest is exploratory and adjusted for the share of false alarms.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "core/clock.h"
#include "core/mem.h"
#include "judge/stats_dist.h"
#include "judge/trial_impl.h"
#include "judge/trial_reason.h"

#define DAY_NS	    (24.0 * 3600 * (double)SONDE_NS_PER_SEC)
#define POWER	    0.8
#define RESTART_SD  0.01
#define FORMS_APART 0.2 /* of the half width */

enum family { FAMILY_CONTROL, FAMILY_BETWEEN, FAMILY_EXPLORATORY, FAMILIES };

struct judging {
	const struct sonde_trial_work *k;
	struct sonde_trial_result *out;
	struct sonde_effect *resampled; /* [metric][contrast]; e.df 0: not to be had */
	struct sonde_placebo *placebo;	/* [metric] */
};

static enum family family_of(const struct sonde_verdict_row *row)
{
	return !row->primary ? FAMILY_EXPLORATORY : row->between ? FAMILY_BETWEEN : FAMILY_CONTROL;
}

/* ---- one row ---- */

/* Is there enough to name an effect at all? Otherwise the reason. */
static bool has_values(const struct judging *j, const struct sonde_trial_metric *m,
		       const double *weight, struct sonde_verdict_row *row)
{
	const char *server = "";
	int period = SONDE_AFTER;

	if (j->k->t->sources[m->source].kind != SONDE_TRIAL_HIST)
		return true;
	row->needed = m->stat == SONDE_TRIAL_QUANTILE
			      ? sonde_stats_order_floor(m->q, j->k->alpha / 2)
			      : 1;
	row->fewest = sonde_work_fewest(j->k, m, weight, &server, &period);
	if (row->fewest >= row->needed)
		return true;
	snprintf(row->reason, sizeof(row->reason),
		 "%s needs %" PRIu64 " queries of each server in each period; %s has %" PRIu64
		 " %s the change",
		 m->name, row->needed, server, row->fewest,
		 period == SONDE_BEFORE ? "before" : "after");
	return false;
}

static double point_effect(const struct judging *j, const struct sonde_trial_metric *m,
			   const double *weight)
{
	double after = sonde_work_weighted(j->k, m, weight, sonde_work_period(j->k, SONDE_AFTER));

	if (!j->k->n[SONDE_BEFORE])
		return after;
	return after - sonde_work_weighted(j->k, m, weight, sonde_work_period(j->k, SONDE_BEFORE));
}

static void set_forms(const struct judging *j, const struct sonde_effect *e,
		      struct sonde_verdict_row *row)
{
	double half = row->high - row->effect, off;

	row->resampled = e->block > 0;
	row->block = e->block;
	row->batches_before = e->batches[SONDE_BEFORE];
	row->batches_after = e->batches[SONDE_AFTER];
	row->short_batches = e->short_batches;
	row->percentile_low = e->low;
	row->percentile_high = e->high;
	row->percentile_low2 = e->low2;
	row->percentile_high2 = e->high2;
	off = fmax(fabs(e->low - row->low), fabs(e->high - row->high));
	row->forms_differ = row->resampled && off > FORMS_APART * half;
	row->mde = sonde_stats_mde(row->se, j->k->alpha, POWER);
	row->days_needed = sonde_stats_growth_needed(
		row->days, e->variance[SONDE_BEFORE], e->variance[SONDE_AFTER],
		sonde_stats_mde(1, j->k->alpha, POWER), row->margin);
	row->restart_alarm =
		row->by_restarts
			? NAN
			: sonde_stats_restart_alarm(
				  row->se,
				  RESTART_SD / sqrt(row->restarts > 1 ? (double)row->restarts : 1));
}

static void set_interval(const struct judging *j, const struct sonde_effect *e,
			 struct sonde_verdict_row *row)
{
	double t = sonde_stats_t_quantile(1 - j->k->alpha / 2, e->e.df), z;

	row->has_interval = true;
	row->se = e->e.se;
	row->df = e->e.df;
	row->low = row->effect - t * row->se;
	row->high = row->effect + t * row->se;
	z = row->se > 0 ? row->effect / row->se : row->effect != 0 ? INFINITY : 0;
	row->p = sonde_stats_t_p(z, row->df);
	set_forms(j, e, row);
}

static void set_margin(const struct judging *j, size_t metric, struct sonde_verdict_row *row)
{
	const struct sonde_placebo *p = &j->placebo[metric];

	row->margin_asked = log1p(j->k->t->metrics[metric].margin);
	row->margin = p->splits ? fmax(row->margin_asked, p->spread) : row->margin_asked;
	row->spread = p->spread;
	row->placebo_over = p->over;
	row->placebo_splits = p->splits;
}

/* What the metric's kind of interval says. 0, -ENODATA or -ENOMEM. */
static int find_effect(const struct judging *j, size_t metric, size_t contrast,
		       struct sonde_effect *out)
{
	const struct sonde_trial_metric *m = &j->k->t->metrics[metric];
	const double *weight = j->k->contrasts[contrast].weight;

	if (m->stat == SONDE_TRIAL_GROWTH)
		return sonde_effect_growth(j->k, m, weight, out);
	if (m->stat == SONDE_TRIAL_MEAN)
		return sonde_effect_batches(j->k, m, weight, out);
	*out = j->resampled[metric * j->k->n_contrasts + contrast];
	return out->e.df > 0 ? 0 : -ENODATA;
}

/* What the arm's servers had, without any comparison. */
static void set_plain(const struct judging *j, const struct sonde_trial_metric *m,
		      const struct sonde_contrast *c, struct sonde_verdict_row *row)
{
	for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++) {
		struct sonde_range r = sonde_work_period(j->k, p);
		double sum[2] = {0, 0};

		for (size_t i = 0; i < c->arm->n_pairs; i++) {
			sum[0] += sonde_work_value(j->k, m, c->weight, c->arm->pairs[i].treated, r);
			sum[1] +=
				sonde_work_value(j->k, m, c->weight, c->arm->pairs[i].reference, r);
		}
		for (int k = 0; k < 2; k++)
			row->plain[k][p] = r.from < r.to ? sum[k] / (double)c->arm->n_pairs : NAN;
	}
}

/* Which server makes the ratio impossible? */
static void say_missing(const struct judging *j, const struct sonde_trial_metric *m,
			const double *weight, struct sonde_verdict_row *row)
{
	const struct sonde_trial *t = j->k->t;

	for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++) {
		struct sonde_range r = sonde_work_period(j->k, p);

		for (size_t s = 0; s < t->n_servers && r.from < r.to; s++) {
			double v = weight[s] != 0 ? sonde_work_value(j->k, m, weight, s, r) : 1;

			if (v > 0)
				continue;
			snprintf(row->reason, sizeof(row->reason), "%s at %s %s the change",
				 v <= 0 ? "0" : "not recorded", t->servers[s],
				 p == SONDE_BEFORE ? "before" : "after");
			return;
		}
	}
}

/* Restarts tell the error where they are further apart than the windows know of. */
static int widen_by_restarts(const struct judging *j, const struct sonde_trial_metric *m,
			     const struct sonde_contrast *c, struct sonde_effect *effect,
			     struct sonde_verdict_row *row)
{
	struct sonde_estimate e;
	double tail = 1 - j->k->alpha / 2;
	int err = sonde_effect_restarts(j->k, m, c, &e);

	row->restarts = c->arm->n_pairs;
	if (c->against && c->against->n_pairs < row->restarts)
		row->restarts = c->against->n_pairs;
	if (err || sonde_stats_t_quantile(tail, e.df) * e.se <=
			   sonde_stats_t_quantile(tail, effect->e.df) * effect->e.se)
		return err == -ENOMEM ? err : 0;
	row->by_restarts = true;
	effect->e.se = e.se;
	effect->e.df = e.df;
	/* No number of days makes restarts more alike. */
	effect->variance[SONDE_BEFORE] = e.se * e.se;
	effect->variance[SONDE_AFTER] = 0;
	effect->low = effect->high = effect->low2 = effect->high2 = NAN;
	return 0;
}

static int fill_row(const struct judging *j, size_t metric, size_t contrast,
		    struct sonde_verdict_row *row)
{
	const struct sonde_trial_metric *m = &j->k->t->metrics[metric];
	const double *weight = j->k->contrasts[contrast].weight;
	bool growth = m->stat == SONDE_TRIAL_GROWTH;
	struct sonde_effect effect;
	int err;

	set_margin(j, metric, row);
	set_plain(j, m, &j->k->contrasts[contrast], row);
	if (!has_values(j, m, weight, row))
		return 0;
	err = find_effect(j, metric, contrast, &effect);
	if (!err && widen_by_restarts(j, m, &j->k->contrasts[contrast], &effect, row))
		return -ENOMEM;
	if (err == -ENOMEM)
		return err;
	if (!growth)
		row->effect = point_effect(j, m, weight);
	else if (!err)
		row->effect = effect.e.value;
	row->has_effect = !isnan(row->effect);
	if (row->has_effect && !err)
		set_interval(j, &effect, row);
	if (!row->has_effect && growth)
		snprintf(row->reason, sizeof(row->reason), "too few windows after the change");
	else if (!row->has_effect)
		say_missing(j, m, weight, row);
	/* The error of a slope falls with the length to the power of 3/2; restarts are no slopes.
	 */
	if (growth) {
		row->days_needed = row->days * pow(row->mde / row->margin, 2.0 / 3);
		row->restart_alarm = NAN;
	}
	return 0;
}

static int add_row(struct judging *j, size_t metric, size_t contrast)
{
	const struct sonde_trial *t = j->k->t;
	const struct sonde_contrast *c = &j->k->contrasts[contrast];
	struct sonde_trial_result *out = j->out;
	struct sonde_verdict_row *row;

	if (SONDE_GROW(out->rows, out->n_rows, out->cap_rows))
		return -ENOMEM;
	row = &out->rows[out->n_rows++];
	*row = (struct sonde_verdict_row){
		.between = c->between,
		.primary = t->metrics[metric].primary,
		.detail = t->metrics[metric].detail,
		.unit = t->metrics[metric].unit,
		.alpha = j->k->alpha,
		.effect = NAN,
		.low = NAN,
		.high = NAN,
		.percentile_low = NAN,
		.percentile_high = NAN,
		.percentile_low2 = NAN,
		.percentile_high2 = NAN,
		.se = NAN,
		.p = NAN,
		.p_adjusted = NAN,
		.mde = NAN,
		.days_needed = NAN,
		.restart_alarm = NAN,
		.days_before = (double)j->k->n[SONDE_BEFORE] * (double)t->window_ns / DAY_NS,
		.days = (double)j->k->n[SONDE_AFTER] * (double)t->window_ns / DAY_NS,
	};
	memcpy(row->metric, t->metrics[metric].name, sizeof(row->metric));
	memcpy(row->group, t->metrics[metric].group, sizeof(row->group));
	memcpy(row->arm, c->arm->name, sizeof(row->arm));
	if (c->against)
		memcpy(row->against, c->against->name, sizeof(row->against));
	return fill_row(j, metric, contrast, row);
}

/* ---- all rows ---- */

static int adjust_family(struct sonde_trial_result *r, enum family family)
{
	sonde_autofree double *p = calloc(r->n_rows + 1, sizeof(*p));
	size_t n = 0;
	int err;

	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_rows; i++)
		if (r->rows[i].has_interval && family_of(&r->rows[i]) == family)
			p[n++] = r->rows[i].p;
	err = family == FAMILY_EXPLORATORY ? sonde_stats_benjamini_hochberg(p, n, p)
					   : sonde_stats_holm(p, n, p);
	for (size_t i = r->n_rows, k = n; i-- > 0;) {
		if (!r->rows[i].has_interval || family_of(&r->rows[i]) != family)
			continue;
		r->rows[i].p_adjusted = p[--k];
		r->rows[i].family = n;
	}
	return err;
}

static void decide(struct sonde_verdict_row *row)
{
	struct sonde_evidence e = {
		.effect = {row->effect, row->se, row->df},
		.alpha = row->alpha,
		.p_adjusted = row->p_adjusted,
		.margin = row->margin,
		.placebo_over = row->placebo_over,
		.spread = row->spread,
		.low = NAN,
		.low2 = NAN,
	};

	if (row->forms_differ) {
		e.low = row->percentile_low;
		e.high = row->percentile_high;
		e.low2 = row->percentile_low2;
		e.high2 = row->percentile_high2;
	}
	if (row->has_interval)
		row->verdict = sonde_stats_decide(&e);
	sonde_verdict_reason(row);
}

static int make_rows(struct judging *j)
{
	const struct sonde_trial_work *k = j->k;
	int err = 0;

	for (size_t c = 0; c < k->n_contrasts; c++)
		for (size_t m = 0; m < k->t->n_metrics && !err; m++)
			err = add_row(j, m, c);
	for (enum family f = 0; f < FAMILIES && !err; f++)
		err = adjust_family(j->out, f);
	for (size_t i = 0; i < j->out->n_rows && !err; i++)
		decide(&j->out->rows[i]);
	return err;
}

static int judge(struct judging *j)
{
	const struct sonde_trial_work *k = j->k;
	int err;

	j->resampled = calloc(k->t->n_metrics * k->n_contrasts + 1, sizeof(*j->resampled));
	j->placebo = calloc(k->t->n_metrics + 1, sizeof(*j->placebo));
	if (!j->resampled || !j->placebo)
		return -ENOMEM;
	err = sonde_effect_resample(k, j->resampled);
	if (err && err != -ENODATA)
		return err;
	for (size_t m = 0; m < k->t->n_metrics; m++)
		sonde_placebo_make(k, &k->t->metrics[m], &j->placebo[m]);
	return make_rows(j);
}

int sonde_trial_judge(const struct sonde_trial *t, struct sonde_trial_result *out)
{
	struct sonde_trial_result result = {0};
	struct sonde_trial_work k;
	struct judging j = {.k = &k, .out = &result};
	int err = sonde_work_init(&k, t);

	if (err)
		return err;
	result.seed = t->options.seed;
	result.resamples = k.resamples;
	result.alpha = k.alpha;
	result.looks = t->options.looks > 1 ? t->options.looks : 1;
	result.look = t->options.look ? t->options.look : 1;
	result.baseline = k.n[SONDE_BEFORE] > 0;
	result.control = k.control != NULL;
	result.windows_before = k.n[SONDE_BEFORE];
	result.windows_after = k.n[SONDE_AFTER];
	result.windows_dropped = k.dropped;
	err = judge(&j);
	free(j.resampled);
	free(j.placebo);
	sonde_work_fini(&k);
	if (err)
		sonde_trial_result_fini(&result);
	else
		*out = result;
	return err;
}

void sonde_trial_result_fini(struct sonde_trial_result *r)
{
	free(r->rows);
	*r = (struct sonde_trial_result){0};
}
