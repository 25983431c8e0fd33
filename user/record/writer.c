// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Opens, commits and finishes a recording. A transaction holds one interval; its last row is the
 * tick, so that whatever can be read ends at a tick. The first failure is final: what was committed
 * stays, and every later hook answers the same error.
 *
 * WAL with synchronous=NORMAL: a recording can be read while it grows, a killed process loses
 * nothing that was committed, a power cut only what came after the last checkpoint. All waiting for
 * the disk but one sync when the log starts over is done by checkpoint.c's thread, since an fsync
 * in the loop that drains the event ring would lose events.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/bus.h"
#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "record/schema.h"
#include "record/writer_impl.h"

/* 16 MiB: what the -wal file grows to beside one interval, if the disk keeps up. */
#define CHECKPOINT_PAGES 4096

static const char *const statements[] = {
#define SQL(sym, sql) [SONDE_ST_##sym] = sql,
	SONDE_WRITER_STATEMENTS(SQL)
#undef SQL
};

static void stop(struct sonde_writer *w, int err)
{
	w->failed = -err;
	sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
	w->in_txn = false;
}

/* What is left is kept as it is: moving pages by a log that has holes would damage more. */
static int fail_cut_off(struct sonde_writer *w, const char *ending)
{
	stop(w, ESTALE);
	sqlite3_db_config(w->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	if (w->checkpointer.db)
		sqlite3_db_config(w->checkpointer.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	return sonde_err(ESTALE,
			 "recording to %s stopped: %s%s was cut off by something else; what was "
			 "recorded may be lost in part or whole",
			 w->path, w->path, ending);
}

static int fail(struct sonde_writer *w, int code)
{
	const char *cut;
	char when[40];

	if (w->failed)
		return w->failed;
	cut = sonde_writer_has_file(w) ? sonde_writer_cut_off(w) : NULL;
	if (cut)
		return fail_cut_off(w, cut);
	stop(w, sonde_db_errno(code));
	if (w->last_tick_ns)
		sonde_fmt_rfc3339(when, sizeof(when), w->last_tick_ns);
	sonde_err(w->failed, "recording to %s stopped: %s; %s%s%s", w->path, sonde_db_cause(code),
		  w->last_tick_ns ? "what was seen until " : "nothing was kept yet",
		  w->last_tick_ns ? when : "",
		  w->failed == -ENOSPC ? " is kept; free space, or bound the file with --max-size"
		  : w->last_tick_ns    ? " is kept"
				       : "");
	return w->failed;
}

/* Going on would fill a file that nobody finds, or that is another's by now, or has a hole. */
static int check_file(struct sonde_writer *w)
{
	const char *cut;

	if (w->failed)
		return w->failed;
	if (sonde_writer_has_file(w)) {
		cut = sonde_writer_cut_off(w);
		return cut ? fail_cut_off(w, cut) : 0;
	}
	stop(w, ESTALE);
	return sonde_err(
		ESTALE,
		"recording to %s stopped: the file was removed, renamed or replaced meanwhile",
		w->path);
}

static int run(struct sonde_writer *w, enum sonde_writer_statement st)
{
	int rc;

	do
		rc = sqlite3_step(w->st[st]);
	while (rc == SQLITE_ROW);
	if (rc == SQLITE_DONE) {
		sqlite3_reset(w->st[st]);
		return 0;
	}
	rc = fail(w, sqlite3_extended_errcode(w->db));
	sqlite3_reset(w->st[st]);
	return rc;
}

int sonde_writer_step(struct sonde_writer *w, enum sonde_writer_statement st)
{
	int err;

	if (w->failed)
		return w->failed;
	if (!w->in_txn) {
		err = run(w, SONDE_ST_BEGIN);
		if (err)
			return err;
		w->in_txn = true;
	}
	return run(w, st);
}

static int commit(struct sonde_writer *w)
{
	int err;

	if (w->failed || !w->in_txn)
		return w->failed;
	err = check_file(w); /* before it grows again: a hole is seen by the size only */
	err = err ? err : run(w, SONDE_ST_COMMIT);
	if (err)
		return err;
	w->in_txn = false;
	return check_file(w);
}

/* Printable ASCII needs no copy, and is nearly everything. */
static bool is_plain(const char *s, size_t *len)
{
	const unsigned char *p = (const unsigned char *)s;

	while (*p >= 0x20 && *p < 0x7f)
		p++;
	*len = (size_t)(p - (const unsigned char *)s);
	return !*p;
}

int sonde_writer_bind_text(struct sonde_writer *w, enum sonde_writer_statement st, int at,
			   const char *s)
{
	sonde_autostr struct sonde_str clean = {0};
	size_t len;

	if (!s)
		s = "";
	if (is_plain(s, &len)) {
		sqlite3_bind_text(w->st[st], at, s, (int)len, SQLITE_STATIC);
		return 0;
	}
	if (sonde_str_add_utf8(&clean, s, strlen(s)))
		return -ENOMEM;
	if (sqlite3_bind_text(w->st[st], at, clean.s, (int)clean.len, SQLITE_TRANSIENT))
		return -ENOMEM;
	return 0;
}

int sonde_writer_name(struct sonde_writer *w, const char *s, int64_t *id)
{
	uint32_t n;
	bool added;
	int err;

	*id = 0;
	if (!s || !*s)
		return 0;
	err = sonde_intern_get(&w->names, s, strlen(s), &n, &added);
	if (err)
		return err;
	*id = n;
	if (!added)
		return 0;
	sqlite3_bind_int64(w->st[SONDE_ST_NAME], 1, n);
	err = sonde_writer_bind_text(w, SONDE_ST_NAME, 2, s);
	return err ? err : sonde_writer_step(w, SONDE_ST_NAME);
}

static int put_meta(struct sonde_writer *w, const char *key, const char *value)
{
	int err = sonde_writer_bind_text(w, SONDE_ST_META, 1, key);

	if (!err)
		err = sonde_writer_bind_text(w, SONDE_ST_META, 2, value);
	return err ? err : sonde_writer_step(w, SONDE_ST_META);
}

static int put_meta_u64(struct sonde_writer *w, const char *key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	return put_meta(w, key, text);
}

static int put_all_meta(struct sonde_writer *w, const struct sonde_meta *meta)
{
	int err = 0;

	for (size_t i = 0; meta && i < meta->n && !err; i++)
		err = put_meta(w, meta->rows[i].key, meta->rows[i].value);
	return err;
}

static int put_own_meta(struct sonde_writer *w)
{
	char spans[32];
	int err;

	snprintf(spans, sizeof(spans), "slowest=%u/h", w->opts.spans.slowest_n);
	err = put_meta(w, "recording.spans",
		       w->opts.spans.mode == SONDE_SPANS_ALL	? "all"
		       : w->opts.spans.mode == SONDE_SPANS_NONE ? "none"
								: spans);
	if (!err && w->opts.slower_than_ns)
		err = put_meta_u64(w, "recording.slower_than_ns", w->opts.slower_than_ns);
	if (!err)
		err = put_meta_u64(w, "recording.begin_ns", sonde_real_ns());
	if (!err)
		err = put_meta(w, "recording.sonde_version", SONDE_VERSION);
	if (!err)
		err = put_meta_u64(w, "clock.mono_ns", w->clock.mono_ns);
	if (!err)
		err = put_meta_u64(w, "clock.real_ns", w->clock.real_ns);
	return err ? err : put_meta(w, "complete", "0");
}

static int hook_begin(void *ctx, const struct sonde_meta *meta)
{
	struct sonde_writer *w = ctx;
	int err;

	if (!w->clock_given)
		sonde_meta_clock(meta, &w->clock);
	err = put_all_meta(w, meta);
	if (!err)
		err = put_own_meta(w);
	return err ? err : commit(w);
}

/* Of its own and at once: a recording that is cut short knows it too. */
static int hook_start(void *ctx, uint64_t ts_ns)
{
	struct sonde_writer *w = ctx;
	int err = put_meta_u64(w, "recording.active_ns", (uint64_t)sonde_writer_utc(w, ts_ns));

	return err ? err : commit(w);
}

static int measure_file(struct sonde_writer *w)
{
	sqlite3_stmt *st = w->st[SONDE_ST_PAGES];

	if (sqlite3_step(st) == SQLITE_ROW)
		w->stats.file_bytes = (uint64_t)sqlite3_column_int64(st, 0) * 4096;
	return sqlite3_reset(st) ? fail(w, SQLITE_IOERR) : 0;
}

static int hook_tick(void *ctx, uint64_t ts_ns)
{
	struct sonde_writer *w = ctx;
	int64_t utc = sonde_writer_utc(w, ts_ns);
	int err = check_file(w);

	err = err ? err : sonde_writer_forms_flush(w, ts_ns, false);
	if (err)
		return err;
	w->tick_mono_ns = ts_ns;
	sqlite3_bind_int64(w->st[SONDE_ST_TICK], 1, utc);
	sqlite3_bind_int64(w->st[SONDE_ST_TICK], 2, (int64_t)w->stats.spans_seen);
	sqlite3_bind_int64(w->st[SONDE_ST_TICK], 3, (int64_t)w->stats.spans_stored);
	err = sonde_writer_step(w, SONDE_ST_TICK);
	if (!err)
		err = commit(w);
	if (err)
		return err;
	w->last_tick_ns = (uint64_t)utc;
	return measure_file(w);
}

static int hook_end(void *ctx, const struct sonde_meta *meta)
{
	struct sonde_writer *w = ctx;
	int err = check_file(w);

	if (!err)
		err = sonde_writer_forms_flush(w, w->tick_mono_ns, true);
	if (!err)
		err = put_all_meta(w, meta);
	if (!err)
		err = put_meta_u64(w, "recording.spans_seen", w->stats.spans_seen);
	if (!err)
		err = put_meta_u64(w, "recording.spans_stored", w->stats.spans_stored);
	if (!err)
		err = put_meta(w, "complete", "1");
	if (!err)
		err = commit(w);
	w->ended = !err;
	return err;
}

static int open_db(struct sonde_writer *w)
{
	char pragmas[256];
	int rc =
		sqlite3_open_v2(w->path, &w->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

	snprintf(pragmas, sizeof(pragmas),
		 "PRAGMA page_size = 4096; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16384;"
		 "PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY;"
		 "PRAGMA journal_size_limit = %d;",
		 CHECKPOINT_PAGES * 4096);
	if (!rc)
		rc = sqlite3_busy_timeout(w->db, 2000);
	if (!rc)
		rc = sqlite3_exec(w->db, pragmas, NULL, NULL, NULL);
	/* The schema goes in before WAL, so that the file itself names its kind from the start. */
	if (!rc)
		rc = sonde_schema_create(w->db);
	if (!rc)
		rc = sqlite3_exec(w->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
	for (int i = 0; i < SONDE_ST__MAX && !rc; i++)
		rc = sonde_db_prepare(w->db, &w->st[i], statements[i]);
	if (!rc)
		sonde_checkpointer_start(&w->checkpointer, w->path, w->db, CHECKPOINT_PAGES);
	if (rc)
		return sonde_err(sonde_db_errno(rc), "cannot start recording %s: %s", w->path,
				 sonde_db_cause(rc));
	return 0;
}

static void free_writer(struct sonde_writer *w)
{
	sonde_checkpointer_stop(&w->checkpointer);
	for (int i = 0; i < SONDE_ST__MAX; i++)
		sqlite3_finalize(w->st[i]);
	sqlite3_close(w->db);
	if (w->fd >= 0)
		close(w->fd);
	sonde_intern_fini(&w->names);
	sonde_intern_fini(&w->series);
	sonde_intern_fini(&w->frames);
	sonde_idset_fini(&w->fingerprints);
	sonde_writer_forms_fini(w);
	free(w->slow);
	free(w->path);
	free(w);
}

static void set_visitor(struct sonde_writer *w)
{
	w->visitor = (struct sonde_visitor){
		.ctx = w,
		.begin = hook_begin,
		.start = hook_start,
		.metric = sonde_writer_metric,
		.hist = sonde_writer_hist,
		.span = sonde_writer_span,
		.stack = sonde_writer_stack,
		.stack_count = sonde_writer_stack_count,
		.note = sonde_writer_note,
		.drop = sonde_writer_drop,
		.tick = hook_tick,
		.end = hook_end,
	};
}

static struct sonde_writer *new_writer(const char *path, const struct sonde_writer_opts *opts)
{
	struct sonde_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->fd = -1;
	w->opts = *opts;
	w->clock_given = opts->clock.mono_ns || opts->clock.real_ns;
	w->clock = w->clock_given ? opts->clock : sonde_clockpair_now();
	w->path = strdup(path);
	w->slow = calloc(opts->spans.slowest_n + 1, sizeof(*w->slow));
	set_visitor(w);
	if (w->path && w->slow)
		return w;
	free_writer(w);
	return NULL;
}

int sonde_writer_open(struct sonde_writer **out, const char *path,
		      const struct sonde_writer_opts *opts)
{
	struct sonde_writer *w = new_writer(path, opts);
	int err;

	if (!w)
		return sonde_err(ENOMEM, "cannot start recording %s: out of memory", path);
	sonde_bus_survive(); /* SQLite maps the index of its log */
	err = sonde_writer_create(w);
	if (!err) {
		err = open_db(w);
		if (err && sonde_writer_has_file(w))
			unlink(path);
	}
	if (err) {
		free_writer(w);
		return err;
	}
	*out = w;
	return 0;
}

const struct sonde_visitor *sonde_writer_visitor(struct sonde_writer *w)
{
	return &w->visitor;
}

void sonde_writer_stats(const struct sonde_writer *w, struct sonde_writer_stats *out)
{
	*out = w->stats;
}

/* Up to this size all is read, which takes some tenths of a second; of a larger one only its index.
 */
#define WHOLE_CHECK_BYTES (128ll << 20)

/* What the file itself says, now that everything is in it. */
static bool is_whole(struct sonde_writer *w)
{
	bool all = w->size < WHOLE_CHECK_BYTES, whole;
	sqlite3_stmt *stmt = NULL;
	int rc;

	/* What this connection has in memory is no witness. */
	sqlite3_db_release_memory(w->db);
	if (sonde_db_prepare(w->db, &stmt,
			     all ? "PRAGMA quick_check(1)"
				 : "SELECT 'ok' FROM meta, (SELECT max(ts_ns) FROM tick) "
				   "WHERE key = 'complete' AND value = '1'"))
		return false;
	rc = sqlite3_step(stmt);
	/* Somebody who holds a lock keeps us from looking, no more. */
	whole = rc == SQLITE_BUSY ||
		(rc == SQLITE_ROW && !strcmp((const char *)sqlite3_column_text(stmt, 0), "ok"));
	sqlite3_finalize(stmt);
	return whole;
}

/* A finished recording becomes one plain file, readable where nothing can be written. A reader that
 * still has it open keeps SQLite from that: then it stays in WAL mode, which reads as well. */
static int finish_file(struct sonde_writer *w)
{
	sqlite3_exec(w->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
	if (!is_whole(w))
		return sonde_err(EBADMSG,
				 "recording %s is damaged: something else has written to it or cut "
				 "it off; record again, to a file that others leave alone",
				 w->path);
	if (fsync(w->fd))
		return sonde_err(errno, "recording %s may be incomplete on disk: %s", w->path,
				 strerror(errno));
	return 0;
}

int sonde_writer_close(struct sonde_writer **wp)
{
	struct sonde_writer *w = *wp;
	int err;

	if (!w)
		return 0;
	*wp = NULL;
	err = commit(w);
	for (int i = 0; i < SONDE_ST__MAX; i++) {
		sqlite3_finalize(w->st[i]);
		w->st[i] = NULL;
	}
	if (!err && w->ended)
		err = check_file(w);
	sonde_checkpointer_stop(&w->checkpointer);
	if (!err && w->ended)
		err = finish_file(w);
	free_writer(w);
	return err;
}
