// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The summary's section on stalls: where threads were when they were not on a CPU. Lines are there
 * only where something happened; the causes are disjoint, the locks and system calls below overlap
 * them.
 */
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "show/summary.h"

#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (v))
#define N(v)  sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

/* Pairs of metrics and the histogram of the same thing. */
static const struct {
	const char *time, *count, *hist, *title;
	const char *heading; /* before its first line, where it overlaps what stands above */
} parts[] = {
	{"stall.time", "stall.count", "stall.offcpu", "", NULL},
	{"stall.lock_time", "stall.lock_count", "stall.lock_wait", "until it had ",
	 "from finding a lock taken to having it: spinning, asleep (above) and waiting for a CPU"},
	{"stall.syscall_time", "stall.syscall_count", "stall.syscall", "in ",
	 "system calls on the address space, from begin to end, waits above included"},
};

/* Causes that are no word by themselves. */
static const struct {
	const char *label, *words;
} causes[] = {
	{"runqueue", "runnable, no CPU free"},
	{"mmap_lock", "asleep for mmap_lock"},
	{"kernel_lock", "asleep for a kernel lock"},
	{"alloc_lock", "allocator's lock"},
};

static const char *cause_words(size_t part, const char *label)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(causes) && !part; i++)
		if (!strcmp(causes[i].label, label))
			return causes[i].words;
	return label;
}

static double value(const struct sonde_snapshot *s, const char *name, const char *label)
{
	double sum = 0;

	for (size_t i = 0; i < s->n_metrics; i++)
		if (s->metrics[i].present && !strcmp(s->metrics[i].desc->name, name) &&
		    !strcmp(s->metrics[i].label, label))
			sum += s->metrics[i].last;
	return sum;
}

/* Was this series of an earlier target told already? The line holds all targets. */
static bool is_again(const struct sonde_snapshot *s, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (!strcmp(s->metrics[i].desc->name, s->metrics[at].desc->name) &&
		    !strcmp(s->metrics[i].label, s->metrics[at].label))
			return true;
	return false;
}

static void print_tail(FILE *out, const struct sonde_snapshot *s, const char *name,
		       const char *label)
{
	struct sonde_hist h;

	if (sonde_hist_init(&h))
		return;
	if (!strcmp(label, "runqueue")) {
		name = "stall.runqueue";
		label = "";
	}
	if (!sonde_snapshot_hist_total(s, name, label, false, &h) && h.count)
		fprintf(out, "  p50 %s  p99 %s  max %s", NS((double)sonde_hist_quantile(&h, 0.5)),
			NS((double)sonde_hist_quantile(&h, 0.99)), NS((double)h.max));
	sonde_hist_fini(&h);
}

static void print_part(FILE *out, const struct sonde_snapshot *s, size_t p)
{
	bool told = false;

	for (size_t i = 0; i < s->n_metrics; i++) {
		const char *label = s->metrics[i].label;
		double n;
		int width;

		if (strcmp(s->metrics[i].desc->name, parts[p].count) || is_again(s, i))
			continue;
		n = value(s, parts[p].count, label);
		if (n <= 0)
			continue;
		if (parts[p].heading && !told)
			fprintf(out, "  %s\n", parts[p].heading);
		told = true;
		width = fprintf(out, "  %s%s", parts[p].title, cause_words(p, label));
		fprintf(out, "%*s %10s  %11s", width < 25 ? 25 - width : 0, "",
			NS(value(s, parts[p].time, label)), N(n));
		print_tail(out, s, parts[p].hist, label);
		fputc('\n', out);
	}
}

void sonde_summary_stall(FILE *out, const struct sonde_snapshot *s)
{
	bool present;
	double waits = value(s, "stall.count", "runqueue"), ns;

	ns = sonde_snapshot_sum(s, "stall.time", &present);
	if (!present)
		return;
	fprintf(out, "Off the CPU %s in %s waits that ended, all threads together\n", NS(ns),
		N(waits));
	for (size_t p = 0; p < SONDE_ARRAY_SIZE(parts); p++)
		print_part(out, s, p);
}
