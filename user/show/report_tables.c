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

void sonde_query_print_groups(FILE *out, struct sonde_query_table *t, size_t rows)
{
	uint64_t rest = 0, rest_ns = 0;

	if (!t->n_groups)
		return;
	qsort(t->groups, t->n_groups, sizeof(*t->groups), by_total);
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
	if (t->disturbed)
		fprintf(out,
			"  %s queries overlapped an allocation probe: counted, but in no latency\n",
			N(t->disturbed));
	if (t->unended)
		fprintf(out, "  %s queries had no complete answer: counted, but in no latency\n",
			N(t->unended));
	/* The slots named groups by number. */
	free(t->slots);
	t->slots = NULL;
	t->n_slots = 0;
}

static void add(struct sonde_query_parts *to, const struct sonde_query_parts *p)
{
	to->count += p->count;
	to->timed_faults += p->timed_faults;
	to->duration += p->duration;
	to->wait += p->wait;
	to->service += p->service;
	to->send += p->send;
	to->faults += p->faults;
}

/* Whole buckets whose ranks overlap [low, high) of the timed queries. */
static struct sonde_query_parts ranks(const struct sonde_query_table *t, uint64_t low,
				      uint64_t high)
{
	struct sonde_query_parts sum = {0};
	uint64_t seen = 0;

	for (uint32_t i = 0; i < SONDE_HIST_BUCKETS; i++) {
		uint64_t from = seen;

		seen += t->parts[i].count;
		if (t->parts[i].count && seen > low && from < high)
			add(&sum, &t->parts[i]);
	}
	return sum;
}

static void print_difference(FILE *out, const char *what, double slow, double middle)
{
	double d = slow - middle;

	fprintf(out, "  %s %s%s", what, d < 0 ? "-" : "+", NS(d < 0 ? -d : d));
}

/* The parts are disjoint and add up to the difference; fault time lies inside them. */
void sonde_query_print_tail(FILE *out, const struct sonde_query_table *t)
{
	uint64_t n = t->spans - t->disturbed - t->unended;
	struct sonde_query_parts slow, mid;
	double ns, nm;

	if (n < 200 || t->no_wait)
		return;
	slow = ranks(t, n - n / 100, n);
	mid = ranks(t, n * 45 / 100, n * 55 / 100);
	ns = (double)slow.count;
	nm = (double)mid.count;
	fprintf(out, "Slowest 1 %% (%s) against the middle (%s around the median):", N(slow.count),
		N(mid.count));
	print_difference(out, "", slow.duration / ns, mid.duration / nm);
	fputc('\n', out);
	print_difference(out, "  queue wait", slow.wait / ns, mid.wait / nm);
	print_difference(out, "service", slow.service / ns, mid.service / nm);
	print_difference(out, "sending", slow.send / ns, mid.send / nm);
	if (slow.timed_faults == slow.count && mid.timed_faults == mid.count)
		print_difference(out, "(of it page faults", slow.faults / ns, mid.faults / nm);
	fprintf(out, "%s\n",
		slow.timed_faults == slow.count && mid.timed_faults == mid.count ? ")" : "");
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

void sonde_query_print_slowest(FILE *out, struct sonde_query_table *t,
			       const struct sonde_clockpair *clock)
{
	if (!t->n_slow)
		return;
	qsort(t->slow, t->n_slow, sizeof(*t->slow), by_duration);
	fprintf(out, "Slowest queries (arrival in UTC)\n");
	for (size_t i = 0; i < t->n_slow; i++)
		print_slow(out, &t->slow[i].span, clock);
}
