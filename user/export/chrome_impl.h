/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What chrome*.c share: the records that are sorted, and how text and times are written. */
#ifndef SONDE_EXPORT_CHROME_IMPL_H
#define SONDE_EXPORT_CHROME_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/sorter.h"
#include "core/str.h"
#include "export/export.h"

/*
 * First number of a record's sort key, and what the other three are. Queries come by connection in
 * the order they began, so that lanes can be given out in one pass.
 */
enum sonde_chrome_class {
	SONDE_CHROME_COUNTER, /* counter << 32 | target, time, series: a double          */
	SONDE_CHROME_NOTE,    /* time: a finished event, but for its time                */
	SONDE_CHROME_FLIGHT,  /* pid, time, 0 for an end or 1 for a begin: nothing       */
	SONDE_CHROME_QUERY,   /* pid, connection, begin: struct sonde_chrome_query       */
};

/* The query's times made such that they can be drawn: begin <= start <= first <= end. */
struct sonde_chrome_query {
	uint64_t begin, start, first, end;
	uint64_t conn;
	uint32_t pid, target;
	bool has_parts; /* and their sum is end - begin */
	uint32_t client_len, name_len, args_len;
	uint64_t part_ns[SONDE_PART__MAX];
	/* follow: client (as it came), name and args (JSON) */
};

struct sonde_chrome_counter {
	const char *name, *unit;
	const char *series[3]; /* of one counter: drawn on top of each other */
};
extern const struct sonde_chrome_counter sonde_chrome_counters[];
extern const size_t sonde_chrome_counter_count;

struct sonde_chrome_last;

struct sonde_chrome {
	struct sonde_export *x;
	struct sonde_sorter *sorter;
	struct sonde_str line, name;
	struct sonde_meta meta; /* of begin */
	struct sonde_chrome_last *last;
	size_t n_last, cap_last;
	uint64_t earliest; /* of all that is written; UINT64_MAX: nothing */
	uint64_t base;	   /* monotonic ns of ts 0 */
	uint64_t queries, undated, open, slices, lanes, connections, bytes;
	uint64_t lost[SONDE_DROP_ROWS];
	int err; /* the first that went wrong in taking; nothing is written then */
	bool any_event;
};

/* Write all that was taken. 0 or -errno. */
int sonde_chrome_write(struct sonde_chrome *c);

/* Append a JSON string of at most @max bytes of @s: valid UTF-8, cut between characters with an
 * ellipsis. 0 or -ENOMEM. */
int sonde_chrome_text(struct sonde_str *out, const char *s, size_t max);
/*
 * Append a time as microseconds. A viewer computes in doubles: it adds ts and dur and shifts both,
 * and what ends together must come out equal. So times are multiples of 2^-11 us: exact in doubles
 * for 25 days, and within 0.25 ns, from which the ns are had by rounding, of a difference too.
 */
int sonde_chrome_ts(struct sonde_str *out, uint64_t ns);
/* The same for the time between two. */
int sonde_chrome_dur(struct sonde_str *out, uint64_t from_ns, uint64_t to_ns);
/* Append the query's args, '{' to '}'. */
int sonde_chrome_args(struct sonde_str *out, const struct sonde_span *s, bool ended);
/* What the slice is called: the request's kind. */
int sonde_chrome_name(struct sonde_str *out, const struct sonde_span *s);

#endif
