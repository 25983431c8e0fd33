// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What sets the slowest queries apart from those around the median, part by part. The parts of a
 * query are disjoint and add up to its time, so their differences add up to the difference: nothing
 * is explained twice, and what no part explains is a part of its own. Where a query's parts are not
 * known it is left out here, and how many are is said.
 */
#include "core/mem.h"
#include "core/num.h"
#include "show/report_queries.h"

#define B(v)  sonde_fmt_bytes((char[32]){0}, 32, (double)(v))
#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (double)(v))
#define N(v)  sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

#define MIDDLE_FROM 0.45
#define MIDDLE_TO   0.55
#define LEAST	    200	 /* queries, below which the slowest 1 % are a handful */
#define WORTH	    0.01 /* of the difference: what is less is in the rest */

static void add(struct sonde_query_parts *to, const struct sonde_query_parts *p)
{
	to->count += p->count;
	to->timed_faults += p->timed_faults;
	to->divided += p->divided;
	to->duration += p->duration;
	to->wait += p->wait;
	to->service += p->service;
	to->send += p->send;
	to->faults += p->faults;
	to->divided_ns += p->divided_ns;
	to->heap += p->heap;
	to->heap_spans += p->heap_spans;
	to->bytes_out += p->bytes_out;
	for (int i = 0; i < SONDE_PART__MAX; i++)
		to->part[i] += p->part[i];
}

/* Whole buckets whose ranks overlap [low, high) of the timed queries; *from: their least value. */
static struct sonde_query_parts ranks(const struct sonde_query_table *t, uint64_t low,
				      uint64_t high, uint64_t *from)
{
	struct sonde_query_parts sum = {0};
	uint64_t seen = 0;

	for (uint32_t i = 0; i < SONDE_HIST_BUCKETS; i++) {
		uint64_t before = seen;

		seen += t->parts[i].count;
		if (!t->parts[i].count || seen <= low || before >= high)
			continue;
		if (!sum.count)
			*from = sonde_hist_low(i);
		add(&sum, &t->parts[i]);
	}
	return sum;
}

static const char *fmt_signed(char *buf, size_t size, double ns)
{
	buf[0] = ns < 0 ? '-' : '+';
	sonde_fmt_ns(buf + 1, size - 1, ns < 0 ? -ns : ns);
	return buf;
}

#define SIGNED(v) fmt_signed((char[40]){0}, 40, (double)(v))

static void print_difference(FILE *out, const char *what, double slow, double middle)
{
	fprintf(out, "  %s %s", what, SIGNED(slow - middle));
}

/* Phases only: no anatomy was recorded. Fault time lies inside them. */
static void print_phases(FILE *out, const struct sonde_query_parts *slow,
			 const struct sonde_query_parts *mid)
{
	double ns = (double)slow->count, nm = (double)mid->count;
	bool faults = slow->timed_faults == slow->count && mid->timed_faults == mid->count;

	print_difference(out, "  queue wait", slow->wait / ns, mid->wait / nm);
	print_difference(out, "service", slow->service / ns, mid->service / nm);
	print_difference(out, "sending", slow->send / ns, mid->send / nm);
	if (faults)
		print_difference(out, "(of it page faults", slow->faults / ns, mid->faults / nm);
	fprintf(out, "%s\n", faults ? ")" : "");
}

struct row {
	unsigned part;
	double slow, mid, more; /* ns a query */
};

static int by_more(const void *a, const void *b)
{
	double x = ((const struct row *)a)->more, y = ((const struct row *)b)->more;

	return x < y ? 1 : x > y ? -1 : 0;
}

static void fill_rows(struct row *rows, const struct sonde_query_parts *slow,
		      const struct sonde_query_parts *mid)
{
	for (unsigned i = 0; i < SONDE_PART__MAX; i++) {
		rows[i].part = i;
		rows[i].slow = slow->part[i] / (double)slow->divided;
		rows[i].mid = mid->part[i] / (double)mid->divided;
		rows[i].more = rows[i].slow - rows[i].mid;
	}
	qsort(rows, SONDE_PART__MAX, sizeof(*rows), by_more);
}

/* One line: what is worth naming, most first. */
static void print_short(FILE *out, const struct row *rows, double difference)
{
	double rest = difference;

	fputc(' ', out);
	for (unsigned i = 0; i < SONDE_PART__MAX; i++) {
		if (rows[i].more < 5 * WORTH * difference && -rows[i].more < 5 * WORTH * difference)
			continue;
		print_difference(out, sonde_part_name(rows[i].part), rows[i].slow, rows[i].mid);
		rest -= rows[i].more;
	}
	fprintf(out, "  rest %s\n", SIGNED(rest));
}

static void print_row(FILE *out, const char *name, const char *help, double slow, double mid,
		      double difference)
{
	double more = slow - mid;

	fprintf(out, "  %-15s %10s %10s ", name, NS(slow), NS(mid));
	fprintf(out, "%11s %6.1f %%  %s\n", SIGNED(more), 100 * more / difference, help);
}

static void print_rows(FILE *out, const struct row *rows, double difference)
{
	double slow = 0, mid = 0;
	unsigned small = 0;

	fprintf(out, "  %-15s %10s %10s %11s %8s\n", "part, a query", "slowest", "middle", "more",
		"share");
	for (unsigned i = 0; i < SONDE_PART__MAX; i++) {
		if (rows[i].more < WORTH * difference && -rows[i].more < WORTH * difference) {
			slow += rows[i].slow;
			mid += rows[i].mid;
			small++;
			continue;
		}
		print_row(out, sonde_part_name(rows[i].part), sonde_part_help(rows[i].part),
			  rows[i].slow, rows[i].mid, difference);
	}
	if (small)
		print_row(out, "rest", "parts that differ by less than 1 % of it", slow, mid,
			  difference);
}

static void print_attributes(FILE *out, const struct sonde_query_parts *slow,
			     const struct sonde_query_parts *mid)
{
	if (slow->heap_spans && mid->heap_spans)
		fprintf(out, "  allocated %s a query against %s\n",
			B(slow->heap / slow->heap_spans), B(mid->heap / mid->heap_spans));
	fprintf(out, "  answers of %s against %s\n", B(slow->bytes_out / (double)slow->count),
		B(mid->bytes_out / (double)mid->count));
}

static void print_parts(FILE *out, const struct sonde_query_parts *slow,
			const struct sonde_query_parts *mid, bool full)
{
	double difference =
		slow->divided_ns / (double)slow->divided - mid->divided_ns / (double)mid->divided;
	struct row rows[SONDE_PART__MAX];

	if (difference <= 0) {
		fputs("  no part sets them apart: they are not slower than the middle, within the "
		      "histogram's 0.8 %\n",
		      out);
		return;
	}
	fill_rows(rows, slow, mid);
	if (!full)
		print_short(out, rows, difference);
	else
		print_rows(out, rows, difference);
	if (slow->divided < slow->count || mid->divided < mid->count)
		fprintf(out,
			"  the parts are those of %s and %s queries; of the others they are not "
			"known\n",
			N(slow->divided), N(mid->divided));
	if (full)
		print_attributes(out, slow, mid);
}

void sonde_query_print_tail(FILE *out, const struct sonde_query_table *t, double share, bool full)
{
	uint64_t n = t->spans - t->disturbed - t->unended, slow_from = 0, mid_from;
	uint64_t n_slow = (uint64_t)((double)n * share);
	struct sonde_query_parts slow, mid;

	if (n < LEAST || !n_slow) {
		if (full)
			fprintf(out,
				"The slowest %.3g %% of %s queries are too few to compare: record "
				"longer\n",
				100 * share, N(n));
		return;
	}
	slow = ranks(t, n - n_slow, n, &slow_from);
	mid = ranks(t, (uint64_t)((double)n * MIDDLE_FROM), (uint64_t)((double)n * MIDDLE_TO),
		    &mid_from);
	fprintf(out,
		"Slowest %.3g %% (%s, from %s on) against the middle (%s around the median): %s\n",
		100 * share, N(slow.count), NS(slow_from), N(mid.count),
		SIGNED(slow.duration / (double)slow.count - mid.duration / (double)mid.count));
	if (slow.divided && mid.divided)
		print_parts(out, &slow, &mid, full);
	else if (!t->no_wait)
		print_phases(out, &slow, &mid);
	else
		fputs("  what they waited for is not known: neither anatomy nor arrival was "
		      "recorded\n",
		      out);
}
