// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The rows of a comparison; see compare.h. Counters become rates over the time observed and, where
 * queries were seen, amounts per query; gauges are read at equal uptime; histograms give mean and
 * percentiles. A counter's label that one arm has never seen is 0 there, if the arm has the metric.
 */
#include <errno.h>
#include <math.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "judge/compare.h"

const char *const sonde_compare_arm_names[2] = {"A", "B"};

static const struct {
	const char *prefix; /* of metric names */
	const char *title;
} sections[SONDE_COMPARE__MAX] = {
	[SONDE_COMPARE_FAULTS] = {"fault.", "Page faults"},
	[SONDE_COMPARE_STALLS] = {"stall.", "Stalls"},
	[SONDE_COMPARE_THP] = {"thp.", "Huge pages"},
	[SONDE_COMPARE_MEMORY] = {"rss.", "Memory"},
	[SONDE_COMPARE_QUERIES] = {"query.", "Queries"},
	[SONDE_COMPARE_OTHER] = {"", "Other"},
	[SONDE_COMPARE_SHARED] = {"", "Not of the target: its cgroup, the whole system"},
};

/* Below this a figure is too small for a ratio: it is added to both sides before they are divided.
 */
static const double guards[] = {
	[SONDE_COMPARE_BYTES] = 65536,	   [SONDE_COMPARE_BYTES_PER_S] = 65536,
	[SONDE_COMPARE_NS] = 1000,	   [SONDE_COMPARE_NS_PER_QUERY] = 1000,
	[SONDE_COMPARE_NS_PER_S] = 100000, [SONDE_COMPARE_PER_S] = 1,
	[SONDE_COMPARE_PER_QUERY] = 0.05,  [SONDE_COMPARE_COUNT] = 1,
	[SONDE_COMPARE_RATIO] = 0.01,
};

struct making {
	const struct sonde_arm *arm[2];
	struct sonde_compare *out;
	double seconds[2], queries[2]; /* observed; queries < 0: not known */
	uint64_t at_ns[2];	       /* monotonic, of each arm: equal uptime */
};

const char *sonde_compare_section_title(enum sonde_compare_section section)
{
	return sections[section].title;
}

static enum sonde_compare_section section_of(const char *name)
{
	if (sonde_compare_is_shared(name))
		return SONDE_COMPARE_SHARED;
	for (int i = 0; i < SONDE_COMPARE_OTHER; i++)
		if (sonde_str_starts(name, sections[i].prefix))
			return (enum sonde_compare_section)i;
	return SONDE_COMPARE_OTHER;
}

/* What observing costs, and what only says how a figure was had, is no property of the target. */
static bool is_left_out(const char *name)
{
	static const char *const names[] = {
		"rss.rollup_time",    "fault.exception", "fault.time_error",
		"alloc.counted_from", "alloc.read_time", "alloc.not_clean",
		"alloc.age",	      "rss.walk_time",	 "rss.ledger_moved"};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	/* Threads have other numbers in another run. */
	return sonde_str_starts(name, "cost.") || sonde_str_starts(name, "fault.thread_");
}

/* ---- rows ---- */

static void weigh(struct sonde_compare_row *row)
{
	double g = guards[row->unit], a = row->v[0], b = row->v[1];

	row->change = NAN;
	if (!row->has[0] || !row->has[1])
		return;
	if (a != 0)
		row->change = (b - a) / fabs(a);
	row->tiny = fabs(a) < g && fabs(b) < g;
	row->weight = log1p(fabs(b - a) / (g + fmin(fabs(a), fabs(b))));
}

static int add_row(struct making *m, struct sonde_compare_row *row)
{
	struct sonde_compare *c = m->out;

	/* Nothing on either side is no news. */
	if ((!row->has[0] && !row->has[1]) ||
	    (row->has[0] && row->has[1] && row->v[0] == 0 && row->v[1] == 0))
		return 0;
	if (SONDE_GROW(c->rows, c->n_rows, c->cap_rows))
		return -ENOMEM;
	row->section = section_of(row->name);
	weigh(row);
	c->rows[c->n_rows++] = *row;
	return 0;
}

/* ---- counters ---- */

/* Sum over targets of one label, or of all for "". False: the arm does not have the metric. */
static bool counter(const struct sonde_arm *arm, const char *name, const char *label, double *v)
{
	bool any = false;

	*v = 0;
	for (size_t i = 0; i < arm->snap.n_metrics; i++) {
		const struct sonde_snap_metric *m = &arm->snap.metrics[i];

		if (strcmp(m->desc->name, name) || !m->present)
			continue;
		any = true;
		if (!*label || !strcmp(m->label, label))
			*v += m->last;
	}
	return any;
}

static const char *absence(const struct sonde_arm *arm, const char *name)
{
	for (size_t i = 0; i < arm->snap.n_metrics; i++)
		if (!strcmp(arm->snap.metrics[i].desc->name, name) && arm->snap.metrics[i].absent)
			return arm->snap.metrics[i].absent;
	return "not observed";
}

static bool rate_unit(const char *unit, enum sonde_compare_unit *per_s,
		      enum sonde_compare_unit *per_query)
{
	static const struct {
		const char *unit;
		enum sonde_compare_unit per_s, per_query;
	} units[] = {
		{"ns", SONDE_COMPARE_NS_PER_S, SONDE_COMPARE_NS_PER_QUERY},
		{"bytes", SONDE_COMPARE_BYTES_PER_S, SONDE_COMPARE_BYTES},
		{"count", SONDE_COMPARE_PER_S, SONDE_COMPARE_PER_QUERY},
	};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(units); i++) {
		if (strcmp(units[i].unit, unit))
			continue;
		*per_s = units[i].per_s;
		*per_query = units[i].per_query;
		return true;
	}
	return false;
}

static int add_counter(struct making *m, const struct sonde_metric_desc *d, const char *label)
{
	struct sonde_compare_row row = {.name = d->name, .label = label, .figure = "per s"};
	struct sonde_compare_row per = {.name = d->name, .label = label, .figure = "per query"};
	enum sonde_compare_section section = section_of(d->name);
	double v;
	int err;

	if (!rate_unit(d->unit, &row.unit, &per.unit))
		return 0;
	for (int k = 0; k < 2; k++) {
		row.has[k] = counter(m->arm[k], d->name, label, &v);
		row.v[k] = v / m->seconds[k];
		per.has[k] = row.has[k] && m->queries[k] > 0;
		per.v[k] = per.has[k] ? v / m->queries[k] : 0;
		row.absent[k] = row.has[k] ? NULL : absence(m->arm[k], d->name);
		per.absent[k] = per.has[k] ? NULL : "no queries were seen";
	}
	err = add_row(m, &row);
	if (err || section > SONDE_COMPARE_THP)
		return err;
	return add_row(m, &per);
}

static bool has_counter_row(const struct making *m, const char *name, const char *label)
{
	for (size_t i = 0; i < m->out->n_rows; i++)
		if (!strcmp(m->out->rows[i].name, name) && !strcmp(m->out->rows[i].label, label))
			return true;
	return false;
}

static int add_counters(struct making *m, const struct sonde_snapshot *s)
{
	int err = 0;

	for (size_t i = 0; i < s->n_metrics && !err; i++) {
		const struct sonde_snap_metric *x = &s->metrics[i];

		if (x->desc->kind != SONDE_COUNTER || !x->present || is_left_out(x->desc->name))
			continue;
		if (!has_counter_row(m, x->desc->name, ""))
			err = add_counter(m, x->desc, "");
		if (!err && x->label[0] && !has_counter_row(m, x->desc->name, x->label))
			err = add_counter(m, x->desc, x->label);
	}
	return err;
}

/* ---- gauges ---- */

/* The latest value up to a time; false: none, or it went before. */
static bool value_at(const struct sonde_arm_series *s, uint64_t ts_ns, double *v)
{
	for (size_t i = s->n; i-- > 0;) {
		if (s->p[i].ts_ns > ts_ns)
			continue;
		*v = s->p[i].value;
		return !isnan(*v);
	}
	return false;
}

static bool gauge_at(const struct sonde_arm *arm, const char *name, const char *label,
		     uint64_t ts_ns, double *sum)
{
	bool any = false;
	double v;

	*sum = 0;
	for (size_t i = 0; i < arm->n_gauges; i++) {
		const struct sonde_arm_series *s = &arm->gauges[i];

		if (strcmp(s->desc->name, name) || strcmp(s->label, label) ||
		    !value_at(s, ts_ns, &v))
			continue;
		any = true;
		*sum += v;
	}
	return any;
}

static enum sonde_compare_unit level_unit(const char *unit)
{
	if (!strcmp(unit, "bytes"))
		return SONDE_COMPARE_BYTES;
	if (!strcmp(unit, "ns"))
		return SONDE_COMPARE_NS;
	return !strcmp(unit, "ratio") ? SONDE_COMPARE_RATIO : SONDE_COMPARE_COUNT;
}

static int add_gauges(struct making *m, const struct sonde_arm *arm)
{
	int err = 0;

	for (size_t i = 0; i < arm->n_gauges && !err; i++) {
		const struct sonde_arm_series *s = &arm->gauges[i];
		struct sonde_compare_row row = {.name = s->desc->name,
						.label = s->label,
						.figure = "level",
						.unit = level_unit(s->desc->unit)};

		if (is_left_out(row.name) || has_counter_row(m, row.name, row.label))
			continue;
		for (int k = 0; k < 2; k++) {
			row.has[k] =
				gauge_at(m->arm[k], row.name, row.label, m->at_ns[k], &row.v[k]);
			row.absent[k] = row.has[k] ? NULL : absence(m->arm[k], row.name);
		}
		err = add_row(m, &row);
	}
	return err;
}

/* ---- histograms ---- */

static const struct {
	const char *name;
	double q; /* < 0: mean */
	bool brief;
} figures[] = {
	{"mean", -1, true},
	{"p50", 0.5, false},
	{"p95", 0.95, false},
	{"p99", 0.99, true},
};

/*
 * Of a histogram made from samples the count and the sum lag behind what was counted: where a lens
 * keeps both as counters, the mean is theirs.
 */
static bool counted_mean(const struct sonde_arm *arm, const char *hist, const char *label,
			 double *mean)
{
	double n, ns;

	if (strcmp(hist, "fault.latency") || !counter(arm, "fault.count", label, &n) ||
	    !counter(arm, "fault.time", label, &ns) || n <= 0)
		return false;
	*mean = ns / n;
	return true;
}

static int add_hist(struct making *m, const struct sonde_hist_desc *d, const char *label)
{
	/* Of the many classes of faults the middle says less than the tail. */
	bool brief = section_of(d->name) != SONDE_COMPARE_QUERIES;
	bool any[2] = {false, false};
	struct sonde_hist h[2] = {{0}};
	int err = sonde_hist_init(&h[0]);

	err = err ? err : sonde_hist_init(&h[1]);
	for (int k = 0; k < 2 && !err; k++)
		any[k] = !sonde_snapshot_hist_total(&m->arm[k]->snap, d->name, label, false, &h[k]);
	for (size_t f = 0; f < SONDE_ARRAY_SIZE(figures) && !err; f++) {
		struct sonde_compare_row row = {.name = d->name,
						.label = label,
						.figure = figures[f].name,
						.unit = level_unit(d->unit)};

		if (brief && !figures[f].brief)
			continue;
		for (int k = 0; k < 2; k++) {
			row.has[k] = any[k];
			row.absent[k] = any[k] ? NULL : "none were seen";
			if (figures[f].q < 0 && counted_mean(m->arm[k], d->name, label, &row.v[k]))
				continue;
			row.v[k] = figures[f].q < 0
					   ? sonde_hist_mean(&h[k])
					   : (double)sonde_hist_quantile(&h[k], figures[f].q);
		}
		err = add_row(m, &row);
	}
	sonde_hist_fini(&h[0]);
	sonde_hist_fini(&h[1]);
	return err;
}

/* Forms of queries are of no use by their ids, and hundreds: the verdict judges them. */
static int add_hists(struct making *m, const struct sonde_snapshot *s)
{
	int err = 0;

	for (size_t i = 0; i < s->n_hists && !err; i++)
		if (!has_counter_row(m, s->hists[i].desc->name, s->hists[i].label) &&
		    strcmp(s->hists[i].desc->name, SONDE_FORM_HIST))
			err = add_hist(m, s->hists[i].desc, s->hists[i].label);
	return err;
}

/* ---- the time at which memory is compared ---- */

/* When the target that serves began, monotonic; false: not known. */
static bool start_of(const struct sonde_arm *arm, uint64_t *start_ns)
{
	const char *start = sonde_arm_target_meta(arm, "start_mono_ns");
	const char *age = sonde_arm_target_meta(arm, "age_ns");
	struct sonde_clockpair clock;
	uint64_t v;

	if (start && !sonde_parse_u64(start, start_ns))
		return true;
	if (!age || sonde_parse_u64(age, &v) || !sonde_meta_clock(&arm->snap.meta, &clock) ||
	    v > clock.mono_ns)
		return false;
	*start_ns = clock.mono_ns - v;
	return true;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* At the latest age that both processes were seen at; where there is none, at the latest time since
 * the recordings began. */
static int choose_time(struct making *m)
{
	const struct sonde_arm *a = m->arm[0], *b = m->arm[1];
	uint64_t zero[2] = {0}, age = 0;

	m->out->by_process_age = start_of(a, &zero[0]) && start_of(b, &zero[1]) &&
				 zero[0] <= a->last_ns && zero[1] <= b->last_ns;
	if (m->out->by_process_age) {
		age = earlier(a->last_ns - zero[0], b->last_ns - zero[1]);
		m->out->by_process_age =
			zero[0] + age >= a->first_ns && zero[1] + age >= b->first_ns;
	}
	if (!m->out->by_process_age) {
		zero[0] = a->first_ns;
		zero[1] = b->first_ns;
		age = earlier(a->last_ns - a->first_ns, b->last_ns - b->first_ns);
	}
	m->out->uptime_ns = age;
	m->at_ns[0] = zero[0] + age;
	m->at_ns[1] = zero[1] + age;
	if (m->out->by_process_age)
		return 0;
	return sonde_compare_caution(m->out,
				     "the processes were never seen at the same age: memory is "
				     "compared at equal time since the recordings began");
}

/* ---- order ---- */

static int by_section_and_weight(const void *x, const void *y)
{
	const struct sonde_compare_row *a = x, *b = y;

	if (a->section != b->section)
		return a->section < b->section ? -1 : 1;
	if (a->tiny != b->tiny)
		return a->tiny ? 1 : -1;
	if (!a->unranked != !b->unranked)
		return a->unranked ? 1 : -1;
	if (a->weight != b->weight)
		return a->weight > b->weight ? -1 : 1;
	if (strcmp(a->name, b->name))
		return strcmp(a->name, b->name);
	if (strcmp(a->label, b->label))
		return strcmp(a->label, b->label);
	return strcmp(a->figure, b->figure);
}

static int check_arm(const struct sonde_arm *arm)
{
	if (arm->snap.ticks > 1 && sonde_arm_covered_ns(arm))
		return 0;
	return sonde_err(ENODATA, "%s cannot be compared: it holds %s", arm->name,
			 arm->snap.ticks ? "one reading only" : "no readings");
}

static int make_rows(struct making *m)
{
	int err = 0;

	for (int k = 0; k < 2 && !err; k++) {
		err = add_counters(m, &m->arm[k]->snap);
		err = err ? err : add_gauges(m, m->arm[k]);
		err = err ? err : add_hists(m, &m->arm[k]->snap);
	}
	if (err)
		return err;
	for (size_t i = 0; i < m->out->n_rows; i++)
		if (m->out->rows[i].has[0] && m->out->rows[i].has[1])
			return 0;
	return sonde_err(ENODATA,
			 "%s and %s cannot be compared: no figure is in both; record them with the "
			 "same lenses",
			 m->arm[0]->name, m->arm[1]->name);
}

int sonde_compare_make(const struct sonde_arm *a, const struct sonde_arm *b,
		       struct sonde_compare *out)
{
	struct sonde_compare c = {0};
	struct making m = {.arm = {a, b}, .out = &c};
	int err = check_arm(a);

	err = err ? err : check_arm(b);
	if (err)
		return err;
	for (int k = 0; k < 2; k++) {
		bool seen = counter(m.arm[k], "query.spans", "", &m.queries[k]);

		m.queries[k] = seen ? m.queries[k] : -1;
		m.seconds[k] = (double)sonde_arm_covered_ns(m.arm[k]) / (double)SONDE_NS_PER_SEC;
	}
	err = sonde_compare_config(a, b, &c);
	err = err ? err : choose_time(&m);
	err = err ? err : make_rows(&m);
	err = err ? err : sonde_compare_rank(a, b, m.at_ns, &c);
	if (err) {
		sonde_compare_fini(&c);
		return err;
	}
	qsort(c.rows, c.n_rows, sizeof(*c.rows), by_section_and_weight);
	*out = c;
	return 0;
}

void sonde_compare_fini(struct sonde_compare *c)
{
	for (size_t i = 0; i < c->n_cautions; i++)
		free(c->cautions[i]);
	free(c->cautions);
	free(c->rows);
	free(c->diffs);
	free(c->load[0]);
	free(c->load[1]);
	*c = (struct sonde_compare){0};
}
