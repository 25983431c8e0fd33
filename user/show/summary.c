// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The summary's sections; see summary.h. Latency comes from merged histograms, rates from counters
 * and the time observed, so the same code serves a live session and a recording.
 */
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "show/summary.h"

#define B(v)  sonde_fmt_bytes((char[32]){0}, 32, (v))
#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (v))
#define N(v)  sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

static const char *meta(const struct sonde_snapshot *s, const char *key, const char *otherwise)
{
	const char *v = sonde_meta_find(&s->meta, key);

	return v && *v ? v : otherwise;
}

static double seconds(uint64_t ns)
{
	return (double)ns / (double)SONDE_NS_PER_SEC;
}

static void print_age(FILE *out, const char *age_ns)
{
	double s = age_ns ? strtod(age_ns, NULL) / 1e9 : 0;

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

void sonde_summary_target(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns)
{
	fprintf(out, "%s pid %s", meta(s, "target.0.comm", "?"), meta(s, "target.0.pid", "?"));
	for (int i = 1; i < 64; i++) {
		char key[32];

		snprintf(key, sizeof(key), "target.%d.pid", i);
		if (!sonde_meta_find(&s->meta, key))
			break;
		fprintf(out, "%s%s", i == 1 ? " and " : ", ", sonde_meta_find(&s->meta, key));
	}
	fprintf(out, ", %s", meta(s, "target.0.allocator", "allocator not recognised"));
	fprintf(out, " %s", meta(s, "target.0.allocator_version", ""));
	fprintf(out, ", THP %s", meta(s, "thp.enabled", "not in this kernel"));
	print_age(out, sonde_meta_find(&s->meta, "target.0.age_ns"));
	if (observed_ns)
		fprintf(out, "; observed %.1f s", seconds(observed_ns));
	fputc('\n', out);
}

/* Sum over targets of a gauge's last value; false if no target has it. */
static bool gauge(const struct sonde_snapshot *s, const char *name, double *v)
{
	bool present;

	*v = sonde_snapshot_sum(s, name, &present);
	return present;
}

static const char *absent_reason(const struct sonde_snapshot *s, const char *name)
{
	const struct sonde_snap_metric *m = sonde_snapshot_find_metric(s, name, "", UINT32_MAX);

	return m && m->absent ? m->absent : NULL;
}

static double first_sum(const struct sonde_snapshot *s, const char *name)
{
	double sum = 0;

	for (size_t i = 0; i < s->n_metrics; i++)
		if (!strcmp(s->metrics[i].desc->name, name) && s->metrics[i].present)
			sum += s->metrics[i].first;
	return sum;
}

static void print_change(FILE *out, double change)
{
	if (change)
		fprintf(out, "  %s%s since attach", change > 0 ? "+" : "-",
			B(change > 0 ? change : -change));
}

static void print_huge(FILE *out, const struct sonde_snapshot *s)
{
	const struct sonde_snap_metric *m =
		sonde_snapshot_find_metric(s, "rss.anon_huge", "", UINT32_MAX);
	double v;

	if (gauge(s, "rss.anon_huge", &v))
		fprintf(out, "    in huge pages     %10s  %.1f s old\n", B(v),
			seconds(s->last_tick_ns > m->last_ns ? s->last_tick_ns - m->last_ns : 0));
	else if (m && m->absent)
		fprintf(out, "    in huge pages         absent  %s\n", m->absent);
	if (gauge(s, "rss.lazyfree", &v) && v > 0)
		fprintf(out, "    LazyFree          %10s\n", B(v));
}

void sonde_summary_memory(FILE *out, const struct sonde_snapshot *s)
{
	static const struct {
		const char *metric, *title;
	} parts[] = {
		{"rss.anon", "private anonymous"},
		{"rss.shmem", "shared anonymous"},
		{"rss.file", "files"},
	};
	double total, v;

	if (!gauge(s, "rss.total", &total)) {
		if (absent_reason(s, "rss.total"))
			fprintf(out, "RSS absent: %s\n", absent_reason(s, "rss.total"));
		return;
	}
	fprintf(out, "RSS %s", B(total));
	print_change(out, total - first_sum(s, "rss.total"));
	fputc('\n', out);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(parts); i++) {
		if (!gauge(s, parts[i].metric, &v))
			continue;
		fprintf(out, "  %-20s%10s  %4.1f %%", parts[i].title, B(v),
			total > 0 ? 100 * v / total : 0);
		print_change(out, v - first_sum(s, parts[i].metric));
		fputc('\n', out);
		if (i == 0)
			print_huge(out, s);
	}
	if (gauge(s, "rss.pte", &v))
		fprintf(out, "  beside RSS: page tables %s", B(v));
	if (gauge(s, "rss.swap", &v))
		fprintf(out, ", swap %s", B(v));
	if (gauge(s, "rss.hugetlb", &v) && v > 0)
		fprintf(out, ", hugetlb %s", B(v));
	fputc('\n', out);
}

static void print_quantiles(FILE *out, const struct sonde_hist *h)
{
	fprintf(out, "mean %s  p50 %s  p95 %s  p99 %s  max %s", NS(sonde_hist_mean(h)),
		NS((double)sonde_hist_quantile(h, 0.5)), NS((double)sonde_hist_quantile(h, 0.95)),
		NS((double)sonde_hist_quantile(h, 0.99)), NS((double)h->max));
}

/* One line of a histogram over all targets; false if it is empty. */
static bool print_hist(FILE *out, const struct sonde_snapshot *s, const char *name,
		       const char *label, const char *title)
{
	struct sonde_hist h;
	bool any;

	if (sonde_hist_init(&h))
		return false;
	any = !sonde_snapshot_hist_total(s, name, label, false, &h);
	if (any) {
		fprintf(out, "  %-14s %11s  ", title, N(h.count));
		print_quantiles(out, &h);
		fputc('\n', out);
	}
	sonde_hist_fini(&h);
	return any;
}

void sonde_summary_queries(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns)
{
	struct sonde_hist h;
	bool present;
	double n = sonde_snapshot_sum(s, "query.spans", &present);

	if (!present || sonde_hist_init(&h))
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
	print_hist(out, s, "query.wait", "", "queue wait");
	print_hist(out, s, "query.service", "", "service");
	for (size_t i = 0; i < s->n_hists; i++)
		if (!strcmp(s->hists[i].desc->name, "query.latency") && s->hists[i].label[0])
			print_hist(out, s, "query.latency", s->hists[i].label, s->hists[i].label);
}

void sonde_summary_faults(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns)
{
	bool present, timed;
	double n = sonde_snapshot_sum(s, "fault.count", &present), time_ns;

	if (!present)
		return;
	time_ns = sonde_snapshot_sum(s, "fault.time", &timed);
	fprintf(out, "Page faults %s", N(n));
	if (observed_ns)
		fprintf(out, " (%s/s)", N(n / seconds(observed_ns) + 0.5));
	if (timed)
		fprintf(out, "  %s of the target's time", NS(time_ns));
	fputc('\n', out);
	for (size_t i = 0; i < s->n_hists; i++)
		if (!strcmp(s->hists[i].desc->name, "fault.latency") && s->hists[i].label[0])
			print_hist(out, s, "fault.latency", s->hists[i].label, s->hists[i].label);
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
		fprintf(out, "  live since attach %s%s\n", v < 0 ? "-" : "", B(v < 0 ? -v : v));
	else if (why)
		fprintf(out, "  live bytes absent: %s\n", why);
}

void sonde_summary_alloc(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns)
{
	bool present;
	double calls = sonde_snapshot_sum(s, "alloc.calls", &present), bytes;

	if (!present)
		return;
	bytes = sonde_snapshot_sum(s, "alloc.requested", &present);
	fprintf(out, "Allocation, every call: %s calls, %s requested", N(calls), B(bytes));
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

static void print_drops(FILE *out, const struct sonde_snapshot *s)
{
	uint64_t all = sonde_snapshot_drops(s);

	fprintf(out, "Drops %s", N(all));
	for (int l = 0; l < SONDE_LENS__MAX && all; l++)
		for (int c = 0; c < SONDE_DROP__MAX; c++)
			if (s->drops[l][c])
				fprintf(out, "; %s %s: %s (%s)", sonde_lens_id_name(l),
					sonde_drop_name(c), N(s->drops[l][c]), sonde_drop_help(c));
	fputc('\n', out);
}

void sonde_summary_notes(FILE *out, const struct sonde_snapshot *s)
{
	for (size_t i = 0; i < s->n_notes; i++) {
		const struct sonde_note *n = &s->notes[i].note;

		if (n->level == SONDE_NOTE_INFO)
			continue;
		fprintf(out, "%s %s%s%s%s%s\n",
			n->level == SONDE_NOTE_EVENT	 ? "Event"
			: n->level == SONDE_NOTE_CAUTION ? "CAUTION"
							 : "DEGRADED",
			n->lens[0] ? n->lens : "", n->lens[0] ? ": " : "", n->what,
			n->remedy[0] ? " -> " : "", n->remedy);
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

void sonde_summary_cost(FILE *out, const struct sonde_snapshot *s)
{
	double ratio = sonde_summary_cost_ratio(s), v;

	fprintf(out, "Cost ");
	if (ratio >= 0)
		fprintf(out, "%.2g %% of the target's CPU (hits x calibrated cost)", 100 * ratio);
	else
		fprintf(out, "not known: the target used no CPU in this time");
	if (gauge(s, "cost.hits", &v))
		fprintf(out, "; %s hits", N(v));
	if (gauge(s, "cost.own_cpu", &v))
		fprintf(out, "; sonde itself %s CPU", NS(v));
	if (gauge(s, "cost.start_cpu", &v))
		fprintf(out, " after %s to start", NS(v));
	if (gauge(s, "cost.own_rss", &v))
		fprintf(out, ", %s RSS", B(v));
	if (gauge(s, "cost.map_bytes", &v))
		fprintf(out, " + %s maps", B(v));
	fputc('\n', out);
	if (gauge(s, "cost.observed_ratio", &v))
		fprintf(out, "Observed %.1f %% of the time since recording began\n", 100 * v);
}
