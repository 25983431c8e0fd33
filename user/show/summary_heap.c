// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The summary's section on the heap as the allocator itself counts it: what is live, and where the
 * rest of what it has from the system lies. An estimate and a bound say that they are one.
 */
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "judge/figures.h"
#include "show/summary.h"

#define B(v)  sonde_fmt_bytes((char[32]){0}, 32, (v))
#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (v))
#define N(v)  sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

static const struct {
	const char *name, *label, *title;
} parts[] = {
	{"alloc.free", "pages", "in whole pages"},
	{"alloc.free", "lists", "in lists"},
	{"alloc.free", "transfer", "on the way between threads"},
	{"alloc.free", "threads", "in threads' caches"},
	{"alloc.unmapped", "", "given back to the system"},
};

static double last(const struct sonde_snapshot *s, const char *name, const char *label)
{
	return sonde_figure_last(s, name, label);
}

static const char *why_absent(const struct sonde_snapshot *s)
{
	for (size_t i = 0; i < s->n_metrics; i++)
		if (!strcmp(s->metrics[i].desc->name, "alloc.allocated") && s->metrics[i].absent)
			return s->metrics[i].absent;
	return NULL;
}

static void print_live(FILE *out, const struct sonde_snapshot *s)
{
	double live = last(s, "alloc.allocated", ""), most = last(s, "alloc.at_most", "");
	double age = last(s, "alloc.age", ""), first = sonde_figure_first(s, "alloc.allocated", "");
	double heap = last(s, "alloc.heap", "");
	double change = last(s, "alloc.live", "");
	const char *why = why_absent(s);

	fprintf(out, "Heap, by the allocator's own counters: ");
	if (isnan(live) && isnan(most) && isnan(change)) {
		fprintf(out, "absent: %s\n", why ? SONDE_PLAIN(why) : "no reading");
		return;
	}
	if (isnan(live) && isnan(most))
		fprintf(out, "live %s%s since attach", change < 0 ? "-" : "+", B(fabs(change)));
	else if (isnan(live))
		fprintf(out, "live at most %s", B(most));
	else
		fprintf(out, "live %s", B(live));
	if (age > 0)
		fprintf(out, " (an estimate: free lists walked %s ago)", NS(age));
	if (!isnan(live) && live != first)
		fprintf(out, ", %s%s since attach", live < first ? "-" : "+",
			B(fabs(live - first)));
	if (!isnan(heap))
		fprintf(out, "; of %s from the system", B(heap));
	fputc('\n', out);
	if (isnan(live) && why)
		fprintf(out, "  %s\n", SONDE_PLAIN(why));
}

/* What an allocator that counts by thread says went through it. */
static void print_through(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns)
{
	double in = last(s, "alloc.handed_out", ""), back = last(s, "alloc.given_back", "");
	double lost = last(s, "alloc.ends_lost", ""), n = last(s, "alloc.threads", "");
	double secs = (double)observed_ns / (double)SONDE_NS_PER_SEC;
	double late = last(s, "alloc.counted_from", "");
	bool began = sonde_meta_find(&s->meta, "target.0.start_mono_ns") != NULL;

	late = isnan(late) ? 0 : late;
	if (isnan(in) || isnan(back))
		return;
	fprintf(out, "  handed out %s, given back %s ", B(in), B(back));
	if (late > 0)
		fprintf(out, "(counted from +%s: what was before is not in it)", NS(late));
	else
		fprintf(out, "since %s", began ? "it began" : "attach");
	secs -= late / (double)SONDE_NS_PER_SEC;
	if (secs > 0)
		fprintf(out, " (%s/s)", B(in / secs));
	if (!isnan(n))
		fprintf(out, ", by %s thread%s", N(n), n == 1 ? "" : "s");
	if (lost > 0)
		fprintf(out, "; %s threads ended unread: some of theirs is missing", N(lost));
	fputc('\n', out);
}

static void print_free(FILE *out, const struct sonde_snapshot *s)
{
	const char *sep = "  free: ";

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(parts); i++) {
		double v = last(s, parts[i].name, parts[i].label);

		if (isnan(v) || v <= 0)
			continue;
		fprintf(out, "%s%s %s", sep, B(v), parts[i].title);
		sep = ", ";
	}
	if (*sep == ',')
		fputc('\n', out);
}

static void print_reading(FILE *out, const struct sonde_snapshot *s)
{
	double took = last(s, "alloc.read_time", ""), lists = last(s, "alloc.read_time", "lists");
	double bad = last(s, "alloc.not_clean", "");

	if (isnan(took))
		return;
	fprintf(out, "  a reading took %s", NS(took));
	if (!isnan(lists))
		fprintf(out, ", the last walk of the free lists %s", NS(lists));
	if (bad > 0)
		fprintf(out, "; %s failed a check: the heap was changing meanwhile, or is damaged",
			N(bad));
	fputc('\n', out);
}

void sonde_summary_heap(FILE *out, const struct sonde_snapshot *s, uint64_t observed_ns)
{
	if (isnan(last(s, "alloc.heap", "")) && isnan(last(s, "alloc.threads", "")) &&
	    !why_absent(s))
		return;
	print_live(out, s);
	print_through(out, s, observed_ns);
	print_free(out, s);
	print_reading(out, s);
}
