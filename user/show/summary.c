// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The summary's sections; see summary.h. Latency comes from merged histograms, rates from counters
 * and the time observed, so the same code serves a live session and a recording.
 */
#include <ctype.h>
#include <signal.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "show/ledger.h"
#include "show/summary.h"
#include "sonde/query.h"

#define DIGITS		 "0123456789"
#define EVENTS_OF_A_KIND 8 /* more are one line with their number */
#define B(v)		 sonde_fmt_bytes((char[32]){0}, 32, (v))
#define NS(v)		 sonde_fmt_ns((char[32]){0}, 32, (v))
#define N(v)		 sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

static const char *meta(const struct sonde_snapshot *s, const char *key, const char *otherwise)
{
	const char *v = sonde_meta_find(&s->meta, key);

	return v && *v ? v : otherwise;
}

static double seconds(uint64_t ns)
{
	return (double)ns / (double)SONDE_NS_PER_SEC;
}

static void print_age(FILE *out, double s)
{
	if (s <= 0)
		return;
	if (s >= 2 * 86400)
		fprintf(out, ", up %.0f d", s / 86400);
	else if (s >= 2 * 3600)
		fprintf(out, ", up %.0f h", s / 3600);
	else if (s >= 120)
		fprintf(out, ", up %.0f min", s / 60);
	else
		fprintf(out, ", up %.0f s", s);
}

#define WITHOUT_GAP 0.9995 /* of the time observed, rounds to 100.0 % */

#define MAX_LISTED 8 /* pids of other targets */

/* A row of one target. */
static const char *target_meta(const struct sonde_snapshot *s, const char *target, const char *what,
			       const char *otherwise)
{
	char key[64];

	snprintf(key, sizeof(key), "target.%s.%s", target, what);
	return meta(s, key, otherwise);
}

/* When the last figures of a target are of. */
static uint64_t end_of(const struct sonde_snapshot *s, const char *target)
{
	const struct sonde_snap_metric *m;
	uint64_t index;

	if (sonde_parse_u64(target, &index))
		return s->last_tick_ns;
	m = sonde_snapshot_find_metric(s, "rss.total", "", (uint32_t)index);
	return m && m->present && m->absent && m->last_ns < s->last_tick_ns ? m->last_ns
									    : s->last_tick_ns;
}

/* At the end, as all that stands beside it. Its age is known as of the first look, near the begin;
 * when it started, of all but old recordings. 0: not known. */
static double uptime_s(const struct sonde_snapshot *s, const char *target)
{
	uint64_t end = end_of(s, target), begin = s->first_tick_ns, age, start;

	if (!sonde_parse_u64(target_meta(s, target, "start_mono_ns", ""), &start) && end > start)
		return seconds(end - start);
	if (sonde_parse_u64(target_meta(s, target, "age_ns", ""), &age))
		return 0;
	return seconds(age + (end > begin ? end - begin : 0));
}

static void print_others(FILE *out, const struct sonde_snapshot *s, const char *main)
{
	int n = 0;

	for (int i = 0; i < 64; i++) {
		char index[16];
		const char *pid;

		snprintf(index, sizeof(index), "%d", i);
		pid = strcmp(index, main) ? target_meta(s, index, "pid", NULL) : NULL;
		if (!pid)
			continue;
		if (++n > MAX_LISTED) {
			fprintf(out, " and more");
			break;
		}
		fprintf(out, "%s%s", n == 1 ? " and " : ", ", pid);
	}
}

/* Sum over targets of a gauge's last value; false if no target has it. */
static bool gauge(const struct sonde_snapshot *s, const char *name, double *v)
{
	bool present;

	*v = sonde_snapshot_sum(s, name, &present);
	return present;
}

/* Share of the time in which programs were attached; < 0 where it is not known. */
static double observed_ratio(const struct sonde_snapshot *s)
{
	double v;

	return gauge(s, "cost.observed_ratio", &v) ? v : -1;
}

/* Of a command that sonde started. That it obeyed our SIGTERM at the end is no news. */
static void print_status(FILE *out, const struct sonde_snapshot *s)
{
	uint64_t number;
	int status;

	if (sonde_parse_u64(meta(s, "command.status", "0"), &number) || number > UINT8_MAX)
		return;
	status = (int)number;
	if (status > 128 &&
	    (status != 128 + SIGTERM || !strcmp(meta(s, "ended", ""), "target exited")))
		fprintf(out, "The command was ended by signal %d (%s)\n", status - 128,
			strsignal(status - 128));
	else if (status && status <= 128)
		fprintf(out, "The command ended with status %d\n", status);
}

/* Of a command and its children the one that serves comes first. */
void sonde_summary_target(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns)
{
	const char *t = meta(s, "serving", "0"), *allocator = target_meta(s, t, "allocator", NULL);
	const char *version = target_meta(s, t, "allocator_version", "");

	fprintf(out, "%s pid %s", SONDE_PLAIN(target_meta(s, t, "comm", "?")),
		target_meta(s, t, "pid", "?"));
	print_others(out, s, t);
	if (allocator)
		fprintf(out, ", %s%s%s", allocator, *version ? " " : "", SONDE_PLAIN(version));
	else
		fprintf(out, ", allocator not recognised");
	fprintf(out, ", THP %s", meta(s, "thp.enabled", "not in this kernel"));
	if (!strcmp(target_meta(s, t, "thp_enabled", "1"), "0"))
		fprintf(out, " but off for this process");
	else if (!strcmp(meta(s, "run.thp_disable", "0"), "3"))
		fprintf(out, " and only advised for this process");
	print_age(out, uptime_s(s, t));
	if (observed_ns)
		fprintf(out, "; observed %.1f s%s", seconds(observed_ns),
			observed_ratio(s) >= WITHOUT_GAP ? " without a gap" : "");
	fputc('\n', out);
	print_status(out, s);
}

static const char *absent_reason(const struct sonde_snapshot *s, const char *name)
{
	const struct sonde_snap_metric *m = sonde_snapshot_find_metric(s, name, "", UINT32_MAX);

	return m && m->absent ? m->absent : NULL;
}

void sonde_summary_memory(FILE *out, const struct sonde_snapshot *s)
{
	sonde_show_memory(out, s, SONDE_LEDGER_NOW);
}

static void print_quantiles(FILE *out, const struct sonde_hist *h)
{
	fprintf(out, "mean %s  p50 %s  p95 %s  p99 %s  max %s", NS(sonde_hist_mean(h)),
		NS((double)sonde_hist_quantile(h, 0.5)), NS((double)sonde_hist_quantile(h, 0.95)),
		NS((double)sonde_hist_quantile(h, 0.99)), NS((double)h->max));
}

/* One line of a histogram over all targets; nothing if it is empty. */
static void print_hist(FILE *out, const struct sonde_snapshot *s, const char *name,
		       const char *label, const char *title, int width)
{
	struct sonde_hist h;

	if (sonde_hist_init(&h))
		return;
	if (!sonde_snapshot_hist_total(s, name, label, false, &h))
		fprintf(out, "    %-*s %11s  mean %9s  p50 %9s  p95 %9s  p99 %9s  max %9s\n", width,
			SONDE_PLAIN(title), N(h.count), NS(sonde_hist_mean(&h)),
			NS((double)sonde_hist_quantile(&h, 0.5)),
			NS((double)sonde_hist_quantile(&h, 0.95)),
			NS((double)sonde_hist_quantile(&h, 0.99)), NS((double)h.max));
	sonde_hist_fini(&h);
}

/* Is this the first of the series, of however many targets have it? */
static bool labelled_first(const struct sonde_snapshot *s, const struct sonde_snap_hist *h,
			   const char *name)
{
	return !strcmp(h->desc->name, name) && h->label[0] &&
	       sonde_snapshot_find_hist(s, name, h->label, UINT32_MAX) == h;
}

#define PHASE_WIDEST "queue wait" /* lists of one section line up */

void sonde_summary_labels(FILE *out, const struct sonde_snapshot *s, const char *name,
			  const char *heading, sonde_summary_title *title)
{
	int width = (int)strlen(PHASE_WIDEST);
	bool any = false;
	char buf[64];

	for (size_t i = 0; i < s->n_hists; i++)
		if (labelled_first(s, &s->hists[i], name)) {
			int len = (int)strlen(title(s->hists[i].label, buf, sizeof(buf)));

			width = len > width ? len : width;
			any = true;
		}
	if (any)
		fprintf(out, "  %s\n", heading);
	for (size_t i = 0; i < s->n_hists; i++)
		if (labelled_first(s, &s->hists[i], name))
			print_hist(out, s, name, s->hists[i].label,
				   title(s->hists[i].label, buf, sizeof(buf)), width);
}

static const char *as_it_is(const char *label, char *buf, size_t size)
{
	snprintf(buf, size, "%s", label);
	return buf;
}

static void print_phases(FILE *out, const struct sonde_snapshot *s)
{
	static const struct {
		const char *name, *title;
	} phases[] = {{"query.wait", PHASE_WIDEST}, {"query.service", "service"}};
	bool any = false;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(phases); i++) {
		if (!sonde_snapshot_find_hist(s, phases[i].name, "", UINT32_MAX))
			continue;
		if (!any)
			fprintf(out, "  phases\n");
		any = true;
		print_hist(out, s, phases[i].name, "", phases[i].title, (int)strlen(PHASE_WIDEST));
	}
}

/* What the allocator itself counted for the threads that ran queries. */
static void print_query_heap(FILE *out, const struct sonde_snapshot *s)
{
	bool present;
	double n = sonde_snapshot_sum(s, "query.heap_spans", &present), spans;
	double got = sonde_snapshot_sum(s, "query.heap_allocated", &present);
	double freed = sonde_snapshot_sum(s, "query.heap_freed", &present);
	struct sonde_hist h;

	if (!present || n <= 0 || sonde_hist_init(&h))
		return;
	fprintf(out, "  allocated  mean %s a query, %s given back", B(got / n), B(freed / n));
	if (!sonde_snapshot_hist_total(s, "query.allocated", "", false, &h))
		fprintf(out, "; p50 %s  p95 %s  p99 %s  max %s",
			B((double)sonde_hist_quantile(&h, 0.5)),
			B((double)sonde_hist_quantile(&h, 0.95)),
			B((double)sonde_hist_quantile(&h, 0.99)), B((double)h.max));
	sonde_hist_fini(&h);
	spans = sonde_snapshot_sum(s, "query.spans", &present);
	if (present && spans > n)
		fprintf(out, " (of %s; the others' threads are not known)", N(n));
	fputc('\n', out);
}

/* That nothing was asked is one thing, that it was not understood another. */
static void print_no_queries(FILE *out, const struct sonde_snapshot *s)
{
	uint64_t n = s->drops[SONDE_LENS_QUERY][SONDE_DROP_UNDECODED];

	if (n)
		fprintf(out,
			"Queries none decoded: %s connection%s no protocol that is known here "
			"(known: " SONDE_QUERY_PROTOCOLS ")\n",
			N(n), n == 1 ? " speaks" : "s speak");
	else
		fprintf(out, "Queries none seen\n");
}

void sonde_summary_queries(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns)
{
	struct sonde_hist h;
	bool present;
	double n = sonde_snapshot_sum(s, "query.spans", &present);

	if (present && n <= 0)
		print_no_queries(out, s);
	if (!present || n <= 0 || sonde_hist_init(&h))
		return;
	fprintf(out, "Queries %s", N(n));
	if (observed_ns)
		fprintf(out, " (%s/s)", N(n / seconds(observed_ns) + 0.5));
	if (!sonde_snapshot_hist_total(s, "query.latency", "", false, &h)) {
		fprintf(out, "  ");
		print_quantiles(out, &h);
	}
	fputc('\n', out);
	sonde_hist_fini(&h);
	sonde_summary_parts(out, s);
	print_phases(out, s);
	sonde_summary_labels(out, s, "query.latency", "by command", as_it_is);
	print_query_heap(out, s);
}

/* The labels are the alloc lens's: everything that is no free or delete asks for memory. */
bool sonde_summary_allocates(const char *label)
{
	return !sonde_str_starts(label, "free") && !sonde_str_starts(label, "operator delete");
}

static double allocations(const struct sonde_snapshot *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->n_metrics; i++)
		if (!strcmp(s->metrics[i].desc->name, "alloc.calls") && s->metrics[i].present &&
		    sonde_summary_allocates(s->metrics[i].label))
			sum += s->metrics[i].last;
	return sum;
}

static double labelled(const struct sonde_snapshot *s, const char *name, const char *label)
{
	double sum = 0;

	for (size_t i = 0; i < s->n_metrics; i++)
		if (!strcmp(s->metrics[i].desc->name, name) && s->metrics[i].present &&
		    !strcmp(s->metrics[i].label, label))
			sum += s->metrics[i].last;
	return sum;
}

static void print_live(FILE *out, const struct sonde_snapshot *s)
{
	const char *why = absent_reason(s, "alloc.live");
	double v;

	if (gauge(s, "alloc.live", &v))
		fprintf(out, "  live bytes changed by %s%s since attach%s\n", v < 0 ? "-" : "+",
			B(v < 0 ? -v : v),
			v < 0 ? ": more was freed than allocated, of what was there before" : "");
	else if (why)
		fprintf(out, "  live bytes absent: %s\n", why);
}

void sonde_summary_alloc(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns)
{
	bool present;
	double calls = sonde_snapshot_sum(s, "alloc.calls", &present), bytes;

	sonde_summary_heap(out, s, observed_ns);
	sonde_summary_windows(out, s);
	if (!present)
		return;
	bytes = sonde_snapshot_sum(s, "alloc.requested", &present);
	fprintf(out, "Allocation, every call: %s calls (%s allocations, %s frees), %s requested",
		N(calls), N(allocations(s)), N(calls - allocations(s)), B(bytes));
	if (labelled(s, "alloc.calls", "realloc") > 0)
		fprintf(out,
			"; a realloc of a block is one allocation, and gives the old one back");
	if (observed_ns)
		fprintf(out, "; rates are those of a target slowed by the probes");
	fputc('\n', out);
	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];

		if (strcmp(m->desc->name, "alloc.calls") || !m->present || m->last <= 0)
			continue;
		bytes = labelled(s, "alloc.requested", m->label);
		fprintf(out, "  %-24s %12s calls", m->label, N(m->last));
		if (bytes > 0)
			fprintf(out, " %12s", B(bytes));
		if (labelled(s, "alloc.failed", m->label) > 0)
			fprintf(out, "  %s failed", N(labelled(s, "alloc.failed", m->label)));
		fputc('\n', out);
	}
	print_live(out, s);
}

/* The causes that lose something, or those that do not; true if there was any. */
static bool print_causes(FILE *out, const struct sonde_snapshot *s, bool lose, const char *before)
{
	bool any = false;

	for (int l = 0; l < SONDE_LENS__MAX; l++)
		for (int c = 0; c < SONDE_DROP__MAX; c++) {
			if (!s->drops[l][c] || sonde_drop_loses(c) != lose)
				continue;
			fprintf(out, "%s%s %s: %s (%s)", any ? "; " : before, sonde_lens_id_name(l),
				sonde_drop_name(c), N(s->drops[l][c]), sonde_drop_help(c));
			any = true;
		}
	return any;
}

static void print_drops(FILE *out, const struct sonde_snapshot *s)
{
	fprintf(out, "Drops %s", N(sonde_snapshot_drops(s)));
	print_causes(out, s, true, "; ");
	fputc('\n', out);
	if (print_causes(out, s, false, "Nothing lost by "))
		fputc('\n', out);
}

/* Equal but for their numbers. */
static bool same_words(const char *a, const char *b)
{
	while (*a && *b) {
		bool digit = isdigit((unsigned char)*a);

		if (digit != !!isdigit((unsigned char)*b) || (!digit && *a != *b))
			return false;
		a += digit ? strspn(a, DIGITS) : 1;
		b += digit ? strspn(b, DIGITS) : 1;
	}
	return *a == *b;
}

static bool same_kind(const struct sonde_note *a, const struct sonde_note *b)
{
	return a->level == b->level && !strcmp(a->lens, b->lens) && same_words(a->what, b->what);
}

/* Events of one kind before @i, and in all. */
static size_t count_kind(const struct sonde_snapshot *s, size_t i, size_t *all)
{
	size_t before = 0;

	*all = 0;
	for (size_t k = 0; k < s->n_notes; k++) {
		bool same = same_kind(&s->notes[k].note, &s->notes[i].note);

		before += same && k < i;
		*all += same;
	}
	return before;
}

void sonde_summary_notes(FILE *out, const struct sonde_snapshot *s)
{
	for (size_t i = 0; i < s->n_notes; i++) {
		const struct sonde_note *n = &s->notes[i].note;
		size_t all, before;

		if (n->level == SONDE_NOTE_INFO)
			continue;
		before = n->level == SONDE_NOTE_EVENT ? count_kind(s, i, &all) : 0;
		if (before && all > EVENTS_OF_A_KIND)
			continue;
		if (n->level == SONDE_NOTE_EVENT && all > EVENTS_OF_A_KIND) {
			fprintf(out, "Event %s%s%s (and %zu more like it)\n", n->lens,
				n->lens[0] ? ": " : "", SONDE_PLAIN(n->what), all - 1);
			continue;
		}
		fprintf(out, "%s %s%s%s%s%s\n",
			n->level == SONDE_NOTE_EVENT	 ? "Event"
			: n->level == SONDE_NOTE_CAUTION ? "CAUTION"
							 : "DEGRADED",
			n->lens[0] ? n->lens : "", n->lens[0] ? ": " : "", SONDE_PLAIN(n->what),
			n->remedy[0] ? " -> " : "", SONDE_PLAIN(n->remedy));
	}
	print_drops(out, s);
}

double sonde_summary_cost_ratio(const struct sonde_snapshot *s)
{
	bool have_probe, have_user, have_sys;
	double probe = sonde_snapshot_sum(s, "cost.probe_time", &have_probe);
	double cpu = sonde_snapshot_sum(s, "proc.cpu_user", &have_user) +
		     sonde_snapshot_sum(s, "proc.cpu_sys", &have_sys);

	return have_probe && have_user && have_sys && cpu > 0 ? probe / cpu : -1;
}

static void print_own_cost(FILE *out, const struct sonde_snapshot *s, const char *before)
{
	double v;

	if (gauge(s, "cost.own_cpu", &v))
		fprintf(out, "%ssonde itself %s CPU", before, NS(v));
	if (gauge(s, "cost.start_cpu", &v))
		fprintf(out, " (and %s CPU to start)", NS(v));
	if (gauge(s, "cost.own_rss", &v))
		fprintf(out, ", %s RSS", B(v));
	if (gauge(s, "cost.map_bytes", &v))
		fprintf(out, " + %s maps", B(v));
	fputc('\n', out);
}

void sonde_summary_own_cost(FILE *out, const struct sonde_snapshot *s)
{
	print_own_cost(out, s, "Cost ");
}

static bool has_cpu(const struct sonde_snapshot *s)
{
	bool present;

	sonde_snapshot_sum(s, "proc.cpu_user", &present);
	return present;
}

void sonde_summary_cost(FILE *out, const struct sonde_snapshot *s)
{
	double ratio = sonde_summary_cost_ratio(s), v;

	fprintf(out, "Cost ");
	if (ratio >= 0)
		fprintf(out, "%.2g %% of the target's CPU (hits x calibrated cost)", 100 * ratio);
	else
		fprintf(out, "not known: the target %s",
			has_cpu(s) ? "used no CPU in this time"
				   : "was gone before its CPU time was read");
	if (gauge(s, "cost.hits", &v))
		fprintf(out, "; %s hits", N(v));
	print_own_cost(out, s, "; ");
	if (observed_ratio(s) >= 0 && observed_ratio(s) < WITHOUT_GAP)
		fprintf(out, "Observed %.1f %% of the %.1f s\n", 100 * observed_ratio(s),
			seconds(s->last_tick_ns - s->first_tick_ns));
}
