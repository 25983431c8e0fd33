// SPDX-License-Identifier: GPL-2.0-or-later
/* See report_flow.h. Everything is one walk over times in order. */
#include <errno.h>
#include <math.h>

#include "core/mem.h"
#include "core/num.h"
#include "show/report_flow.h"

#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (double)(v))
#define N(v)  sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

#define ROWS 24 /* of the table over time, at most */

int sonde_flow_add(struct sonde_query_flow *f, const struct sonde_span *s)
{
	if (!s->last_ns || s->status >= SONDE_SPAN_NO_REPLY || s->flags & SONDE_SPAN_F_DISTURBED)
		return 0;
	if (f->n >= SONDE_FLOW_MAX) {
		f->full = true;
		return 0;
	}
	if (SONDE_GROW(f->q, f->n, f->cap))
		return -ENOMEM;
	f->q[f->n++] =
		(struct sonde_flow_query){s->arrival_ns ? s->arrival_ns : s->start_ns, s->last_ns};
	return 0;
}

void sonde_flow_fini(struct sonde_query_flow *f)
{
	free(f->q);
	*f = (struct sonde_query_flow){0};
}

static int by_begin(const void *a, const void *b)
{
	uint64_t x = ((const struct sonde_flow_query *)a)->begin_ns;
	uint64_t y = ((const struct sonde_flow_query *)b)->begin_ns;

	return x < y ? -1 : x > y;
}

static int by_end(const void *a, const void *b)
{
	uint64_t x = ((const struct sonde_flow_query *)a)->end_ns;
	uint64_t y = ((const struct sonde_flow_query *)b)->end_ns;

	return x < y ? -1 : x > y;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* What of [begin, end) lies in [from, to). */
static double overlap(const struct sonde_flow_query *q, uint64_t from, uint64_t to)
{
	uint64_t a = q->begin_ns > from ? q->begin_ns : from;
	uint64_t b = q->end_ns < to ? q->end_ns : to;

	return b > a ? (double)(b - a) : 0;
}

/* At most, at one moment: an end and a begin at the same ns are not two at once. 0 without memory.
 */
static uint64_t most_at_once(struct sonde_query_flow *f)
{
	uint64_t *ends = calloc(f->n ? f->n : 1, sizeof(*ends)), most = 0;
	size_t ended = 0;

	if (!ends)
		return 0;
	qsort(f->q, f->n, sizeof(*f->q), by_begin);
	for (size_t i = 0; i < f->n; i++)
		ends[i] = f->q[i].end_ns;
	qsort(ends, f->n, sizeof(*ends), by_time);
	for (size_t i = 0; i < f->n; i++) {
		while (ended < f->n && ends[ended] <= f->q[i].begin_ns)
			ended++;
		if (i + 1 > ended + most)
			most = i + 1 - ended;
	}
	free(ends);
	return most;
}

void sonde_flow_print_little(FILE *out, struct sonde_query_flow *f,
			     const struct sonde_flow_counted *all)
{
	double seconds = (double)(all->to_ns - all->from_ns) / 1e9, l = 0, expected;

	if (!f->n || f->full || seconds <= 0 || all->queries < 1)
		return;
	for (size_t i = 0; i < f->n; i++)
		l += overlap(&f->q[i], all->from_ns, all->to_ns);
	l /= seconds * 1e9;
	expected = all->queries / seconds * all->mean_ns / 1e9;
	fprintf(out, "In flight %.3g on average, %s at most; Little's law: %.0f/s x %s = %.3g", l,
		N(most_at_once(f)), all->queries / seconds, NS(all->mean_ns), expected);
	if (expected > 0)
		fprintf(out, ", %.1f %% apart", 100 * fabs(l / expected - 1));
	fputc('\n', out);
}

/* A step of a round length that makes at most ROWS of them. */
static uint64_t step_of(uint64_t ns)
{
	static const uint64_t seconds[] = {1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 21600, 86400};
	size_t i = 0;

	while (i + 1 < SONDE_ARRAY_SIZE(seconds) && ns / (seconds[i] * 1000000000ull) >= ROWS)
		i++;
	return seconds[i] * 1000000000ull;
}

struct running {
	double sum, weight, half_life_ns;
	uint64_t at_ns;
};

static void decay(struct running *r, uint64_t to_ns)
{
	double by = exp2(-(double)(to_ns - r->at_ns) / r->half_life_ns);

	r->sum *= by;
	r->weight *= by;
	r->at_ns = to_ns;
}

struct step {
	uint64_t from_ns, to_ns, n;
	double sum_ns;
};

static void print_step(FILE *out, const struct step *s, const struct running *r,
		       const struct sonde_clockpair *clock)
{
	char when[40];

	sonde_fmt_rfc3339(when, sizeof(when), sonde_clockpair_real(clock, s->to_ns));
	fprintf(out, "  %.8s %9s %10s %10s\n", when + 11, N(s->n),
		s->n ? NS(s->sum_ns / (double)s->n) : "-",
		r->weight > 0 ? NS(r->sum / r->weight) : "-");
}

/* The first end of a step after @from_ns: whole steps of UTC, so that hosts align. */
static uint64_t first_step(const struct sonde_clockpair *clock, uint64_t from_ns, uint64_t step)
{
	uint64_t utc = sonde_clockpair_real(clock, from_ns);

	return from_ns + step - utc % step;
}

void sonde_flow_print_running(FILE *out, struct sonde_query_flow *f,
			      const struct sonde_flow_counted *all,
			      const struct sonde_clockpair *clock, uint64_t half_life_ns)
{
	uint64_t step = step_of(all->to_ns - all->from_ns);
	struct running r = {.half_life_ns = (double)half_life_ns, .at_ns = all->from_ns};
	struct step s = {all->from_ns, first_step(clock, all->from_ns, step), 0, 0};
	size_t i = 0;

	qsort(f->q, f->n, sizeof(*f->q), by_end);
	fprintf(out, "Running average of latency, half-life %s%s\n", NS(half_life_ns),
		f->full ? "; of the first 8,388,608 queries only" : "");
	fprintf(out, "  %-8s %9s %10s %10s\n", "to (UTC)", "queries", "mean", "running");
	for (; s.from_ns < all->to_ns; s = (struct step){s.to_ns, s.to_ns + step, 0, 0}) {
		if (s.to_ns > all->to_ns)
			s.to_ns = all->to_ns;
		for (; i < f->n && f->q[i].end_ns <= s.to_ns; i++) {
			double ns = (double)(f->q[i].end_ns - f->q[i].begin_ns);

			if (f->q[i].end_ns > r.at_ns)
				decay(&r, f->q[i].end_ns);
			r.sum += ns;
			r.weight++;
			s.sum_ns += ns;
			s.n++;
		}
		decay(&r, s.to_ns);
		print_step(out, &s, &r, clock);
	}
}
