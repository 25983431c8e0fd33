// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The text report; see report.h. A snapshot keeps what its sections need (they are those of `sonde
 * stat`), report_queries.c keeps the spans. Metrics that no section knows are listed as they are,
 * so that a new lens shows up before anybody wrote a section for it.
 */
#include <errno.h>
#include <inttypes.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "model/snapshot.h"
#include "show/ledger.h"
#include "show/report.h"
#include "show/report_flow.h"
#include "show/report_other.h"
#include "show/report_queries.h"
#include "show/report_window.h"
#include "show/summary.h"

#define B(v)  sonde_fmt_bytes((char[32]){0}, 32, (double)(v))
#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (double)(v))
#define N(v)  sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

struct sonde_report {
	struct sonde_report_opts opts;
	struct sonde_snapshot snap;
	struct sonde_snapshot traced; /* distributions, made from the spans */
	struct sonde_query_table queries;
	struct sonde_query_flow flow;
	struct sonde_visitor own, visitor;
	struct sonde_fanout fanout;
	uint64_t first_ns, last_ns;	      /* monotonic: what the data covers */
	uint64_t hist_first_ns, hist_last_ns; /* and the histograms             */
};

/* The first interval began before its tick; its values say when. */
static void cover(uint64_t *first, uint64_t *last, uint64_t from, uint64_t to)
{
	if (!*first || from < *first)
		*first = from;
	if (to > *last)
		*last = to;
}

static int on_metric(void *ctx, const struct sonde_metric *m)
{
	struct sonde_report *rep = ctx;

	cover(&rep->first_ns, &rep->last_ns, m->ts_ns, m->ts_ns);
	return 0;
}

static int on_hist(void *ctx, const struct sonde_histrow *h)
{
	struct sonde_report *rep = ctx;

	cover(&rep->hist_first_ns, &rep->hist_last_ns, h->from_ns, h->to_ns);
	return 0;
}

/* Has any of what is printed alone been asked for? */
static bool is_asked(const struct sonde_report_opts *o)
{
	return o->tail_share || o->by || o->running_ns;
}

static bool wants_flow(const struct sonde_report_opts *o)
{
	return !is_asked(o) || o->running_ns;
}

static int on_span(void *ctx, const struct sonde_span *s)
{
	struct sonde_report *rep = ctx;
	int err = sonde_query_table_add(&rep->queries, s);

	if (!err)
		err = sonde_window_add(&rep->traced, s);
	if (!err && wants_flow(&rep->opts))
		err = sonde_flow_add(&rep->flow, s);
	return err ? sonde_err(err, "cannot report: out of memory") : 0;
}

static int on_tick(void *ctx, uint64_t ts_ns)
{
	struct sonde_report *rep = ctx;

	cover(&rep->first_ns, &rep->last_ns, ts_ns, ts_ns);
	return 0;
}

static int on_start(void *ctx, uint64_t ts_ns)
{
	struct sonde_report *rep = ctx;

	rep->first_ns = ts_ns;
	return 0;
}

int sonde_report_new(struct sonde_report **out, const struct sonde_report_opts *opts)
{
	struct sonde_report *rep = calloc(1, sizeof(*rep));

	if (!rep)
		return -ENOMEM;
	if (opts)
		rep->opts = *opts;
	if (!rep->opts.slowest)
		rep->opts.slowest = 10;
	if (!rep->opts.rows)
		rep->opts.rows = 15;
	if (sonde_query_table_init(&rep->queries, rep->opts.slowest,
				   rep->opts.by ? (enum sonde_query_key)(rep->opts.by - 1)
						: SONDE_QUERY_BY_FORM)) {
		free(rep);
		return -ENOMEM;
	}
	sonde_snapshot_init(&rep->snap);
	sonde_snapshot_init(&rep->traced);
	rep->own = (struct sonde_visitor){.ctx = rep,
					  .start = on_start,
					  .metric = on_metric,
					  .hist = on_hist,
					  .span = on_span,
					  .tick = on_tick};
	rep->fanout = (struct sonde_fanout){.to = {&rep->snap.visitor, &rep->own}, .n = 2};
	rep->visitor = sonde_fanout_visitor(&rep->fanout);
	*out = rep;
	return 0;
}

void sonde_report_free(struct sonde_report **rp)
{
	struct sonde_report *rep = *rp;

	if (!rep)
		return;
	*rp = NULL;
	sonde_snapshot_fini(&rep->snap);
	sonde_snapshot_fini(&rep->traced);
	sonde_query_table_fini(&rep->queries);
	sonde_flow_fini(&rep->flow);
	free(rep);
}

const struct sonde_visitor *sonde_report_visitor(struct sonde_report *rep)
{
	return &rep->visitor;
}

static const char *meta(const struct sonde_report *rep, const char *key)
{
	const char *v = sonde_meta_find(&rep->snap.meta, key);

	return v ? v : "";
}

static uint64_t meta_u64(const struct sonde_report *rep, const char *key)
{
	uint64_t v;

	return sonde_parse_u64(meta(rep, key), &v) ? 0 : v;
}

static struct sonde_clockpair clock_of(const struct sonde_report *rep)
{
	struct sonde_clockpair clock = {0};

	sonde_meta_clock(&rep->snap.meta, &clock);
	return clock;
}

/* "2026-11-30 17:28:30" of a monotonic time. */
static const char *when(const struct sonde_report *rep, char *buf, size_t size, uint64_t mono_ns)
{
	struct sonde_clockpair clock = clock_of(rep);

	sonde_fmt_rfc3339(buf, size, sonde_clockpair_real(&clock, mono_ns));
	buf[10] = ' ';
	buf[19] = '\0';
	return buf;
}

/* The same, the date only if it is not that of the beginning. */
static const char *last_day(const struct sonde_report *rep, char *buf, size_t size,
			    uint64_t mono_ns)
{
	char first[40];

	when(rep, first, sizeof(first), rep->first_ns);
	when(rep, buf, size, mono_ns);
	return strncmp(first, buf, 10) ? buf : buf + 11;
}

/* Begin of what is covered. A recording that does not say when began an interval before its first
 * tick; where a histogram says when, it is believed. */
static uint64_t begin_ns(const struct sonde_report *rep)
{
	const struct sonde_snapshot *s = &rep->snap;
	uint64_t interval = sonde_snapshot_interval_ns(s), hist = rep->hist_first_ns;

	if (!s->started && hist && hist < rep->first_ns && hist + interval * 3 / 2 >= rep->first_ns)
		return hist;
	return rep->first_ns;
}

static uint64_t covered_ns(const struct sonde_report *rep)
{
	return rep->last_ns > begin_ns(rep) ? rep->last_ns - begin_ns(rep) : 0;
}

/* "90.0 s", "12.5 min", "6.0 h", "14.0 d" into @buf. */
static const char *long_time(char *buf, size_t size, uint64_t ns)
{
	static const struct {
		double from_s, unit_s;
		const char *name;
	} units[] = {{2 * 86400, 86400, "d"}, {2 * 3600, 3600, "h"}, {120, 60, "min"}};
	double s = (double)ns / 1e9;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(units); i++) {
		if (s < units[i].from_s)
			continue;
		snprintf(buf, size, "%.1f %s", s / units[i].unit_s, units[i].name);
		return buf;
	}
	return sonde_fmt_ns(buf, size, (double)ns);
}

static void print_completeness(FILE *out, const struct sonde_report *rep)
{
	uint64_t end = meta_u64(rep, "recording.end_ns"), now = sonde_real_ns();
	char age[40];

	if (!strcmp(meta(rep, "complete"), "1")) {
		fprintf(out, "complete (ended by: %s)\n",
			*meta(rep, "ended") ? SONDE_PLAIN(meta(rep, "ended")) : "?");
		return;
	}
	fprintf(out, "NOT COMPLETE: cut short, or still being written");
	if (end && now > end)
		fprintf(out, "; its last interval ended %s ago",
			long_time(age, sizeof(age), now - end));
	fputc('\n', out);
}

static void print_heading(FILE *out, const struct sonde_report *rep)
{
	char from[40], to[40], length[40], command[4096];

	if (*meta(rep, "recording.path"))
		fprintf(out, "%s: ", SONDE_PLAIN(meta(rep, "recording.path")));
	if (!rep->last_ns) {
		fprintf(out, "nothing was recorded in this time; ");
		print_completeness(out, rep);
		return;
	}
	fprintf(out, "%s to %s UTC (%s), ", when(rep, from, sizeof(from), begin_ns(rep)),
		last_day(rep, to, sizeof(to), rep->last_ns),
		long_time(length, sizeof(length), covered_ns(rep)));
	print_completeness(out, rep);
	if (*meta(rep, "host.name"))
		fprintf(out, "host %s, %s CPUs, kernel %s; ", SONDE_PLAIN(meta(rep, "host.name")),
			SONDE_PLAIN(meta(rep, "host.cpus")),
			SONDE_PLAIN(meta(rep, "kernel.release")));
	fprintf(out, "made by: %s\n",
		*meta(rep, "command") ? sonde_plain(command, sizeof(command), meta(rep, "command"))
				      : "?");
}

/* The sum is exact, but user and system are told apart by ticks of 10 ms: of less it says nothing.
 */
#define SPLIT_NS 100e6

static void print_cpu(FILE *out, const struct sonde_report *rep)
{
	const struct sonde_snapshot *s = &rep->snap;
	bool have_user, have_sys, have_min, have_maj;
	double user = sonde_snapshot_sum(s, "proc.cpu_user", &have_user);
	double sys = sonde_snapshot_sum(s, "proc.cpu_sys", &have_sys);
	double min = sonde_snapshot_sum(s, "proc.minflt", &have_min);
	double maj = sonde_snapshot_sum(s, "proc.majflt", &have_maj);

	if (!have_user || !have_sys || !covered_ns(rep))
		return;
	fprintf(out, "CPU %s", NS(user + sys));
	if (user + sys >= SPLIT_NS)
		fprintf(out, " (%s user, %s system)", NS(user), NS(sys));
	fprintf(out, ": %.2f cores", (user + sys) / (double)covered_ns(rep));
	if (have_min && have_maj)
		fprintf(out, "; %s minor and %s major faults by the kernel's count", N(min),
			N(maj));
	fputc('\n', out);
}

/* With --since the minutes at both ends hold more than what is reported. */
static bool hists_differ(const struct sonde_report *rep)
{
	const struct sonde_snapshot *s = &rep->snap;
	uint64_t interval = sonde_snapshot_interval_ns(s);

	interval = interval ? interval : covered_ns(rep);
	return rep->hist_last_ns && rep->first_ns &&
	       (rep->hist_first_ns + interval / 2 < begin_ns(rep) ||
		rep->hist_last_ns > rep->last_ns + interval / 2);
}

/* The time that the histograms hold. */
static const char *hist_period(const struct sonde_report *rep, char *buf, size_t size)
{
	char from[40], to[40];

	snprintf(buf, size, "%s to %s", when(rep, from, sizeof(from), rep->hist_first_ns),
		 last_day(rep, to, sizeof(to), rep->hist_last_ns));
	return buf;
}

/* In the time reported. What the lens filtered never came to the writer, whose own count is the
 * last resort. */
static uint64_t queries_seen(const struct sonde_report *rep)
{
	bool present;
	double n = sonde_snapshot_sum(&rep->snap, "query.spans", &present);

	return present && n >= 0 ? (uint64_t)(n + 0.5) : meta_u64(rep, "recording.spans_seen");
}

/* Which traces were kept, and the closing bracket. */
static void print_filter(FILE *out, const struct sonde_report *rep)
{
	uint64_t slower = meta_u64(rep, "recording.slower_than_ns");

	fprintf(out, "--spans %s", meta(rep, "recording.spans"));
	if (slower)
		fprintf(out, ", only those of %s or more: --slower-than", NS(slower));
	fputc(')', out);
}

static void print_none(FILE *out, const struct sonde_report *rep, uint64_t seen)
{
	fprintf(out, "Query traces: none of %s queries (", N(seen));
	print_filter(out, rep);
	fputc('\n', out);
}

/* But for those that ended as the bounds passed. */
static bool all_traced(const struct sonde_report *rep, uint64_t seen)
{
	return !strcmp(meta(rep, "recording.spans"), "all") &&
	       !meta_u64(rep, "recording.slower_than_ns") && rep->queries.spans &&
	       rep->queries.spans + seen / 100 + 1 >= seen;
}

/* The snapshot's figures with other distributions, or none. */
static void print_latency(FILE *out, const struct sonde_report *rep, uint64_t seen)
{
	struct sonde_snapshot view = rep->snap;
	char period[100];

	if (hists_differ(rep)) {
		bool traced = all_traced(rep, seen);

		view.hists = rep->traced.hists;
		view.n_hists = traced ? rep->traced.n_hists : 0;
		sonde_summary_queries(out, &view, covered_ns(rep));
		if (!traced)
			sonde_window_print(out, &rep->snap, "query.", NULL,
					   hist_period(rep, period, sizeof(period)));
		return;
	}
	sonde_summary_queries(out, &view, covered_ns(rep));
}

static void print_faults(FILE *out, const struct sonde_report *rep)
{
	struct sonde_snapshot view = rep->snap;
	char period[100];

	if (hists_differ(rep))
		view.n_hists = 0;
	sonde_summary_faults(out, &view, covered_ns(rep), rep->opts.all);
	if (hists_differ(rep))
		sonde_window_print(out, &rep->snap, "fault.", sonde_fault_title,
				   hist_period(rep, period, sizeof(period)));
}

static struct sonde_flow_counted counted(const struct sonde_report *rep, uint64_t seen)
{
	const struct sonde_snap_hist *h =
		sonde_snapshot_find_hist(&rep->snap, "query.latency", "", 0);
	struct sonde_flow_counted all = {begin_ns(rep), rep->last_ns, (double)seen, 0};

	if (h && h->total.count && !hists_differ(rep))
		all.mean_ns = sonde_hist_mean(&h->total);
	else
		all.queries = 0;
	return all;
}

static void print_traced(FILE *out, const struct sonde_report *rep, uint64_t seen)
{
	const struct sonde_query_table *t = &rep->queries;

	fprintf(out, "Query traces: %s of %s queries (", N(t->spans),
		N(seen > t->spans ? seen : t->spans));
	print_filter(out, rep);
	if (t->errors)
		fprintf(out, "; %s failed (%.2g %%)", N(t->errors),
			100.0 * (double)t->errors / (double)t->spans);
	fputc('\n', out);
}

/* The slowest of each hour are no sample of all: their middle is not the middle. */
static bool all_kept(const struct sonde_report *rep)
{
	return !strcmp(meta(rep, "recording.spans"), "all") &&
	       !meta_u64(rep, "recording.slower_than_ns");
}

static void print_queries(FILE *out, struct sonde_report *rep)
{
	struct sonde_clockpair clock = clock_of(rep);
	struct sonde_query_table *t = &rep->queries;
	uint64_t seen = queries_seen(rep);
	struct sonde_flow_counted all = counted(rep, seen);

	print_latency(out, rep, seen);
	if (seen && !all_traced(rep, seen))
		sonde_report_forms(out, &rep->snap, rep->opts.rows, rep->opts.form_text,
				   rep->opts.form_ctx);
	if (!t->spans) {
		if (seen)
			print_none(out, rep, seen);
		return;
	}
	if (all_traced(rep, seen))
		sonde_flow_print_little(out, &rep->flow, &all);
	print_traced(out, rep, seen);
	sonde_query_print_groups(out, t, rep->opts.rows);
	if (all_kept(rep))
		sonde_query_print_tail(out, t, 0.01, false);
	sonde_query_print_slowest(out, t, &clock);
}

static void print_next(FILE *out, const struct sonde_report *rep)
{
	const char *path = meta(rep, "recording.path");

	if (!*path)
		return;
	if (rep->queries.spans)
		fprintf(out, "Every query: sonde export %s --to csv >queries.csv\n", path);
	fprintf(out, "Over time: sonde export %s --to csv --series >series.csv\n", path);
}

/* What needs every query: refused where only some were kept, with the reason. */
static void print_tail(FILE *out, const struct sonde_report *rep)
{
	if (all_kept(rep))
		sonde_query_print_tail(out, &rep->queries, rep->opts.tail_share, true);
	else
		fputs("No tail: only the slower queries were kept, so that there is no middle to "
		      "compare with; record with --spans all and without --slower-than\n",
		      out);
}

static void print_running(FILE *out, struct sonde_report *rep, uint64_t seen)
{
	struct sonde_flow_counted all = counted(rep, seen);
	struct sonde_clockpair clock = clock_of(rep);

	if (all_kept(rep))
		sonde_flow_print_running(out, &rep->flow, &all, &clock, rep->opts.running_ns);
	else
		fputs("No running average: only the slower queries were kept; record with --spans "
		      "all "
		      "and without --slower-than\n",
		      out);
}

/* Only what was asked for by name. */
static bool print_asked(FILE *out, struct sonde_report *rep)
{
	const struct sonde_report_opts *o = &rep->opts;
	struct sonde_clockpair clock = clock_of(rep);
	uint64_t seen = queries_seen(rep);

	if (!is_asked(o))
		return false;
	if (!rep->queries.spans) {
		print_none(out, rep, seen);
		return true;
	}
	print_traced(out, rep, seen);
	if (o->tail_share)
		print_tail(out, rep);
	if (o->by)
		sonde_query_print_by(out, &rep->queries, o->rows, &clock);
	if (o->running_ns)
		print_running(out, rep, seen);
	return true;
}

static int flushed(FILE *out)
{
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}

int sonde_report_print(struct sonde_report *rep, FILE *out)
{
	uint64_t ns = covered_ns(rep);
	char period[100];

	errno = 0;
	print_heading(out, rep);
	if (print_asked(out, rep))
		return flushed(out);
	sonde_summary_target(out, &rep->snap, 0);
	sonde_show_memory(out, &rep->snap, SONDE_LEDGER_FIRST_LAST);
	print_cpu(out, rep);
	print_queries(out, rep);
	print_faults(out, rep);
	sonde_summary_thp(out, &rep->snap);
	sonde_summary_stall(out, &rep->snap);
	sonde_summary_ask(out, &rep->snap);
	sonde_summary_alloc(out, &rep->snap, ns);
	sonde_report_other(out, &rep->snap,
			   hists_differ(rep) ? hist_period(rep, period, sizeof(period)) : "");
	sonde_summary_notes(out, &rep->snap);
	sonde_summary_cost(out, &rep->snap);
	print_next(out, rep);
	return flushed(out);
}
