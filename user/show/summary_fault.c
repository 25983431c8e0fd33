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

const char *sonde_summary_fault_title(const char *label, char *buf, size_t size)
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
static void print_shares(FILE *out, const struct sonde_snapshot *s, const char *what)
{
	sonde_autofree struct share *v = calloc(s->n_metrics + 1, sizeof(*v));
	char count[40], time[40];
	size_t n = 0;

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
	fprintf(out, "  by %s\n", what);
	for (size_t i = 0; i < n && i < MAX_SHOWN; i++)
		fprintf(out, "    %-40s %11s  %10s\n", SONDE_PLAIN(v[i].label), N(v[i].count),
			NS(v[i].ns));
	if (n > MAX_SHOWN)
		fprintf(out, "    and %zu more\n", n - MAX_SHOWN);
}

void sonde_summary_faults(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns)
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
	if (timed && error > 0)
		fprintf(out, " (sampled, +- %s)", NS(error));
	fputc('\n', out);
	if (timed)
		print_parts(out, s, n);
	sonde_summary_labels(out, s, "fault.latency", "by page", sonde_summary_fault_title);
	print_shares(out, s, "thread");
	print_shares(out, s, "mapping");
	print_shares(out, s, "site");
}
