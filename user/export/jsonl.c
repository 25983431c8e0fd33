// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * JSON lines: everything a recording holds, one object a line, told apart by "type". Times are RFC
 * 3339 UTC, ids are hex strings (64 bits do not fit a JSON reader's double), what is not known has
 * no key.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "export/columns.h"
#include "export/export.h"

/* Sets fail only for want of memory (or a NULL value, which is the same); told at the line's end.
 */
struct line {
	struct sonde_export *x;
	json_t *object;
	bool failed;
};

static struct line line_begin(void *ctx, const char *type)
{
	struct line l = {ctx, json_object(), false};

	l.failed = !l.object || json_object_set_new(l.object, "type", json_string(type));
	return l;
}

static void set(struct line *l, const char *key, json_t *value)
{
	if (json_object_set_new(l->object, key, value))
		l->failed = true;
}

static json_t *text(const char *s)
{
	sonde_autostr struct sonde_str clean = {0};

	if (sonde_str_add_utf8(&clean, s, strlen(s)))
		return NULL;
	return json_string(sonde_str_get(&clean));
}

static void set_text(struct line *l, const char *key, const char *s)
{
	if (s && *s)
		set(l, key, text(s));
}

static void set_time(struct line *l, const char *key, uint64_t mono_ns)
{
	char buf[40];

	set(l, key,
	    json_string(sonde_fmt_rfc3339(buf, sizeof(buf), sonde_export_utc(l->x, mono_ns))));
}

/* JSON has one kind of number; above 2^63 it would need a double. */
static void set_count(struct line *l, const char *key, uint64_t n)
{
	set(l, key, n <= INT64_MAX ? json_integer((json_int_t)n) : json_real((double)n));
}

static void set_double(struct line *l, const char *key, double v)
{
	bool whole = v == floor(v) && fabs(v) < 9007199254740992.0;

	set(l, key, whole ? json_integer((json_int_t)v) : json_real(v));
}

static int line_end(struct line *l)
{
	struct sonde_str out = {0};
	int err;

	if (!l->failed)
		out.s = json_dumps(l->object, JSON_COMPACT | JSON_REAL_PRECISION(17));
	json_decref(l->object);
	if (!out.s)
		return sonde_err(ENOMEM, "cannot export: out of memory");
	out.len = strlen(out.s);
	out.s[out.len++] = '\n'; /* takes the NUL's place; put() goes by len */
	out.cap = out.len;
	err = sonde_export_put(l->x, &out);
	free(out.s);
	return err;
}

static int on_begin(void *ctx, const struct sonde_meta *meta)
{
	struct line l = line_begin(ctx, "meta");
	json_t *rows = json_object();

	for (size_t i = 0; i < meta->n; i++)
		if (json_object_set_new(rows, meta->rows[i].key, text(meta->rows[i].value)))
			l.failed = true;
	set(&l, "meta", rows);
	return line_end(&l);
}

static int on_span(void *ctx, const struct sonde_span *s)
{
	struct line l = line_begin(ctx, "span");
	char scratch[SONDE_CELL_SCRATCH], buf[40];

	for (size_t i = 0; i < sonde_span_column_count; i++) {
		const char *name = sonde_span_columns[i].name;
		struct sonde_cell c = sonde_span_columns[i].get(s, scratch);

		if (c.kind == SONDE_CELL_COUNT)
			set_count(&l, name, c.number);
		else if (c.kind == SONDE_CELL_TIME)
			set_time(&l, name, c.number);
		else if (c.kind == SONDE_CELL_ID)
			set(&l, name, json_string(sonde_fmt_id(buf, sizeof(buf), c.number)));
		else if (c.kind == SONDE_CELL_TEXT)
			set_text(&l, name, c.text);
	}
	return line_end(&l);
}

static void set_series(struct line *l, const char *name, const char *label, const char *unit,
		       uint32_t target)
{
	set_text(l, "name", name);
	set_text(l, "label", label);
	set_text(l, "unit", unit);
	set_count(l, "target", target);
}

static int on_metric(void *ctx, const struct sonde_metric *m)
{
	struct line l = line_begin(ctx, "metric");

	set_time(&l, "time_utc", m->ts_ns);
	set_series(&l, m->desc->name, m->label, m->desc->unit, m->target);
	set_text(&l, "kind", m->desc->kind == SONDE_COUNTER ? "counter" : "gauge");
	if (m->absent)
		set_text(&l, "absent_because", m->absent);
	else if (isfinite(m->value))
		set_double(&l, "value", m->value);
	return line_end(&l);
}

/* [[least value of the bucket, count], ...], of those that hold anything. */
static json_t *buckets_of(const struct sonde_hist *h)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < SONDE_HIST_BUCKETS; i++) {
		if (!h->buckets[i])
			continue;
		if (json_array_append_new(all, json_pack("[I,I]", (json_int_t)sonde_hist_low(i),
							 (json_int_t)h->buckets[i]))) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static int on_hist(void *ctx, const struct sonde_histrow *row)
{
	static const struct {
		const char *name;
		double q;
	} quantiles[] = {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}};
	struct line l = line_begin(ctx, "histogram");
	const struct sonde_hist *h = row->hist;

	set_time(&l, "from_utc", row->from_ns);
	set_time(&l, "to_utc", row->to_ns);
	set_series(&l, row->desc->name, row->label, row->desc->unit, row->target);
	set_count(&l, "count", h->count);
	if (h->count) {
		if (isfinite(h->sum))
			set_double(&l, "sum", h->sum);
		set_count(&l, "min", h->min);
		set_count(&l, "max", h->max);
		for (size_t i = 0; i < SONDE_ARRAY_SIZE(quantiles); i++)
			set_count(&l, quantiles[i].name, sonde_hist_quantile(h, quantiles[i].q));
	}
	set(&l, "buckets", buckets_of(h));
	return line_end(&l);
}

static int on_note(void *ctx, const struct sonde_note *n)
{
	struct line l = line_begin(ctx, "note");

	set_time(&l, "time_utc", n->ts_ns);
	set_text(&l, "level", sonde_note_level_name(n->level));
	set_text(&l, "lens", n->lens);
	set_text(&l, "what", n->what);
	set_text(&l, "remedy", n->remedy);
	return line_end(&l);
}

/* A frame's keys as the table of frames has them; what is not known has no key. */
static json_t *frame_of(const struct sonde_frame *f)
{
	json_t *o = json_object();

	if (*f->function)
		json_object_set_new(o, "function", json_string(f->function));
	if (*f->module)
		json_object_set_new(o, "module", json_string(f->module));
	if (*f->file)
		json_object_set_new(o, "file", json_string(f->file));
	if (f->line)
		json_object_set_new(o, "line", json_integer(f->line));
	json_object_set_new(o, "offset", json_integer((json_int_t)f->offset));
	if (f->inlined)
		json_object_set_new(o, "inlined", json_true());
	return o;
}

static int on_stack(void *ctx, const struct sonde_stack *s)
{
	struct line l = line_begin(ctx, "stack");
	json_t *frames = json_array();
	char id[24];

	set_text(&l, "stack", sonde_fmt_id(id, sizeof(id), s->id));
	set_count(&l, "target", s->target);
	set_text(&l, "end", sonde_stack_end_name(s->end));
	for (size_t i = 0; i < s->n; i++)
		json_array_append_new(frames, frame_of(&s->frames[i]));
	set(&l, "frames", frames);
	return line_end(&l);
}

static int on_stack_count(void *ctx, const struct sonde_stack_count *c)
{
	struct line l = line_begin(ctx, "stack_count");
	char id[24];

	set_time(&l, "time_utc", c->ts_ns);
	set_text(&l, "lens", sonde_lens_id_name(c->lens));
	set_text(&l, "stack", sonde_fmt_id(id, sizeof(id), c->stack));
	set_count(&l, "target", c->target);
	set_count(&l, c->lens == SONDE_LENS_FAULT ? "faults" : "calls", c->calls);
	set_count(&l, c->lens == SONDE_LENS_FAULT ? "time_ns" : "bytes", c->bytes);
	if (c->has_live) {
		set_count(&l, "live_calls", c->live_calls);
		set_count(&l, "live_bytes", c->live_bytes);
		set_count(&l, "live_error_bytes", c->live_error);
	}
	return line_end(&l);
}

/* Counts are cumulative, so a cause that has no line has lost nothing. */
static int on_drop(void *ctx, const struct sonde_drops *d)
{
	struct line l;

	if (!d->count)
		return 0;
	l = line_begin(ctx, "drops");
	set_time(&l, "time_utc", d->ts_ns);
	set_text(&l, "lens", sonde_lens_id_name(d->lens));
	set_text(&l, "cause", sonde_drop_name(d->cause));
	set_count(&l, "count", d->count);
	return line_end(&l);
}

static int jsonl_open(struct sonde_export *x)
{
	x->visitor.metric = on_metric;
	if (x->opts.series)
		return 0;
	x->visitor.begin = on_begin;
	x->visitor.span = on_span;
	x->visitor.hist = on_hist;
	x->visitor.note = on_note;
	x->visitor.drop = on_drop;
	x->visitor.stack = on_stack;
	x->visitor.stack_count = on_stack_count;
	return 0;
}

const struct sonde_exporter sonde_export_jsonl = {
	.name = "jsonl",
	.summary = "everything, one JSON object per line; with --series the metrics only",
	.suffix = ".jsonl",
	.takes = SONDE_TAKES_SPAN | SONDE_TAKES_METRIC | SONDE_TAKES_HIST | SONDE_TAKES_NOTE |
		 SONDE_TAKES_DROP | SONDE_TAKES_META | SONDE_TAKES_STACK,
	.open = jsonl_open,
};
