// SPDX-License-Identifier: GPL-2.0-or-later
/* What is judged; see trial_figures.h. */
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "core/str.h"
#include "judge/trial_figures.h"

#define MAX_NAMES   2
#define MAX_MEMBERS 96 /* of all families; what comes then is not judged */

/* Rows of sources; metrics point to them by name. */
static const struct {
	const char *name;
	enum sonde_trial_kind kind;
	const char *from[MAX_NAMES]; /* metrics that add up                                    */
	const char *label; /* of these, labels that begin so; of a histogram: its own label, "" */
} sources[] = {
	{"rss.total", SONDE_TRIAL_LEVEL, {"rss.total"}, ""},
	{SONDE_FIGURE_LATENCY, SONDE_TRIAL_HIST, {SONDE_FIGURE_LATENCY}, ""},
	{"rss.anon", SONDE_TRIAL_LEVEL, {"rss.anon"}, ""},
	{"rss.anon_huge", SONDE_TRIAL_LEVEL, {"rss.anon_huge"}, ""},
	{"rss.file", SONDE_TRIAL_LEVEL, {"rss.file"}, ""},
	{"rss.shmem", SONDE_TRIAL_LEVEL, {"rss.shmem"}, ""},
	{"rss.swap", SONDE_TRIAL_LEVEL, {"rss.swap"}, ""},
	{"rss.lazyfree", SONDE_TRIAL_LEVEL, {"rss.lazyfree"}, ""},
	{"rss.held_outside", SONDE_TRIAL_LEVEL, {"rss.held_outside"}, ""},
	{"consumption", SONDE_TRIAL_LEVEL, {"alloc.allocated"}, ""},
	{"consumption.most", SONDE_TRIAL_LEVEL, {"alloc.at_most"}, ""},
	{"cpu", SONDE_TRIAL_RATIO, {"proc.cpu_user", "proc.cpu_sys"}, ""},
	{"fault.count", SONDE_TRIAL_RATIO, {"fault.count"}, ""},
	{"fault.huge", SONDE_TRIAL_RATIO, {"fault.count"}, "pmd"},
	{"fault.time", SONDE_TRIAL_RATIO, {"fault.time"}, ""},
	/* Not all of stall.time: most of it is threads at rest. */
	{"runqueue", SONDE_TRIAL_RATIO, {"stall.time"}, "runqueue"},
	{"mmap_lock", SONDE_TRIAL_RATIO, {"stall.time"}, "mmap_lock"},
	{"alloc_lock", SONDE_TRIAL_RATIO, {"stall.time"}, "alloc_lock"},
	{"kernel_lock", SONDE_TRIAL_RATIO, {"stall.time"}, "kernel_lock"},
	{"io", SONDE_TRIAL_RATIO, {"stall.time"}, "io"},
	{"syscalls", SONDE_TRIAL_RATIO, {"stall.syscall_time"}, ""},
	{"thp.stall", SONDE_TRIAL_RATIO, {"thp.stall_time"}, ""},
	{"errors", SONDE_TRIAL_RATIO, {"query.errors"}, ""},
};

static const struct {
	const char *name, *source, *unit;
	enum sonde_trial_stat stat;
	double q;
	bool primary;
} metrics[] = {
	{"RSS", "rss.total", "bytes", SONDE_TRIAL_MEAN, 0, true},
	{"mean", SONDE_FIGURE_LATENCY, "ns", SONDE_TRIAL_MEAN, 0, true},
	{"p95", SONDE_FIGURE_LATENCY, "ns", SONDE_TRIAL_QUANTILE, 0.95, true},
	{"p99", SONDE_FIGURE_LATENCY, "ns", SONDE_TRIAL_QUANTILE, 0.99, true},
	{"RSS growth a day", "rss.total", NULL, SONDE_TRIAL_GROWTH, 0, false},
	{"p50", SONDE_FIGURE_LATENCY, "ns", SONDE_TRIAL_QUANTILE, 0.5, false},
	{"p99.9", SONDE_FIGURE_LATENCY, "ns", SONDE_TRIAL_QUANTILE, 0.999, false},
	{"RSS anonymous", "rss.anon", "bytes", SONDE_TRIAL_MEAN, 0, false},
	{"RSS in huge pages", "rss.anon_huge", "bytes", SONDE_TRIAL_MEAN, 0, false},
	{"RSS of files", "rss.file", "bytes", SONDE_TRIAL_MEAN, 0, false},
	{"RSS shared", "rss.shmem", "bytes", SONDE_TRIAL_MEAN, 0, false},
	{"swap", "rss.swap", "bytes", SONDE_TRIAL_MEAN, 0, false},
	{"LazyFree", "rss.lazyfree", "bytes", SONDE_TRIAL_MEAN, 0, false},
	{"held outside RSS", "rss.held_outside", "bytes", SONDE_TRIAL_MEAN, 0, false},
	{"consumption", "consumption", "bytes", SONDE_TRIAL_MEAN, 0, false},
	{"consumption at most", "consumption.most", "bytes", SONDE_TRIAL_MEAN, 0, false},
	{"CPU per query", "cpu", "ns", SONDE_TRIAL_MEAN, 0, false},
	{"faults per query", "fault.count", "count", SONDE_TRIAL_MEAN, 0, false},
	{"huge faults per query", "fault.huge", "count", SONDE_TRIAL_MEAN, 0, false},
	{"fault time per query", "fault.time", "ns", SONDE_TRIAL_MEAN, 0, false},
	{"run queue per query", "runqueue", "ns", SONDE_TRIAL_MEAN, 0, false},
	{"mmap_lock per query", "mmap_lock", "ns", SONDE_TRIAL_MEAN, 0, false},
	{"alloc lock per query", "alloc_lock", "ns", SONDE_TRIAL_MEAN, 0, false},
	{"kernel lock per query", "kernel_lock", "ns", SONDE_TRIAL_MEAN, 0, false},
	{"I/O per query", "io", "ns", SONDE_TRIAL_MEAN, 0, false},
	{"mmap calls per query", "syscalls", "ns", SONDE_TRIAL_MEAN, 0, false},
	{"stalls per query", "thp.stall", "ns", SONDE_TRIAL_MEAN, 0, false},
	{"errors per query", "errors", "count", SONDE_TRIAL_MEAN, 0, false},
};

/* A label is a metric: "faults base.minor per query". */
static const struct {
	const char *from;
	enum sonde_trial_kind kind;
	const char *before, *after; /* of the label, in the metric's name */
	const char *unit;
} families[] = {
	{"rss.ledger", SONDE_TRIAL_LEVEL, "ledger: ", "", "bytes"},
	{"fault.count", SONDE_TRIAL_RATIO, "faults ", " per query", "count"},
	{"fault.time", SONDE_TRIAL_RATIO, "fault time ", " per query", "ns"},
	{"thp.stall_time", SONDE_TRIAL_RATIO, "stalls ", " per query", "ns"},
	{"stall.syscall_time", SONDE_TRIAL_RATIO, "", " per query", "ns"},
};

static const struct {
	const char *name;
	enum sonde_trial_stat stat;
	double q;
	enum sonde_trial_detail detail;
} latencies[] = {
	{"mean", SONDE_TRIAL_MEAN, 0, SONDE_TRIAL_ALWAYS},
	{"p50", SONDE_TRIAL_QUANTILE, 0.5, SONDE_TRIAL_IF_ASKED},
	{"p95", SONDE_TRIAL_QUANTILE, 0.95, SONDE_TRIAL_IF_ASKED},
	{"p99", SONDE_TRIAL_QUANTILE, 0.99, SONDE_TRIAL_ALWAYS},
	{"p99.9", SONDE_TRIAL_QUANTILE, 0.999, SONDE_TRIAL_IF_ASKED},
};

static size_t find_source(const char *name)
{
	size_t i = 0;

	while (strcmp(sources[i].name, name))
		i++;
	return i;
}

size_t sonde_figure_latency(void)
{
	return find_source(SONDE_FIGURE_LATENCY);
}

int sonde_figures_begin(struct sonde_trial *t)
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
			.unit = metrics[i].unit,
		};

		snprintf(m.name, sizeof(m.name), "%s", metrics[i].name);
		err = sonde_trial_add_metric(t, &m);
	}
	return err < 0 ? err : 0;
}

int sonde_figures_add_latency(struct sonde_trial *t, size_t source, const char *group)
{
	int err = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(latencies) && err >= 0; i++) {
		struct sonde_trial_metric m = {
			.source = source,
			.stat = latencies[i].stat,
			.q = latencies[i].q,
			.detail = latencies[i].detail,
			.unit = "ns",
		};

		snprintf(m.name, sizeof(m.name), "%s", latencies[i].name);
		snprintf(m.group, sizeof(m.group), "%s", group);
		err = sonde_trial_add_metric(t, &m);
	}
	return err < 0 ? err : 0;
}

/* ---- members of families ---- */

/* It was met in the middle of a recording: queries were counted before. */
static void copy_divisors(struct sonde_trial *t, size_t source)
{
	const struct sonde_trial_source *from = &t->sources[find_source("cpu")];

	if (t->sources[source].kind != SONDE_TRIAL_RATIO)
		return;
	for (size_t s = 0; s < t->n_servers; s++)
		memcpy(t->sources[source].cell[s].den, from->cell[s].den,
		       t->n_windows * sizeof(double));
}

/* The member's source: found, or made. -ENOSPC: there are too many. */
static int get_member(struct sonde_trial *t, size_t family, const char *label)
{
	struct sonde_trial_metric m = {.stat = SONDE_TRIAL_MEAN,
				       .detail = SONDE_TRIAL_IF_DIFFERENT,
				       .unit = families[family].unit};
	char name[SONDE_TRIAL_NAME];
	int source, err;

	snprintf(name, sizeof(name), "%s %s", families[family].from, label);
	for (size_t i = SONDE_ARRAY_SIZE(sources); i < t->n_sources; i++)
		if (!strcmp(t->sources[i].name, name))
			return (int)i;
	if (t->n_sources >= SONDE_ARRAY_SIZE(sources) + MAX_MEMBERS)
		return -ENOSPC;
	source = sonde_trial_add_source(t, name, families[family].kind);
	if (source < 0)
		return source;
	copy_divisors(t, (size_t)source);
	m.source = (size_t)source;
	snprintf(m.name, sizeof(m.name), "%s%.40s%s", families[family].before, label,
		 families[family].after);
	err = sonde_trial_add_metric(t, &m);
	return err < 0 ? err : source;
}

static void add_role(struct sonde_figure *f, enum sonde_trial_kind kind, size_t source)
{
	f->role = kind == SONDE_TRIAL_LEVEL ? SONDE_FIGURE_LEVEL : SONDE_FIGURE_AMOUNT;
	if (f->n < SONDE_FIGURE_ROLES)
		f->source[f->n++] = source;
}

static int find_family(struct sonde_trial *t, const char *name, const char *label,
		       struct sonde_figure *f)
{
	int source;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(families); i++) {
		if (!*label || strcmp(families[i].from, name))
			continue;
		source = get_member(t, i, label);
		if (source == -ENOSPC)
			continue;
		if (source < 0)
			return source;
		add_role(f, families[i].kind, (size_t)source);
	}
	return 0;
}

int sonde_figure_find(struct sonde_trial *t, const struct sonde_metric *m, struct sonde_figure *out)
{
	const char *label = m->label ? m->label : "";
	struct sonde_figure f = {.role = SONDE_FIGURE_NONE};
	int err;

	if (!strcmp(m->desc->name, SONDE_FIGURE_QUERIES)) {
		*out = (struct sonde_figure){.role = SONDE_FIGURE_DIVISOR};
		return 0;
	}
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(sources); i++)
		for (size_t n = 0; n < MAX_NAMES && sources[i].from[n]; n++)
			if (sources[i].kind != SONDE_TRIAL_HIST &&
			    !strcmp(sources[i].from[n], m->desc->name) &&
			    sonde_str_starts(label, sources[i].label))
				add_role(&f, sources[i].kind, i);
	err = find_family(t, m->desc->name, label, &f);
	if (!err)
		*out = f;
	return err;
}
