// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which figures of a comparison may be ranked by how much they differ. All others are shown with
 * the reason why not: of one run an arm there is no spread, so what chance alone can make large
 * must not come first.
 */
#include <math.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "judge/compare.h"

#define EVENTS_MIN     10  /* of which one more or less is no news */
#define EVENTS_MIN_P99 100 /* the highest of fewer is one event    */
#define COVER_DIFFERS  0.01

static const char few[] = "few events";
static const char moves[] = "moved as much within a run";
static const char uneven[] = "not counted over the same time";

bool sonde_compare_is_shared(const char *name)
{
	return sonde_str_starts(name, "rss.memcg_") || sonde_str_starts(name, "thp.system") ||
	       !strcmp(name, "rss.held_system") || !strcmp(name, "rss.held_outside");
}

/* Sum of a counter over targets; all labels for "". < 0: the arm does not have it. */
static double total(const struct sonde_arm *arm, const char *name, const char *label)
{
	double sum = -1;

	for (size_t i = 0; i < arm->snap.n_metrics; i++) {
		const struct sonde_snap_metric *m = &arm->snap.metrics[i];

		if (!m->present || strcmp(m->desc->name, name))
			continue;
		sum = sum < 0 ? 0 : sum;
		if (!*label || !strcmp(m->label, label))
			sum += m->last;
	}
	return sum;
}

/* What a counter counted: itself, or for a time the counter beside it. < 0: not known. */
static double events(const struct sonde_arm *arm, const struct sonde_compare_row *row)
{
	const char *tail = strrchr(row->name, '.');
	size_t len = strlen(row->name);
	char name[64];

	if (row->unit == SONDE_COMPARE_PER_S || row->unit == SONDE_COMPARE_PER_QUERY)
		return total(arm, row->name, row->label);
	if (!tail || len < 4 || strcmp(row->name + len - 4, "time") || len > 60)
		return -1;
	snprintf(name, sizeof(name), "%.*scount", (int)(len - 4), row->name);
	return total(arm, name, row->label);
}

static bool is_few_by_count(const struct sonde_compare_row *row, const struct sonde_arm *const *arm)
{
	double a = events(arm[0], row), b = events(arm[1], row);

	return (a >= 0 || b >= 0) && fmax(a, b) < EVENTS_MIN;
}

static bool is_few_by_hist(const struct sonde_compare_row *row, const struct sonde_arm *const *arm)
{
	uint64_t least = UINT64_MAX;
	struct sonde_hist h;

	if (sonde_hist_init(&h))
		return false;
	for (int k = 0; k < 2; k++) {
		sonde_hist_reset(&h);
		sonde_snapshot_hist_total(&arm[k]->snap, row->name, row->label, false, &h);
		least = h.count < least ? h.count : least;
	}
	sonde_hist_fini(&h);
	return least < (strcmp(row->figure, "p99") ? EVENTS_MIN : EVENTS_MIN_P99);
}

/* How far a gauge moved in the last third of the time before it is compared, all targets. */
static double movement(const struct sonde_arm *arm, const struct sonde_compare_row *row,
		       uint64_t at_ns)
{
	uint64_t from = at_ns > arm->first_ns ? at_ns - (at_ns - arm->first_ns) / 3 : at_ns;
	double sum = 0;

	for (size_t i = 0; i < arm->n_gauges; i++) {
		const struct sonde_arm_series *s = &arm->gauges[i];
		double lo = INFINITY, hi = -INFINITY;

		if (strcmp(s->desc->name, row->name) || strcmp(s->label, row->label))
			continue;
		for (size_t k = 0; k < s->n; k++) {
			if (s->p[k].ts_ns < from || s->p[k].ts_ns > at_ns || isnan(s->p[k].value))
				continue;
			lo = fmin(lo, s->p[k].value);
			hi = fmax(hi, s->p[k].value);
		}
		sum += hi > lo ? hi - lo : 0;
	}
	return sum;
}

static bool is_counted_late(const char *name)
{
	static const char *const names[] = {"alloc.handed_out", "alloc.given_back", "alloc.live"};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static const char *why_not(const struct sonde_compare_row *row, const struct sonde_arm *const *arm,
			   const uint64_t at_ns[2], bool same_cover)
{
	if (!same_cover && is_counted_late(row->name))
		return uneven;
	if (!row->has[0] || !row->has[1])
		return NULL;
	if (!strcmp(row->figure, "level"))
		return fabs(row->v[1] - row->v[0]) <= fmax(movement(arm[0], row, at_ns[0]),
							   movement(arm[1], row, at_ns[1]))
			       ? moves
			       : NULL;
	if (sonde_str_starts(row->figure, "per "))
		return is_few_by_count(row, arm) ? few : NULL;
	return is_few_by_hist(row, arm) ? few : NULL;
}

int sonde_compare_rank(const struct sonde_arm *a, const struct sonde_arm *b,
		       const uint64_t at_ns[2], struct sonde_compare *c)
{
	const struct sonde_arm *const arm[2] = {a, b};
	double from_a = fmax(total(a, "alloc.counted_from", ""), 0);
	double from_b = fmax(total(b, "alloc.counted_from", ""), 0);
	bool same = fabs(from_a - from_b) <= COVER_DIFFERS * fmin((double)sonde_arm_covered_ns(a),
								  (double)sonde_arm_covered_ns(b));

	for (size_t i = 0; i < c->n_rows; i++)
		if (c->rows[i].section != SONDE_COMPARE_SHARED)
			c->rows[i].unranked = why_not(&c->rows[i], arm, at_ns, same);
	if (same)
		return 0;
	return sonde_compare_caution(
		c,
		"bytes handed out and given back are counted from +%s in A and "
		"from +%s in B: their rates do not compare",
		sonde_fmt_ns((char[32]){0}, 32, from_a), sonde_fmt_ns((char[32]){0}, 32, from_b));
}
