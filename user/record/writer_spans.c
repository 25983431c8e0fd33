// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Spans: which are kept, and how they are stored. With slowest=N/h the N longest of the running UTC
 * hour are in the file at any time: a longer span takes the place of the shortest, so nothing waits
 * in memory.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/num.h"
#include "record/writer_impl.h"

#define HOUR_NS		(3600 * SONDE_NS_PER_SEC)
#define SIZE_CHECK_MASK 1023 /* look at the file's size every so many spans */

int sonde_parse_spans(const char *s, struct sonde_spans_choice *out)
{
	unsigned n;
	int end = 0;

	if (!strcmp(s, "all")) {
		*out = (struct sonde_spans_choice){SONDE_SPANS_ALL, 0};
	} else if (!strcmp(s, "none")) {
		*out = (struct sonde_spans_choice){SONDE_SPANS_NONE, 0};
	} else {
		if (strncmp(s, "slowest=", 8) || s[8] < '0' || s[8] > '9' ||
		    sscanf(s + 8, "%7u/h%n", &n, &end) != 1 || !end || s[8 + end] || !n)
			return -EINVAL;
		*out = (struct sonde_spans_choice){SONDE_SPANS_SLOWEST, n};
	}
	return 0;
}

/* 0 is "not known" among times; counts are stored as they are. */
static void bind_time(struct sonde_writer *w, sqlite3_stmt *st, int at, uint64_t mono_ns)
{
	if (mono_ns)
		sqlite3_bind_int64(st, at, sonde_writer_utc(w, mono_ns));
	else
		sqlite3_bind_null(st, at);
}

static void bind_if(sqlite3_stmt *st, int at, bool known, uint64_t v)
{
	if (known)
		sqlite3_bind_int64(st, at, (int64_t)v);
	else
		sqlite3_bind_null(st, at);
}

int sonde_writer_fingerprint(struct sonde_writer *w, const struct sonde_span *s)
{
	int new;

	if (!s->fingerprint_id)
		return 0;
	new = sonde_idset_add(&w->fingerprints, s->fingerprint_id);
	if (new <= 0)
		return new;
	sqlite3_bind_int64(w->st[SONDE_ST_FINGERPRINT], 1, (int64_t)s->fingerprint_id);
	new = sonde_writer_bind_text(w, SONDE_ST_FINGERPRINT, 2, s->fingerprint);
	return new ? new : sonde_writer_step(w, SONDE_ST_FINGERPRINT);
}

/* Columns 7, 9 and 11; and the fingerprint's row. */
static int bind_names(struct sonde_writer *w, sqlite3_stmt *st, const struct sonde_span *s)
{
	const char *const names[] = {s->client, s->command, s->index};
	static const int at[] = {7, 9, 11};
	int64_t id;
	int err;

	for (int i = 0; i < 3; i++) {
		err = sonde_writer_name(w, names[i], &id);
		if (err)
			return err;
		bind_if(st, at[i], id != 0, (uint64_t)id);
	}
	return sonde_writer_fingerprint(w, s);
}

static void bind_numbers(struct sonde_writer *w, sqlite3_stmt *st, const struct sonde_span *s)
{
	bool handler = s->flags & SONDE_SPAN_F_HANDLER;

	sqlite3_bind_int64(st, 1, w->span_id);
	sqlite3_bind_int64(st, 2, s->target);
	sqlite3_bind_int64(st, 3, s->pid);
	sqlite3_bind_int64(st, 4, s->tid);
	sqlite3_bind_int64(st, 5, (int64_t)s->conn);
	sqlite3_bind_int64(st, 6, (int64_t)s->seq);
	sqlite3_bind_int(st, 8, s->proto);
	sqlite3_bind_int(st, 10, s->command_id);
	bind_if(st, 12, s->fingerprint_id != 0, s->fingerprint_id);
	sqlite3_bind_int(st, 13, s->status);
	sqlite3_bind_int64(st, 14, s->error);
	sqlite3_bind_int64(st, 15, s->flags);
	sqlite3_bind_int64(st, 16, s->statements);
	bind_time(w, st, 17, s->arrival_ns);
	bind_time(w, st, 18, s->start_ns);
	bind_time(w, st, 19, s->request_end_ns);
	bind_time(w, st, 20, s->first_ns);
	bind_time(w, st, 21, s->last_ns);
	sqlite3_bind_int64(st, 22, (int64_t)s->bytes_in);
	sqlite3_bind_int64(st, 23, (int64_t)s->bytes_out);
	sqlite3_bind_int64(st, 24, s->request_len);
	bind_if(st, 25, s->has_alloc, s->alloc_bytes);
	bind_if(st, 26, s->has_alloc, s->alloc_calls);
	bind_if(st, 27, s->has_faults, s->faults);
	bind_if(st, 28, s->has_faults, s->fault_ns);
	bind_time(w, st, 29, handler ? s->handler_ns : 0);
	bind_if(st, 30, handler, s->found);
	bind_if(st, 31, handler, s->handler_wall_ms);
	bind_if(st, 32, handler, s->handler_hits);
	bind_if(st, 33, s->has_heap, s->heap_allocated);
	bind_if(st, 34, s->has_heap, s->heap_freed);
}

static int put_text(struct sonde_writer *w, const struct sonde_span *s)
{
	int err;

	if (!s->text)
		return 0;
	sqlite3_bind_int64(w->st[SONDE_ST_TEXT], 1, w->span_id);
	err = sonde_writer_bind_text(w, SONDE_ST_TEXT, 2, s->text);
	return err ? err : sonde_writer_step(w, SONDE_ST_TEXT);
}

static int put_anatomy(struct sonde_writer *w, const struct sonde_span *s)
{
	sqlite3_stmt *st = w->st[SONDE_ST_ANATOMY];

	if (!s->has_parts)
		return 0;
	sqlite3_bind_int64(st, 1, w->span_id);
	for (int i = 0; i < SONDE_PART__MAX; i++)
		sqlite3_bind_int64(st, 2 + i, (int64_t)s->part_ns[i]);
	for (int i = 0; i < SONDE_PART_FAULTS; i++)
		sqlite3_bind_int64(st, 2 + SONDE_PART__MAX + i, s->fault_count[i]);
	return sonde_writer_step(w, SONDE_ST_ANATOMY);
}

static int put_span(struct sonde_writer *w, const struct sonde_span *s)
{
	sqlite3_stmt *st = w->st[SONDE_ST_SPAN];
	int err;

	w->span_id++;
	err = bind_names(w, st, s);
	if (err)
		return err;
	bind_numbers(w, st, s);
	err = sonde_writer_step(w, SONDE_ST_SPAN);
	if (!err)
		err = put_text(w, s);
	if (!err)
		err = put_anatomy(w, s);
	if (!err)
		w->stats.spans_stored++;
	return err;
}

/* Move the top of the heap down to where it belongs. */
static void sift_down(struct sonde_slow *heap, size_t n)
{
	struct sonde_slow top = heap[0];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && heap[child + 1].duration_ns < heap[child].duration_ns)
			child++;
		if (heap[child].duration_ns >= top.duration_ns)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = top;
}

static void sift_up(struct sonde_slow *heap, size_t i)
{
	struct sonde_slow item = heap[i];

	while (i && heap[(i - 1) / 2].duration_ns > item.duration_ns) {
		heap[i] = heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap[i] = item;
}

static int delete_span(struct sonde_writer *w, int64_t id)
{
	int err;

	sqlite3_bind_int64(w->st[SONDE_ST_SPAN_DELETE], 1, id);
	err = sonde_writer_step(w, SONDE_ST_SPAN_DELETE);
	if (err)
		return err;
	w->stats.spans_stored--;
	sqlite3_bind_int64(w->st[SONDE_ST_TEXT_DELETE], 1, id);
	err = sonde_writer_step(w, SONDE_ST_TEXT_DELETE);
	sqlite3_bind_int64(w->st[SONDE_ST_ANATOMY_DELETE], 1, id);
	return err ? err : sonde_writer_step(w, SONDE_ST_ANATOMY_DELETE);
}

static int put_if_slow(struct sonde_writer *w, const struct sonde_span *s)
{
	struct sonde_slow mine = {.duration_ns = sonde_span_duration_ns(s)};
	uint64_t hour =
		(uint64_t)sonde_writer_utc(w, s->last_ns ? s->last_ns : s->start_ns) / HOUR_NS;
	bool full;
	int err;

	if (hour > w->slow_hour) {
		w->slow_hour = hour;
		w->n_slow = 0;
	}
	/* A few at the end of the observation, each longer than is known. */
	if (s->status == SONDE_SPAN_UNFINISHED)
		return put_span(w, s);
	full = w->n_slow == w->opts.spans.slowest_n;
	if (full && mine.duration_ns <= w->slow[0].duration_ns)
		return 0;
	err = full ? delete_span(w, w->slow[0].id) : 0;
	if (!err)
		err = put_span(w, s);
	if (err)
		return err;
	mine.id = w->span_id;
	if (full) {
		w->slow[0] = mine;
		sift_down(w->slow, w->n_slow);
	} else {
		w->slow[w->n_slow] = mine;
		sift_up(w->slow, w->n_slow++);
	}
	return 0;
}

static int check_size(struct sonde_writer *w, const struct sonde_span *s)
{
	sqlite3_stmt *st = w->st[SONDE_ST_PAGES];
	char size[32], what[160];

	if (sqlite3_step(st) == SQLITE_ROW)
		w->stats.file_bytes = (uint64_t)sqlite3_column_int64(st, 0) * 4096;
	sqlite3_reset(st);
	if (w->stats.file_bytes < w->opts.max_bytes)
		return 0;
	w->spans_full = true;
	snprintf(what, sizeof(what),
		 "no spans are stored from here on: the recording reached its bound of %s "
		 "(histograms and metrics go on)",
		 sonde_fmt_bytes(size, sizeof(size), (double)w->opts.max_bytes));
	sonde_warn("%s: %s", w->path, what);
	return sonde_writer_own_note(w, s->last_ns ? s->last_ns : s->start_ns, SONDE_NOTE_DEGRADED,
				     what,
				     "raise --max-size, or keep fewer with --spans slowest=1000/h");
}

int sonde_writer_span(void *ctx, const struct sonde_span *s)
{
	struct sonde_writer *w = ctx;
	int err = w->failed;

	if (!err && w->opts.max_bytes && !w->spans_full &&
	    (w->stats.spans_seen & SIZE_CHECK_MASK) == 0)
		err = check_size(w, s);
	if (err)
		return err;
	w->stats.spans_seen++;
	err = sonde_writer_form_add(w, s);
	if (err)
		return err;
	if (w->spans_full || w->opts.spans.mode == SONDE_SPANS_NONE)
		return 0;
	return w->opts.spans.mode == SONDE_SPANS_SLOWEST ? put_if_slow(w, s) : put_span(w, s);
}

/* Bytes as measured by tests/unit/record/test_writer.c, which fails if they are off by half. */
#define FIXED_BYTES	   (96u << 10)
#define BYTES_PER_SPAN	   135.0
#define BYTES_PER_VALUE	   24.0
#define BYTES_PER_BUCKET   20.0
#define BUCKETS_PER_WINDOW 250.0

uint64_t sonde_writer_projected_bytes(const struct sonde_writer_opts *opts,
				      const struct sonde_writer_forecast *f)
{
	double sec = (double)f->duration_ns / 1e9, ticks = sec / ((double)f->interval_ns / 1e9);
	double spans = 0, span_bytes;
	double rest = ticks * (f->metric_series * BYTES_PER_VALUE + 20) +
		      (sec / 60 + 1) * f->hist_series * BUCKETS_PER_WINDOW * BYTES_PER_BUCKET;

	if (opts->spans.mode == SONDE_SPANS_ALL)
		spans = f->spans_per_s * sec;
	else if (opts->spans.mode == SONDE_SPANS_SLOWEST)
		spans = fmin(f->spans_per_s * sec, opts->spans.slowest_n * (sec / 3600 + 1));
	span_bytes = spans * (BYTES_PER_SPAN + f->text_bytes_per_span);
	if (opts->max_bytes)
		span_bytes = fmin(span_bytes, (double)opts->max_bytes);
	return (uint64_t)(FIXED_BYTES + span_bytes + rest);
}
