// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The interval that knows of restarts: a process that came up with a lucky layout stays lucky,
 * however long it is watched, so windows of time do not tell how far restarts are apart. Where each
 * arm has several pairs, their effects do: each is one restart, and what they spread is the error
 * of their mean.
 */
#include <errno.h>
#include <math.h>

#include "core/mem.h"
#include "judge/trial_impl.h"

/* The change of one pair, from before to after. */
static double pair_change(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			  const struct sonde_trial_pair *pair, double *weight)
{
	double change;

	memset(weight, 0, k->t->n_servers * sizeof(*weight));
	weight[pair->treated] = 1;
	weight[pair->reference] = -1;
	change = sonde_work_weighted(k, m, weight, sonde_work_period(k, SONDE_AFTER));
	if (k->n[SONDE_BEFORE])
		change -= sonde_work_weighted(k, m, weight, sonde_work_period(k, SONDE_BEFORE));
	return change;
}

/* 0, -ENODATA or -ENOMEM. */
static int arm_estimate(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			const struct sonde_trial_arm *arm, struct sonde_estimate *out)
{
	sonde_autofree double *change = calloc(arm->n_pairs, sizeof(*change));
	sonde_autofree double *weight = calloc(k->t->n_servers + 1, sizeof(*weight));

	if (!change || !weight)
		return -ENOMEM;
	for (size_t i = 0; i < arm->n_pairs; i++) {
		change[i] = pair_change(k, m, &arm->pairs[i], weight);
		if (isnan(change[i]))
			return -ENODATA;
	}
	*out = (struct sonde_estimate){
		sonde_stats_mean(change, arm->n_pairs),
		sqrt(sonde_stats_variance(change, arm->n_pairs) / (double)arm->n_pairs),
		(double)arm->n_pairs - 1};
	return 0;
}

int sonde_effect_restarts(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			  const struct sonde_contrast *c, struct sonde_estimate *out)
{
	struct sonde_estimate arm, against;
	int err;

	if (m->stat == SONDE_TRIAL_GROWTH || c->arm->n_pairs < SONDE_RESTARTS_LEAST ||
	    (c->against && c->against->n_pairs < SONDE_RESTARTS_LEAST))
		return -ENODATA;
	err = arm_estimate(k, m, c->arm, &arm);
	if (!err && c->against)
		err = arm_estimate(k, m, c->against, &against);
	if (err)
		return err;
	*out = sonde_stats_change(c->against ? &against : NULL, &arm);
	return 0;
}
