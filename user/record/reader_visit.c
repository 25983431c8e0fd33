// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Replays a recording into a visitor. Each table is one cursor in the order it was written; a tick
 * lets every cursor run up to its time. All of it happens in one read transaction, so that a
 * recording which is still growing is seen as it was at one instant.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/err.h"
#include "core/mem.h"
#include "record/reader_impl.h"
#include "record/schema.h"

uint64_t sonde_replay_mono(const struct sonde_replay *v, int64_t utc)
{
	return (uint64_t)utc - v->r->clock.real_ns + v->r->clock.mono_ns;
}

static uint64_t column_time(const struct sonde_replay *v, sqlite3_stmt *st, int col)
{
	int64_t utc = sqlite3_column_int64(st, col);

	return utc ? sonde_replay_mono(v, utc) : 0;
}

static const char *column_text(sqlite3_stmt *st, int col)
{
	const char *s = (const char *)sqlite3_column_text(st, col);

	return s ? s : "";
}

/* 0 (NULL) is no name; an id without its row is a name that was lost. */
const char *sonde_replay_name(const struct sonde_replay *v, sqlite3_stmt *st, int col)
{
	int64_t id = sqlite3_column_int64(st, col);
	const char *name = id ? sonde_reader_name(v->r, id) : "";

	return name ? name : "?";
}

int sonde_replay_check_counts(const struct sonde_replay *v, sqlite3_stmt *st, int from, int to)
{
	for (int col = from; col <= to; col++)
		if (sqlite3_column_int64(st, col) < 0)
			return sonde_reader_fail(v->r, SQLITE_CONSTRAINT);
	return 0;
}

static int emit_metric(struct sonde_replay *v, sqlite3_stmt *st)
{
	const struct sonde_reader_series *s =
		sonde_reader_find_series(v->r, sqlite3_column_int64(st, 1));
	bool absent = sqlite3_column_type(st, 2) == SQLITE_NULL;
	struct sonde_metric m;

	if (!s || s->kind == SONDE_SERIES_HIST)
		return sonde_reader_fail(v->r, SQLITE_SCHEMA);
	if (!isfinite(sqlite3_column_double(st, 2)))
		return sonde_reader_fail(v->r, SQLITE_CONSTRAINT);
	m = (struct sonde_metric){
		.desc = &s->metric,
		.label = s->label,
		.ts_ns = sonde_replay_mono(v, sqlite3_column_int64(st, 0)),
		.target = s->target,
		.value = sqlite3_column_double(st, 2) - s->base,
		.absent = absent ? sonde_replay_name(v, st, 3) : NULL,
	};
	return v->to->metric(v->to->ctx, &m);
}

static int load_buckets(struct sonde_replay *v, int64_t window, int64_t series)
{
	int64_t bucket, n;
	int rc;

	sonde_hist_reset(&v->hist);
	sqlite3_bind_int64(v->buckets, 1, window);
	sqlite3_bind_int64(v->buckets, 2, series);
	while ((rc = sqlite3_step(v->buckets)) == SQLITE_ROW) {
		bucket = sqlite3_column_int64(v->buckets, 0);
		n = sqlite3_column_int64(v->buckets, 1);
		if (bucket < 0 || bucket >= (int64_t)SONDE_HIST_BUCKETS || n < 0) {
			rc = SQLITE_CORRUPT;
			break;
		}
		sonde_hist_add_bucket(&v->hist, (uint32_t)bucket, (uint64_t)n);
	}
	sqlite3_reset(v->buckets);
	return rc == SQLITE_DONE ? 0 : sonde_reader_fail(v->r, rc);
}

/* The window's row knows sum, min and max better than the buckets do, if it agrees with them. */
static void refine_hist(struct sonde_hist *h, sqlite3_stmt *st)
{
	int64_t min = sqlite3_column_int64(st, 5), max = sqlite3_column_int64(st, 6);

	if ((uint64_t)sqlite3_column_int64(st, 3) != h->count || min < 0 || min > max ||
	    sonde_hist_index((uint64_t)min) != sonde_hist_index(h->min) ||
	    sonde_hist_index((uint64_t)max) != sonde_hist_index(h->max))
		return;
	h->sum = sqlite3_column_double(st, 4);
	h->min = (uint64_t)min;
	h->max = (uint64_t)max;
}

static enum sonde_hist_wanted wanted(const struct sonde_replay *v,
				     const struct sonde_reader_series *s)
{
	const struct sonde_reader_filter *f = v->filter;

	return f && f->hists ? f->hists(f->hists_ctx, s->hist.name, s->label) : SONDE_HIST_WHOLE;
}

static int load_hist(struct sonde_replay *v, sqlite3_stmt *st, int64_t series, bool whole)
{
	int err = 0;

	if (!whole) {
		sonde_hist_reset(&v->hist);
		v->hist.count = (uint64_t)sqlite3_column_int64(st, 3);
		v->hist.sum = sqlite3_column_double(st, 4);
		v->hist.min = (uint64_t)sqlite3_column_int64(st, 5);
		v->hist.max = (uint64_t)sqlite3_column_int64(st, 6);
		return 0;
	}
	err = load_buckets(v, sqlite3_column_int64(st, 7), series);
	if (!err)
		refine_hist(&v->hist, st);
	return err;
}

static int emit_hist(struct sonde_replay *v, sqlite3_stmt *st)
{
	int64_t series = sqlite3_column_int64(st, 1);
	const struct sonde_reader_series *s = sonde_reader_find_series(v->r, series);
	struct sonde_histrow row;
	enum sonde_hist_wanted want;
	int err;

	if (!s || s->kind != SONDE_SERIES_HIST)
		return sonde_reader_fail(v->r, SQLITE_SCHEMA);
	err = sonde_replay_check_counts(v, st, 3, 3);
	if (err)
		return err;
	want = wanted(v, s);
	if (want == SONDE_HIST_SKIP)
		return 0;
	err = load_hist(v, st, series, want == SONDE_HIST_WHOLE);
	if (err)
		return err;
	row = (struct sonde_histrow){
		.desc = &s->hist,
		.label = s->label,
		.from_ns = sonde_replay_mono(v, sqlite3_column_int64(st, 2)),
		.to_ns = sonde_replay_mono(v, sqlite3_column_int64(st, 0)),
		.target = s->target,
		.hist = &v->hist,
	};
	return v->to->hist(v->to->ctx, &row);
}

static int emit_note(struct sonde_replay *v, sqlite3_stmt *st)
{
	struct sonde_note n = {
		.ts_ns = sonde_replay_mono(v, sqlite3_column_int64(st, 0)),
		.level = (enum sonde_note_level)sqlite3_column_int(st, 1),
		.lens = column_text(st, 2),
		.what = column_text(st, 3),
		.remedy = column_text(st, 4),
	};

	return v->to->note(v->to->ctx, &n);
}

static int emit_drop(struct sonde_replay *v, sqlite3_stmt *st)
{
	struct sonde_drops d = {
		.lens = (enum sonde_lens_id)sqlite3_column_int(st, 1),
		.cause = (enum sonde_drop)sqlite3_column_int(st, 2),
		.count = (uint64_t)sqlite3_column_int64(st, 3),
		.ts_ns = sonde_replay_mono(v, sqlite3_column_int64(st, 0)),
	};
	int err;

	/* A visitor keeps them in an array; a later sonde may know more of them. */
	if ((unsigned)d.lens >= SONDE_LENS__MAX || (unsigned)d.cause >= SONDE_DROP__MAX)
		return 0;
	err = sonde_replay_check_counts(v, st, 3, 3);
	return err ? err : v->to->drop(v->to->ctx, &d);
}

static void span_times(const struct sonde_replay *v, sqlite3_stmt *st, struct sonde_span *s)
{
	s->arrival_ns = column_time(v, st, 16);
	s->start_ns = column_time(v, st, 17);
	s->request_end_ns = column_time(v, st, 18);
	s->first_ns = column_time(v, st, 19);
	s->last_ns = column_time(v, st, 20);
	s->handler_ns = column_time(v, st, 28);
}

static void span_counts(sqlite3_stmt *st, struct sonde_span *s)
{
	s->bytes_in = (uint64_t)sqlite3_column_int64(st, 21);
	s->bytes_out = (uint64_t)sqlite3_column_int64(st, 22);
	s->request_len = (uint32_t)sqlite3_column_int64(st, 23);
	s->has_alloc = sqlite3_column_type(st, 24) != SQLITE_NULL;
	s->alloc_bytes = (uint64_t)sqlite3_column_int64(st, 24);
	s->alloc_calls = (uint64_t)sqlite3_column_int64(st, 25);
	s->has_faults = sqlite3_column_type(st, 26) != SQLITE_NULL;
	s->faults = (uint64_t)sqlite3_column_int64(st, 26);
	s->fault_ns = (uint64_t)sqlite3_column_int64(st, 27);
	s->found = (uint64_t)sqlite3_column_int64(st, 29);
	s->handler_wall_ms = (uint32_t)sqlite3_column_int64(st, 30);
	s->handler_hits = (uint32_t)sqlite3_column_int64(st, 31);
	s->has_heap = sqlite3_column_type(st, 34) != SQLITE_NULL;
	s->heap_allocated = (uint64_t)sqlite3_column_int64(st, 34);
	s->heap_freed = (uint64_t)sqlite3_column_int64(st, 35);
}

/* Columns of SPAN_COLUMNS: the parts, then the counts of faults. */
#define COLUMN_PARTS  36
#define COLUMN_FAULTS (COLUMN_PARTS + SONDE_PART__MAX)
#define COLUMN_LAST   (COLUMN_FAULTS + SONDE_PART_FAULTS - 1)

static void span_parts(sqlite3_stmt *st, struct sonde_span *s)
{
	s->has_parts = sqlite3_column_type(st, COLUMN_PARTS) != SQLITE_NULL;
	if (!s->has_parts)
		return;
	for (int i = 0; i < SONDE_PART__MAX; i++)
		s->part_ns[i] = (uint64_t)sqlite3_column_int64(st, COLUMN_PARTS + i);
	for (int i = 0; i < SONDE_PART_FAULTS; i++)
		s->fault_count[i] = (uint32_t)sqlite3_column_int64(st, COLUMN_FAULTS + i);
}

/* Sizes and counts among the columns of a span. */
static int check_span(const struct sonde_replay *v, sqlite3_stmt *st)
{
	static const struct {
		int from, to;
	} counts[] = {{15, 15}, {21, 27}, {29, 31}, {34, 35}, {COLUMN_PARTS, COLUMN_LAST}};
	int err = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(counts) && !err; i++)
		err = sonde_replay_check_counts(v, st, counts[i].from, counts[i].to);
	return err;
}

static int emit_span(struct sonde_replay *v, sqlite3_stmt *st)
{
	struct sonde_span s = {
		.target = (uint32_t)sqlite3_column_int64(st, 1),
		.pid = (uint32_t)sqlite3_column_int64(st, 2),
		.tid = (uint32_t)sqlite3_column_int64(st, 3),
		.conn = (uint64_t)sqlite3_column_int64(st, 4),
		.seq = (uint64_t)sqlite3_column_int64(st, 5),
		.client = sonde_replay_name(v, st, 6),
		.proto = (uint8_t)sqlite3_column_int(st, 7),
		.command = sonde_replay_name(v, st, 8),
		.command_id = (uint16_t)sqlite3_column_int(st, 9),
		.index = sonde_replay_name(v, st, 10),
		.fingerprint_id = (uint64_t)sqlite3_column_int64(st, 11),
		.status = (uint8_t)sqlite3_column_int(st, 12),
		.error = (uint32_t)sqlite3_column_int64(st, 13),
		.flags = (uint32_t)sqlite3_column_int64(st, 14),
		.statements = (uint32_t)sqlite3_column_int64(st, 15),
		.fingerprint = column_text(st, 32),
		.text = (const char *)sqlite3_column_text(st, 33),
	};

	int err = check_span(v, st);

	if (err)
		return err;
	span_times(v, st, &s);
	span_counts(st, &s);
	span_parts(st, &s);
	return v->to->span(v->to->ctx, &s);
}

#define PART_COLUMN(id, sym, name, help) ", a." #name "_ns"
#define FAULT_COLUMNS                                                                              \
	", a.fault_base_count, a.fault_mthp_count, a.fault_pmd_count, a.fault_cow_count, "         \
	"a.fault_file_count, a.fault_swap_count, a.fault_other_count"
#define SPAN_END "coalesce(s.last_ns, s.first_ns, s.request_end_ns, s.start_ns, s.arrival_ns, 0)"
#define SPAN_COLUMNS                                                                               \
	SPAN_END ", s.target, s.pid, s.tid, s.conn, s.seq, s.client, s.proto, s.command, "         \
		 "s.command_id, s.index_name, s.fingerprint, s.status, s.error, s.flags, "         \
		 "s.statements, s.arrival_ns, s.start_ns, s.request_end_ns, s.first_ns, "          \
		 "s.last_ns, s.bytes_in, s.bytes_out, s.request_len, s.alloc_bytes, "              \
		 "s.alloc_calls, s.faults, s.fault_ns, s.handler_ns, s.found, "                    \
		 "s.handler_wall_ms, s.handler_hits, f.text, t.text, "                             \
		 "s.heap_allocated, s.heap_freed" SONDE_PARTS(PART_COLUMN) FAULT_COLUMNS " "
#define SPAN_JOINS                                                                                 \
	"LEFT JOIN fingerprint f ON f.id = s.fingerprint "                                         \
	"LEFT JOIN query_text t ON t.span = s.id LEFT JOIN anatomy a ON a.span = s.id "
#define STACK_BASE(column)                                                                         \
	"SELECT b." column " FROM stack_count b WHERE b.stack = c.stack AND b.lens = c.lens "      \
	"AND b.ts_ns <= ?6 ORDER BY b.ts_ns DESC LIMIT 1"
/* Column 0 is the time up to which a tick must have come. ?1 and ?2 bound it: [since, until). */
enum cursor_id { C_STACK, C_METRIC, C_NOTE, C_DROP, C_STACK_COUNT, C_SPAN, C_HIST, C__MAX };

static const struct {
	const char *sql;
	int (*emit)(struct sonde_replay *v, sqlite3_stmt *st);
} cursors[C__MAX] = {
	/* All of them before everything else. */
	[C_STACK] = {"SELECT 0, id, target, end FROM stack ORDER BY id", sonde_replay_stack},
	/* Cumulative since the filter's start where it is rebased; what is live is what is live. */
	[C_STACK_COUNT] = {"SELECT c.ts_ns, c.lens, c.stack, c.target, "
			   "c.calls - coalesce((" STACK_BASE(
				   "calls") "), 0), "
					    "c.bytes - coalesce((" STACK_BASE(
						    "bytes") "), 0), "
							     "c.live_calls, c.live_bytes, "
							     "c.live_error FROM stack_count c "
							     "WHERE c.ts_ns >= ?1 AND c.ts_ns < ?2 "
							     "ORDER BY c.ts_ns, c.stack",
			   sonde_replay_stack_count},
	[C_METRIC] = {"SELECT ts_ns, series, value, absent FROM value "
		      "WHERE ts_ns >= ?1 AND ts_ns < ?2 ORDER BY ts_ns, series",
		      emit_metric},
	/* What weakens figures (enum 'note' 3 and 4) holds for those that came later, too. */
	[C_NOTE] = {"SELECT ts_ns, level, lens, what, remedy FROM note "
		    "WHERE (ts_ns >= ?1 OR level >= 3) AND ts_ns < ?2 ORDER BY id",
		    emit_note},
	/* Cumulative since the filter's start. */
	[C_DROP] =
		{"SELECT d.ts_ns, d.lens, d.cause, d.count - coalesce((SELECT max(b.count) "
		 "FROM drops b WHERE b.lens = d.lens AND b.cause = d.cause AND b.ts_ns < ?4), 0) "
		 "FROM drops d WHERE d.ts_ns >= ?4 AND d.ts_ns < ?2 ORDER BY d.ts_ns",
		 emit_drop},
	[C_SPAN] = {"SELECT " SPAN_COLUMNS "FROM span s " SPAN_JOINS "WHERE " SPAN_END
		    " >= ?1 AND " SPAN_END " < ?2 ORDER BY s.id",
		    emit_span},
	[C_HIST] =
		{"SELECT to_ns, series, from_ns, count, sum, min, max, window_ns FROM hist_window "
		 "WHERE to_ns > ?1 AND from_ns < ?5 "
		 "ORDER BY window_ns, series",
		 emit_hist},
};

/* The N longest are found by their ids first, so that sorting does not carry whole rows. */
static const char slowest_sql[] =
	"SELECT " SPAN_COLUMNS "FROM (SELECT id AS span_id, "
	"s.last_ns - coalesce(s.arrival_ns, s.start_ns) AS took FROM span s "
	"WHERE " SPAN_END " >= ?1 AND " SPAN_END " < ?2 ORDER BY took DESC, id LIMIT ?3) "
	"JOIN span s ON s.id = span_id " SPAN_JOINS "ORDER BY took DESC, s.id";

struct cursor {
	sqlite3_stmt *st;
	int (*emit)(struct sonde_replay *v, sqlite3_stmt *st);
	bool row; /* on a row that was not handed on yet */
};

static int advance(struct sonde_replay *v, struct cursor *c)
{
	int rc = sqlite3_step(c->st);

	c->row = rc == SQLITE_ROW;
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : sonde_reader_fail(v->r, rc);
}

/* Hand on what is not later than @until. */
static int drain(struct sonde_replay *v, struct cursor *c, int64_t until)
{
	int err = 0;

	while (c->row && !err && sqlite3_column_int64(c->st, 0) <= until) {
		err = c->emit(v, c->st);
		if (!err)
			err = advance(v, c);
	}
	return err;
}

static int open_cursor(struct sonde_replay *v, struct cursor *c, const char *sql)
{
	int rc = sonde_db_prepare(v->r->db, &c->st, sql);

	if (rc)
		return sonde_reader_fail(v->r, rc);
	sqlite3_bind_int64(c->st, 1, v->since);
	sqlite3_bind_int64(c->st, 2, v->until);
	/* Ignored where a statement has no such parameter. */
	sqlite3_bind_int64(c->st, 3, v->slowest);
	sqlite3_bind_int64(c->st, 4, v->after);
	sqlite3_bind_int64(c->st, 5, v->before);
	sqlite3_bind_int64(c->st, 6, v->rebase ? v->since : 0);
	return advance(v, c);
}

static int open_cursors(struct sonde_replay *v, struct cursor *cs)
{
	const bool wanted[C__MAX] = {
		[C_METRIC] = v->to->metric,
		[C_NOTE] = v->to->note,
		[C_DROP] = v->to->drop,
		[C_SPAN] = v->to->span && v->slowest < 0,
		[C_HIST] = v->to->hist,
		[C_STACK] = v->to->stack,
		[C_STACK_COUNT] = v->to->stack_count,
	};
	int err = 0;

	for (int i = 0; i < C__MAX && !err; i++) {
		cs[i].emit = cursors[i].emit;
		if (wanted[i])
			err = open_cursor(v, &cs[i], cursors[i].sql);
	}
	return err;
}

static int drain_all(struct sonde_replay *v, struct cursor *cs, int64_t until)
{
	int err = 0;

	for (int i = 0; i < C__MAX && !err; i++)
		err = drain(v, &cs[i], until);
	return err;
}

static int replay_ticks(struct sonde_replay *v, struct cursor *cs)
{
	struct cursor ticks = {0};
	int err = open_cursor(v, &ticks,
			      "SELECT ts_ns FROM tick WHERE ts_ns >= ?1 AND ts_ns < ?2 "
			      "ORDER BY ts_ns");

	while (!err && ticks.row) {
		int64_t ts = sqlite3_column_int64(ticks.st, 0);

		err = drain_all(v, cs, ts);
		if (!err)
			err = sonde_visit(v->to, tick, sonde_replay_mono(v, ts));
		if (!err)
			err = advance(v, &ticks);
	}
	sqlite3_finalize(ticks.st);
	return err ? err : drain_all(v, cs, INT64_MAX);
}

static int replay_slowest(struct sonde_replay *v)
{
	struct cursor c = {.emit = emit_span};
	int err;

	if (v->slowest < 0 || !v->to->span)
		return 0;
	err = open_cursor(v, &c, slowest_sql);
	if (!err)
		err = drain(v, &c, INT64_MAX);
	sqlite3_finalize(c.st);
	return err;
}

static int replay(struct sonde_replay *v)
{
	struct cursor cs[C__MAX] = {0};
	int64_t active = (int64_t)v->r->active_ns;
	int err = sonde_visit(v->to, begin, &v->r->meta);

	if (!err && active && v->since <= active && active < v->until)
		err = sonde_visit(v->to, start, sonde_replay_mono(v, active));

	if (!err)
		err = open_cursors(v, cs);
	if (!err)
		err = replay_ticks(v, cs);
	for (int i = 0; i < C__MAX; i++)
		sqlite3_finalize(cs[i].st);
	if (!err)
		err = replay_slowest(v);
	return err ? err : sonde_visit(v->to, end, &v->r->meta);
}

/* A tick comes a little late: one that is off by less than a twentieth of its interval is the one
 * that was meant. */
static bool is_near(int64_t t, int64_t tick, int64_t other)
{
	return tick != INT64_MAX && other != INT64_MAX &&
	       llabs(t - tick) <= llabs(tick - other) / 20;
}

/* Counters are known at ticks only: the filter grows to whole intervals, so that what was counted
 * and the time that it took are of one period, whose first tick carries the base. */
static int widen(struct sonde_replay *v)
{
	int64_t low, high, since = v->since, until = v->until;
	int err = sonde_reader_ticks(v->r, since, &low, &high);

	if (err)
		return err;
	v->since = high == since || is_near(since, high, low) ? high : low;
	if (v->since == INT64_MAX)
		v->since = since;
	if (until == INT64_MAX)
		goto done;
	since = low != INT64_MAX ? low : v->since;
	err = sonde_reader_ticks(v->r, until, &low, &high);
	if (err)
		return err;
	v->before = is_near(until, low, high) ? low : high;
	if (v->before <= v->since)
		v->since = since;
	v->until = v->before == INT64_MAX ? INT64_MAX : v->before + 1;
done:
	v->after = v->since + 1;
	return 0;
}

/* A counter's value where the filter begins. */
static int find_bases(struct sonde_replay *v)
{
	static const char sql[] = "SELECT value FROM value WHERE series = ?1 AND ts_ns <= ?2 "
				  "AND value IS NOT NULL ORDER BY ts_ns DESC LIMIT 1";
	sqlite3_stmt *st = NULL;
	int rc = sonde_db_prepare(v->r->db, &st, sql);

	for (size_t i = 0; i < v->r->n_series && !rc; i++) {
		struct sonde_reader_series *s = &v->r->series[i];

		if (s->kind != SONDE_SERIES_COUNTER)
			continue;
		sqlite3_bind_int64(st, 1, s->id);
		sqlite3_bind_int64(st, 2, v->since);
		rc = sqlite3_step(st);
		if (rc == SQLITE_ROW)
			s->base = sqlite3_column_double(st, 0);
		rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
		sqlite3_reset(st);
	}
	sqlite3_finalize(st);
	return rc ? sonde_reader_fail(v->r, rc) : 0;
}

static int start_visit(struct sonde_replay *v)
{
	int rc = sqlite3_exec(v->r->db, "BEGIN", NULL, NULL, NULL), err;

	if (rc)
		return sonde_reader_fail(v->r, rc);
	err = sonde_reader_load(v->r);
	if (err)
		return err;
	rc = sonde_db_prepare(
		v->r->db, &v->buckets,
		"SELECT bucket, count FROM hist WHERE window_ns = ?1 AND series = ?2");
	if (!rc)
		rc = sonde_db_prepare(
			v->r->db, &v->frames,
			"SELECT f.function, f.module, f.file, f.line, f.offset, f.inlined "
			"FROM stack_frame s JOIN frame f ON f.id = s.frame WHERE s.stack = ?1 "
			"ORDER BY s.depth");
	return rc ? sonde_reader_fail(v->r, rc) : 0;
}

int sonde_reader_visit(struct sonde_reader *r, const struct sonde_reader_filter *f,
		       const struct sonde_visitor *to)
{
	struct sonde_replay v = {.r = r, .to = to, .until = INT64_MAX, .slowest = -1};
	int err;

	v.filter = f;
	if (f) {
		v.since = (int64_t)f->since_ns;
		v.until = f->until_ns ? (int64_t)f->until_ns : INT64_MAX;
		v.slowest = f->slowest ? (int64_t)f->slowest : -1;
		v.rebase = f->rebase;
	}
	if (sonde_hist_init(&v.hist))
		return sonde_reader_fail(r, SQLITE_NOMEM);
	err = start_visit(&v);
	v.after = v.since;
	v.before = v.until;
	if (!err && f && f->rebase && (f->since_ns || f->until_ns))
		err = widen(&v);
	if (!err && f && f->rebase && v.since)
		err = find_bases(&v);
	if (!err)
		err = replay(&v);
	sqlite3_finalize(v.buckets);
	sqlite3_finalize(v.frames);
	sonde_hist_fini(&v.hist);
	sqlite3_exec(r->db, "ROLLBACK", NULL, NULL, NULL);
	return err;
}
