// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The summary's section on huge pages: what khugepaged and the process's own calls did, in lines
 * that are there only where something happened. The system's figures come last and say so.
 */
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "show/summary.h"

#define B(v)  sonde_fmt_bytes((char[32]){0}, 32, (v))
#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (v))
#define N(v)  sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

/* Sum over targets of the series @label of @name. */
static double value(const struct sonde_snapshot *s, const char *name, const char *label)
{
	double sum = 0;

	for (size_t i = 0; i < s->n_metrics; i++)
		if (s->metrics[i].present && !strcmp(s->metrics[i].desc->name, name) &&
		    !strcmp(s->metrics[i].label, label))
			sum += s->metrics[i].last;
	return sum;
}

/*
 * The index-th label of @name that has more than 0, in order of first appearance and once for all
 * targets; NULL after the last.
 */
static const char *label_at(const struct sonde_snapshot *s, const char *name, size_t index)
{
	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];
		bool again = false;

		if (strcmp(m->desc->name, name) || value(s, name, m->label) <= 0)
			continue;
		for (size_t j = 0; j < i && !again; j++)
			again = !strcmp(s->metrics[j].desc->name, name) &&
				!strcmp(s->metrics[j].label, m->label);
		if (!again && !index--)
			return m->label;
	}
	return NULL;
}

/* Results of khugepaged's own scans have no "self." before them. */
static double own_scans(const struct sonde_snapshot *s, bool self)
{
	const char *label;
	double sum = 0;

	for (size_t i = 0; (label = label_at(s, "thp.scans", i)); i++)
		if (self == !strncmp(label, "self.", 5))
			sum += value(s, "thp.scans", label);
	return sum;
}

static void print_khugepaged(FILE *out, const struct sonde_snapshot *s)
{
	double scans = own_scans(s, false), done = value(s, "thp.collapses", "khugepaged");
	const char *label;
	const struct sonde_snap_metric *m =
		sonde_snapshot_find_metric(s, "thp.scans", "succeed", UINT32_MAX);

	if (m && !m->present) {
		fprintf(out, "Huge pages: khugepaged's work absent: %s\n", m->absent);
		return;
	}
	if (!scans && !done) {
		fprintf(out, "Huge pages: khugepaged did nothing for it\n");
		return;
	}
	fprintf(out, "Huge pages: khugepaged looked %s times, made %s of 2 MiB; that filled %s\n",
		N(scans), N(done), B(value(s, "thp.bloat", "khugepaged")));
	for (size_t i = 0; (label = label_at(s, "thp.scans", i)); i++)
		if (strncmp(label, "self.", 5) && strcmp(label, "succeed"))
			fprintf(out, "  not made: %-20s %11s\n", label,
				N(value(s, "thp.scans", label)));
}

static void print_own(FILE *out, const struct sonde_snapshot *s)
{
	double done = value(s, "thp.collapses", "self");
	const char *label;

	if (own_scans(s, true))
		fprintf(out, "  its own MADV_COLLAPSE     %11s made, %s filled\n", N(done),
			B(value(s, "thp.bloat", "self")));
	for (size_t i = 0; (label = label_at(s, "thp.purge_calls", i)); i++) {
		double cuts = value(s, "thp.purge_may_split", label);

		fprintf(out, "  given back: %-12s  %11s calls, %s", label,
			N(value(s, "thp.purge_calls", label)),
			B(value(s, "thp.purge_bytes", label)));
		if (cuts > 0)
			fprintf(out, "; %s may split a huge page", N(cuts));
		fputc('\n', out);
	}
}

static void print_stalls(FILE *out, const struct sonde_snapshot *s)
{
	const char *label;
	struct sonde_hist h;

	if (sonde_hist_init(&h))
		return;
	for (size_t i = 0; (label = label_at(s, "thp.stall_count", i)); i++) {
		fprintf(out, "  stall: %-18s %11s  total %s", label,
			N(value(s, "thp.stall_count", label)),
			NS(value(s, "thp.stall_time", label)));
		sonde_hist_reset(&h);
		if (!sonde_snapshot_hist_total(s, "thp.stall", label, false, &h))
			fprintf(out, "  p50 %s  p99 %s  max %s",
				NS((double)sonde_hist_quantile(&h, 0.5)),
				NS((double)sonde_hist_quantile(&h, 0.99)), NS((double)h.max));
		fputc('\n', out);
	}
	sonde_hist_fini(&h);
	if (value(s, "thp.alloc_failed", "") > 0)
		fprintf(out, "  no 2 MiB to be had %19s times\n",
			N(value(s, "thp.alloc_failed", "")));
	for (size_t i = 0; (label = label_at(s, "thp.migrated", i)); i++)
		fprintf(out, "  pages moved: %-12s %11s\n", label,
			N(value(s, "thp.migrated", label)));
}

/* What of the system's counters a reader looks for first; all of them are in the recording. */
static void print_system(FILE *out, const struct sonde_snapshot *s)
{
	static const char *const names[] = {
		"thp_fault_alloc", "thp_fault_fallback", "thp_collapse_alloc",
		"thp_split_page",  "thp_split_pmd",	 "thp_deferred_split_page",
		"compact_stall",   "compact_fail",
	};
	const char *sep = "  whole system since attach:";
	double held = value(s, "thp.system_level", "2048kB.nr_anon_partially_mapped");

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(names); i++) {
		double v = value(s, "thp.system", names[i]);

		if (v <= 0)
			continue;
		fprintf(out, "%s %s %s", sep, names[i], N(v));
		sep = ",";
	}
	if (*sep == ',')
		fputc('\n', out);
	if (held > 0)
		fprintf(out, "  whole system now: %s huge pages held of which a part is unmapped\n",
			N(held));
}

/* The lens always tells one of these, even where it is 0 or absent. */
bool sonde_summary_has_thp(const struct sonde_snapshot *s)
{
	return sonde_snapshot_find_metric(s, "thp.scans", "succeed", UINT32_MAX) ||
	       sonde_snapshot_find_metric(s, "thp.purge_calls", "dontneed", UINT32_MAX);
}

void sonde_summary_thp(FILE *out, const struct sonde_snapshot *s)
{
	static const char *const own[] = {"thp.scans", "thp.purge_calls", "thp.stall_count",
					  "thp.migrated"};
	bool happened = false, present;

	if (!sonde_summary_has_thp(s))
		return;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(own); i++)
		happened |= sonde_snapshot_sum(s, own[i], &present) > 0;
	print_khugepaged(out, s);
	if (!happened)
		return;
	print_own(out, s);
	print_stalls(out, s);
	print_system(out, s);
}
