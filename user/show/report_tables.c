// SPDX-License-Identifier: GPL-2.0-or-later
/* Prints what report_queries.c gathered. Texts of the target are cut to a line and made harmless.
 */
#include <inttypes.h>
#include <strings.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "show/report_queries.h"

#define B(v)  sonde_fmt_bytes((char[32]){0}, 32, (double)(v))
#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (double)(v))
#define N(v)  sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

#define TEXT_COLUMNS 100 /* bytes of a request shown on a line */

/* One line, valid UTF-8, cut at a character with "...". */
static void print_text(FILE *out, const char *s)
{
	sonde_autostr struct sonde_str clean = {0};
	size_t n;

	if (sonde_str_add_utf8(&clean, s, strlen(s)) || !clean.len)
		return;
	for (size_t i = 0; i < clean.len; i++)
		if (clean.s[i] == '\n' || clean.s[i] == '\t')
			clean.s[i] = ' ';
	n = clean.len;
	if (n > TEXT_COLUMNS)
		for (n = TEXT_COLUMNS; n && (clean.s[n] & 0xc0) == 0x80; n--)
			;
	fprintf(out, "%.*s%s", (int)n, clean.s, n < clean.len ? "..." : "");
}

/* The command, unless the form of the request names it itself ("search docs match(?)"). */
static void print_what(FILE *out, const char *command, const char *text)
{
	size_t n = strlen(command);

	if (!n || strncasecmp(text, command, n) || (text[n] && text[n] != ' '))
		fprintf(out, "%s  ", n ? command : "?");
	print_text(out, text);
}

static int by_total(const void *a, const void *b)
{
	const struct sonde_query_group *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return x->count < y->count   ? 1
	       : x->count > y->count ? -1
				     : strcmp(x->fingerprint, y->fingerprint);
}

static void print_group(FILE *out, const struct sonde_query_table *t,
			const struct sonde_query_group *g)
{
	uint64_t timed = g->count - g->disturbed;

	fprintf(out, "  %9s", N(g->count));
	if (g->hist.count)
		fprintf(out, " %9s %9s", NS(sonde_hist_mean(&g->hist)),
			NS(sonde_hist_quantile(&g->hist, 0.95)));
	else if (timed && g->total_ns)
		fprintf(out, " %9s %9s", NS(g->total_ns / timed), "-");
	else
		fprintf(out, " %9s %9s", "-", "-");
	fprintf(out, " %9s %9s %5.1f %%  ", g->total_ns ? NS(g->worst_ns) : "-", NS(g->total_ns),
		t->total_ns ? 100.0 * (double)g->total_ns / (double)t->total_ns : 0);
	if (t->heap_spans)
		fprintf(out, "%10s  ", g->heap_spans ? B(g->heap_allocated / g->heap_spans) : "-");
	print_what(out, g->command, g->fingerprint);
	if (g->errors)
		fprintf(out, "  (%s failed)", N(g->errors));
	fputc('\n', out);
}

static void print_excluded(FILE *out, const struct sonde_query_table *t)
{
	if (t->disturbed)
		fprintf(out,
			"  %s queries overlapped an allocation probe: counted, but in no latency\n",
			N(t->disturbed));
	if (t->unended)
		fprintf(out, "  %s queries had no complete answer: counted, but in no latency\n",
			N(t->unended));
}

/* By total time, and the slots that named groups by number are gone. */
static void sort_groups(struct sonde_query_table *t)
{
	qsort(t->groups, t->n_groups, sizeof(*t->groups), by_total);
	free(t->slots);
	t->slots = NULL;
	t->n_slots = 0;
}

void sonde_query_print_groups(FILE *out, struct sonde_query_table *t, size_t rows)
{
	uint64_t rest = 0, rest_ns = 0;

	if (!t->n_groups)
		return;
	sort_groups(t);
	fprintf(out, "  %9s %9s %9s %9s %9s %7s  %s%s\n", "queries", "mean", "p95", "worst",
		"total", "share", t->heap_spans ? " allocated  " : "", "what (literals replaced)");
	for (size_t i = 0; i < t->n_groups; i++) {
		if (i < rows) {
			print_group(out, t, &t->groups[i]);
			continue;
		}
		rest += t->groups[i].count;
		rest_ns += t->groups[i].total_ns;
	}
	if (t->n_groups > rows)
		fprintf(out, "  %9s in %s more kinds: %s, %.1f %% of the time\n", N(rest),
			N(t->n_groups - rows), NS(rest_ns),
			t->total_ns ? 100.0 * (double)rest_ns / (double)t->total_ns : 0);
	print_excluded(out, t);
}

void sonde_hist_print_columns(FILE *out, const struct sonde_hist *h)
{
	static const double qs[] = {0.5, 0.95, 0.99, 0.999};

	fprintf(out, "%9s", NS(sonde_hist_mean(h)));
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(qs); i++)
		fprintf(out, " %9s", NS(sonde_hist_quantile(h, qs[i])));
}

static void print_by(FILE *out, const struct sonde_query_table *t,
		     const struct sonde_query_group *g, const struct sonde_clockpair *clock)
{
	char when[40];

	fprintf(out, "%10s ", N(g->count));
	if (g->hist.count)
		sonde_hist_print_columns(out, &g->hist);
	else
		fprintf(out, "%9s %9s %9s %9s %9s", g->total_ns ? "not kept" : "-", "-", "-", "-",
			"-");
	fprintf(out, " %9s", g->total_ns ? NS(g->worst_ns) : "-");
	sonde_fmt_rfc3339(when, sizeof(when), sonde_clockpair_real(clock, g->worst_begin_ns));
	fprintf(out, " %9s %5.1f %%  %.12s  ", NS(g->total_ns),
		t->total_ns ? 100.0 * (double)g->total_ns / (double)t->total_ns : 0,
		g->total_ns ? when + 11 : "-           ");
	if (t->by == SONDE_QUERY_BY_FORM)
		print_what(out, g->command, g->fingerprint);
	else
		print_text(out, g->fingerprint);
	if (g->errors)
		fprintf(out, "  (%s failed)", N(g->errors));
	fputc('\n', out);
}

void sonde_query_print_by(FILE *out, struct sonde_query_table *t, size_t rows,
			  const struct sonde_clockpair *clock)
{
	size_t shown = t->n_groups < rows ? t->n_groups : rows;

	sort_groups(t);
	fprintf(out, "%10s " SONDE_HIST_HEAD " %9s %9s %7s  %-12s  %s\n", "queries", "max", "total",
		"share", "worst (UTC)", sonde_query_key_name(t->by));
	for (size_t i = 0; i < shown; i++)
		print_by(out, t, &t->groups[i], clock);
	if (shown < t->n_groups)
		fprintf(out, "  %s more: --rows %zu shows them\n", N(t->n_groups - shown),
			t->n_groups);
	print_excluded(out, t);
}

static int by_duration(const void *a, const void *b)
{
	uint64_t x = sonde_span_duration_ns(&((const struct sonde_query_kept *)a)->span);
	uint64_t y = sonde_span_duration_ns(&((const struct sonde_query_kept *)b)->span);

	return x < y ? 1 : x > y ? -1 : 0;
}

static void print_slow(FILE *out, const struct sonde_span *s, const struct sonde_clockpair *clock)
{
	char when[40];

	sonde_fmt_rfc3339(when, sizeof(when),
			  sonde_clockpair_real(clock, s->arrival_ns ? s->arrival_ns : s->start_ns));
	fprintf(out, "  %9s  %.12s  ", NS(sonde_span_duration_ns(s)), when + 11);
	if (s->flags & SONDE_SPAN_F_NO_WAIT || !s->arrival_ns)
		fprintf(out, "wait not known, ");
	else
		fprintf(out, "wait %s, ", NS(sonde_span_wait_ns(s)));
	fprintf(out, "service %s", NS(sonde_span_service_ns(s)));
	if (sonde_span_send_ns(s))
		fprintf(out, ", sending %s", NS(sonde_span_send_ns(s)));
	if (s->has_faults && s->faults)
		fprintf(out, ", %s fault%s %s", N(s->faults), s->faults == 1 ? "" : "s",
			NS(s->fault_ns));
	if (s->has_alloc && s->alloc_calls)
		fprintf(out, ", %s requested in %s calls", B(s->alloc_bytes), N(s->alloc_calls));
	if (s->has_heap)
		fprintf(out, ", %s allocated, %s freed", B(s->heap_allocated), B(s->heap_freed));
	fprintf(out, ", %s out", B(s->bytes_out));
	if (s->status != SONDE_SPAN_OK)
		fprintf(out, ", %s", sonde_span_status_name(s->status));
	if (s->status == SONDE_SPAN_ERROR)
		fprintf(out, " %u", s->error);
	fprintf(out, ", %s\n             ", *s->client ? s->client : "client not known");
	print_what(out, s->command, *s->text ? s->text : s->fingerprint);
	fputc('\n', out);
}

/* The larger parts, most first: what is left is less than each of them. */
#define PARTS_SHOWN 5

static void print_anatomy(FILE *out, const struct sonde_span *s)
{
	uint64_t left = sonde_span_duration_ns(s), total = left, most;
	bool shown[SONDE_PART__MAX] = {0};
	int best;

	if (!s->has_parts || !total)
		return;
	fputs("             ", out);
	for (int n = 0; n < PARTS_SHOWN; n++) {
		best = -1;
		most = total / 100;
		for (int i = 0; i < SONDE_PART__MAX; i++) {
			if (shown[i] || s->part_ns[i] <= most)
				continue;
			most = s->part_ns[i];
			best = i;
		}
		if (best < 0)
			break;
		shown[best] = true;
		left -= most < left ? most : left;
		fprintf(out, "%s%s %s", n ? ", " : "", sonde_part_name((unsigned)best), NS(most));
	}
	fprintf(out, ", rest %s\n", NS(left));
}

void sonde_query_print_slowest(FILE *out, struct sonde_query_table *t,
			       const struct sonde_clockpair *clock)
{
	if (!t->n_slow)
		return;
	qsort(t->slow, t->n_slow, sizeof(*t->slow), by_duration);
	fprintf(out, "Slowest queries (arrival in UTC)\n");
	for (size_t i = 0; i < t->n_slow; i++) {
		print_slow(out, &t->slow[i].span, clock);
		print_anatomy(out, &t->slow[i].span);
	}
}
