// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Draws what chrome.c put in order. On a lane slices nest and never overlap in part: a query that
 * began before its predecessor on the connection ended gets the next lane. The parts of a query
 * have no order in time: they are laid side by side in the table's order inside the phases, and
 * named share.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "export/chrome_impl.h"
#include "export/columns.h"

#define FLIGHT_BIN_NS SONDE_NS_PER_MS

struct drawing {
	struct sonde_chrome *c;
	struct sonde_str line;
	/* The connection's lanes: when each is free, and its number in the file. */
	struct lane {
		uint64_t free_ns, tid;
	} * lanes;
	size_t n_lanes, cap_lanes;
	uint32_t pid;
	uint64_t conn;
	bool any_conn, any_pid;
	/* Queries in flight. */
	uint32_t flight_pid;
	uint64_t bin, level, top, shown;
	bool flying;
	/* The counter's event that is being written. */
	struct sonde_sort_key counter;
	double values[3];
	bool have[3], counting;
};

static int oom(int err)
{
	return err == -ENOMEM ? sonde_err(ENOMEM, "cannot export: out of memory") : err;
}

static int put(struct drawing *d, int err)
{
	if (err)
		return oom(err);
	d->c->bytes += d->line.len;
	return sonde_export_put(d->c->x, &d->line);
}

/* ",\n{"ph":"X","pid":1,"tid":2"; the first event has no comma. */
static int event(struct drawing *d, const char *ph, uint64_t pid, uint64_t tid)
{
	bool first = !d->c->any_event;

	d->c->any_event = true;
	return sonde_str_addf(&d->line, "%s{\"ph\":\"%s\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64,
			      first ? "" : ",\n", ph, pid, tid);
}

static int add_ts(struct drawing *d, uint64_t ns)
{
	int err = sonde_str_addf(&d->line, ",\"ts\":");

	return err ? err : sonde_chrome_ts(&d->line, ns - d->c->base);
}

static int name_of(struct drawing *d, uint64_t pid, uint64_t tid, const char *what,
		   const char *name)
{
	int err = event(d, "M", pid, tid);

	err = err ? err : sonde_str_addf(&d->line, ",\"name\":\"%s\",\"args\":{\"name\":", what);
	err = err ? err : sonde_chrome_text(&d->line, name, 200);
	return put(d, err ? err : sonde_str_addf(&d->line, "}}"));
}

static const char *target_comm(const struct sonde_chrome *c, uint32_t target)
{
	char key[64];
	const char *comm;

	snprintf(key, sizeof(key), "target.%u.comm", target);
	comm = sonde_meta_find(&c->meta, key);
	return comm && *comm ? comm : "target";
}

static uint64_t target_pid(const struct sonde_chrome *c, uint32_t target)
{
	char key[64];
	const char *text;
	uint64_t pid = 0;

	snprintf(key, sizeof(key), "target.%u.pid", target);
	text = sonde_meta_find(&c->meta, key);
	return text && !sonde_parse_u64(text, &pid) && pid <= INT32_MAX ? pid : 0;
}

/* ---- counters ---- */

static int flush_counter(struct drawing *d)
{
	const struct sonde_chrome_counter *t = &sonde_chrome_counters[d->counter.k[1] >> 32];
	uint64_t pid = target_pid(d->c, (uint32_t)d->counter.k[1]);
	const char *comma = "";
	char buf[40];
	int err;

	if (!d->counting)
		return 0;
	d->counting = false;
	err = event(d, "C", pid, 0);
	err = err ? err : add_ts(d, d->counter.k[2]);
	err = err ? err
		  : sonde_str_addf(&d->line, ",\"name\":\"%s (%s)\",\"args\":{", t->name, t->unit);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(d->values) && !err; i++) {
		if (!d->have[i])
			continue;
		err = sonde_str_addf(&d->line, "%s\"%s\":%s", comma, t->series[i],
				     sonde_fmt_double(buf, sizeof(buf), d->values[i]));
		comma = ",";
	}
	return put(d, err ? err : sonde_str_addf(&d->line, "}}"));
}

/* Values of one counter and time are one event; of one series (calls of several functions) a sum.
 */
static int draw_counter(struct drawing *d, const struct sonde_sort_record *r)
{
	size_t series = r->key.k[3];
	double value;
	int err = 0;

	if (d->counting && (d->counter.k[1] != r->key.k[1] || d->counter.k[2] != r->key.k[2]))
		err = flush_counter(d);
	if (!d->counting) {
		memset(d->values, 0, sizeof(d->values));
		memset(d->have, 0, sizeof(d->have));
	}
	memcpy(&value, r->data, sizeof(value));
	d->counter = r->key;
	d->counting = true;
	d->have[series] = true;
	d->values[series] += value;
	return err;
}

/* ---- notes ---- */

static int draw_note(struct drawing *d, const struct sonde_sort_record *r)
{
	int err = event(d, "i", target_pid(d->c, 0), 0);

	err = err ? err : sonde_str_addf(&d->line, ",\"s\":\"g\",\"cat\":\"note\"");
	err = err ? err : add_ts(d, r->key.k[1]);
	err = err ? err : sonde_str_addc(&d->line, ',');
	err = err ? err : sonde_str_add(&d->line, r->data, r->len);
	return put(d, err ? err : sonde_str_addc(&d->line, '}'));
}

/* ---- queries in flight: the most at once in each ms in which that changed ---- */

static int put_flight(struct drawing *d, uint64_t ts, uint64_t value)
{
	int err;

	if (value == d->shown)
		return 0;
	d->shown = value;
	err = event(d, "C", d->flight_pid, 0);
	err = err ? err : add_ts(d, ts < d->c->base ? d->c->base : ts);
	return put(d, err ? err
			  : sonde_str_addf(&d->line,
					   ",\"name\":\"in flight (of the queries exported)\","
					   "\"args\":{\"queries\":%" PRIu64 "}}",
					   value));
}

/* The ms is over: what was the most, and how many are left after it. */
static int flush_flight(struct drawing *d, uint64_t next_bin)
{
	int err;

	if (!d->flying)
		return 0;
	err = put_flight(d, d->bin * FLIGHT_BIN_NS, d->top);
	if (!err && next_bin > d->bin + 1)
		err = put_flight(d, (d->bin + 1) * FLIGHT_BIN_NS, d->level);
	d->top = d->level;
	return err;
}

static int draw_flight(struct drawing *d, const struct sonde_sort_record *r)
{
	uint64_t bin = r->key.k[2] / FLIGHT_BIN_NS;
	bool other = !d->flying || d->flight_pid != r->key.k[1];
	int err = 0;

	if (other || bin != d->bin)
		err = flush_flight(d, other ? UINT64_MAX : bin);
	if (other) {
		d->flight_pid = (uint32_t)r->key.k[1];
		d->level = d->top = d->shown = 0;
		d->flying = true;
	}
	d->bin = bin;
	if (r->key.k[3])
		d->level++;
	else if (d->level)
		d->level--;
	d->top = d->level > d->top ? d->level : d->top;
	return err;
}

/* ---- queries ---- */

static int draw_slice(struct drawing *d, const struct lane *lane, uint64_t from, uint64_t to,
		      const char *cat, const char *name)
{
	int err = event(d, "X", d->pid, lane->tid);

	d->c->slices++;
	err = err ? err : add_ts(d, from);
	err = err ? err : sonde_str_addf(&d->line, ",\"dur\":");
	err = err ? err : sonde_chrome_dur(&d->line, from - d->c->base, to - d->c->base);
	return err ? err : sonde_str_addf(&d->line, ",\"cat\":\"%s\",\"name\":%s", cat, name);
}

/* The phase [from, to), and of each part what falls into it where all are laid end to end. */
static int draw_phase(struct drawing *d, const struct lane *lane,
		      const struct sonde_chrome_query *q, uint64_t from, uint64_t to,
		      const char *name)
{
	uint64_t at = q->begin;
	int err;

	if (from == to)
		return 0;
	err = draw_slice(d, lane, from, to, "phase", name);
	err = put(d, err ? err : sonde_str_addc(&d->line, '}'));
	for (int i = 0; i < SONDE_PART__MAX && q->has_parts && !err; i++) {
		uint64_t end = at + q->part_ns[i], low = at > from ? at : from,
			 high = end < to ? end : to;
		char share[64];

		at = end;
		if (low >= high)
			continue;
		snprintf(share, sizeof(share), "\"share: %s\"", sonde_part_name(i));
		err = draw_slice(d, lane, low, high, "share not order", share);
		err = put(d, err ? err : sonde_str_addc(&d->line, '}'));
	}
	return err;
}

static int new_lane(struct drawing *d, const struct sonde_chrome_query *q, const char *client)
{
	struct lane *lane;
	char name[300];
	int err = SONDE_GROW(d->lanes, d->n_lanes, d->cap_lanes);

	if (err)
		return oom(err);
	lane = &d->lanes[d->n_lanes++];
	*lane = (struct lane){0, ++d->c->lanes};
	if (!q->client_len)
		snprintf(name, sizeof(name), "connection 0x%" PRIx64, q->conn);
	else
		snprintf(name, sizeof(name), "%.*s", (int)q->client_len, client);
	if (d->n_lanes > 1)
		snprintf(name + strlen(name), sizeof(name) - strlen(name), " pipelined %zu",
			 d->n_lanes - 1);
	err = name_of(d, q->pid, lane->tid, "thread_name", name);
	err = err ? err : event(d, "M", q->pid, lane->tid);
	return err ? err
		   : put(d, sonde_str_addf(&d->line,
					   ",\"name\":\"thread_sort_index\",\"args\":"
					   "{\"sort_index\":%" PRIu64 "}}",
					   lane->tid));
}

/* The process and the connection that the query is of. */
static int enter(struct drawing *d, const struct sonde_chrome_query *q)
{
	int err = 0;

	if (!d->any_pid || d->pid != q->pid) {
		err = name_of(d, q->pid, 0, "process_name", target_comm(d->c, q->target));
		d->any_conn = false;
	}
	if (!d->any_conn || d->conn != q->conn) {
		d->n_lanes = 0;
		d->c->connections++;
	}
	d->any_pid = d->any_conn = true;
	d->pid = q->pid;
	d->conn = q->conn;
	return err;
}

static int draw_query(struct drawing *d, const struct sonde_sort_record *r)
{
	const struct sonde_chrome_query *q = r->data;
	const char *client = (const char *)(q + 1), *name = client + q->client_len;
	sonde_autofree char *title = strndup(name, q->name_len);
	struct lane lane;
	size_t i = 0;
	int err = title ? enter(d, q) : oom(-ENOMEM);

	while (i < d->n_lanes && d->lanes[i].free_ns > q->begin)
		i++;
	if (!err && i == d->n_lanes)
		err = new_lane(d, q, client);
	if (err)
		return err;
	d->lanes[i].free_ns = q->end;
	lane = d->lanes[i];
	err = draw_slice(d, &lane, q->begin, q->end, "query", title);
	err = err ? err : sonde_str_addf(&d->line, ",\"args\":");
	err = err ? err : sonde_str_add(&d->line, name + q->name_len, q->args_len);
	err = put(d, err ? err : sonde_str_addc(&d->line, '}'));
	err = err ? err : draw_phase(d, &lane, q, q->begin, q->start, "\"wait\"");
	err = err ? err : draw_phase(d, &lane, q, q->start, q->first, "\"service\"");
	return err ? err : draw_phase(d, &lane, q, q->first, q->end, "\"send\"");
}

/* ---- the file ---- */

static int draw_lost(struct drawing *d)
{
	const char *comma = "";
	int err = sonde_str_addf(&d->line, ",\"not_seen\":{");

	for (unsigned i = 0; i < SONDE_DROP_ROWS && !err; i++) {
		if (!d->c->lost[i])
			continue;
		err = sonde_str_addf(&d->line, "%s\"%s %s\":%" PRIu64, comma,
				     sonde_lens_id_name(i / SONDE_DROP__MAX),
				     sonde_drop_name(i % SONDE_DROP__MAX), d->c->lost[i]);
		comma = ",";
	}
	return err ? err : sonde_str_addc(&d->line, '}');
}

static int draw_end(struct drawing *d)
{
	static const char *const keys[] = {"command", "kernel.release", "target.0.comm",
					   "target.0.pid", "complete"};
	struct sonde_chrome *c = d->c;
	uint64_t utc = sonde_export_utc(c->x, c->base);
	char buf[40];
	int err = sonde_str_addf(
		&d->line,
		"\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"made_by\":\"sonde " SONDE_VERSION
		"\",\"ts_0_utc\":\"%s\",\"ts_0_utc_ns\":\"%" PRIu64
		"\",\"ts_0_monotonic_ns\":\"%" PRIu64 "\",\"shares\":\"slices named share divide a "
						      "query's time into what it went to; their "
		"length is measured, their order and place are not\",\"queries\":%" PRIu64
		",\"queries_without_end\":%" PRIu64 ",\"queries_without_time\":%" PRIu64
		",\"connections\":%" PRIu64 ",\"lanes\":%" PRIu64,
		sonde_fmt_rfc3339(buf, sizeof(buf), utc), utc, c->base, c->queries, c->open,
		c->undated, c->connections, c->lanes);

	err = err ? err : draw_lost(d);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(keys) && !err; i++) {
		const char *value = sonde_meta_find(&c->meta, keys[i]);

		if (!value)
			continue;
		err = sonde_str_addf(&d->line, ",\"%s\":", keys[i]);
		err = err ? err : sonde_chrome_text(&d->line, value, 2000);
	}
	return put(d, err ? err : sonde_str_addf(&d->line, "}}\n"));
}

/* ts 0 is the whole UTC second before the first of all. */
static uint64_t base_of(const struct sonde_chrome *c)
{
	uint64_t into;

	if (c->earliest == UINT64_MAX)
		return 0;
	into = sonde_export_utc(c->x, c->earliest) % SONDE_NS_PER_SEC;
	return c->earliest > into ? c->earliest - into : 0;
}

static int draw_all(struct drawing *d)
{
	static int (*const draw[])(struct drawing * d, const struct sonde_sort_record *r) = {
		[SONDE_CHROME_COUNTER] = draw_counter,
		[SONDE_CHROME_NOTE] = draw_note,
		[SONDE_CHROME_FLIGHT] = draw_flight,
		[SONDE_CHROME_QUERY] = draw_query,
	};
	struct sonde_sort_record r;
	uint64_t class = SONDE_CHROME_COUNTER;
	int err = 0, more;

	while (!err && (more = sonde_sorter_next(d->c->sorter, &r))) {
		if (more < 0)
			return oom(more);
		if (r.key.k[0] != class)
			err = flush_counter(d);
		if (!err && r.key.k[0] != class)
			err = flush_flight(d, UINT64_MAX);
		if (r.key.k[0] != class)
			d->flying = false;
		class = r.key.k[0];
		err = err ? err : draw[class](d, &r);
	}
	err = err ? err : flush_counter(d);
	return err ? err : flush_flight(d, UINT64_MAX);
}

int sonde_chrome_write(struct sonde_chrome *c)
{
	struct drawing d = {.c = c};
	int err;

	c->base = base_of(c);
	err = put(&d, sonde_str_addf(&d.line, "{\"traceEvents\":[\n"));
	if (!err && sonde_meta_find(&c->meta, "target.0.pid"))
		err = name_of(&d, target_pid(c, 0), 0, "process_name", target_comm(c, 0));
	err = err ? err : draw_all(&d);
	err = err ? err : draw_end(&d);
	sonde_str_fini(&d.line);
	free(d.lanes);
	return err;
}
