/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The inside of the reader, shared by reader*.c. Everything that comes from the file is checked. */
#ifndef SONDE_RECORD_READER_IMPL_H
#define SONDE_RECORD_READER_IMPL_H

#include <sqlite3.h>

#include "record/reader.h"

struct sonde_reader_name {
	int64_t id;
	char *name;
};

/* A series owns the descriptor that its values are given with. */
struct sonde_reader_series {
	int64_t id;
	int kind; /* enum sonde_series_kind */
	uint32_t target;
	double base; /* of a counter: what to take off; 0 unless rebased */
	char *name, *label, *unit, *help;
	struct sonde_metric_desc metric;
	struct sonde_hist_desc hist;
};

struct sonde_reader {
	char *path;
	sqlite3 *db;
	struct sonde_meta meta;
	struct sonde_clockpair clock;
	bool complete;
	uint64_t start_ns, end_ns;
	uint64_t active_ns;		 /* UTC; when the first interval began, 0: not known */
	struct sonde_reader_name *names; /* sorted by id, as is series */
	size_t n_names, cap_names;
	struct sonde_reader_series *series;
	size_t n_series, cap_series;
};

/* Log that the file is damaged (or what else @code says) and return -errno. */
int sonde_reader_fail(const struct sonde_reader *r, int code);
/* Read meta, names and series as of the transaction that is open. 0 or -errno (logged). */
int sonde_reader_load(struct sonde_reader *r);
/* NULL if there is none. */
const char *sonde_reader_name(const struct sonde_reader *r, int64_t id);
const struct sonde_reader_series *sonde_reader_find_series(const struct sonde_reader *r,
							   int64_t id);
/* The ticks around @t: the last before it (or where the recording began) and the first at it or
 * later, each INT64_MAX if there is none. 0 or -errno (logged). */
int sonde_reader_ticks(const struct sonde_reader *r, int64_t t, int64_t *low, int64_t *high);

/* A replay under way. */
struct sonde_replay {
	struct sonde_reader *r;
	const struct sonde_visitor *to;
	int64_t since, until; /* UTC; INT64_MAX: no end */
	/* What is counted over intervals: an interval that ends at after or begins at before is
	 * outside. Rebased, since and before are ticks themselves. */
	int64_t after, before;
	int64_t slowest; /* -1: all                 */
	bool rebase;
	const struct sonde_reader_filter *filter; /* or NULL */
	sqlite3_stmt *buckets, *frames;
	struct sonde_hist hist;
};

uint64_t sonde_replay_mono(const struct sonde_replay *v, int64_t utc);
/* 0 (NULL) is no name, ""; an id without its row is a name that was lost, "?". */
const char *sonde_replay_name(const struct sonde_replay *v, sqlite3_stmt *st, int col);
/* Columns @from to @to hold numbers of things: none below 0. 0 or -EBADMSG (logged). */
int sonde_replay_check_counts(const struct sonde_replay *v, sqlite3_stmt *st, int from, int to);
/* A row of their cursors, see reader_visit.c. 0 or -errno. */
int sonde_replay_stack(struct sonde_replay *v, sqlite3_stmt *st);
int sonde_replay_stack_count(struct sonde_replay *v, sqlite3_stmt *st);

#endif
