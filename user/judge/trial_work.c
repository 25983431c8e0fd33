// SPDX-License-Identifier: GPL-2.0-or-later
/* Contrasts, usable windows, and the statistic itself; see trial_impl.h and docs/statistics.md. */
#include <errno.h>
#include <math.h>

#include "core/err.h"
#include "core/mem.h"
#include "judge/trial_impl.h"

/* ---- contrasts ---- */

static void add_weights(double *weight, const struct sonde_trial_arm *arm, double sign)
{
	for (size_t k = 0; k < arm->n_pairs; k++) {
		weight[arm->pairs[k].treated] += sign / (double)arm->n_pairs;
		weight[arm->pairs[k].reference] -= sign / (double)arm->n_pairs;
	}
}

static int add_contrast(struct sonde_trial_work *k, const struct sonde_trial_arm *arm,
			const struct sonde_trial_arm *against)
{
	double *weight = calloc(k->t->n_servers + 1, sizeof(*weight));

	if (!weight || SONDE_GROW(k->contrasts, k->n_contrasts, k->cap_contrasts)) {
		free(weight);
		return -ENOMEM;
	}
	add_weights(weight, arm, 1);
	if (against)
		add_weights(weight, against, -1);
	k->contrasts[k->n_contrasts++] = (struct sonde_contrast){
		.arm = arm,
		.against = against,
		.between = against && !against->control,
		.weight = weight,
	};
	return 0;
}

static const struct sonde_trial_arm *find_control(const struct sonde_trial *t)
{
	for (size_t i = 0; i < t->n_arms; i++)
		if (t->arms[i].control)
			return &t->arms[i];
	return NULL;
}

/* Each treated arm against the control, then each against each. */
static int make_contrasts(struct sonde_trial_work *k)
{
	const struct sonde_trial *t = k->t;
	const struct sonde_trial_arm *control = find_control(t);
	int err = 0;

	if (control) {
		k->control = calloc(t->n_servers, sizeof(*k->control));
		if (!k->control)
			return -ENOMEM;
		add_weights(k->control, control, 1);
	}
	for (size_t i = 0; i < t->n_arms && !err; i++)
		if (!t->arms[i].control)
			err = add_contrast(k, &t->arms[i], control);
	for (size_t i = 0; i < t->n_arms && !err; i++)
		for (size_t j = i + 1; j < t->n_arms && !err; j++)
			if (!t->arms[i].control && !t->arms[j].control)
				err = add_contrast(k, &t->arms[i], &t->arms[j]);
	if (!err && !k->n_contrasts)
		return sonde_err(EINVAL, "no treated arm: name one, as in --pair off=A/B");
	return err;
}

/* ---- windows ---- */

static bool seen_by_all(const struct sonde_trial *t, size_t window)
{
	for (size_t s = 0; s < t->n_servers; s++)
		if (!t->seen[s * t->n_windows + window])
			return false;
	return true;
}

static void take_period(struct sonde_trial_work *k, const struct sonde_trial_period *p, int period)
{
	size_t at = period == SONDE_AFTER ? k->n[SONDE_BEFORE] : 0;

	for (size_t w = p->from; w < p->to; w++) {
		if (seen_by_all(k->t, w))
			k->order[at + k->n[period]++] = (uint32_t)w;
		else
			k->dropped++;
	}
}

static int make_views(struct sonde_trial_work *k)
{
	const struct sonde_trial *t = k->t;
	int err = 0;

	k->views = calloc(t->n_sources * t->n_servers + 1, sizeof(*k->views));
	if (!k->views)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_sources; i++)
		for (size_t s = 0; s < t->n_servers && !err; s++)
			if (t->sources[i].kind == SONDE_TRIAL_HIST)
				err = sonde_view_init(&k->views[i * t->n_servers + s],
						      &t->sources[i].cell[s].hist, k->order,
						      k->n[SONDE_BEFORE] + k->n[SONDE_AFTER]);
	return err;
}

static int check_periods(const struct sonde_trial *t)
{
	if (t->after.from < t->after.to && t->after.to <= t->n_windows &&
	    t->before.from <= t->before.to && t->before.to <= t->after.from)
		return 0;
	return sonde_err(EINVAL, "the period after the change is empty, or begins before the one "
				 "before it ends; see --pre and --post");
}

static int make_work(struct sonde_trial_work *k)
{
	const struct sonde_trial *t = k->t;
	int err = check_periods(t);

	err = err ? err : make_contrasts(k);
	if (err)
		return err;
	k->alpha = t->options.alpha > 0 ? t->options.alpha : 0.05;
	if (t->options.looks > 1)
		k->alpha /= t->options.looks;
	k->resamples = t->options.resamples ? t->options.resamples : 2000;
	k->order = calloc(t->n_windows + 1, sizeof(*k->order));
	if (!k->order)
		return -ENOMEM;
	take_period(k, &t->before, SONDE_BEFORE);
	take_period(k, &t->after, SONDE_AFTER);
	if (!k->n[SONDE_AFTER])
		return sonde_err(EINVAL,
				 "there is no time after the change in which all %zu "
				 "servers were recorded; compare fewer pairs",
				 t->n_servers);
	return make_views(k);
}

int sonde_work_init(struct sonde_trial_work *k, const struct sonde_trial *t)
{
	int err;

	*k = (struct sonde_trial_work){.t = t};
	err = make_work(k);
	if (err)
		sonde_work_fini(k);
	return err;
}

void sonde_work_fini(struct sonde_trial_work *k)
{
	for (size_t i = 0; i < k->n_contrasts; i++)
		free(k->contrasts[i].weight);
	for (size_t i = 0; k->views && i < k->t->n_sources * k->t->n_servers; i++)
		sonde_view_fini(&k->views[i]);
	free(k->contrasts);
	free(k->control);
	free(k->views);
	free(k->order);
	*k = (struct sonde_trial_work){0};
}

struct sonde_view *sonde_work_view(const struct sonde_trial_work *k, size_t source, size_t server)
{
	return &k->views[source * k->t->n_servers + server];
}

struct sonde_range sonde_work_period(const struct sonde_trial_work *k, int period)
{
	uint32_t before = (uint32_t)k->n[SONDE_BEFORE];

	if (period == SONDE_BEFORE)
		return (struct sonde_range){0, before};
	return (struct sonde_range){before, before + (uint32_t)k->n[SONDE_AFTER]};
}

/* ---- the statistic ---- */

/* Has every server that counts a value of this metric in this window? */
static bool is_paired(const struct sonde_trial_work *k, size_t source, const double *weight,
		      size_t window)
{
	const struct sonde_trial_cell *cell = k->t->sources[source].cell;

	for (size_t s = 0; s < k->t->n_servers; s++)
		if (weight[s] != 0 && !(cell[s].den[window] > 0))
			return false;
	return true;
}

/* Levels have a value in each window or a gap: a gap of one is a gap of all. Amounts just add. */
static double amount(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
		     const double *weight, size_t server, struct sonde_range r)
{
	const struct sonde_trial_source *source = &k->t->sources[m->source];
	const struct sonde_trial_cell *c = &source->cell[server];
	double num = 0, den = 0;

	for (uint32_t i = r.from; i < r.to; i++) {
		size_t w = k->order[i];

		if (source->kind != SONDE_TRIAL_LEVEL) {
			num += c->num[w];
			den += c->den[w];
		} else if (is_paired(k, m->source, weight, w)) {
			num += c->num[w] / c->den[w];
			den += 1;
		}
	}
	return den > 0 ? num / den : NAN;
}

double sonde_work_value(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			const double *weight, size_t server, struct sonde_range r)
{
	struct sonde_view *view;
	size_t hint = SIZE_MAX;

	if (k->t->sources[m->source].kind != SONDE_TRIAL_HIST)
		return amount(k, m, weight, server, r);
	view = sonde_work_view(k, m->source, server);
	return m->stat == SONDE_TRIAL_MEAN ? sonde_view_mean(view, &r, 1)
					   : sonde_view_quantile(view, &r, 1, m->q, &hint);
}

double sonde_work_weighted(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			   const double *weight, struct sonde_range r)
{
	double sum = 0, v;

	for (size_t s = 0; s < k->t->n_servers; s++) {
		if (weight[s] == 0)
			continue;
		v = sonde_work_value(k, m, weight, s, r);
		sum += weight[s] * (v > 0 ? log(v) : NAN);
	}
	return sum;
}

double *sonde_work_series(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			  const double *weight, int period)
{
	const struct sonde_trial *t = k->t;
	const struct sonde_trial_period *p = period == SONDE_AFTER ? &t->after : &t->before;
	const struct sonde_trial_cell *cell = t->sources[m->source].cell;
	double *x = calloc(p->to - p->from + 1, sizeof(*x));

	for (size_t w = p->from; x && w < p->to; w++) {
		double sum = 0;

		for (size_t s = 0; s < t->n_servers; s++) {
			if (weight[s] == 0)
				continue;
			sum += seen_by_all(t, w) && cell[s].den[w] > 0 && cell[s].num[w] > 0
				       ? weight[s] * log(cell[s].num[w] / cell[s].den[w])
				       : NAN;
		}
		x[w - p->from] = sum;
	}
	return x;
}

uint64_t sonde_work_fewest(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			   const double *weight, const char **server, int *period)
{
	double least = INFINITY;

	for (int p = SONDE_BEFORE; p < SONDE_PERIODS; p++) {
		struct sonde_range r = sonde_work_period(k, p);

		for (size_t s = 0; s < k->t->n_servers && r.from < r.to; s++) {
			double n;

			if (weight[s] == 0)
				continue;
			n = sonde_view_count(sonde_work_view(k, m->source, s), &r, 1);
			if (n < least) {
				least = n;
				*server = k->t->servers[s];
				*period = p;
			}
		}
	}
	return isinf(least) ? 0 : (uint64_t)least;
}
