// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The summary's section on allocation as windows saw it: ratios with their intervals, and what the
 * windows took. What windows cannot tell is said to be absent, with the reason.
 */
#include <math.h>
#include <string.h>

#include "core/num.h"
#include "core/str.h"
#include "judge/figures.h"
#include "show/summary.h"

#define B(v)  sonde_fmt_bytes((char[32]){0}, 32, (v))
#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (v))
#define N(v)  sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

static const char *figure(char *buf, size_t size, double v, bool bytes)
{
	if (bytes)
		return sonde_fmt_bytes(buf, size, v);
	if (v >= 1000)
		return sonde_fmt_count(buf, size, (uint64_t)(v + 0.5));
	snprintf(buf, size, "%.4g", v);
	return buf;
}

static const char *why_absent(const struct sonde_snapshot *s, const char *name)
{
	for (size_t i = 0; i < s->n_metrics; i++)
		if (!strcmp(s->metrics[i].desc->name, name) && s->metrics[i].absent)
			return s->metrics[i].absent;
	return "no reading";
}

/* "  TEXT  VALUE (95 %: LOW to HIGH)", or why not. */
static void print_ratio(FILE *out, const struct sonde_snapshot *s, const char *name,
			const char *text, bool bytes)
{
	double v = sonde_figure_last(s, name, ""), low = sonde_figure_last(s, name, "low");
	double high = sonde_figure_last(s, name, "high");
	char a[32], b[32], c[32];

	fprintf(out, "  %-22s ", text);
	if (isnan(v)) {
		fprintf(out, "absent: %s\n", SONDE_PLAIN(why_absent(s, name)));
		return;
	}
	fputs(figure(a, sizeof(a), v, bytes), out);
	if (isnan(low) || isnan(high))
		fputs(" (no interval: fewer than 8 windows)\n", out);
	else
		fprintf(out, " (95 %%: %s to %s)\n", figure(b, sizeof(b), low, bytes),
			figure(c, sizeof(c), high, bytes));
}

static void print_shares(FILE *out, const struct sonde_snapshot *s)
{
	const char *between = "  calls by function      ";

	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];

		if (strcmp(m->desc->name, "alloc.share") || !m->present)
			continue;
		fprintf(out, "%s%s %.1f %%", between, SONDE_PLAIN(m->label), m->last * 100);
		between = ", ";
	}
	if (between[0] == ',')
		fputc('\n', out);
}

void sonde_summary_windows(FILE *out, const struct sonde_snapshot *s)
{
	double n = sonde_figure_last(s, "alloc.windows", "");
	double cut = sonde_figure_last(s, "alloc.windows", "cut");
	double disturbed = sonde_figure_last(s, "alloc.disturbed_ratio", "");
	double traps = sonde_figure_last(s, "alloc.trap_ratio", "");
	double slower = sonde_figure_last(s, "alloc.slowdown", "");

	if (isnan(n))
		return;
	fprintf(out, "Allocation, in windows: %s", N(n));
	if (cut > 0)
		fprintf(out, " (%s cut short)", N(cut));
	if (!isnan(disturbed))
		fprintf(out, ", %.2f %% of the time disturbed", disturbed * 100);
	if (!isnan(traps))
		fprintf(out, ", traps %.2f %% of the target's CPU", traps * 100);
	if (n > 0 && slower > 1)
		fprintf(out, "; in a window it is %.1f x slower", slower);
	fputc('\n', out);
	print_ratio(out, s, "alloc.calls_per_query", "calls a query", false);
	print_ratio(out, s, "alloc.bytes_per_query", "bytes a query", true);
	print_ratio(out, s, "alloc.rate", "calls a second", false);
	if (n > 0)
		print_ratio(out, s, "alloc.mean_size", "bytes a call", true);
	print_shares(out, s);
}
