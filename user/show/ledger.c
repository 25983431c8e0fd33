// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The memory section; see ledger.h. Every figure has its unit; one whose reading took time has its
 * age. What cannot be told is said where it would stand.
 */
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "judge/figures.h"
#include "show/ledger.h"

#define B(v)  sonde_fmt_bytes((char[32]){0}, 32, (v))
#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (v))

#define NAMES_SHOWN 4

struct view {
	FILE *out;
	const struct sonde_snapshot *s;
	enum sonde_ledger_columns cols;
	double rss;
};

static double last(const struct view *v, const char *name, const char *label)
{
	return sonde_figure_last(v->s, name, label);
}

static const char *absent(const struct view *v, const char *name, const char *label)
{
	for (size_t i = 0; i < v->s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &v->s->metrics[i];

		if (!strcmp(m->desc->name, name) && m->absent &&
		    (!label || !strcmp(m->label, label)))
			return m->absent;
	}
	return NULL;
}

static const char *signed_bytes(char *buf, size_t size, double d)
{
	snprintf(buf, size, "%s%s", d < 0 ? "-" : "+", B(fabs(d)));
	return buf;
}

static void print_values(const struct view *v, double first, double now)
{
	char change[40], below[40];

	signed_bytes(change, sizeof(change), now - first);
	signed_bytes(below, sizeof(below), now);
	if (v->cols == SONDE_LEDGER_FIRST_LAST) {
		fprintf(v->out, " %10s %10s %11s\n", B(first), B(now), change);
		return;
	}
	fprintf(v->out, " %10s %5.1f %%", now < 0 ? below : B(now),
		v->rss > 0 ? 100 * now / v->rss : 0);
	if (now != first)
		fprintf(v->out, "  %s since attach", change);
	fputc('\n', v->out);
}

/* Rows that were 0 from first to last say nothing; those with @always are looked for. */
static void row(const struct view *v, const char *title, const char *name, const char *label,
		bool always)
{
	double now = last(v, name, label), first = sonde_figure_first(v->s, name, label);

	if (isnan(now)) {
		const char *why = absent(v, name, label);

		if (why && always)
			fprintf(v->out, "  %-24s absent: %s\n", title, why);
		return;
	}
	if (!always && now == 0 && first == 0)
		return;
	fprintf(v->out, "  %-24s", title);
	print_values(v, first, now);
}

/* "    by extension  .spd 6.10 GiB, .spp 3.00 GiB, 5 more 700 KiB" */
static void names(const struct view *v, const char *title, const char *metric)
{
	const struct sonde_snap_metric *top[NAMES_SHOWN] = {NULL};
	double rest = 0, all = 0;
	size_t n = 0;

	for (size_t i = 0; i < v->s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &v->s->metrics[i];

		if (strcmp(m->desc->name, metric) || !m->present || m->last <= 0 ||
		    sonde_figure_is_gone(v->s, m->target))
			continue;
		n++;
		all += m->last;
		for (size_t k = 0; k < NAMES_SHOWN && m; k++) {
			const struct sonde_snap_metric *other = top[k];

			if (!strcmp(m->label, "other") || (other && other->last >= m->last))
				continue;
			top[k] = m;
			m = other;
		}
	}
	if (!n)
		return;
	rest = all;
	fprintf(v->out, "    %-14s", title);
	for (size_t k = 0; k < NAMES_SHOWN && top[k]; k++) {
		const char *slash = strrchr(top[k]->label, '/');

		/* A line has no room for paths; the data has them. */
		fprintf(v->out, "%s %s %s", k ? "," : "",
			SONDE_PLAIN(slash ? slash + 1 : top[k]->label), B(top[k]->last));
		rest -= top[k]->last;
	}
	if (rest > 0)
		fprintf(v->out, ", other %s", B(rest));
	fputc('\n', v->out);
}

static double age_s(const struct view *v, const char *name, const char *label)
{
	const struct sonde_snap_metric *m =
		sonde_snapshot_find_metric(v->s, name, label, UINT32_MAX);

	return m && v->s->last_tick_ns > m->last_ns
		       ? (double)(v->s->last_tick_ns - m->last_ns) / (double)SONDE_NS_PER_SEC
		       : 0;
}

/* What the allocator's memory is made of is its own knowledge. */
static void print_split(const struct view *v)
{
	double live = last(v, "alloc.allocated", NULL), bloat = last(v, "thp.bloat", NULL);
	double most = last(v, "alloc.at_most", NULL), age = last(v, "alloc.age", NULL);

	if (!isnan(live))
		fprintf(v->out, "    live %s by the allocator's counters%s%s", B(live),
			isnan(last(v, "alloc.calls", NULL)) ? ""
							    : " at attach, every call since added",
			age > 0 ? " (an estimate)" : "");
	else if (!isnan(most))
		fprintf(v->out, "    live: at most %s by the allocator's counters", B(most));
	else
		fprintf(v->out, "    live or free: cannot split, %s",
			SONDE_PLAIN(sonde_figure_why_not_live(v->s)));
	if (isnan(bloat))
		fprintf(v->out, "; khugepaged's bloat: not observed\n");
	else
		fprintf(v->out, "; khugepaged's bloat: %s since attach, earlier cannot be split\n",
			B(bloat));
}

/* glibc's own are told from the program's; nothing tells those of other allocators. */
static const char *mapped_title(const struct view *v)
{
	const char *name = sonde_meta_find(&v->s->meta, "target.0.allocator");

	if (!name || !*name || !strcmp(name, "glibc"))
		return "  other mappings";
	return "  allocator's, and mmap";
}

static void print_anon(const struct view *v)
{
	static const struct {
		const char *label, *title;
	} rows[] = {
		{"heap", "  brk heap"},
		{"arenas", "  malloc arenas"},
		{"large", "  malloc's big chunks"},
		{"named", "  allocator's, by name"},
		{"mapped", NULL},
		{"stacks", "  stacks"},
		{"data", "  program data"},
	};

	row(v, "private anonymous", "rss.anon", "", true);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++)
		row(v, rows[i].title ? rows[i].title : mapped_title(v), "rss.ledger", rows[i].label,
		    false);
	if (!isnan(last(v, "rss.anon_huge", "")))
		row(v, "  (in huge pages)", "rss.anon_huge", "", true);
	else
		row(v, "  in huge pages", "rss.anon_huge", "", true);
	row(v, "  (LazyFree)", "rss.lazyfree", "", false);
	print_split(v);
}

/* How the ledger was had, and how well it adds up. */
static void print_reading(const struct view *v)
{
	double took = last(v, "rss.walk_time", "smaps"), moved = last(v, "rss.ledger_moved", "");
	const char *why = absent(v, "rss.ledger", "");
	double age = age_s(v, "rss.walk_time", "smaps");
	char when[32] = "now";

	if (why)
		fprintf(v->out, "  by mapping: %s\n", why);
	if (isnan(took))
		return;
	row(v, "unexplained", "rss.ledger", "unexplained", true);
	if (age >= 0.95)
		snprintf(when, sizeof(when), "%.0f s ago", age);
	fprintf(v->out, "  by mapping: read %s, in %s", when, NS(took));
	if (moved != 0 && !isnan(moved))
		fprintf(v->out, ", in which RSS moved by %s", B(fabs(moved)));
	fputc('\n', v->out);
}

static void beside(const struct view *v, const char *title, const char *name, bool always,
		   bool *any)
{
	double now = last(v, name, NULL);

	if (isnan(now) || (!always && now <= 0))
		return;
	fprintf(v->out, "%s%s %s", *any ? ", " : "  beside RSS: ", title, B(now));
	*any = true;
}

static void print_beside(const struct view *v)
{
	const char *why = absent(v, "rss.held_outside", "");
	bool any = false;

	beside(v, "page tables", "rss.pte", true, &any);
	beside(v, "swap", "rss.swap", true, &any);
	beside(v, "hugetlb", "rss.hugetlb", false, &any);
	beside(v, "huge pages given back in part", "rss.held_outside", false, &any);
	beside(v, "locked (in RSS)", "rss.locked", false, &any);
	if (any)
		fputc('\n', v->out);
	if (absent(v, "rss.swap", ""))
		fprintf(v->out, "  beside RSS: swap absent: %s\n", absent(v, "rss.swap", ""));
	names(v, "swap of", "rss.ledger_swap");
	if (!isnan(last(v, "rss.held_system", NULL)) && last(v, "rss.held_system", NULL) > 0)
		fprintf(v->out, "  system-wide: %s of huge pages are mapped in part%s%s\n",
			B(last(v, "rss.held_system", NULL)), why ? "; whose is not known: " : "",
			why ? why : "");
}

static void print_memcg(const struct view *v)
{
	double usage = last(v, "rss.memcg_usage", NULL), limit = last(v, "rss.memcg_limit", NULL);

	if (isnan(usage))
		return;
	fprintf(v->out, "  its cgroup: %s charged", B(usage));
	if (isnan(limit))
		fprintf(v->out, ", no limit");
	else
		fprintf(v->out, " of %s (%.0f %%)", B(limit), limit > 0 ? 100 * usage / limit : 0);
	if (!isnan(last(v, "rss.memcg_anon", NULL)))
		fprintf(v->out, "; anonymous %s", B(last(v, "rss.memcg_anon", NULL)));
	if (last(v, "rss.memcg_anon_huge", NULL) > 0)
		fprintf(v->out, " (huge %s)", B(last(v, "rss.memcg_anon_huge", NULL)));
	if (!isnan(last(v, "rss.memcg_file", NULL)))
		fprintf(v->out, ", cache and shared %s", B(last(v, "rss.memcg_file", NULL)));
	fputc('\n', v->out);
}

static void print_diagnosis(FILE *out, const struct sonde_snapshot *s)
{
	struct sonde_figures figures;
	struct sonde_diagnosis d;

	sonde_figures_of(s, &figures);
	sonde_diagnose(&figures.memory, &d);
	for (size_t i = 0; i < d.n; i++)
		fprintf(out, "%-15s %s%s%s\n", d.f[i].question, SONDE_PLAIN(d.f[i].text),
			d.f[i].next[0] ? " -> " : "", SONDE_PLAIN(d.f[i].next));
}

void sonde_show_memory(FILE *out, const struct sonde_snapshot *s, enum sonde_ledger_columns cols)
{
	struct view v = {out, s, cols, sonde_figure_last(s, "rss.total", "")};
	double first = sonde_figure_first(s, "rss.total", "");
	char change[40];

	if (isnan(v.rss)) {
		if (absent(&v, "rss.total", ""))
			fprintf(out, "RSS absent: %s\n", absent(&v, "rss.total", ""));
		return;
	}
	fprintf(out, "RSS %s", B(v.rss));
	if (cols == SONDE_LEDGER_FIRST_LAST)
		fprintf(out, ", %s since the first value\n  %-24s %10s %10s %11s",
			signed_bytes(change, sizeof(change), v.rss - first), "", "first", "last",
			"change");
	else if (v.rss != first)
		fprintf(out, "  %s since attach",
			signed_bytes(change, sizeof(change), v.rss - first));
	fputc('\n', out);
	row(&v, "shared memory", "rss.shmem", "", cols == SONDE_LEDGER_NOW);
	names(&v, "by name", "rss.shmem_name");
	row(&v, "files", "rss.file", "", cols == SONDE_LEDGER_NOW);
	names(&v, "by extension", "rss.file_ext");
	names(&v, "biggest", "rss.file_path");
	print_anon(&v);
	print_reading(&v);
	print_beside(&v);
	print_memcg(&v);
	print_diagnosis(out, s);
}
