/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The inside of the writer, shared by writer*.c. Every hook ends in sonde_writer_step(), which
 * opens the tick's transaction when it is needed and turns the first failure into the writer's last
 * state.
 */
#ifndef SONDE_RECORD_WRITER_IMPL_H
#define SONDE_RECORD_WRITER_IMPL_H

#include <sqlite3.h>

#include "record/checkpoint.h"
#include "record/intern.h"
#include "record/writer.h"

/*	symbol	    statement */
#define SONDE_WRITER_STATEMENTS(X)                                                                 \
	X(BEGIN, "BEGIN")                                                                          \
	X(COMMIT, "COMMIT")                                                                        \
	X(META, "INSERT INTO meta (key, value) VALUES (?1, ?2) "                                   \
		"ON CONFLICT (key) DO UPDATE SET value = excluded.value")                          \
	X(NAME, "INSERT INTO name VALUES (?1, ?2)")                                                \
	X(TICK, "INSERT OR REPLACE INTO tick VALUES (?1, ?2, ?3)")                                 \
	X(PAGES, "PRAGMA page_count")                                                              \
	X(SERIES, "INSERT INTO series VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")                        \
	X(VALUE, "INSERT OR REPLACE INTO value VALUES (?1, ?2, ?3, ?4)")                           \
	X(WINDOW, "INSERT INTO hist_window VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) "               \
		  "ON CONFLICT DO UPDATE SET from_ns = min(from_ns, excluded.from_ns), "           \
		  "to_ns = max(to_ns, excluded.to_ns), count = count + excluded.count, "           \
		  "sum = sum + excluded.sum, min = min(min, excluded.min), "                       \
		  "max = max(max, excluded.max)")                                                  \
	X(BUCKET, "INSERT INTO hist VALUES (?1, ?2, ?3, ?4) "                                      \
		  "ON CONFLICT DO UPDATE SET count = count + excluded.count")                      \
	X(NOTE, "INSERT INTO note VALUES (NULL, ?1, ?2, ?3, ?4, ?5)")                              \
	X(DROP, "INSERT OR REPLACE INTO drops VALUES (?1, ?2, ?3, ?4)")                            \
	X(FINGERPRINT, "INSERT OR IGNORE INTO fingerprint VALUES (?1, ?2)")                        \
	X(SPAN, "INSERT INTO span VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16," \
		"?17,?18,?19,?20,?21,?22,?23,?24,?25,?26,?27,?28,?29,?30,?31,?32,?33,?34)")        \
	X(TEXT, "INSERT INTO query_text VALUES (?1, ?2)")                                          \
	X(ANATOMY, "INSERT INTO anatomy VALUES ("                                                  \
		   "?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,"                   \
		   "?18,?19,?20,?21,?22,?23,?24,?25,?26,?27,?28,?29,?30,?31,?32,"                  \
		   "?33"                                                                           \
		   ")")                                                                            \
	X(ANATOMY_DELETE, "DELETE FROM anatomy WHERE span = ?1")                                   \
	X(FRAME, "INSERT INTO frame VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")                          \
	X(STACK, "INSERT OR REPLACE INTO stack VALUES (?1, ?2, ?3)")                               \
	X(STACK_FRAME, "INSERT OR REPLACE INTO stack_frame VALUES (?1, ?2, ?3)")                   \
	X(STACK_COUNT, "INSERT OR REPLACE INTO stack_count VALUES "                                \
		       "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")                                     \
	X(SPAN_DELETE, "DELETE FROM span WHERE id = ?1")                                           \
	X(TEXT_DELETE, "DELETE FROM query_text WHERE span = ?1")

enum sonde_writer_statement {
#define SYMBOL(sym, sql) SONDE_ST_##sym,
	SONDE_WRITER_STATEMENTS(SYMBOL)
#undef SYMBOL
		SONDE_ST__MAX
};

/* A kept span of the current hour; a heap with the shortest on top. */
struct sonde_slow {
	uint64_t duration_ns;
	int64_t id;
};

/* What was seen of a form since it was last put down. */
struct sonde_form_hist {
	uint64_t id;
	uint32_t target;
	bool other;
	struct sonde_hist hist;
};

struct sonde_writer {
	char *path;
	int fd; /* holds the lock on the file; see writer_file.c */
	struct sonde_writer_opts opts;
	struct sonde_clockpair clock;
	struct sonde_visitor visitor;
	sqlite3 *db;
	struct sonde_checkpointer checkpointer;
	sqlite3_stmt *st[SONDE_ST__MAX];
	off_t size; /* of the recording itself, which never shrinks              */
	bool in_txn, ended, clock_given;
	int failed; /* -errno of the first failure; nothing is written after it            */
	uint64_t last_tick_ns; /* UTC, committed; 0: none yet */
	uint64_t tick_mono_ns;
	struct sonde_writer_stats stats;
	struct sonde_intern names, series, frames;
	struct sonde_idset fingerprints;
	uint64_t drops[SONDE_LENS__MAX][SONDE_DROP__MAX];
	bool drop_seen[SONDE_LENS__MAX][SONDE_DROP__MAX];
	/* Spans. */
	int64_t span_id;
	bool spans_full; /* max_bytes reached */
	struct sonde_slow *slow;
	size_t n_slow;
	uint64_t slow_hour;
	struct sonde_form_hist *forms;
	size_t n_forms, cap_forms;
	uint64_t forms_from_ns; /* monotonic: what they hold begins here; 0: nothing yet */
};

static inline int64_t sonde_writer_utc(const struct sonde_writer *w, uint64_t mono_ns)
{
	return (int64_t)sonde_clockpair_real(&w->clock, mono_ns);
}

/* Run a bound statement to its end and reset it, in the tick's transaction. 0 or w->failed. */
int sonde_writer_step(struct sonde_writer *w, enum sonde_writer_statement st);
/* Bind text as valid UTF-8; NULL binds "". 0 or -ENOMEM. */
int sonde_writer_bind_text(struct sonde_writer *w, enum sonde_writer_statement st, int at,
			   const char *s);
/* The id of an interned string, stored when new; 0 for "" and NULL. */
int sonde_writer_name(struct sonde_writer *w, const char *s, int64_t *id);
/* A note by the writer itself. */
int sonde_writer_own_note(struct sonde_writer *w, uint64_t ts_ns, enum sonde_note_level level,
			  const char *what, const char *remedy);

/* Create w->path, or replace it where that is wanted, and lock it. 0 or -errno (logged). */
int sonde_writer_create(struct sonde_writer *w);
/* Is the file still there by its name? */
bool sonde_writer_has_file(const struct sonde_writer *w);
/* Has somebody else cut off a file of the recording? The ending of its name ("", "-wal", "-shm"),
 * or NULL. */
const char *sonde_writer_cut_off(struct sonde_writer *w);

/* The hooks, one file each subject. */
int sonde_writer_metric(void *ctx, const struct sonde_metric *m);
int sonde_writer_hist(void *ctx, const struct sonde_histrow *h);
int sonde_writer_note(void *ctx, const struct sonde_note *n);
int sonde_writer_drop(void *ctx, const struct sonde_drops *d);
int sonde_writer_stack(void *ctx, const struct sonde_stack *s);
int sonde_writer_stack_count(void *ctx, const struct sonde_stack_count *c);
int sonde_writer_span(void *ctx, const struct sonde_span *s);
/* The row of a span's fingerprint, once. */
int sonde_writer_fingerprint(struct sonde_writer *w, const struct sonde_span *s);

/* writer_forms.c: count a span; put down what waits, if it is time or the end. 0 or -errno. */
int sonde_writer_form_add(struct sonde_writer *w, const struct sonde_span *s);
int sonde_writer_forms_flush(struct sonde_writer *w, uint64_t ts_ns, bool end);
void sonde_writer_forms_fini(struct sonde_writer *w);

#endif
