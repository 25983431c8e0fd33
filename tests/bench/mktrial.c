// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recordings of an experiment that never was: three pairs of servers, se03 (jemalloc, huge pages
 * off), se04 (restarted only) and se05 (jemalloc, huge pages on), of which the one with -2 was
 * changed. What was done to it is known:
 *
 *   RSS -5.5 % in both arms, mean -10 % (off) and +23 % (on), p95 +8 % and p99 -3.6 % (off)
 *   and a restart costs 2 % of everything
 *
 *   mktrial DIR BEFORE_DAYS AFTER_DAYS [same] [touched] [gap] [noisy] [skewed] [two] [minutes]
 *           [queries] [totals] [late] [alien]
 *
 * A server that was restarted has two recordings, one before and one since. queries: each query is
 * kept, with its form and where its time went (on: of +23 % 14 are huge page faults, 6 madvise and
 * 3 user CPU; off: the slow ones wait for mmap_lock). totals: as queries, but
 * kept are only the 20 slowest an hour, and of all the kernel's totals by part. late: se05-2 was
 * restarted 30 hours late. alien: se05-2 has another CPU, another index and other queries than
 * se05. two: without se05; minutes: a step is a minute, not ten; same: nothing but the restarts;
 * touched: huge pages were switched on a reference server, too; gap: a server was not recorded for
 * 6 hours; noisy: the control has five times the noise; skewed: se05-2 gets a third fewer queries
 * after the change. The change is at 2026-11-09T00:00:00Z.
 */
#include <stdio.h>

#include "core/num.h"
#include "record/writer.h"
#include "stats_fixture.h"
#include "core/mem.h"

#define CHANGE_NS (1794182400 * SONDE_NS_PER_SEC)
#define DAY_NS	  (86400 * SONDE_NS_PER_SEC)
#define MONO_NS	  (20000000 * SONDE_NS_PER_SEC)
#define QUERIES	  120 /* a step */
#define FEWER	  60  /* where each is kept */
#define TABLE	  4096

struct options {
	const char *dir;
	size_t before, after; /* steps */
	uint64_t step_ns;
	size_t tick; /* so many steps are one transaction */
	bool same, touched, gap, noisy, skewed, two, minutes, queries, totals, late, alien;
};

static const struct server {
	const char *name;
	int arm; /* 0 off, 1 restart, 2 on */
	bool changed;
} servers[] = {{"se03", 0, false},  {"se03-2", 0, true}, {"se04", 1, false},
	       {"se04-2", 1, true}, {"se05", 2, false},	 {"se05-2", 2, true}};

static const struct sonde_metric_desc rss = {"rss.total", "bytes", SONDE_GAUGE, "resident memory"};
static const struct sonde_metric_desc spans = {"query.spans", "count", SONDE_COUNTER, "queries"};
static const struct sonde_metric_desc faults = {"fault.count", "count", SONDE_COUNTER, "faults"};
static const struct sonde_hist_desc latency = {"query.latency", "ns", "last byte less arrival"};

/* The arm's latencies as factors of the untouched ones, by rank: what makes p95 and p99 differ is
 * in the tail, and the rest is whatever the mean then needs. */
static void factors(int arm, double *out, const double *table)
{
	double sum = 0, body = 0, tail = 0;

	for (int i = 0; i < TABLE; i++) {
		double q = (i + 0.5) / TABLE;

		sum += table[i];
		out[i] = arm == 2 ? 1.23 : q < 0.92 ? 0 : q < 0.975 ? 1.08 : 0.964;
		if (out[i] > 0)
			tail += out[i] * table[i];
		else
			body += table[i];
	}
	for (int i = 0; i < TABLE && arm == 0; i++)
		out[i] = out[i] > 0 ? out[i] : (0.9 * sum - tail) / body;
}

/* @since: of a server that was changed the process that began then. */
static int begin(const struct options *o, const struct sonde_visitor *v, const struct server *s,
		 bool since)
{
	struct sonde_clockpair clock = {MONO_NS, CHANGE_NS};
	bool treated = since && s->arm != 1 && !o->same;
	bool alien = o->alien && !strcmp(s->name, "se05-2");
	uint64_t began = since ? MONO_NS : MONO_NS - 60 * DAY_NS;
	const struct {
		const char *key, *value;
	} facts[] = {
		{"host.name", s->name},
		{"host.cpus", "32"},
		{"host.memory", "62.8 GiB"},
		{"host.cpu_model", alien ? "AMD EPYC 7302" : "Intel(R) Xeon(R) Gold 6230"},
		{"kernel.release", "6.1.0-18-amd64"},
		{"thp.enabled", treated && s->arm == 0 ? "never" : "always"},
		{"target.0.comm", "searchd"},
		{"target.0.pid", since ? "2100" : "812"},
		{"target.0.build_id", "e3103c603f62"},
		{"target.0.config", "/etc/sphinxsearch/sphinx.conf"},
		{"target.0.config_hash", "9d3f6c1e02b7a455"},
		{"target.0.index_hash", alien ? "77aa0b1c9e5d3421" : "41c6e0f2d8a95b73"},
		{"target.0.allocator", treated ? "jemalloc" : "glibc"},
		{"plan", "{\"items\":[{\"lens\":1,\"link\":\"none\",\"sites\":[]},"
			 "{\"lens\":2,\"link\":\"tp_btf\",\"sites\":[]}]}"},
	};
	struct sonde_meta meta = {0};
	int err = sonde_meta_set_clock(&meta, &clock);

	if (o->late && since && !strcmp(s->name, "se05-2"))
		began += 30 * 3600 * SONDE_NS_PER_SEC;
	err = err ? err
		  : sonde_meta_set(&meta, "target.0.start_mono_ns", "%llu",
				   (unsigned long long)began);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(facts) && !err; i++)
		err = sonde_meta_set(&meta, facts[i].key, "%s", facts[i].value);
	err = err ? err : sonde_visit(v, begin, &meta);
	sonde_meta_fini(&meta);
	return err;
}

static int put(const struct sonde_visitor *v, const struct sonde_metric_desc *d, const char *label,
	       uint64_t ts_ns, double value)
{
	struct sonde_metric m = {.desc = d, .label = label, .ts_ns = ts_ns, .value = value};

	return sonde_visit(v, metric, &m);
}

struct making {
	const struct options *o;
	const struct server *s;
	const struct sonde_visitor *v;
	struct sonde_rng rng;
	double table[TABLE], factor[TABLE], *load, *own, *level;
	double queries, faults;
	double part[SONDE_PART__MAX];
	uint64_t seq;
	struct sonde_hist hist;
};

/* ---- queries one by one ---- */

/* The costliest 5 % are all of one form. */
static const struct {
	double upto;
	uint64_t id;
	const char *text;
} forms[] = {
	{0.3, 0x1111, "select id from docs where match(?) limit ?"},
	{0.6, 0x2222, "select id, weight() from docs where match(?) limit ?"},
	{0.95, 0x3333, "select * from docs where match(?) and date > ? limit ?"},
	{2, 0x4444, "select * from docs where match(?) order by date desc limit ?"},
};

/* How an untouched query spends its time, and how a treated one what it takes more. */
static const struct {
	enum sonde_part part;
	double share, on;
} parts[] = {
	{SONDE_PART_USER, 0.55, 3.0 / 23},    {SONDE_PART_FAULT_BASE, 0.2, 0},
	{SONDE_PART_FAULT_PMD, 0, 14.0 / 23}, {SONDE_PART_SYS_MADVISE, 0.05, 6.0 / 23},
	{SONDE_PART_SYS_OTHER, 0.1, 0},	      {SONDE_PART_OFF_LOCK, 0.08, 0},
};

static void set_parts(const struct making *m, struct sonde_span *s, double base, double total)
{
	uint64_t all = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(parts); i++) {
		double ns = parts[i].share * base;

		if (m->s->arm == 2)
			ns += parts[i].on * (total - base);
		else if (parts[i].part == SONDE_PART_FAULT_BASE && total < base)
			ns += total - base;
		s->part_ns[parts[i].part] = (uint64_t)ns;
	}
	if (m->s->arm == 0 && total > base)
		s->part_ns[SONDE_PART_OFF_MMAP_LOCK] = (uint64_t)(total - base);
	for (unsigned int p = 0; p < SONDE_PART_UNATTRIBUTED; p++)
		all += s->part_ns[p];
	s->part_ns[SONDE_PART_UNATTRIBUTED] = sonde_span_duration_ns(s) - all;
	s->has_parts = true;
}

/* What the kernel sums up. */
static int put_totals(struct making *m, uint64_t ts_ns)
{
	struct sonde_metric_desc d = {"query.part_spans", "count", SONDE_COUNTER, ""};
	int err = put(m->v, &d, "", ts_ns, m->queries);

	d.unit = "ns";
	for (unsigned int p = 0; p < SONDE_PART__MAX && !err; p++) {
		char name[64];

		snprintf(name, sizeof(name), "query.part.%s", sonde_part_name(p));
		d.name = name;
		err = put(m->v, &d, "", ts_ns, m->part[p]);
	}
	return err;
}

static int put_query(struct making *m, uint64_t end_ns, size_t at, double base, double total)
{
	bool alien = m->o->alien && !strcmp(m->s->name, "se05-2");
	size_t f = 0;
	struct sonde_span s;

	while ((at + 0.5) / TABLE > forms[f].upto)
		f++;
	f = alien && m->seq % 4 == 0 ? 0 : f;
	s = (struct sonde_span){
		.conn = 1,
		.seq = ++m->seq,
		.pid = 812,
		.tid = 812,
		.arrival_ns = end_ns - (uint64_t)total,
		.last_ns = end_ns,
		.proto = SONDE_PROTO_MYSQL,
		.statements = 1,
		.flags = SONDE_SPAN_F_NO_TEXT,
		.fingerprint_id = forms[f].id,
		.fingerprint = forms[f].text,
		.command = "query",
		.client = "",
		.index = "docs",
	};
	s.start_ns = s.request_end_ns = s.arrival_ns;
	s.first_ns = s.last_ns;
	set_parts(m, &s, base, total);
	for (unsigned int p = 0; p < SONDE_PART__MAX; p++)
		m->part[p] += (double)s.part_ns[p];
	return sonde_visit(m->v, span, &s);
}

static int put_step(struct making *m, size_t step)
{
	bool after = step >= m->o->before, changed = after && m->s->changed;
	bool treated = changed && m->s->arm != 1 && !m->o->same;
	uint64_t from = MONO_NS + step * m->o->step_ns - m->o->before * m->o->step_ns;
	uint64_t to = from + m->o->step_ns;
	struct sonde_histrow row = {.desc = &latency, .label = "", .from_ns = from, .to_ns = to};
	double scale = exp(m->load[step] + m->own[step] + (changed ? -0.02 : 0));
	bool fewer = m->o->skewed && after && !strcmp(m->s->name, "se05-2");
	int queries = m->o->queries ? FEWER : QUERIES, err = 0;

	queries = fewer ? queries * 2 / 3 : queries;
	sonde_hist_reset(&m->hist);
	for (int i = 0; i < queries && !err; i++) {
		size_t at = sonde_rng_next(&m->rng) % TABLE;
		double base = scale * m->table[at], total = base * (treated ? m->factor[at] : 1);

		sonde_hist_add(&m->hist, (uint64_t)total);
		if (m->o->queries)
			err = put_query(m, from + (uint64_t)(i + 1) * m->o->step_ns / 200, at, base,
					total);
	}
	if (err)
		return err;
	row.hist = &m->hist;
	m->queries += queries;
	m->faults += floor(queries * (treated ? 30 : 20) * exp(m->own[step]));
	err = sonde_visit(m->v, hist, &row);
	err = err ? err
		  : put(m->v, &rss, "", to,
			6e10 * exp(m->level[step] + (changed ? -0.02 : 0) +
				   (treated ? log(0.945) : 0)));
	err = err ? err : put(m->v, &spans, "", to, m->queries);
	if (!err && m->o->totals)
		err = put_totals(m, to);
	err = err ? err : put(m->v, &faults, "base.minor", to, m->faults);
	return err || (step + 1) % m->o->tick ? err : sonde_visit(m->v, tick, to);
}

static int put_note(struct making *m)
{
	struct sonde_note n = {.ts_ns = MONO_NS,
			       .level = SONDE_NOTE_EVENT,
			       .lens = "thp",
			       .what = "thp.enabled changed from always to never",
			       .remedy = ""};

	return sonde_visit(m->v, note, &n);
}

/* Steps [from, to) as one recording. */
static int put_all(struct making *m, size_t from, size_t to)
{
	bool since = from > 0;
	int err = begin(m->o, m->v, m->s, since);

	if (!err && m->o->touched && !strcmp(m->s->name, "se03"))
		err = put_note(m);
	m->queries = m->faults = 0;
	memset(m->part, 0, sizeof(m->part));
	for (size_t i = from; i < to && !err; i++) {
		bool gap = m->o->gap && !strcmp(m->s->name, "se05") && i >= m->o->before + 200 &&
			   i < m->o->before + 236;

		err = gap ? 0 : put_step(m, i);
	}
	return err ? err : sonde_visit(m->v, end, NULL);
}

static int record(struct making *m, const char *suffix, size_t from, size_t to)
{
	struct sonde_writer_opts opts = {.spans = {m->o->totals	   ? SONDE_SPANS_SLOWEST
						   : m->o->queries ? SONDE_SPANS_ALL
								   : SONDE_SPANS_NONE,
						   20}};
	struct sonde_writer *w = NULL;
	char path[512];
	int err;

	snprintf(path, sizeof(path), "%s/%s%s.sonde", m->o->dir, m->s->name, suffix);
	err = sonde_writer_open(&w, path, &opts);
	if (err)
		return err;
	m->v = sonde_writer_visitor(w);
	err = put_all(m, from, to);
	return err ? err : sonde_writer_close(&w);
}

static int make_server(const struct options *o, size_t server, double *load)
{
	struct making m = {.o = o, .s = &servers[server], .load = load, .rng = {77 + server}};
	size_t n = o->before + o->after;
	double sd = o->noisy && m.s->arm == 1 ? 0.3 : 0.06;
	int err;

	for (int i = 0; i < TABLE; i++)
		m.table[i] = 2e6 * exp(0.5 * sonde_stats_normal_quantile((i + 0.5) / TABLE));
	factors(m.s->arm, m.factor, m.table);
	m.own = calloc(n, sizeof(*m.own));
	m.level = calloc(n, sizeof(*m.level));
	if (!m.own || !m.level || sonde_hist_init(&m.hist))
		return -ENOMEM;
	fixture_ar1(&m.rng, m.own, n, 0.8, sd * 0.6, 1);
	fixture_ar1(&m.rng, m.level, n, 0.9, 0.007, 1);
	if (m.s->changed && o->before) {
		err = record(&m, ".before", 0, o->before);
		err = err ? err : record(&m, ".since", o->before, n);
	} else {
		err = record(&m, "", 0, n);
	}
	sonde_hist_fini(&m.hist);
	free(m.own);
	free(m.level);
	return err;
}

static int parse(int argc, char **argv, struct options *o)
{
	const struct {
		const char *word;
		bool *flag;
	} flags[] = {{"same", &o->same},       {"touched", &o->touched}, {"gap", &o->gap},
		     {"noisy", &o->noisy},     {"skewed", &o->skewed},	 {"two", &o->two},
		     {"minutes", &o->minutes}, {"queries", &o->queries}, {"totals", &o->totals},
		     {"late", &o->late},       {"alien", &o->alien}};
	uint64_t before, after;

	if (argc < 4 || sonde_parse_u64(argv[2], &before) || sonde_parse_u64(argv[3], &after) ||
	    !after || before > 365 || after > 365)
		return -EINVAL;
	o->dir = argv[1];
	for (int i = 4; i < argc; i++) {
		size_t k = 0;

		while (k < SONDE_ARRAY_SIZE(flags) && strcmp(flags[k].word, argv[i]))
			k++;
		if (k == SONDE_ARRAY_SIZE(flags))
			return -EINVAL;
		*flags[k].flag = true;
	}
	o->queries = o->queries || o->totals;
	o->step_ns = (o->minutes ? 60 : 600) * SONDE_NS_PER_SEC;
	o->tick = o->minutes ? 10 : 1;
	o->before = before * DAY_NS / o->step_ns;
	o->after = after * DAY_NS / o->step_ns;
	return 0;
}

int main(int argc, char **argv)
{
	struct sonde_rng r = {5};
	struct options o = {0};
	double *load;
	int err = parse(argc, argv, &o);

	if (err) {
		fprintf(stderr,
			"usage: mktrial DIR BEFORE_DAYS AFTER_DAYS [same] [touched] [gap] "
			"[noisy] [skewed] [two] [minutes] [queries] [totals] [late] [alien]\n");
		return 2;
	}
	load = calloc(o.before + o.after, sizeof(*load));
	if (!load)
		return 1;
	fixture_ar1(&r, load, o.before + o.after, 0.95, 0.01, 1);
	for (size_t s = 0; s < (o.two ? 4 : SONDE_ARRAY_SIZE(servers)) && !err; s++)
		err = make_server(&o, s, load);
	free(load);
	return err ? 1 : 0;
}
