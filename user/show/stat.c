// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A line per interval: one table of columns, a column shown when its lens yields it. The line and
 * the JSON object read the same rows.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "judge/figures.h"
#include "show/stat.h"
#include "show/summary.h"

#define HEADING_EVERY 20

/* How a column's value is shown. */
enum unit { U_BYTES, U_RATE, U_NS, U_PERCENT, U_COUNT };

struct column {
	const char *title; /* heading            */
	const char *key;   /* in JSON, with unit */
	enum unit unit;
	/* The value over the last interval of @secs; false: nothing to show. */
	bool (*value)(const struct sonde_snapshot *s, double secs, double *v);
};

static bool level(const struct sonde_snapshot *s, const char *name, double *v)
{
	bool present;

	*v = sonde_snapshot_sum(s, name, &present);
	return present;
}

static bool rate(const struct sonde_snapshot *s, const char *name, double secs, double *v)
{
	bool present;

	*v = sonde_snapshot_delta(s, name, &present);
	if (secs > 0)
		*v /= secs;
	return present && secs > 0;
}

static bool quantile(const struct sonde_snapshot *s, double q, double *v)
{
	struct sonde_hist h;
	bool any;

	if (sonde_hist_init(&h))
		return false;
	any = !sonde_snapshot_hist_total(s, "query.latency", "", true, &h);
	if (any)
		*v = q < 0 ? sonde_hist_mean(&h) : (double)sonde_hist_quantile(&h, q);
	sonde_hist_fini(&h);
	return any;
}

#define LEVEL(fn, name)                                                                            \
	static bool fn(const struct sonde_snapshot *s, double secs, double *v)                     \
	{                                                                                          \
		(void)secs;                                                                        \
		return level(s, name, v);                                                          \
	}
#define RATE(fn, name)                                                                             \
	static bool fn(const struct sonde_snapshot *s, double secs, double *v)                     \
	{                                                                                          \
		return rate(s, name, secs, v);                                                     \
	}
#define QUANTILE(fn, q)                                                                            \
	static bool fn(const struct sonde_snapshot *s, double secs, double *v)                     \
	{                                                                                          \
		(void)secs;                                                                        \
		return quantile(s, q, v);                                                          \
	}

LEVEL(rss_total, "rss.total")
LEVEL(rss_anon, "rss.anon")
RATE(query_rate, "query.spans")
QUANTILE(query_mean, -1)
QUANTILE(query_p50, 0.5)
QUANTILE(query_p95, 0.95)
QUANTILE(query_p99, 0.99)
RATE(fault_rate, "fault.count")
RATE(requested, "alloc.requested")
RATE(handed_out, "alloc.handed_out")
LEVEL(live, "alloc.allocated")

/* Bytes that a query's thread allocated while it ran it, by the allocator's own counters. */
static bool query_heap(const struct sonde_snapshot *s, double secs, double *v)
{
	bool some, present;
	double n = sonde_snapshot_delta(s, "query.heap_spans", &some);
	double bytes = sonde_snapshot_delta(s, "query.heap_allocated", &present);

	(void)secs;
	if (!some || !present || n <= 0)
		return false;
	*v = bytes / n;
	return true;
}

/* Asked for where calls are seen, else what the allocator itself counts. */
static bool alloc_bytes(const struct sonde_snapshot *s, double secs, double *v)
{
	return requested(s, secs, v) || handed_out(s, secs, v);
}

static bool alloc_rate(const struct sonde_snapshot *s, double secs, double *v)
{
	bool present = false;

	*v = 0;
	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];

		if (strcmp(m->desc->name, "alloc.calls") || !m->present ||
		    !sonde_summary_allocates(m->label))
			continue;
		present = true;
		*v += (m->last - m->prev) / secs;
	}
	return present && secs > 0;
}

static bool cpu_share(const struct sonde_snapshot *s, double secs, double *v)
{
	double user, sys;

	if (!rate(s, "proc.cpu_user", secs, &user) || !rate(s, "proc.cpu_sys", secs, &sys))
		return false;
	*v = (user + sys) / (double)SONDE_NS_PER_SEC;
	return true;
}

static bool cost_share(const struct sonde_snapshot *s, double secs, double *v)
{
	double probe, cpu;

	if (!rate(s, "cost.probe_time", secs, &probe) || !cpu_share(s, secs, &cpu) || cpu <= 0)
		return false;
	*v = probe / (double)SONDE_NS_PER_SEC / cpu;
	return true;
}

static bool drops(const struct sonde_snapshot *s, double secs, double *v)
{
	(void)secs;
	*v = (double)sonde_snapshot_drops(s) - (double)s->prev_drops;
	return true;
}

static const struct column columns[] = {
	{"RSS", "rss_bytes", U_BYTES, rss_total},
	{"anon", "rss_anon_bytes", U_BYTES, rss_anon},
	{"live", "live_bytes", U_BYTES, live},
	{"CPU", "cpu_ratio", U_PERCENT, cpu_share},
	{"query/s", "queries_per_s", U_RATE, query_rate},
	{"mean", "latency_mean_ns", U_NS, query_mean},
	{"p50", "latency_p50_ns", U_NS, query_p50},
	{"p95", "latency_p95_ns", U_NS, query_p95},
	{"p99", "latency_p99_ns", U_NS, query_p99},
	{"B/query", "heap_bytes_per_query", U_BYTES, query_heap},
	{"fault/s", "faults_per_s", U_RATE, fault_rate},
	{"alloc/s", "allocs_per_s", U_RATE, alloc_rate},
	{"alloc B/s", "alloc_bytes_per_s", U_BYTES, alloc_bytes},
	{"cost", "cost_ratio", U_PERCENT, cost_share},
	{"drops", "drops", U_COUNT, drops},
};

static const char *show(char *buf, size_t size, enum unit unit, double v)
{
	switch (unit) {
	case U_BYTES:
		return sonde_fmt_bytes(buf, size, v);
	case U_NS:
		return sonde_fmt_ns(buf, size, v);
	case U_PERCENT:
		snprintf(buf, size, v < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * v);
		return buf;
	default:
		return sonde_fmt_count(buf, size, (uint64_t)(v + 0.5));
	}
}

static double interval_s(const struct sonde_snapshot *s)
{
	return s->prev_tick_ns ? (double)(s->last_tick_ns - s->prev_tick_ns) / 1e9 : 0;
}

static uint64_t real_now(const struct sonde_snapshot *s)
{
	const char *mono = sonde_meta_find(&s->meta, "clock.mono_ns");
	const char *real = sonde_meta_find(&s->meta, "clock.real_ns");
	struct sonde_clockpair pair = {0};

	if (!mono || !real || sonde_parse_u64(mono, &pair.mono_ns) ||
	    sonde_parse_u64(real, &pair.real_ns))
		return 0;
	return sonde_clockpair_real(&pair, s->last_tick_ns);
}

static bool queries_seen(const struct sonde_snapshot *s)
{
	bool present;

	return sonde_snapshot_sum(s, "query.spans", &present) > 0;
}

/* A column belongs on the line if its lens ever yielded it, that of queries if there ever was one;
 * an interval without a value shows "-". */
static bool column_used(const struct column *c, const struct sonde_snapshot *s)
{
	double v;

	if (c->unit == U_NS || c->value == query_rate)
		return queries_seen(s);
	return c->value(s, 1, &v) || c->unit == U_PERCENT;
}

static uint32_t columns_used(const struct sonde_snapshot *s)
{
	uint32_t used = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(columns); i++)
		used |= (uint32_t)column_used(&columns[i], s) << i;
	return used;
}

/* Over the columns of times, which say nothing of what they are of. */
static void print_group(FILE *out, uint32_t used)
{
	static const char title[] = "-- latency of queries ";
	int before = 9, within = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(columns); i++) {
		if (!(used & 1u << i))
			continue;
		if (columns[i].unit == U_NS)
			within += 10;
		else if (!within)
			before += 10;
	}
	if (!within)
		return;
	fprintf(out, "%*s%s", before + 4, "", title);
	for (int i = (int)sizeof(title) - 1; i < within - 4; i++)
		fputc('-', out);
	fputc('\n', out);
}

static void print_heading(FILE *out, uint32_t used)
{
	print_group(out, used);
	fprintf(out, "%-9s", "UTC");
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(columns); i++)
		if (used & 1u << i)
			fprintf(out, " %9s", columns[i].title);
	fputc('\n', out);
}

int sonde_stat_line(struct sonde_stat_view *v, const struct sonde_snapshot *snap)
{
	double secs = interval_s(snap), value;
	uint32_t used = columns_used(snap);
	char stamp[40], buf[32];

	if (!v->lines || used != v->shown) {
		print_heading(v->out, used);
		v->shown = used;
		v->lines = 0;
	}
	v->any = true;
	v->lines = (v->lines + 1) % HEADING_EVERY;
	sonde_fmt_rfc3339(stamp, sizeof(stamp), real_now(snap));
	fprintf(v->out, "%.8s ", stamp + 11);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(columns); i++) {
		if (!(used & 1u << i))
			continue;
		fprintf(v->out, " %9s",
			columns[i].value(snap, secs, &value)
				? show(buf, sizeof(buf), columns[i].unit, value)
				: "-");
	}
	fputc('\n', v->out);
	return fflush(v->out) ? -errno : 0;
}

static void print_over_time(FILE *out, const struct sonde_snapshot *snap,
			    const struct sonde_stat_end *end)
{
	char a[32], d[32];

	sonde_summary_queries(out, snap, end->observed_ns);
	sonde_summary_faults(out, snap, end->observed_ns, end->all);
	sonde_summary_thp(out, snap);
	sonde_summary_stall(out, snap);
	sonde_summary_ask(out, snap);
	sonde_summary_alloc(out, snap, end->observed_ns);
	sonde_summary_notes(out, snap);
	sonde_summary_cost(out, snap);
	if (end->attach_ns || end->detach_ns)
		fprintf(out, "Attached in %s, detached in %s; ended: %s\n",
			sonde_fmt_ns(a, sizeof(a), (double)end->attach_ns),
			sonde_fmt_ns(d, sizeof(d), (double)end->detach_ns), end->ended);
}

int sonde_stat_summary(FILE *out, const struct sonde_snapshot *snap,
		       const struct sonde_stat_end *end)
{
	sonde_summary_target(out, snap, end->instant ? 0 : end->observed_ns);
	sonde_summary_memory(out, snap);
	if (end->instant) {
		sonde_summary_heap(out, snap, 0);
		fprintf(out, "One reading; rates need time: -d 10s\n");
		sonde_summary_notes(out, snap);
		sonde_summary_own_cost(out, snap);
	} else {
		print_over_time(out, snap, end);
	}
	if (end->next)
		fprintf(out, "Next: %s\n", end->next);
	return fflush(out) ? -errno : 0;
}

/* jansson refuses what is not UTF-8, and a target may well be named so. */
static json_t *text_json(const char *s)
{
	sonde_autostr struct sonde_str clean = {0};

	if (sonde_str_add_utf8(&clean, s, strlen(s)))
		return NULL;
	return json_string(sonde_str_get(&clean));
}

static json_t *metric_json(const struct sonde_snap_metric *m)
{
	json_t *o = json_pack("{s:s, s:s, s:i}", "name", m->desc->name, "unit", m->desc->unit,
			      "target", (int)m->target);

	if (m->label[0])
		json_object_set_new(o, "label", text_json(m->label));
	if (m->present) {
		/* Integers stay integers up to 2^53, so that a reader need not round. */
		bool whole = m->last == floor(m->last) && fabs(m->last) < 9007199254740992.0;

		json_object_set_new(o, "value",
				    whole ? json_integer((json_int_t)m->last) : json_real(m->last));
		if (m->desc->kind == SONDE_GAUGE)
			json_object_set_new(o, "first", json_real(m->first));
	}
	if (m->absent)
		json_object_set_new(o, "absent", text_json(m->absent));
	return o;
}

static json_t *hist_json(const struct sonde_snap_hist *h)
{
	const struct sonde_hist *t = &h->total;
	json_t *o = json_pack("{s:s, s:s, s:i, s:I}", "name", h->desc->name, "unit", h->desc->unit,
			      "target", (int)h->target, "count", (json_int_t)t->count);

	if (h->label[0])
		json_object_set_new(o, "label", text_json(h->label));
	if (!t->count)
		return o;
	json_object_set_new(o, "mean", json_real(sonde_hist_mean(t)));
	json_object_set_new(o, "min", json_integer((json_int_t)t->min));
	json_object_set_new(o, "p50", json_integer((json_int_t)sonde_hist_quantile(t, 0.5)));
	json_object_set_new(o, "p95", json_integer((json_int_t)sonde_hist_quantile(t, 0.95)));
	json_object_set_new(o, "p99", json_integer((json_int_t)sonde_hist_quantile(t, 0.99)));
	json_object_set_new(o, "max", json_integer((json_int_t)t->max));
	return o;
}

static json_t *drops_json(const struct sonde_snapshot *s)
{
	json_t *all = json_object();

	for (int l = 0; l < SONDE_LENS__MAX; l++)
		for (int c = 0; c < SONDE_DROP__MAX; c++) {
			char key[64];

			if (!s->drops[l][c])
				continue;
			snprintf(key, sizeof(key), "%s.%s", sonde_lens_id_name(l),
				 sonde_drop_name(c));
			json_object_set_new(all, key, json_integer((json_int_t)s->drops[l][c]));
		}
	return all;
}

static json_t *notes_json(const struct sonde_snapshot *s)
{
	json_t *all = json_array();

	for (size_t i = 0; i < s->n_notes; i++) {
		const struct sonde_note *n = &s->notes[i].note;

		json_array_append_new(all, json_pack("{s:s, s:s, s:o, s:o}", "level",
						     sonde_note_level_name(n->level), "lens",
						     n->lens, "what", text_json(n->what), "remedy",
						     text_json(n->remedy)));
	}
	return all;
}

static json_t *meta_json(const struct sonde_meta *m)
{
	json_t *o = json_object();

	for (size_t i = 0; i < m->n; i++) {
		/* Structured values are JSON text already. */
		const char *v = m->rows[i].value;
		json_t *inner = *v == '{' || *v == '[' ? json_loads(v, 0, NULL) : NULL;

		json_object_set_new(o, m->rows[i].key, inner ? inner : text_json(v));
	}
	return o;
}

static json_t *diagnosis_json(const struct sonde_snapshot *s)
{
	json_t *all = json_array();
	struct sonde_figures figures;
	struct sonde_diagnosis d;

	sonde_figures_of(s, &figures);
	sonde_diagnose(&figures.memory, &d);
	for (size_t i = 0; i < d.n; i++) {
		const struct sonde_finding *f = &d.f[i];
		json_t *o =
			json_pack("{s:s, s:s, s:s, s:o}", "question", f->question, "cause",
				  sonde_cause_name(f->cause), "answer",
				  sonde_finding_answer_name(f->answer), "text", text_json(f->text));

		if (f->next[0])
			json_object_set_new(o, "next", text_json(f->next));
		json_array_append_new(all, o);
	}
	return all;
}

static int dump(FILE *out, json_t *o)
{
	int err = json_dumpf(o, out, JSON_COMPACT) ? -EIO : 0;

	json_decref(o);
	fputc('\n', out);
	return fflush(out) ? -errno : err;
}

int sonde_stat_json(FILE *out, const struct sonde_snapshot *snap, const struct sonde_stat_end *end)
{
	json_t *o = json_object(), *metrics = json_array(), *hists = json_array();
	double ratio = sonde_summary_cost_ratio(snap);

	for (size_t i = 0; i < snap->n_metrics; i++)
		json_array_append_new(metrics, metric_json(&snap->metrics[i]));
	for (size_t i = 0; i < snap->n_hists; i++)
		json_array_append_new(hists, hist_json(&snap->hists[i]));
	json_object_set_new(o, "type", json_string("summary"));
	json_object_set_new(o, "ended", json_string(end->ended));
	json_object_set_new(o, "observed_ns", json_integer((json_int_t)end->observed_ns));
	json_object_set_new(o, "attach_ns", json_integer((json_int_t)end->attach_ns));
	json_object_set_new(o, "detach_ns", json_integer((json_int_t)end->detach_ns));
	if (ratio >= 0)
		json_object_set_new(o, "cost_ratio", json_real(ratio));
	json_object_set_new(o, "meta", meta_json(&snap->meta));
	json_object_set_new(o, "metrics", metrics);
	json_object_set_new(o, "histograms", hists);
	json_object_set_new(o, "drops", drops_json(snap));
	json_object_set_new(o, "diagnosis", diagnosis_json(snap));
	json_object_set_new(o, "notes", notes_json(snap));
	return dump(out, o);
}

int sonde_stat_json_line(FILE *out, const struct sonde_snapshot *snap)
{
	double secs = interval_s(snap), v;
	json_t *o = json_object();
	char stamp[40];

	json_object_set_new(o, "type", json_string("interval"));
	json_object_set_new(o, "time",
			    json_string(sonde_fmt_rfc3339(stamp, sizeof(stamp), real_now(snap))));
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(columns); i++)
		if (columns[i].value(snap, secs, &v))
			json_object_set_new(o, columns[i].key, json_real(v));
	return dump(out, o);
}
