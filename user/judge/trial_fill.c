// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recordings into a trial; see trial_fill.h. A level adds each reading, a counter what it grew by
 * since the reading before; a counter that fell began anew and adds nothing. A window is seen where
 * a tick was.
 */
#include <errno.h>
#include <stdio.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/str.h"
#include "judge/trial_fill.h"

#define QUERIES	  "query.spans"
#define MAX_NAMES 2

/* Rows of sources; metrics point to them by name. */
static const struct {
	const char *name;
	enum sonde_trial_kind kind;
	const char *from[MAX_NAMES]; /* metrics that add up                                    */
	const char *label; /* of these, labels that begin so; of a histogram: its own label, "" */
} sources[] = {
	{"rss.total", SONDE_TRIAL_LEVEL, {"rss.total"}, ""},
	{"query.latency", SONDE_TRIAL_HIST, {"query.latency"}, ""},
	{"rss.anon", SONDE_TRIAL_LEVEL, {"rss.anon"}, ""},
	{"rss.anon_huge", SONDE_TRIAL_LEVEL, {"rss.anon_huge"}, ""},
	{"rss.file", SONDE_TRIAL_LEVEL, {"rss.file"}, ""},
	{"cpu", SONDE_TRIAL_RATIO, {"proc.cpu_user", "proc.cpu_sys"}, ""},
	{"fault.count", SONDE_TRIAL_RATIO, {"fault.count"}, ""},
	{"fault.huge", SONDE_TRIAL_RATIO, {"fault.count"}, "pmd"},
	{"fault.time", SONDE_TRIAL_RATIO, {"fault.time"}, ""},
	/* Not all of stall.time: most of it is threads at rest. */
	{"runqueue", SONDE_TRIAL_RATIO, {"stall.time"}, "runqueue"},
	{"mmap_lock", SONDE_TRIAL_RATIO, {"stall.time"}, "mmap_lock"},
	{"alloc_lock", SONDE_TRIAL_RATIO, {"stall.time"}, "alloc_lock"},
	{"syscalls", SONDE_TRIAL_RATIO, {"stall.syscall_time"}, ""},
};

static const struct {
	const char *name, *source;
	enum sonde_trial_stat stat;
	double q;
	bool primary;
} metrics[] = {
	{"RSS", "rss.total", SONDE_TRIAL_MEAN, 0, true},
	{"mean", "query.latency", SONDE_TRIAL_MEAN, 0, true},
	{"p95", "query.latency", SONDE_TRIAL_QUANTILE, 0.95, true},
	{"p99", "query.latency", SONDE_TRIAL_QUANTILE, 0.99, true},
	{"RSS growth a day", "rss.total", SONDE_TRIAL_GROWTH, 0, false},
	{"p50", "query.latency", SONDE_TRIAL_QUANTILE, 0.5, false},
	{"p99.9", "query.latency", SONDE_TRIAL_QUANTILE, 0.999, false},
	{"RSS anonymous", "rss.anon", SONDE_TRIAL_MEAN, 0, false},
	{"RSS in huge pages", "rss.anon_huge", SONDE_TRIAL_MEAN, 0, false},
	{"RSS of files", "rss.file", SONDE_TRIAL_MEAN, 0, false},
	{"CPU per query", "cpu", SONDE_TRIAL_MEAN, 0, false},
	{"faults per query", "fault.count", SONDE_TRIAL_MEAN, 0, false},
	{"huge faults per query", "fault.huge", SONDE_TRIAL_MEAN, 0, false},
	{"fault time per query", "fault.time", SONDE_TRIAL_MEAN, 0, false},
	{"run queue per query", "runqueue", SONDE_TRIAL_MEAN, 0, false},
	{"mmap_lock per query", "mmap_lock", SONDE_TRIAL_MEAN, 0, false},
	{"alloc lock per query", "alloc_lock", SONDE_TRIAL_MEAN, 0, false},
	{"mmap calls per query", "syscalls", SONDE_TRIAL_MEAN, 0, false},
};

_Static_assert(SONDE_ARRAY_SIZE(sources) <= 32, "sources of a series are a mask");

static size_t find_source(const char *name)
{
	size_t i = 0;

	while (strcmp(sources[i].name, name))
		i++;
	return i;
}

int sonde_trial_fill_begin(struct sonde_trial *t)
{
	int err = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(sources) && err >= 0; i++)
		err = sonde_trial_add_source(t, sources[i].name, sources[i].kind);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(metrics) && err >= 0; i++) {
		struct sonde_trial_metric m = {
			.source = find_source(metrics[i].source),
			.stat = metrics[i].stat,
			.q = metrics[i].q,
			.primary = metrics[i].primary,
		};

		snprintf(m.name, sizeof(m.name), "%s", metrics[i].name);
		err = sonde_trial_add_metric(t, &m);
	}
	return err < 0 ? err : 0;
}

int sonde_trial_fill_margin(struct sonde_trial *t, const char *metric, double margin)
{
	for (size_t i = 0; i < t->n_metrics; i++) {
		if (strcmp(t->metrics[i].name, metric))
			continue;
		t->metrics[i].margin = margin;
		return 0;
	}
	return -ENOENT;
}

const char *sonde_trial_fill_names(const struct sonde_trial *t, char *buf, size_t size)
{
	size_t at = 0;

	*buf = '\0';
	for (size_t i = 0; i < t->n_metrics && at < size; i++)
		at += (size_t)snprintf(buf + at, size - at, "%s%s", i ? ", " : "",
				       t->metrics[i].name);
	return buf;
}

/* ---- one recording ---- */

enum role { ROLE_NONE, ROLE_LEVEL, ROLE_AMOUNT, ROLE_QUERIES };

/* A reader has one descriptor a series, so its address tells series apart. */
struct known {
	const struct sonde_metric_desc *desc;
	enum role role;
	uint32_t sources; /* mask of those that it goes into */
	bool has_last;
	double last;
};

struct fill {
	struct sonde_trial *t;
	size_t server;
	struct sonde_clockpair clock;
	struct known *known;
	size_t n_known, cap_known, next; /* series come in the same order each tick */
	size_t latency;
	int hist_err;
};

/* The window that ends with a time or holds it, since what is read then is of the time before it;
 * n_windows: none. */
static size_t window_of(const struct fill *f, uint64_t mono_ns)
{
	uint64_t utc = sonde_clockpair_real(&f->clock, mono_ns) - 1;
	uint64_t at = utc < f->t->start_ns ? UINT64_MAX : (utc - f->t->start_ns) / f->t->window_ns;

	return at < f->t->n_windows ? (size_t)at : f->t->n_windows;
}

static struct known classify(const struct sonde_metric *m)
{
	const char *label = m->label ? m->label : "";
	struct known k = {.desc = m->desc};

	if (!strcmp(m->desc->name, QUERIES)) {
		k.role = ROLE_QUERIES;
		return k;
	}
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(sources); i++) {
		for (size_t n = 0; n < MAX_NAMES && sources[i].from[n]; n++) {
			if (sources[i].kind == SONDE_TRIAL_HIST ||
			    strcmp(sources[i].from[n], m->desc->name) ||
			    !sonde_str_starts(label, sources[i].label))
				continue;
			k.role = sources[i].kind == SONDE_TRIAL_LEVEL ? ROLE_LEVEL : ROLE_AMOUNT;
			k.sources |= 1u << i;
		}
	}
	return k;
}

static struct known *get_known(struct fill *f, const struct sonde_metric *m)
{
	for (size_t i = 0; i < f->n_known; i++) {
		size_t at = (f->next + i) % f->n_known;

		if (f->known[at].desc != m->desc)
			continue;
		f->next = at + 1;
		return &f->known[at];
	}
	if (SONDE_GROW(f->known, f->n_known, f->cap_known))
		return NULL;
	f->known[f->n_known] = classify(m);
	return &f->known[f->n_known++];
}

static void put_value(struct fill *f, const struct known *k, size_t window, double num, double den)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(sources); i++)
		if (k->sources & 1u << i)
			sonde_trial_put(f->t, i, f->server, window, num, den);
}

/* Every amount is divided by the same queries. */
static void put_queries(struct fill *f, size_t window, double grown)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(sources); i++)
		if (sources[i].kind == SONDE_TRIAL_RATIO)
			sonde_trial_put(f->t, i, f->server, window, 0, grown);
}

static int on_metric(void *ctx, const struct sonde_metric *m)
{
	struct fill *f = ctx;
	struct known *k = get_known(f, m);
	size_t window = window_of(f, m->ts_ns);
	double grown;

	if (!k)
		return -ENOMEM;
	if (k->role == ROLE_NONE || m->absent)
		return 0;
	if (k->role == ROLE_LEVEL) {
		put_value(f, k, window, m->value, 1);
		return 0;
	}
	grown = k->has_last && m->value >= k->last ? m->value - k->last : 0;
	k->last = m->value;
	k->has_last = true;
	if (k->role == ROLE_QUERIES)
		put_queries(f, window, grown);
	else
		put_value(f, k, window, grown, 0);
	return 0;
}

static int on_hist(void *ctx, const struct sonde_histrow *h)
{
	struct fill *f = ctx;
	size_t window = window_of(f, h->from_ns + (h->to_ns - h->from_ns) / 2);

	if (strcmp(h->label, sources[f->latency].label) ||
	    strcmp(h->desc->name, sources[f->latency].from[0]) || window == f->t->n_windows)
		return 0;
	f->hist_err =
		sonde_windows_add(sonde_trial_hist(f->t, f->latency, f->server), window, h->hist);
	return f->hist_err;
}

static int on_tick(void *ctx, uint64_t ts_ns)
{
	struct fill *f = ctx;

	sonde_trial_see(f->t, f->server, window_of(f, ts_ns));
	return 0;
}

static int explain(const struct fill *f, const struct sonde_reader *r, int err)
{
	if (f->hist_err == -EINVAL)
		return sonde_err(EINVAL,
				 "%s: %s was recorded twice at the same time; give one of "
				 "the recordings",
				 sonde_reader_path(r), f->t->servers[f->server]);
	return err;
}

int sonde_trial_fill_from(struct sonde_trial *t, size_t server, struct sonde_reader *r,
			  const struct sonde_visitor *also)
{
	struct fill f = {.t = t,
			 .server = server,
			 .clock = *sonde_reader_clock(r),
			 .latency = find_source("query.latency")};
	struct sonde_visitor own = {
		.ctx = &f, .metric = on_metric, .hist = on_hist, .tick = on_tick};
	struct sonde_fanout both = {.to = {&own, also}, .n = also ? 2 : 1};
	struct sonde_reader_filter filter = {
		.since_ns = t->start_ns,
		/* a tick on the end of the last window belongs to it */
		.until_ns = t->start_ns + t->n_windows * t->window_ns + 1,
	};
	struct sonde_visitor v = sonde_fanout_visitor(&both);
	int err;

	v.span = NULL; /* histograms say all that is compared */
	err = sonde_reader_visit(r, &filter, &v);
	free(f.known);
	return err ? explain(&f, r, err) : 0;
}

/* ---- the end ---- */

static bool has_any(const struct sonde_trial *t, size_t source)
{
	for (size_t s = 0; s < t->n_servers; s++)
		for (size_t w = 0; w < t->n_windows; w++)
			if (t->sources[source].cell[s].den[w] > 0 &&
			    t->sources[source].cell[s].num[w] > 0)
				return true;
	return false;
}

int sonde_trial_fill_end(struct sonde_trial *t)
{
	size_t kept = 0;
	int err = 0;

	for (size_t s = 0; s < t->n_servers && !err; s++)
		err = sonde_windows_seal(sonde_trial_hist(t, find_source("query.latency"), s));
	for (size_t i = 0; i < t->n_metrics && !err; i++)
		if (has_any(t, t->metrics[i].source))
			t->metrics[kept++] = t->metrics[i];
	if (!err)
		t->n_metrics = kept;
	return err;
}
