/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A made-up session with figures that are known in closed form, and a visitor that writes down what
 * it is given, line by line, so that two sources can be compared as text.
 */
#ifndef TESTS_RECORD_FIXTURE_H
#define TESTS_RECORD_FIXTURE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "record/reader.h"
#include "record/writer.h"

/* 2026-11-30T17:28:30Z at monotonic 1000 s: 90 ticks of a second cross two UTC minutes. */
#define FIX_MONO	   (1000 * SONDE_NS_PER_SEC)
#define FIX_REAL	   (1796059710 * SONDE_NS_PER_SEC)
#define FIX_TICKS	   90
#define FIX_SPANS_PER_TICK 20

static const struct sonde_clockpair fix_clock = {FIX_MONO, FIX_REAL};

/* A series is base + step for each tick; step and base 0 with a reason: absent. */
static const struct fix_series {
	struct sonde_metric_desc desc;
	const char *label;
	double base, step;
	const char *absent;
} fix_series[] = {
	{{"rss.total", "bytes", SONDE_GAUGE, "resident memory"}, "", 1e9, 4096, NULL},
	{{"rss.anon", "bytes", SONDE_GAUGE, "of it anonymous"}, "", 7e8, 4096, NULL},
	{{"rss.file", "bytes", SONDE_GAUGE, "of it files"}, "", 3e8, 0, NULL},
	{{"rss.swap", "bytes", SONDE_GAUGE, "swapped out"},
	 "",
	 0,
	 0,
	 "smaps_rollup could not be read"},
	{{"proc.cpu_user", "ns", SONDE_COUNTER, "user CPU time"}, "", 0, 4e8, NULL},
	{{"proc.cpu_sys", "ns", SONDE_COUNTER, "system CPU time"}, "", 0, 1e8, NULL},
	{{"proc.minflt", "count", SONDE_COUNTER, "minor faults"}, "", 0, 70, NULL},
	{{"proc.majflt", "count", SONDE_COUNTER, "major faults"}, "", 0, 0, NULL},
	{{"query.spans", "count", SONDE_COUNTER, "queries seen"}, "", 20, 20, NULL},
	{{"alloc.calls", "count", SONDE_COUNTER, "calls of the allocator"},
	 "malloc",
	 0,
	 1300,
	 NULL},
	{{"alloc.calls", "count", SONDE_COUNTER, "calls of the allocator"}, "free", 0, 1299, NULL},
	{{"alloc.requested", "bytes", SONDE_COUNTER, "bytes asked for"}, "malloc", 0, 83200, NULL},
	{{"alloc.live", "bytes", SONDE_GAUGE, "live since attach"}, "", 0, 64, NULL},
	{{"fault.count", "count", SONDE_COUNTER, "faults"}, "base minor", 0, 70, NULL},
	{{"fault.time", "ns", SONDE_COUNTER, "time in faults"}, "base minor", 0, 49000, NULL},
	{{"cost.hits", "count", SONDE_COUNTER, "hits"}, "query", 0, 160, NULL},
	{{"cost.probe_time", "ns", SONDE_COUNTER, "cost"}, "", 0, 80000, NULL},
	{{"cost.own_cpu", "ns", SONDE_COUNTER, "own CPU"}, "", 0, 5e6, NULL},
	{{"thp.collapses", "count", SONDE_COUNTER, "pages that khugepaged collapsed"},
	 "",
	 0,
	 3,
	 NULL},
	{{"thp.bloat", "bytes", SONDE_GAUGE, "zero pages inside huge pages"}, "", 4194304, 0, NULL},
};
#define FIX_SERIES (sizeof(fix_series) / sizeof(fix_series[0]))

static const struct sonde_hist_desc fix_hist = {"query.latency", "ns", "last byte less arrival"};

/* Duration of span @i: 1 ms to 1.999 ms, and one of 250 ms. */
static inline uint64_t fix_duration(uint64_t i)
{
	return i == 777 ? 250000000 : 1000000 + i % 1000 * 1000;
}

static inline struct sonde_span fix_span(uint64_t i, char *client, size_t size)
{
	uint64_t tick = i / FIX_SPANS_PER_TICK;
	uint64_t end =
		FIX_MONO + tick * SONDE_NS_PER_SEC + 300000000 + i % FIX_SPANS_PER_TICK * 1000000;
	bool faults = i % 2;

	snprintf(client, size, "127.0.0.1:%u", (unsigned)(40000 + i % 7));
	return (struct sonde_span){
		.conn = 0x100000001ull + i % 7,
		.seq = i / 7 + 1,
		.pid = 4711,
		.tid = 4711 + (uint32_t)(i % 4),
		.arrival_ns = end - fix_duration(i),
		.start_ns = end - fix_duration(i) + 20000,
		.request_end_ns = end - fix_duration(i) + 30000,
		.first_ns = end - 100000,
		.last_ns = end,
		.bytes_in = 100 + i % 10,
		.bytes_out = 2000,
		.has_faults = faults,
		.faults = faults ? 3 : 0,
		.fault_ns = faults ? 4500 : 0,
		.has_alloc = false,
		.flags = i % 5 ? 0 : SONDE_SPAN_F_HANDLER,
		.found = i % 5 ? 0 : 42,
		.handler_wall_ms = i % 5 ? 0 : 1,
		.handler_ns = i % 5 ? 0 : end - 500000,
		.handler_hits = i % 5 ? 0 : 1,
		.proto = SONDE_PROTO_MYSQL,
		.status = i % 100 ? SONDE_SPAN_OK : SONDE_SPAN_ERROR,
		.error = i % 100 ? 0 : 1064,
		.statements = 1,
		.command_id = 3,
		.command = "query",
		.client = client,
		.index = i % 3 ? "products" : "",
		.fingerprint_id = i % 3 ? 0xfedcba9876543210ull : 0x11,
		.fingerprint = i % 3 ? "SELECT * FROM products WHERE MATCH(?)" : "SHOW STATUS",
		.request_len = 95 + (uint32_t)(i % 10),
	};
}

static inline int fix_push_metrics(const struct sonde_visitor *v, uint64_t ts, unsigned tick)
{
	int err = 0;

	for (size_t i = 0; i < FIX_SERIES && !err; i++) {
		struct sonde_metric m = {
			.desc = &fix_series[i].desc,
			.label = fix_series[i].label,
			.ts_ns = ts,
			.value = fix_series[i].base + tick * fix_series[i].step,
			.absent = fix_series[i].absent,
		};

		err = sonde_visit(v, metric, &m);
	}
	return err;
}

static inline int fix_push_spans(const struct sonde_visitor *v, unsigned tick, struct sonde_hist *h)
{
	char client[32];
	int err = 0;

	sonde_hist_reset(h);
	for (uint64_t i = 0; i < FIX_SPANS_PER_TICK && !err; i++) {
		struct sonde_span s =
			fix_span(tick * FIX_SPANS_PER_TICK + i, client, sizeof(client));

		sonde_hist_add(h, sonde_span_duration_ns(&s));
		err = sonde_visit(v, span, &s);
	}
	return err;
}

/* One interval: spans, their histogram, metrics, a drop, and the tick. */
static inline int fix_push_tick(const struct sonde_visitor *v, unsigned tick, struct sonde_hist *h)
{
	uint64_t from = FIX_MONO + tick * SONDE_NS_PER_SEC, to = from + SONDE_NS_PER_SEC;
	struct sonde_histrow row = {&fix_hist, "", from, to, 0, h};
	struct sonde_drops drop = {SONDE_LENS_QUERY, SONDE_DROP_NO_ENTRY, tick / 30, to};
	struct sonde_note note = {to, SONDE_NOTE_DEGRADED, "query", "no queue wait: sock_* absent",
				  "use kernel 6.3"};
	int err = fix_push_spans(v, tick, h);

	if (!err)
		err = sonde_visit(v, hist, &row);
	if (!err)
		err = fix_push_metrics(v, to, tick);
	if (!err && tick == 10)
		err = sonde_visit(v, note, &note);
	if (!err)
		err = sonde_visit(v, drop, &drop);
	return err ? err : sonde_visit(v, tick, to);
}

static inline int fix_push_begin(const struct sonde_visitor *v)
{
	struct sonde_meta meta = {0};
	int err;

	sonde_meta_set_clock(&meta, &fix_clock);
	sonde_meta_set(&meta, "command", "sonde record -p 4711 -o x.sonde");
	sonde_meta_set(&meta, "kernel.release", "6.1.0-18-amd64");
	sonde_meta_set(&meta, "host.name", "se03");
	sonde_meta_set(&meta, "host.cpus", "8");
	sonde_meta_set(&meta, "thp.enabled", "always");
	sonde_meta_set(&meta, "target.0.pid", "4711");
	sonde_meta_set(&meta, "target.0.comm", "searchd");
	sonde_meta_set(&meta, "target.0.age_ns", "3542400000000000");
	sonde_meta_set(&meta, "target.0.allocator", "jemalloc");
	sonde_meta_set(&meta, "target.0.allocator_version", "5.3.0");
	err = sonde_visit(v, begin, &meta);
	sonde_meta_fini(&meta);
	return err;
}

/* The whole session up to @ticks; with @end its end. */
static inline int fix_push(const struct sonde_visitor *v, unsigned ticks, bool end)
{
	struct sonde_meta meta = {0};
	struct sonde_hist h;
	int err;

	if (sonde_hist_init(&h))
		return -ENOMEM;
	err = fix_push_begin(v);
	for (unsigned t = 0; t < ticks && !err; t++)
		err = fix_push_tick(v, t, &h);
	sonde_meta_set(&meta, "ended", "duration");
	if (!err && end)
		err = sonde_visit(v, end, &meta);
	sonde_meta_fini(&meta);
	sonde_hist_fini(&h);
	return err;
}

static inline const char *fix_path(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "/tmp/sonde-test-%d-%s", (int)getpid(), name);
	return path;
}

static inline void fix_remove(const char *path)
{
	static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
	char name[300];

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(ends); i++) {
		snprintf(name, sizeof(name), "%s%s", path, ends[i]);
		unlink(name);
	}
}

/* Record the session into @path (made anew). */
static inline int fix_record(const char *path, const struct sonde_writer_opts *opts, unsigned ticks,
			     bool end)
{
	static const struct sonde_writer_opts all;
	struct sonde_writer *w = NULL;
	int err, err2;

	fix_remove(path);
	err = sonde_writer_open(&w, path, opts ? opts : &all);
	if (err)
		return err;
	err = fix_push(sonde_writer_visitor(w), ticks, end);
	err2 = sonde_writer_close(&w);
	return err ? err : err2;
}

/* What a visitor was given, a line each; histograms are merged, since the file keeps minutes. */
struct fix_log {
	struct sonde_str metrics, spans, notes, drops, ticks, meta;
	struct sonde_hist hist;
	unsigned n_hists, n_spans, n_ticks, n_ends;
	struct sonde_visitor visitor;
};

static inline int fix_log_begin(void *ctx, const struct sonde_meta *m)
{
	struct fix_log *l = ctx;

	for (size_t i = 0; i < m->n; i++)
		sonde_str_addf(&l->meta, "%s=%s\n", m->rows[i].key, m->rows[i].value);
	return 0;
}

static inline int fix_log_metric(void *ctx, const struct sonde_metric *m)
{
	struct fix_log *l = ctx;

	return sonde_str_addf(&l->metrics, "%" PRIu64 " %s{%s} %s %d %u %.17g %s\n", m->ts_ns,
			      m->desc->name, m->label, m->desc->unit, m->desc->kind, m->target,
			      m->absent ? 0 : m->value, m->absent ? m->absent : "");
}

static inline int fix_log_hist(void *ctx, const struct sonde_histrow *h)
{
	struct fix_log *l = ctx;

	/* What the writer makes of the spans has tests of its own. */
	if (!strcmp(h->desc->name, SONDE_FORM_HIST))
		return 0;
	sonde_hist_merge(&l->hist, h->hist);
	l->n_hists++;
	return 0;
}

static inline int fix_log_span(void *ctx, const struct sonde_span *s)
{
	struct fix_log *l = ctx;

	l->n_spans++;
	return sonde_str_addf(
		&l->spans,
		"%" PRIx64 " %" PRIu64 " %u %u %u t %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
		" %" PRIu64 " b %" PRIu64 " %" PRIu64 " a %d %" PRIu64 " %" PRIu64 " f %d %" PRIu64
		" %" PRIu64 " h %" PRIu64 " %" PRIu64 " %u %u fl %x p %u st %u %u %u c %u %" PRIx64
		" '%s' '%s' '%s' '%s' '%s' %u\n",
		s->conn, s->seq, s->target, s->pid, s->tid, s->arrival_ns, s->start_ns,
		s->request_end_ns, s->first_ns, s->last_ns, s->bytes_in, s->bytes_out, s->has_alloc,
		s->alloc_bytes, s->alloc_calls, s->has_faults, s->faults, s->fault_ns,
		s->handler_ns, s->found, s->handler_wall_ms, s->handler_hits, s->flags, s->proto,
		s->status, s->error, s->statements, s->command_id, s->fingerprint_id, s->command,
		s->client, s->index, s->fingerprint, s->text ? s->text : "(none)", s->request_len);
}

static inline int fix_log_note(void *ctx, const struct sonde_note *n)
{
	struct fix_log *l = ctx;

	return sonde_str_addf(&l->notes, "%" PRIu64 " %d '%s' '%s' '%s'\n", n->ts_ns, n->level,
			      n->lens, n->what, n->remedy);
}

static inline int fix_log_drop(void *ctx, const struct sonde_drops *d)
{
	struct fix_log *l = ctx;

	return sonde_str_addf(&l->drops, "%s %s %" PRIu64 "\n", sonde_lens_id_name(d->lens),
			      sonde_drop_name(d->cause), d->count);
}

static inline int fix_log_tick(void *ctx, uint64_t ts)
{
	struct fix_log *l = ctx;

	l->n_ticks++;
	return sonde_str_addf(&l->ticks, "%" PRIu64 " after %u spans\n", ts, l->n_spans);
}

static inline int fix_log_end(void *ctx, const struct sonde_meta *m)
{
	(void)m;
	((struct fix_log *)ctx)->n_ends++;
	return 0;
}

static inline void fix_log_init(struct fix_log *l)
{
	*l = (struct fix_log){0};
	if (sonde_hist_init(&l->hist))
		abort();
	l->visitor = (struct sonde_visitor){
		.ctx = l,
		.begin = fix_log_begin,
		.metric = fix_log_metric,
		.hist = fix_log_hist,
		.span = fix_log_span,
		.note = fix_log_note,
		.drop = fix_log_drop,
		.tick = fix_log_tick,
		.end = fix_log_end,
	};
}

static inline void fix_log_fini(struct fix_log *l)
{
	struct sonde_str *const all[] = {&l->metrics, &l->spans, &l->notes,
					 &l->drops,   &l->ticks, &l->meta};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(all); i++)
		sonde_str_fini(all[i]);
	sonde_hist_fini(&l->hist);
}

/* What is said on stderr meanwhile. */
static inline int capture_begin(FILE **out)
{
	int saved = dup(2);

	*out = tmpfile();
	fflush(stderr);
	dup2(fileno(*out), 2);
	return saved;
}

static inline void capture_end(int saved, FILE *out, char *text, size_t size)
{
	size_t n;

	fflush(stderr);
	dup2(saved, 2);
	close(saved);
	rewind(out);
	n = fread(text, 1, size - 1, out);
	text[n] = '\0';
	fclose(out);
}

#endif
