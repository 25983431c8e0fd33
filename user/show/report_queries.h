/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The report's view of single queries: grouped by what was asked, the slowest in full, and what
 * sets the slowest apart. It knows only the spans that a recording stored; how many those are of
 * all that were seen is said beside every table.
 */
#ifndef SONDE_SHOW_REPORT_QUERIES_H
#define SONDE_SHOW_REPORT_QUERIES_H

#include <stdio.h>

#include "core/clock.h"
#include "model/hist.h"
#include "model/span.h"

/* What queries are put together by. */
enum sonde_query_key {
	SONDE_QUERY_BY_FORM, /* command and fingerprint */
	SONDE_QUERY_BY_COMMAND,
	SONDE_QUERY_BY_INDEX,
	SONDE_QUERY_BY_CONNECTION,
	SONDE_QUERY_BY_CLIENT, /* its address, without the port */
	SONDE_QUERY_BY_THREAD,
	SONDE_QUERY_BY_STATUS,
	SONDE_QUERY_BY__MAX
};
/* "fingerprint", "command", ...; "?" for an unknown one. */
const char *sonde_query_key_name(enum sonde_query_key by);

/* Queries of one key. hist is only filled for the first groups seen. */
struct sonde_query_group {
	uint64_t hash;
	char *command, *fingerprint; /* the latter is the key's text where it is another key */
	uint64_t worst_begin_ns;     /* when the longest arrived */
	uint64_t count, errors, disturbed;
	uint64_t total_ns, worst_ns;
	uint64_t heap_spans, heap_allocated; /* of those whose bytes are known */
	struct sonde_hist hist;		     /* buckets NULL: not kept */
};

/* A query kept in full. */
struct sonde_query_kept {
	struct sonde_span span;
	char *strings[5];
};

/* Sums over the queries whose duration lies in one bucket. */
struct sonde_query_parts {
	uint64_t count, timed_faults, divided; /* divided: those whose anatomy is known */
	double duration, wait, service, send, faults;
	double part[SONDE_PART__MAX], divided_ns; /* of those */
	double heap, heap_spans, bytes_out;
};

struct sonde_query_table {
	enum sonde_query_key by;
	struct sonde_query_group *groups;
	size_t n_groups, cap_groups;
	uint32_t *slots; /* hash table of group number + 1 */
	size_t n_slots;
	struct sonde_query_kept *slow; /* heap, shortest on top */
	size_t n_slow, max_slow;
	struct sonde_query_parts *parts; /* SONDE_HIST_BUCKETS */
	uint64_t spans, errors, disturbed, unended, no_wait, heap_spans;
	uint64_t total_ns;
};

/* 0 or -ENOMEM. */
int sonde_query_table_init(struct sonde_query_table *t, size_t slowest, enum sonde_query_key by);
void sonde_query_table_fini(struct sonde_query_table *t);
int sonde_query_table_add(struct sonde_query_table *t, const struct sonde_span *s);

void sonde_query_print_groups(FILE *out, struct sonde_query_table *t, size_t rows);
/* Mean and percentiles of @h in ns, in columns under SONDE_HIST_HEAD. */
#define SONDE_HIST_HEAD "     mean       p50       p95       p99     p99.9"
void sonde_hist_print_columns(FILE *out, const struct sonde_hist *h);

/* All percentiles of each group, and when its worst was. */
void sonde_query_print_by(FILE *out, struct sonde_query_table *t, size_t rows,
			  const struct sonde_clockpair *clock);
/* The slowest @share (0.01: 1 %) against the middle; @full: each part in a line of its own. */
void sonde_query_print_tail(FILE *out, const struct sonde_query_table *t, double share, bool full);
void sonde_query_print_slowest(FILE *out, struct sonde_query_table *t,
			       const struct sonde_clockpair *clock);

#endif
