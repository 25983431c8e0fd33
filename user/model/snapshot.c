// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A visitor that remembers; see snapshot.h. Invariant: a series is found by (description name,
 * label, target), and its interval figures change only in tick().
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "model/snapshot.h"

static bool same_series(const char *name, const char *label, uint32_t target, const char *want_name,
			const char *want_label, uint32_t want_target)
{
	return !strcmp(name, want_name) && !strcmp(label, want_label) &&
	       (want_target == UINT32_MAX || target == want_target);
}

static struct sonde_snap_metric *find_metric(const struct sonde_snapshot *s, const char *name,
					     const char *label, uint32_t target)
{
	for (size_t i = 0; i < s->n_metrics; i++) {
		struct sonde_snap_metric *m = &s->metrics[i];

		if (same_series(m->desc->name, m->label, m->target, name, label, target))
			return m;
	}
	return NULL;
}

static struct sonde_snap_metric *get_metric(struct sonde_snapshot *s, const struct sonde_metric *m)
{
	const char *label = m->label ? m->label : "";
	struct sonde_snap_metric *row = find_metric(s, m->desc->name, label, m->target);
	char *copy;

	if (row)
		return row;
	copy = strdup(label);
	if (!copy || SONDE_GROW(s->metrics, s->n_metrics, s->cap_metrics)) {
		free(copy);
		return NULL;
	}
	row = &s->metrics[s->n_metrics++];
	*row = (struct sonde_snap_metric){.desc = m->desc, .label = copy, .target = m->target};
	return row;
}

static int take_metric(void *ctx, const struct sonde_metric *m)
{
	struct sonde_snap_metric *row = get_metric(ctx, m);

	if (!row)
		return -ENOMEM;
	free(row->absent);
	row->absent = m->absent ? strdup(m->absent) : NULL;
	if (m->absent)
		return row->absent ? 0 : -ENOMEM;
	if (!row->present) {
		row->present = true;
		row->first = row->min = row->max = m->value;
		row->first_ns = m->ts_ns;
		/* A counter begins at attach with 0; a gauge has no earlier value. */
		row->prev = m->desc->kind == SONDE_COUNTER ? 0 : m->value;
	}
	row->last = m->value;
	row->last_ns = m->ts_ns;
	if (m->value < row->min)
		row->min = m->value;
	if (m->value > row->max)
		row->max = m->value;
	return 0;
}

static struct sonde_snap_hist *find_hist(const struct sonde_snapshot *s, const char *name,
					 const char *label, uint32_t target)
{
	for (size_t i = 0; i < s->n_hists; i++) {
		struct sonde_snap_hist *h = &s->hists[i];

		if (same_series(h->desc->name, h->label, h->target, name, label, target))
			return h;
	}
	return NULL;
}

static void hist_row_fini(struct sonde_snap_hist *h)
{
	free(h->label);
	sonde_hist_fini(&h->total);
	sonde_hist_fini(&h->interval);
	sonde_hist_fini(&h->pending);
}

static struct sonde_snap_hist *get_hist(struct sonde_snapshot *s, const struct sonde_histrow *r)
{
	const char *label = r->label ? r->label : "";
	struct sonde_snap_hist *row = find_hist(s, r->desc->name, label, r->target), fresh;

	if (row)
		return row;
	fresh = (struct sonde_snap_hist){
		.desc = r->desc, .label = strdup(label), .target = r->target};
	if (!fresh.label || sonde_hist_init(&fresh.total) || sonde_hist_init(&fresh.interval) ||
	    sonde_hist_init(&fresh.pending) || SONDE_GROW(s->hists, s->n_hists, s->cap_hists)) {
		hist_row_fini(&fresh);
		return NULL;
	}
	s->hists[s->n_hists] = fresh;
	return &s->hists[s->n_hists++];
}

static int take_hist(void *ctx, const struct sonde_histrow *r)
{
	struct sonde_snap_hist *row = get_hist(ctx, r);

	if (!row)
		return -ENOMEM;
	sonde_hist_merge(&row->total, r->hist);
	sonde_hist_merge(&row->pending, r->hist);
	return 0;
}

static int take_span(void *ctx, const struct sonde_span *span)
{
	struct sonde_snapshot *s = ctx;

	(void)span;
	s->spans++;
	return 0;
}

static int take_note(void *ctx, const struct sonde_note *n)
{
	struct sonde_snapshot *s = ctx;
	struct sonde_note copy = *n;

	copy.lens = strdup(n->lens ? n->lens : "");
	copy.what = strdup(n->what);
	copy.remedy = strdup(n->remedy ? n->remedy : "");
	if (!copy.lens || !copy.what || !copy.remedy ||
	    SONDE_GROW(s->notes, s->n_notes, s->cap_notes)) {
		free((char *)copy.lens);
		free((char *)copy.what);
		free((char *)copy.remedy);
		return -ENOMEM;
	}
	s->notes[s->n_notes++].note = copy;
	return 0;
}

static int take_drop(void *ctx, const struct sonde_drops *d)
{
	struct sonde_snapshot *s = ctx;

	if ((unsigned)d->lens < SONDE_LENS__MAX && (unsigned)d->cause < SONDE_DROP__MAX)
		s->drops[d->lens][d->cause] = d->count;
	return 0;
}

static int take_begin(void *ctx, const struct sonde_meta *meta)
{
	struct sonde_snapshot *s = ctx;

	for (size_t i = 0; i < meta->n; i++) {
		int err = sonde_meta_set(&s->meta, meta->rows[i].key, "%s", meta->rows[i].value);

		if (err)
			return err;
	}
	return 0;
}

static int take_start(void *ctx, uint64_t ts_ns)
{
	struct sonde_snapshot *s = ctx;

	s->first_tick_ns = s->last_tick_ns = ts_ns;
	s->started = true;
	return 0;
}

/* The interval ends here: what came since the last tick becomes "the interval". */
static int take_tick(void *ctx, uint64_t ts_ns)
{
	struct sonde_snapshot *s = ctx;

	for (size_t i = 0; i < s->n_hists; i++) {
		struct sonde_hist done = s->hists[i].pending;

		s->hists[i].pending = s->hists[i].interval;
		s->hists[i].interval = done;
		sonde_hist_reset(&s->hists[i].pending);
	}
	if (!s->ticks && !s->first_tick_ns)
		s->first_tick_ns = ts_ns;
	s->prev_tick_ns = s->last_tick_ns;
	s->last_tick_ns = ts_ns;
	s->ticks++;
	return 0;
}

void sonde_snapshot_init(struct sonde_snapshot *s)
{
	*s = (struct sonde_snapshot){0};
	s->visitor = (struct sonde_visitor){
		.ctx = s,
		.begin = take_begin,
		.start = take_start,
		.metric = take_metric,
		.hist = take_hist,
		.span = take_span,
		.note = take_note,
		.drop = take_drop,
		.tick = take_tick,
		.end = take_begin,
	};
}

void sonde_snapshot_fini(struct sonde_snapshot *s)
{
	for (size_t i = 0; i < s->n_metrics; i++) {
		free(s->metrics[i].label);
		free(s->metrics[i].absent);
	}
	for (size_t i = 0; i < s->n_hists; i++)
		hist_row_fini(&s->hists[i]);
	for (size_t i = 0; i < s->n_notes; i++) {
		free((char *)s->notes[i].note.lens);
		free((char *)s->notes[i].note.what);
		free((char *)s->notes[i].note.remedy);
	}
	free(s->metrics);
	free(s->hists);
	free(s->notes);
	sonde_meta_fini(&s->meta);
	*s = (struct sonde_snapshot){0};
}

uint64_t sonde_snapshot_interval_ns(const struct sonde_snapshot *s)
{
	uint64_t n = s->started ? s->ticks : s->ticks ? s->ticks - 1 : 0;

	return n ? (s->last_tick_ns - s->first_tick_ns) / n : 0;
}

void sonde_snapshot_mark(struct sonde_snapshot *s)
{
	for (size_t i = 0; i < s->n_metrics; i++)
		s->metrics[i].prev = s->metrics[i].last;
	s->prev_drops = sonde_snapshot_drops(s);
}

const struct sonde_snap_metric *sonde_snapshot_find_metric(const struct sonde_snapshot *s,
							   const char *name, const char *label,
							   uint32_t target)
{
	return find_metric(s, name, label, target);
}

const struct sonde_snap_hist *sonde_snapshot_find_hist(const struct sonde_snapshot *s,
						       const char *name, const char *label,
						       uint32_t target)
{
	return find_hist(s, name, label, target);
}

static double sum_metric(const struct sonde_snapshot *s, const char *name, bool *present,
			 bool delta)
{
	double sum = 0;

	*present = false;
	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];

		if (strcmp(m->desc->name, name) || !m->present)
			continue;
		/* A level that is absent now is no longer that of its target: it is gone. */
		if (m->desc->kind == SONDE_GAUGE && m->absent)
			continue;
		*present = true;
		sum += delta ? m->last - m->prev : m->last;
	}
	return sum;
}

double sonde_snapshot_sum(const struct sonde_snapshot *s, const char *name, bool *present)
{
	return sum_metric(s, name, present, false);
}

double sonde_snapshot_delta(const struct sonde_snapshot *s, const char *name, bool *present)
{
	return sum_metric(s, name, present, true);
}

int sonde_snapshot_hist_total(const struct sonde_snapshot *s, const char *name, const char *label,
			      bool interval, struct sonde_hist *out)
{
	for (size_t i = 0; i < s->n_hists; i++) {
		const struct sonde_snap_hist *h = &s->hists[i];

		if (same_series(h->desc->name, h->label, h->target, name, label, UINT32_MAX))
			sonde_hist_merge(out, interval ? &h->interval : &h->total);
	}
	return out->count ? 0 : -ENOENT;
}

uint64_t sonde_snapshot_drops(const struct sonde_snapshot *s)
{
	uint64_t n = 0;

	for (size_t l = 0; l < SONDE_LENS__MAX; l++)
		for (size_t c = 0; c < SONDE_DROP__MAX; c++)
			n += sonde_drop_loses((enum sonde_drop)c) ? s->drops[l][c] : 0;
	return n;
}
