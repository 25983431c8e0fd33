// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Metrics, histograms, notes and drops. The database itself accumulates a minute's histogram: a
 * delta's buckets are added to its rows, so that nothing waits in memory for the minute's end and a
 * kill loses one interval.
 */
#include <errno.h>
#include <math.h>

#include "core/mem.h"
#include "core/str.h"
#include "record/schema.h"
#include "record/writer_impl.h"

#define MINUTE_NS (60 * SONDE_NS_PER_SEC)

struct series_key {
	enum sonde_series_kind kind;
	const char *name, *label, *unit, *help;
	uint32_t target;
};

static int insert_series(struct sonde_writer *w, const struct series_key *k, uint32_t id)
{
	const char *const texts[] = {k->name, k->label, k->unit, k->help};
	static const int at[] = {3, 4, 6, 7};
	int err = 0;

	sqlite3_bind_int64(w->st[SONDE_ST_SERIES], 1, id);
	sqlite3_bind_int(w->st[SONDE_ST_SERIES], 2, (int)k->kind);
	sqlite3_bind_int64(w->st[SONDE_ST_SERIES], 5, k->target);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(at) && !err; i++)
		err = sonde_writer_bind_text(w, SONDE_ST_SERIES, at[i], texts[i]);
	return err ? err : sonde_writer_step(w, SONDE_ST_SERIES);
}

static int get_series(struct sonde_writer *w, const struct series_key *k, uint32_t *id)
{
	sonde_autostr struct sonde_str key = {0};
	bool added;
	int err =
		sonde_str_addf(&key, "%d\n%u\n%s\n%s", (int)k->kind, k->target, k->name, k->label);

	if (!err)
		err = sonde_intern_get(&w->series, key.s, key.len, id, &added);
	return err || !added ? err : insert_series(w, k, *id);
}

int sonde_writer_metric(void *ctx, const struct sonde_metric *m)
{
	struct sonde_writer *w = ctx;
	sqlite3_stmt *st = w->st[SONDE_ST_VALUE];
	const char *absent = m->absent ? m->absent : !isfinite(m->value) ? "not a number" : NULL;
	struct series_key key = {(enum sonde_series_kind)m->desc->kind,
				 m->desc->name,
				 m->label ? m->label : "",
				 m->desc->unit,
				 m->desc->help,
				 m->target};
	uint32_t series;
	int64_t reason;
	int err = get_series(w, &key, &series);

	if (!err)
		err = sonde_writer_name(w, absent, &reason);
	if (err)
		return err;
	sqlite3_bind_int64(st, 1, sonde_writer_utc(w, m->ts_ns));
	sqlite3_bind_int64(st, 2, series);
	if (absent) {
		sqlite3_bind_null(st, 3);
		sqlite3_bind_int64(st, 4, reason);
	} else {
		sqlite3_bind_double(st, 3, m->value);
		sqlite3_bind_null(st, 4);
	}
	return sonde_writer_step(w, SONDE_ST_VALUE);
}

/* The UTC minute that most of the interval lies in; ticks on whole seconds are split exactly. */
static int64_t window_of(const struct sonde_writer *w, const struct sonde_histrow *h)
{
	uint64_t middle = h->from_ns + (h->to_ns - h->from_ns) / 2;
	int64_t utc = sonde_writer_utc(w, middle);

	return utc - utc % (int64_t)MINUTE_NS;
}

static int put_buckets(struct sonde_writer *w, int64_t window, uint32_t series,
		       const struct sonde_hist *hist)
{
	sqlite3_stmt *st = w->st[SONDE_ST_BUCKET];
	int err = 0;

	sqlite3_bind_int64(st, 1, window);
	sqlite3_bind_int64(st, 2, series);
	for (uint32_t i = 0; i < SONDE_HIST_BUCKETS && !err; i++) {
		if (!hist->buckets[i])
			continue;
		sqlite3_bind_int64(st, 3, i);
		sqlite3_bind_int64(st, 4, (int64_t)hist->buckets[i]);
		err = sonde_writer_step(w, SONDE_ST_BUCKET);
	}
	return err;
}

int sonde_writer_hist(void *ctx, const struct sonde_histrow *h)
{
	struct sonde_writer *w = ctx;
	sqlite3_stmt *st = w->st[SONDE_ST_WINDOW];
	struct series_key key = {SONDE_SERIES_HIST, h->desc->name, h->label ? h->label : "",
				 h->desc->unit,	    h->desc->help, h->target};
	int64_t window = window_of(w, h);
	uint32_t series;
	int err;

	if (!h->hist->count)
		return w->failed;
	err = get_series(w, &key, &series);
	if (err)
		return err;
	sqlite3_bind_int64(st, 1, window);
	sqlite3_bind_int64(st, 2, series);
	sqlite3_bind_int64(st, 3, sonde_writer_utc(w, h->from_ns));
	sqlite3_bind_int64(st, 4, sonde_writer_utc(w, h->to_ns));
	sqlite3_bind_int64(st, 5, (int64_t)h->hist->count);
	sqlite3_bind_double(st, 6, h->hist->sum);
	/* The last bucket has no upper end that a signed column could hold. */
	sqlite3_bind_int64(st, 7, (int64_t)(h->hist->min & INT64_MAX));
	sqlite3_bind_int64(st, 8, (int64_t)(h->hist->max > INT64_MAX ? INT64_MAX : h->hist->max));
	err = sonde_writer_step(w, SONDE_ST_WINDOW);
	return err ? err : put_buckets(w, window, series, h->hist);
}

int sonde_writer_note(void *ctx, const struct sonde_note *n)
{
	struct sonde_writer *w = ctx;
	sqlite3_stmt *st = w->st[SONDE_ST_NOTE];
	int err;

	sqlite3_bind_int64(st, 1, sonde_writer_utc(w, n->ts_ns));
	sqlite3_bind_int(st, 2, (int)n->level);
	err = sonde_writer_bind_text(w, SONDE_ST_NOTE, 3, n->lens);
	if (!err)
		err = sonde_writer_bind_text(w, SONDE_ST_NOTE, 4, n->what);
	if (!err)
		err = sonde_writer_bind_text(w, SONDE_ST_NOTE, 5, n->remedy);
	return err ? err : sonde_writer_step(w, SONDE_ST_NOTE);
}

int sonde_writer_own_note(struct sonde_writer *w, uint64_t ts_ns, enum sonde_note_level level,
			  const char *what, const char *remedy)
{
	struct sonde_note note = {ts_ns, level, "", what, remedy};

	return sonde_writer_note(w, &note);
}

/* Counts are cumulative and mostly stand still: only a change is a row, and the first, even if 0.
 */
int sonde_writer_drop(void *ctx, const struct sonde_drops *d)
{
	struct sonde_writer *w = ctx;
	sqlite3_stmt *st = w->st[SONDE_ST_DROP];

	if (d->lens >= SONDE_LENS__MAX || d->cause >= SONDE_DROP__MAX)
		return -EINVAL;
	if (w->drop_seen[d->lens][d->cause] && w->drops[d->lens][d->cause] == d->count)
		return w->failed;
	w->drop_seen[d->lens][d->cause] = true;
	w->drops[d->lens][d->cause] = d->count;
	sqlite3_bind_int64(st, 1, sonde_writer_utc(w, d->ts_ns));
	sqlite3_bind_int(st, 2, (int)d->lens);
	sqlite3_bind_int(st, 3, (int)d->cause);
	sqlite3_bind_int64(st, 4, (int64_t)d->count);
	return sonde_writer_step(w, SONDE_ST_DROP);
}
