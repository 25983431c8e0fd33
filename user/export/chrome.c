// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Trace events for the performance panel of a Chromium browser, chrome://tracing and speedscope.
 * This half takes what a recording holds and puts it in order; memory stays bounded however many
 * queries there are. chrome_write.c draws them.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "export/chrome_impl.h"

#define MEMORY (32u << 20)

/* Drawn beside the queries. A rate is the change of a cumulative count by the time it took. */
static const struct {
	const char *metric;
	unsigned counter, series;
	bool rate;
} taken[] = {
	{"rss.anon", 0, 0, false},	  {"rss.file", 0, 1, false},
	{"rss.shmem", 0, 2, false},	  {"alloc.allocated", 1, 0, false},
	{"alloc.handed_out", 2, 0, true}, {"alloc.requested", 3, 0, true},
};

const struct sonde_chrome_counter sonde_chrome_counters[] = {
	{"RSS", "bytes", {"anonymous", "files", "shared"}},
	{"held by the program", "bytes", {"bytes"}},
	{"handed out by the allocator", "bytes per second", {"bytes per second"}},
	{"asked for in allocations", "bytes per second", {"bytes per second"}},
};
const size_t sonde_chrome_counter_count = SONDE_ARRAY_SIZE(sonde_chrome_counters);

struct sonde_chrome_last {
	const struct sonde_metric_desc *desc;
	char *label;
	uint32_t target;
	uint64_t ts_ns;
	double value;
};

static int out_of_memory(void)
{
	return sonde_err(ENOMEM, "cannot export: out of memory");
}

/* What is not from the sorter is want of memory, and not said yet. */
static int failed(struct sonde_chrome *c, int err)
{
	if (err == -ENOMEM)
		err = out_of_memory();
	c->err = c->err ? c->err : err;
	return err;
}

static void saw(struct sonde_chrome *c, uint64_t ns)
{
	if (ns && ns < c->earliest)
		c->earliest = ns;
}

static uint64_t clamp(uint64_t v, uint64_t low, uint64_t high)
{
	return v < low ? low : v > high ? high : v;
}

/* False where no time is known. *ended: its duration is. */
static bool make_times(const struct sonde_span *s, struct sonde_chrome_query *q, bool *ended)
{
	const uint64_t times[] = {s->arrival_ns, s->start_ns, s->request_end_ns, s->first_ns,
				  s->last_ns};
	uint64_t begin = s->arrival_ns ? s->arrival_ns : s->start_ns, end = 0;

	*ended = s->last_ns && begin;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(times); i++) {
		begin = begin ? begin : times[i];
		end = times[i] > end ? times[i] : end;
	}
	if (!begin)
		return false;
	q->begin = begin;
	q->end = *ended ? begin + sonde_span_duration_ns(s) : end > begin ? end : begin;
	/* Not known is no phase: what comes next begins where this one would have. */
	q->start = s->start_ns ? clamp(s->start_ns, q->begin, q->end) : q->begin;
	q->first = s->first_ns ? clamp(s->first_ns, q->start, q->end) : q->end;
	return true;
}

static void take_parts(const struct sonde_span *s, struct sonde_chrome_query *q)
{
	uint64_t left = q->end - q->begin;

	for (int i = 0; i < SONDE_PART__MAX; i++) {
		if (s->part_ns[i] > left)
			return;
		left -= s->part_ns[i];
	}
	q->has_parts = s->has_parts && !left;
	memcpy(q->part_ns, s->part_ns, sizeof(q->part_ns));
}

static int add_flight(struct sonde_chrome *c, const struct sonde_chrome_query *q)
{
	struct sonde_sort_key begin = {{SONDE_CHROME_FLIGHT, q->pid, q->begin, 1}},
			      end = {{SONDE_CHROME_FLIGHT, q->pid, q->end, 0}};
	int err = q->end > q->begin ? sonde_sorter_add(c->sorter, &begin, "", 0) : 0;

	return err || q->end == q->begin ? err : sonde_sorter_add(c->sorter, &end, "", 0);
}

static int render_query(struct sonde_chrome *c, const struct sonde_span *s,
			struct sonde_chrome_query *q, bool ended)
{
	const char *client = s->client ? s->client : "";
	size_t at;
	int err;

	sonde_str_clear(&c->line);
	q->client_len = (uint32_t)strnlen(client, 256);
	err = sonde_str_add(&c->line, (const char *)q, sizeof(*q));
	err = err ? err : sonde_str_add(&c->line, client, q->client_len);
	at = c->line.len;
	err = err ? err : sonde_chrome_name(&c->line, s);
	q->name_len = (uint32_t)(c->line.len - at);
	at = c->line.len;
	err = err ? err : sonde_chrome_args(&c->line, s, ended);
	q->args_len = (uint32_t)(c->line.len - at);
	if (!err)
		memcpy(c->line.s, q, sizeof(*q));
	return err;
}

static int on_span(void *ctx, const struct sonde_span *s)
{
	struct sonde_export *x = ctx;
	struct sonde_chrome *c = x->priv;
	struct sonde_chrome_query q = {.conn = s->conn, .pid = s->pid, .target = s->target};
	struct sonde_sort_key key;
	bool ended;
	int err;

	if (!make_times(s, &q, &ended)) {
		c->undated++;
		return 0;
	}
	take_parts(s, &q);
	saw(c, q.begin);
	c->queries++;
	c->open += !ended;
	key = (struct sonde_sort_key){{SONDE_CHROME_QUERY, s->pid, s->conn, q.begin}};
	err = render_query(c, s, &q, ended);
	err = err ? err : sonde_sorter_add(c->sorter, &key, c->line.s, c->line.len);
	err = err ? err : add_flight(c, &q);
	return err ? failed(c, err) : 0;
}

/* The value before; NULL for want of memory. */
static struct sonde_chrome_last *last_of(struct sonde_chrome *c, const struct sonde_metric *m)
{
	struct sonde_chrome_last *l;

	for (size_t i = 0; i < c->n_last; i++) {
		l = &c->last[i];
		if (l->desc == m->desc && l->target == m->target && !strcmp(l->label, m->label))
			return l;
	}
	if (SONDE_GROW(c->last, c->n_last, c->cap_last))
		return NULL;
	l = &c->last[c->n_last];
	*l = (struct sonde_chrome_last){m->desc, strdup(m->label), m->target, 0, 0};
	if (!l->label)
		return NULL;
	c->n_last++;
	return l;
}

/* 1 and *value, 0 where there is none yet, or -ENOMEM. */
static int rate_of(struct sonde_chrome *c, const struct sonde_metric *m, double *value)
{
	struct sonde_chrome_last *l = last_of(c, m);
	bool known;

	if (!l)
		return -ENOMEM;
	known = l->ts_ns && m->ts_ns > l->ts_ns && m->value >= l->value;
	if (known)
		*value = (m->value - l->value) * 1e9 / (double)(m->ts_ns - l->ts_ns);
	l->ts_ns = m->ts_ns;
	l->value = m->value;
	return known;
}

static int take_metric(struct sonde_chrome *c, size_t i, const struct sonde_metric *m)
{
	struct sonde_sort_key key = {{SONDE_CHROME_COUNTER,
				      (uint64_t)taken[i].counter << 32 | m->target, m->ts_ns,
				      taken[i].series}};
	double value = m->value;
	int known = taken[i].rate ? rate_of(c, m, &value) : 1;

	if (known <= 0)
		return known;
	saw(c, m->ts_ns);
	return sonde_sorter_add(c->sorter, &key, &value, sizeof(value));
}

static int on_metric(void *ctx, const struct sonde_metric *m)
{
	struct sonde_export *x = ctx;
	struct sonde_chrome *c = x->priv;
	int err = 0;

	if (m->absent || !isfinite(m->value))
		return 0;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(taken) && !err; i++)
		if (!strcmp(taken[i].metric, m->desc->name))
			err = take_metric(c, i, m);
	return err ? failed(c, err) : 0;
}

/* An instant at @ts: its name, and args that were written to c->line. */
static int add_instant(struct sonde_chrome *c, uint64_t ts, const char *name, int err)
{
	struct sonde_sort_key key = {{SONDE_CHROME_NOTE, ts}};

	saw(c, ts);
	sonde_str_clear(&c->name);
	err = err ? err : sonde_str_addf(&c->name, "\"name\":");
	err = err ? err : sonde_chrome_text(&c->name, name, 300);
	err = err ? err : sonde_str_addf(&c->name, ",\"args\":%s", sonde_str_get(&c->line));
	err = err ? err : sonde_sorter_add(c->sorter, &key, c->name.s, c->name.len);
	return err ? failed(c, err) : 0;
}

static int on_note(void *ctx, const struct sonde_note *n)
{
	struct sonde_export *x = ctx;
	struct sonde_chrome *c = x->priv;
	int err;

	sonde_str_clear(&c->line);
	err = sonde_str_addf(&c->line,
			     "{\"level\":\"%s\",\"lens\":", sonde_note_level_name(n->level));
	err = err ? err : sonde_chrome_text(&c->line, n->lens, 64);
	err = err ? err : sonde_str_addf(&c->line, ",\"remedy\":");
	err = err ? err : sonde_chrome_text(&c->line, n->remedy, 1000);
	err = err ? err : sonde_str_addc(&c->line, '}');
	return add_instant(c, n->ts_ns, n->what, err);
}

/* Counts are cumulative: an instant each time that one grew. */
static int on_drop(void *ctx, const struct sonde_drops *d)
{
	struct sonde_export *x = ctx;
	struct sonde_chrome *c = x->priv;
	uint64_t *before = &c->lost[sonde_drop_row(d->lens, d->cause)], more;
	char name[128];
	int err;

	if (d->count <= *before)
		return 0;
	more = d->count - *before;
	*before = d->count;
	snprintf(name, sizeof(name), "not seen: %" PRIu64 " %s %s", more,
		 sonde_lens_id_name(d->lens), sonde_drop_name(d->cause));
	sonde_str_clear(&c->line);
	err = sonde_str_addf(&c->line,
			     "{\"count\":%" PRIu64 ",\"so_far\":%" PRIu64 ",\"what\":", more,
			     d->count);
	err = err ? err : sonde_chrome_text(&c->line, sonde_drop_help(d->cause), 300);
	err = err ? err : sonde_str_addc(&c->line, '}');
	return add_instant(c, d->ts_ns, name, err);
}

static int on_begin(void *ctx, const struct sonde_meta *meta)
{
	struct sonde_export *x = ctx;
	struct sonde_chrome *c = x->priv;

	for (size_t i = 0; i < meta->n; i++)
		if (sonde_meta_set(&c->meta, meta->rows[i].key, "%s", meta->rows[i].value))
			return failed(c, -ENOMEM);
	return 0;
}

static int chrome_open(struct sonde_export *x)
{
	struct sonde_chrome *c = calloc(1, sizeof(*c));

	if (!c || sonde_sorter_new(&c->sorter, MEMORY)) {
		free(c);
		return out_of_memory();
	}
	c->x = x;
	c->earliest = UINT64_MAX;
	x->priv = c;
	x->visitor.begin = on_begin;
	x->visitor.metric = on_metric;
	if (x->opts.series)
		return 0;
	x->visitor.span = on_span;
	x->visitor.note = on_note;
	x->visitor.drop = on_drop;
	return 0;
}

/* A viewer holds all of it in memory: some tens of times its size on disk in the worst. */
#define LARGE_BYTES (200u << 20)

static void say_size(const struct sonde_chrome *c)
{
	const double mib = (double)c->bytes / 1048576;

	if (c->undated)
		sonde_warn("%" PRIu64 " queries are left out: none of their times is known",
			   c->undated);
	if (c->bytes > LARGE_BYTES)
		sonde_warn("the trace of %" PRIu64 " queries has %.0f MiB, and viewers hold all of "
			   "it in memory; --since and --until, or --slowest N, make it smaller",
			   c->queries, mib);
	sonde_info("%" PRIu64 " queries in %" PRIu64 " slices on %" PRIu64 " lanes, %.1f MiB",
		   c->queries, c->slices, c->lanes, mib);
}

static int chrome_close(struct sonde_export *x)
{
	struct sonde_chrome *c = x->priv;
	int err = c->err ? 0 : sonde_chrome_write(c);

	if (!err && !c->err && c->queries)
		say_size(c);
	else if (!err && !c->err && !x->opts.series)
		x->remark = "no query trace is in it: nothing is on the time line but figures";
	for (size_t i = 0; i < c->n_last; i++)
		free(c->last[i].label);
	free(c->last);
	sonde_meta_fini(&c->meta);
	sonde_str_fini(&c->line);
	sonde_str_fini(&c->name);
	sonde_sorter_free(&c->sorter);
	free(c);
	return err;
}

const struct sonde_exporter sonde_export_chrome = {
	.name = "chrome",
	.summary = "queries as slices on a time line, for a browser's performance panel and "
		   "speedscope",
	.suffix = ".json",
	.takes = SONDE_TAKES_SPAN | SONDE_TAKES_METRIC | SONDE_TAKES_NOTE | SONDE_TAKES_DROP |
		 SONDE_TAKES_META,
	.open = chrome_open,
	.close = chrome_close,
};
