// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The summary's section on page faults: how many, how long, what they did, and the part of it that
 * was spent in making room. Where time is estimated from samples, its error stands beside it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "show/summary.h"

#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (v))
#define N(v)  sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

enum { MAX_SHOWN = 8 };

/* What a fault did, in words; see the fault lens for what labels there are. "mthp" is of recordings
 * that do not tell the sizes apart. */
static const struct {
	const char *name, *words;
} classes[] = {
	{"base", "4 KiB"},	   {"mthp", "8 KiB to 1 MiB"},	  {"mthp_8kB", "8 KiB"},
	{"mthp_16kB", "16 KiB"},   {"mthp_32kB", "32 KiB"},	  {"mthp_64kB", "64 KiB"},
	{"mthp_128kB", "128 KiB"}, {"mthp_256kB", "256 KiB"},	  {"mthp_512kB", "512 KiB"},
	{"mthp_1024kB", "1 MiB"},  {"pmd", "2 MiB huge"},	  {"zero", "zero page"},
	{"cow", "copy on write"},  {"in_place", "made writable"}, {"swap", "from swap"},
	{"file", "file"},	   {"shmem", "shared memory"},	  {"hugetlb", "hugetlb"},
	{"other", "other"},
};

const char *sonde_fault_title(const char *label, char *buf, size_t size)
{
	bool kernel = sonde_str_starts(label, "kernel_");
	const char *name = label + (kernel ? strlen("kernel_") : 0);
	const char *dot = strchr(name, '.');
	size_t len = dot ? (size_t)(dot - name) : 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(classes) && dot; i++) {
		if (strlen(classes[i].name) != len || memcmp(classes[i].name, name, len))
			continue;
		snprintf(buf, size, "%s, %s%s", classes[i].words,
			 kernel ? "in system calls" : "user code",
			 strcmp(dot + 1, "major") ? "" : ", disk read");
		return buf;
	}
	snprintf(buf, size, "%s", label);
	return buf;
}

/* Errors of different series are independent: their squares add up. */
static double time_error(const struct sonde_snapshot *s)
{
	double squares = 0;

	for (size_t i = 0; i < s->n_metrics; i++)
		if (s->metrics[i].present && !strcmp(s->metrics[i].desc->name, "fault.time_error"))
			squares += s->metrics[i].last * s->metrics[i].last;
	return sqrt(squares);
}

/* What the time holds, and what stands beside it. */
static void print_parts(FILE *out, const struct sonde_snapshot *s, double n)
{
	bool stalled, calibrated;
	double faults = sonde_snapshot_sum(s, "fault.stalled", &stalled);
	double reclaim = sonde_snapshot_sum(s, "fault.reclaim_time", &(bool){false});
	double compaction = sonde_snapshot_sum(s, "fault.compaction_time", &(bool){false});
	double exception = sonde_snapshot_sum(s, "fault.exception", &calibrated);

	if (stalled && faults > 0)
		fprintf(out, "  of it %s in direct reclaim and %s in direct compaction, in %s %s\n",
			NS(reclaim), NS(compaction), N(faults), faults > 1 ? "faults" : "fault");
	if (calibrated && n > 0)
		fprintf(out,
			"  beside it %s a fault for the exception's entry and exit (calibrated): "
			"%s\n",
			NS(exception), NS(exception * n));
}

/* A series, over all targets: its count and time are the counters', the distribution is the
 * histogram's. */
struct page_row {
	const char *label;
	double n, ns;
	bool timed, sampled;
};

static double labelled(const struct sonde_snapshot *s, const char *name, const char *label,
		       bool *any)
{
	double sum = 0;

	*any = false;
	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];

		if (!m->present || strcmp(m->desc->name, name) || strcmp(m->label, label))
			continue;
		*any = true;
		sum += m->last;
	}
	return sum;
}

static size_t page_rows(const struct sonde_snapshot *s, struct page_row *v)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];
		struct page_row row = {.label = m->label};
		bool any;

		if (strcmp(m->desc->name, "fault.count") || !m->label[0] ||
		    sonde_snapshot_find_metric(s, "fault.count", m->label, UINT32_MAX) != m)
			continue;
		row.n = labelled(s, "fault.count", m->label, &any);
		row.ns = labelled(s, "fault.time", m->label, &row.timed);
		labelled(s, "fault.time_error", m->label, &row.sampled);
		if (row.n > 0)
			v[n++] = row;
	}
	return n;
}

static void print_page(FILE *out, const struct sonde_snapshot *s, const struct page_row *row,
		       int width)
{
	struct sonde_hist h;
	char buf[64];

	fprintf(out, "    %-*s %11s", width,
		SONDE_PLAIN(sonde_fault_title(row->label, buf, sizeof(buf))), N(row->n));
	if (sonde_hist_init(&h)) {
		fputc('\n', out);
		return;
	}
	if (row->timed && row->ns > 0)
		fprintf(out, "  mean %9s", NS(row->ns / row->n));
	if (!sonde_snapshot_hist_total(s, "fault.latency", row->label, false, &h))
		fprintf(out, "  p50 %9s  p95 %9s  p99 %9s  max %9s",
			NS((double)sonde_hist_quantile(&h, 0.5)),
			NS((double)sonde_hist_quantile(&h, 0.95)),
			NS((double)sonde_hist_quantile(&h, 0.99)), NS((double)h.max));
	else if (row->timed && s->n_hists)
		fputs(row->ns > 0 ? "  no percentiles" : "  latency not sampled", out);
	fprintf(out, "%s\n", row->sampled && h.count ? "  sampled" : "");
	sonde_hist_fini(&h);
}

/* The rows add up to the number above them, whatever was timed. */
static void print_pages(FILE *out, const struct sonde_snapshot *s)
{
	sonde_autofree struct page_row *v = calloc(s->n_metrics + 1, sizeof(*v));
	size_t n = v ? page_rows(s, v) : 0;
	int width = (int)strlen("queue wait");
	char buf[64];

	for (size_t i = 0; i < n; i++) {
		int len = (int)strlen(sonde_fault_title(v[i].label, buf, sizeof(buf)));

		width = len > width ? len : width;
	}
	if (n)
		fprintf(out, "  by page\n");
	for (size_t i = 0; i < n; i++)
		print_page(out, s, &v[i], width);
}

struct share {
	const char *label;
	double count, ns;
};

static void add_share(struct share *v, size_t *n, const struct sonde_snap_metric *m, bool time)
{
	size_t i = 0;

	while (i < *n && strcmp(v[i].label, m->label))
		i++;
	if (i == *n)
		v[(*n)++] = (struct share){.label = m->label};
	if (time)
		v[i].ns += m->last;
	else
		v[i].count += m->last;
}

static int by_count(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->label, y->label);
}

/* The most frequent of what faults were charged to. */
static void print_shares(FILE *out, const struct sonde_snapshot *s, const char *what, bool all)
{
	sonde_autofree struct share *v = calloc(s->n_metrics + 1, sizeof(*v));
	size_t n = 0, shown = all ? SIZE_MAX : MAX_SHOWN;
	int width = 40;
	char count[40], time[40];

	snprintf(count, sizeof(count), "fault.%s_count", what);
	snprintf(time, sizeof(time), "fault.%s_time", what);
	for (size_t i = 0; i < s->n_metrics && v; i++)
		if (s->metrics[i].present && !strcmp(s->metrics[i].desc->name, count))
			add_share(v, &n, &s->metrics[i], false);
		else if (s->metrics[i].present && !strcmp(s->metrics[i].desc->name, time))
			add_share(v, &n, &s->metrics[i], true);
	if (!n)
		return;
	qsort(v, n, sizeof(*v), by_count);
	/* In a part of a recording those that had none are last. */
	while (n && v[n - 1].count <= 0)
		n--;
	if (!n)
		return;
	for (size_t i = 0; i < n && i < shown; i++)
		width = strlen(v[i].label) > (size_t)width ? (int)strlen(v[i].label) : width;
	fprintf(out, "  by %s\n", what);
	for (size_t i = 0; i < n && i < shown; i++)
		fprintf(out, "    %-*s %11s  %10s\n", width, SONDE_PLAIN(v[i].label), N(v[i].count),
			NS(v[i].ns));
	if (n > shown)
		fprintf(out, "    and %zu more (-v lists all)\n", n - shown);
}

void sonde_summary_faults(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns, bool all)
{
	bool present, timed;
	double n = sonde_snapshot_sum(s, "fault.count", &present), time_ns, error;

	if (!present)
		return;
	time_ns = sonde_snapshot_sum(s, "fault.time", &timed);
	error = time_error(s);
	fprintf(out, "Page faults %s", N(n));
	if (observed_ns)
		fprintf(out, " (%s/s)",
			N(n / ((double)observed_ns / (double)SONDE_NS_PER_SEC) + 0.5));
	if (timed)
		fprintf(out, "  %s of the target's time", NS(time_ns));
	if (timed && error > 0 && n > 0)
		fprintf(out, " (sampled, +- %s)", NS(error));
	fputc('\n', out);
	if (timed)
		print_parts(out, s, n);
	print_pages(out, s);
	print_shares(out, s, "thread", all);
	print_shares(out, s, "mapping", all);
	print_shares(out, s, "site", all);
}
