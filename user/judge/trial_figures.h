/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which metrics of a recording are judged, and what they are called: a table of those with a name
 * of their own, and one of families, whose members are told apart by label and met in the
 * recordings.
 */
#ifndef SONDE_JUDGE_TRIAL_FIGURES_H
#define SONDE_JUDGE_TRIAL_FIGURES_H

#include "judge/trial.h"
#include "model/metric.h"

#define SONDE_FIGURE_QUERIES "query.spans" /* what amounts are divided by */
#define SONDE_FIGURE_LATENCY "query.latency"
#define SONDE_FIGURE_ROLES   4 /* sources that one series may go into */

enum sonde_figure_role {
	SONDE_FIGURE_NONE,
	SONDE_FIGURE_LEVEL,
	SONDE_FIGURE_AMOUNT,
	SONDE_FIGURE_DIVISOR,
};

/* Where the values of a series go. */
struct sonde_figure {
	enum sonde_figure_role role;
	size_t source[SONDE_FIGURE_ROLES], n;
};

/* Sources and metrics with a name of their own; sonde_figure_latency() is then the source of all
 * queries' latency. 0 or -ENOMEM. */
int sonde_figures_begin(struct sonde_trial *t);
size_t sonde_figure_latency(void);
/* A member of a family that is met for the first time gets its source and metric. 0 or -ENOMEM. */
int sonde_figure_find(struct sonde_trial *t, const struct sonde_metric *m,
		      struct sonde_figure *out);

/* Mean, p50, p95, p99 and p99.9 of a source of latencies, exploratory. 0 or -ENOMEM. */
int sonde_figures_add_latency(struct sonde_trial *t, size_t source, const char *group);

#endif
