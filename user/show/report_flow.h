/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queries in time: how many were being served, whether that fits Little's law, and the running
 * average of their latency. Made from the traces, of which it keeps two times each.
 */
#ifndef SONDE_SHOW_REPORT_FLOW_H
#define SONDE_SHOW_REPORT_FLOW_H

#include <stdio.h>

#include "core/clock.h"
#include "model/span.h"

/* Where more queries than this were traced, nothing is made of them: 128 MiB. */
#define SONDE_FLOW_MAX (8u << 20)

struct sonde_flow_query {
	uint64_t begin_ns, end_ns; /* arrival (start where that is not known), last byte */
};

struct sonde_query_flow {
	struct sonde_flow_query *q;
	size_t n, cap;
	bool full; /* there were more */
};

/* What the kernel counted in the same time, and how long that was. */
struct sonde_flow_counted {
	uint64_t from_ns, to_ns; /* monotonic */
	double queries, mean_ns;
};

/* Answered queries only; others are ignored. 0 or -ENOMEM. */
int sonde_flow_add(struct sonde_query_flow *f, const struct sonde_span *s);
void sonde_flow_fini(struct sonde_query_flow *f);

/*
 * One line: queries in flight on the average (L, by the traces' begins and ends) and at most,
 * beside arrivals a second times mean latency (lambda W, by the kernel's count of all). They agree
 * where the traces are whole and the system did not fill up or run empty. Sorts @f.
 */
void sonde_flow_print_little(FILE *out, struct sonde_query_flow *f,
			     const struct sonde_flow_counted *all);

/*
 * A table over time: mean of each step, and the exponential mean of half-life @half_life_ns:
 *
 *     A(t) = sum(x_i w_i) / sum(w_i),  w_i = 2 ^ ((e_i - t) / half_life)
 *
 * over all queries i that ended by t (x_i latency, e_i end). Sorts @f.
 */
void sonde_flow_print_running(FILE *out, struct sonde_query_flow *f,
			      const struct sonde_flow_counted *all,
			      const struct sonde_clockpair *clock, uint64_t half_life_ns);

#endif
