// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One arm of a comparison: a snapshot for totals and histograms, and beside it every value of every
 * gauge, since memory is compared at equal uptime and not at the end.
 */
#include <errno.h>
#include <math.h>

#include "core/mem.h"
#include "judge/compare.h"

static struct sonde_arm_series *get_series(struct sonde_arm *arm, const struct sonde_metric *m)
{
	const char *label = m->label ? m->label : "";
	char *copy;

	for (size_t i = 0; i < arm->n_gauges; i++) {
		struct sonde_arm_series *s = &arm->gauges[i];

		if (s->target == m->target && !strcmp(s->desc->name, m->desc->name) &&
		    !strcmp(s->label, label))
			return s;
	}
	copy = strdup(label);
	if (!copy || SONDE_GROW(arm->gauges, arm->n_gauges, arm->cap_gauges)) {
		free(copy);
		return NULL;
	}
	arm->gauges[arm->n_gauges] =
		(struct sonde_arm_series){.desc = m->desc, .label = copy, .target = m->target};
	return &arm->gauges[arm->n_gauges++];
}

static void cover(struct sonde_arm *arm, uint64_t from_ns, uint64_t to_ns)
{
	if (!arm->first_ns || from_ns < arm->first_ns)
		arm->first_ns = from_ns;
	if (to_ns > arm->last_ns)
		arm->last_ns = to_ns;
}

static int on_metric(void *ctx, const struct sonde_metric *m)
{
	struct sonde_arm *arm = ctx;
	struct sonde_arm_series *s;

	cover(arm, m->ts_ns, m->ts_ns);
	if (m->desc->kind != SONDE_GAUGE)
		return 0;
	s = get_series(arm, m);
	if (!s || SONDE_GROW(s->p, s->n, s->cap))
		return -ENOMEM;
	s->p[s->n++] = (struct sonde_arm_point){m->ts_ns, m->absent ? NAN : m->value};
	return 0;
}

static int on_hist(void *ctx, const struct sonde_histrow *h)
{
	struct sonde_arm *arm = ctx;

	if (!arm->hist_first_ns || h->from_ns < arm->hist_first_ns)
		arm->hist_first_ns = h->from_ns;
	return 0;
}

static int on_tick(void *ctx, uint64_t ts_ns)
{
	cover(ctx, ts_ns, ts_ns);
	return 0;
}

void sonde_arm_init(struct sonde_arm *arm, const char *name)
{
	*arm = (struct sonde_arm){.name = name};
	sonde_snapshot_init(&arm->snap);
	arm->own = (struct sonde_visitor){
		.ctx = arm, .metric = on_metric, .hist = on_hist, .tick = on_tick};
	arm->fanout = (struct sonde_fanout){.to = {&arm->snap.visitor, &arm->own}, .n = 2};
	arm->visitor = sonde_fanout_visitor(&arm->fanout);
}

void sonde_arm_fini(struct sonde_arm *arm)
{
	for (size_t i = 0; i < arm->n_gauges; i++) {
		free(arm->gauges[i].label);
		free(arm->gauges[i].p);
	}
	free(arm->gauges);
	sonde_snapshot_fini(&arm->snap);
	*arm = (struct sonde_arm){0};
}

const struct sonde_visitor *sonde_arm_visitor(struct sonde_arm *arm)
{
	return &arm->visitor;
}

/* A recording that does not say when began before its first tick; where a histogram says when, it
 * is believed, unless it is that of a whole minute. The same rule as in the report. */
uint64_t sonde_arm_begin_ns(const struct sonde_arm *arm)
{
	const struct sonde_snapshot *s = &arm->snap;
	uint64_t interval = sonde_snapshot_interval_ns(s), hist = arm->hist_first_ns;

	if (s->started)
		return s->first_tick_ns;
	if (hist && hist < arm->first_ns && hist + interval * 3 / 2 >= arm->first_ns)
		return hist;
	return arm->first_ns;
}

uint64_t sonde_arm_covered_ns(const struct sonde_arm *arm)
{
	return arm->last_ns - sonde_arm_begin_ns(arm);
}
