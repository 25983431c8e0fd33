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
 *
 * two: without se05; minutes: a step is a minute, not ten; same: nothing but the restarts; touched:
 * huge pages were switched on a reference server, too; gap: a server was not recorded for 6 hours;
 * noisy: the control has five times the noise; skewed: se05-2 gets
 * a third fewer queries after the change. The change is at 2026-11-09T00:00:00Z.
 */
#include <stdio.h>

#include "core/num.h"
#include "record/writer.h"
#include "stats_fixture.h"
#include "core/mem.h"

#define CHANGE_NS (1794182400 * SONDE_NS_PER_SEC)
#define DAY_NS	  (86400 * SONDE_NS_PER_SEC)
#define MONO_NS	  (1000000 * SONDE_NS_PER_SEC)
#define QUERIES	  120 /* a step */
#define TABLE	  4096

struct options {
	const char *dir;
	size_t before, after; /* steps */
	uint64_t step_ns;
	size_t tick; /* so many steps are one transaction */
	bool same, touched, gap, noisy, skewed, two, minutes;
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

static int begin(const struct sonde_visitor *v, const struct server *s)
{
	struct sonde_clockpair clock = {MONO_NS, 0};
	struct sonde_meta meta = {0};
	int err;

	clock.real_ns = CHANGE_NS;
	err = sonde_meta_set_clock(&meta, &clock);
	err = err ? err : sonde_meta_set(&meta, "host.name", "%s", s->name);
	err = err ? err : sonde_meta_set(&meta, "kernel.release", "6.1.0-18-amd64");
	err = err ? err : sonde_meta_set(&meta, "target.0.comm", "searchd");
	err = err ? err
		  : sonde_meta_set(&meta, "target.0.allocator", "%s",
				   s->changed && s->arm != 1 ? "jemalloc" : "glibc");
	err = err ? err
		  : sonde_meta_set(&meta, "target.0.thp", "%s",
				   s->changed && s->arm == 0 ? "never" : "always");
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
	struct sonde_hist hist;
};

static int put_step(struct making *m, size_t step)
{
	bool after = step >= m->o->before, changed = after && m->s->changed;
	bool treated = changed && m->s->arm != 1 && !m->o->same;
	uint64_t from = MONO_NS + step * m->o->step_ns - m->o->before * m->o->step_ns;
	uint64_t to = from + m->o->step_ns;
	struct sonde_histrow row = {.desc = &latency, .label = "", .from_ns = from, .to_ns = to};
	double scale = exp(m->load[step] + m->own[step] + (changed ? -0.02 : 0));
	bool fewer = m->o->skewed && after && !strcmp(m->s->name, "se05-2");
	int err, queries = fewer ? QUERIES * 2 / 3 : QUERIES;

	sonde_hist_reset(&m->hist);
	for (int i = 0; i < queries; i++) {
		size_t at = sonde_rng_next(&m->rng) % TABLE;

		sonde_hist_add(&m->hist,
			       (uint64_t)(scale * m->table[at] * (treated ? m->factor[at] : 1)));
	}
	row.hist = &m->hist;
	m->queries += queries;
	m->faults += floor(queries * (treated ? 30 : 20) * exp(m->own[step]));
	err = sonde_visit(m->v, hist, &row);
	err = err ? err
		  : put(m->v, &rss, "", to,
			6e10 * exp(m->level[step] + (changed ? -0.02 : 0) +
				   (treated ? log(0.945) : 0)));
	err = err ? err : put(m->v, &spans, "", to, m->queries);
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

static int put_all(struct making *m)
{
	size_t n = m->o->before + m->o->after;
	int err = begin(m->v, m->s);

	if (!err && m->o->touched && !strcmp(m->s->name, "se03"))
		err = put_note(m);
	for (size_t i = 0; i < n && !err; i++) {
		bool gap = m->o->gap && !strcmp(m->s->name, "se05") && i >= m->o->before + 200 &&
			   i < m->o->before + 236;

		err = gap ? 0 : put_step(m, i);
	}
	return err ? err : sonde_visit(m->v, end, NULL);
}

static int make_server(const struct options *o, size_t server, double *load)
{
	struct sonde_writer_opts opts = {.spans = {.mode = SONDE_SPANS_NONE}};
	struct making m = {.o = o, .s = &servers[server], .load = load, .rng = {77 + server}};
	size_t n = o->before + o->after;
	double sd = o->noisy && m.s->arm == 1 ? 0.3 : 0.06;
	struct sonde_writer *w = NULL;
	char path[512];
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
	snprintf(path, sizeof(path), "%s/%s.sonde", o->dir, m.s->name);
	err = sonde_writer_open(&w, path, &opts);
	if (!err) {
		m.v = sonde_writer_visitor(w);
		err = put_all(&m);
		err = err ? err : sonde_writer_close(&w);
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
	} flags[] = {{"same", &o->same},      {"touched", &o->touched}, {"gap", &o->gap},
		     {"noisy", &o->noisy},    {"skewed", &o->skewed},	{"two", &o->two},
		     {"minutes", &o->minutes}};
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
		fprintf(stderr, "usage: mktrial DIR BEFORE_DAYS AFTER_DAYS [same] [touched] [gap] "
				"[noisy] [skewed] [two] [minutes]\n");
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
