// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Figures of a snapshot; see figures.h. Invariant: what no lens yielded is NAN, and a value whose
 * latest reading failed is not used.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "judge/asking.h"
#include "judge/figures.h"

#define EXT_SHOWN 3

enum which { FIRST, LAST, HIGHEST };

/* A target that exited: its ledger is not part of what is held. */
bool sonde_figure_is_gone(const struct sonde_snapshot *s, uint32_t target)
{
	const struct sonde_snap_metric *m = sonde_snapshot_find_metric(s, "rss.total", "", target);

	return m && m->present && m->absent;
}

static double figure(const struct sonde_snapshot *s, const char *name, const char *label,
		     enum which which)
{
	double sum = NAN;

	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];

		if (!m->present || m->absent || strcmp(m->desc->name, name) ||
		    (label && strcmp(m->label, label)) || sonde_figure_is_gone(s, m->target))
			continue;
		sum = isnan(sum) ? 0 : sum;
		sum += which == FIRST ? m->first : which == LAST ? m->last : m->max;
	}
	return sum;
}

double sonde_figure_last(const struct sonde_snapshot *s, const char *name, const char *label)
{
	return figure(s, name, label, LAST);
}

double sonde_figure_first(const struct sonde_snapshot *s, const char *name, const char *label)
{
	return figure(s, name, label, FIRST);
}

/* NAN as well where a target that did not exit lacks it: a part is no sum. */
static double figure_of_all(const struct sonde_snapshot *s, const char *name, enum which which)
{
	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *rss = &s->metrics[i], *m;

		if (strcmp(rss->desc->name, "rss.total") || !rss->present || rss->absent)
			continue;
		m = sonde_snapshot_find_metric(s, name, "", rss->target);
		if (!m || !m->present || m->absent)
			return NAN;
	}
	return figure(s, name, "", which);
}

static bool has(const struct sonde_snapshot *s, const char *name, const char **absent)
{
	bool any = false;

	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];

		if (strcmp(m->desc->name, name) || sonde_figure_is_gone(s, m->target))
			continue;
		any = true;
		if (m->absent)
			*absent = m->absent;
	}
	return any;
}

const char *sonde_figure_why_not_live(const struct sonde_snapshot *s)
{
	const char *why = NULL;

	if (has(s, "alloc.allocated", &why))
		return why ? why : "the allocator's counters are not read in every process";
	if (has(s, "alloc.live", &why) && !why)
		return "only its change was counted (exact mode), what was live at attach was not "
		       "read";
	has(s, "alloc.calls", &why);
	return why ? why
		   : "the allocator was not asked: it takes alloc in --lens, and no --alloc-mode "
		     "off";
}

/* What may be the allocator's: all that is private and anonymous, and neither stack nor program
 * data. Where the mappings were not read it is all of it; where that was some time ago, what grew
 * since counts. */
static double allocator_bytes(const struct sonde_snapshot *s, double anon)
{
	static const char *const rows[] = {"heap", "arenas", "named", "large", "mapped"};
	static const char *const others[] = {"stacks", "data"};
	double sum = NAN;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		double v = figure(s, "rss.ledger", rows[i], LAST);

		if (!isnan(v))
			sum = isnan(sum) ? v : sum + v;
	}
	if (isnan(sum) || isnan(anon))
		return isnan(sum) ? anon : sum;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(others); i++) {
		double v = figure(s, "rss.ledger", others[i], LAST);

		anon -= isnan(v) ? 0 : v;
	}
	return fmax(anon, 0);
}

/* glibc's own memory is told from what the program mapped itself where mappings were read. */
static void fill_own(const struct sonde_snapshot *s, struct sonde_memory_figures *f)
{
	static const char *const rows[] = {"heap", "arenas", "named", "large"};
	double sum = NAN;

	if (strcmp(f->allocator_name, "glibc"))
		return;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		double v = figure(s, "rss.ledger", rows[i], LAST);

		if (!isnan(v))
			sum = isnan(sum) ? v : sum + v;
	}
	f->own = sum;
	f->own_big = figure(s, "rss.ledger", "large", LAST);
}

/* Everything live is known only where the allocator's own counters are read; what exact mode counts
 * begins at attach. */
static void fill_heap(const struct sonde_snapshot *s, struct sonde_memory_figures *f)
{
	f->live = figure_of_all(s, "alloc.allocated", LAST);
	f->live_first = figure_of_all(s, "alloc.allocated", FIRST);
	f->live_max = figure_of_all(s, "alloc.allocated", HIGHEST);
	f->live_change = figure(s, "alloc.live", NULL, LAST);
	f->heap = figure_of_all(s, "alloc.heap", LAST);
	f->heap_back = figure(s, "alloc.unmapped", NULL, LAST);
	f->heap_big = figure_of_all(s, "alloc.heap_mapped", LAST);
}

static double seconds_between(const struct sonde_snapshot *s)
{
	uint64_t from = UINT64_MAX, to = 0;

	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];

		if (!m->present || strcmp(m->desc->name, "rss.total"))
			continue;
		from = m->first_ns < from ? m->first_ns : from;
		to = m->last_ns > to ? m->last_ns : to;
	}
	return to > from ? (double)(to - from) / (double)SONDE_NS_PER_SEC : 0;
}

static bool is_data(const struct sonde_snap_metric *m)
{
	return !strcmp(m->desc->name, "rss.file_ext") && m->present &&
	       strcmp(m->label, "(program)") && strcmp(m->label, ".so");
}

static double file_data(const struct sonde_snapshot *s)
{
	double sum = 0;

	/* Nothing of that name: the mappings were not read. */
	if (isnan(figure(s, "rss.file_ext", NULL, LAST)))
		return NAN;
	for (size_t i = 0; i < s->n_metrics; i++)
		if (is_data(&s->metrics[i]) && !sonde_figure_is_gone(s, s->metrics[i].target))
			sum += s->metrics[i].last;
	return sum;
}

/* The biggest extensions: "(.spd 6.10 GiB, .spp 3.00 GiB)"; programs and libraries are no news. */
static void file_parts(const struct sonde_snapshot *s, char *buf, size_t size)
{
	const struct sonde_snap_metric *top[EXT_SHOWN] = {NULL};
	size_t used = 0;

	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];

		if (!is_data(m) || m->last <= 0 || sonde_figure_is_gone(s, m->target))
			continue;
		for (size_t k = 0; k < EXT_SHOWN; k++) {
			const struct sonde_snap_metric *other = top[k];

			if (other && other->last >= m->last)
				continue;
			top[k] = m;
			m = other;
			if (!m)
				break;
		}
	}
	buf[0] = '\0';
	for (size_t k = 0; k < EXT_SHOWN && top[k] && used < size; k++)
		used += (size_t)snprintf(buf + used, size - used, "%s%s %s", k ? ", " : "(",
					 top[k]->label,
					 sonde_fmt_bytes((char[32]){0}, 32, top[k]->last));
	if (used && used + 1 < size)
		snprintf(buf + used, size - used, ")");
}

static const char *meta(const struct sonde_snapshot *s, const char *key)
{
	const char *v = sonde_meta_find(&s->meta, key);

	return v ? v : "";
}

static void fill_over_time(const struct sonde_snapshot *s, struct sonde_memory_figures *f)
{
	f->rss_first = figure(s, "rss.total", "", FIRST);
	f->anon_first = figure(s, "rss.anon", "", FIRST);
	f->observed_s = seconds_between(s);
}

/* Nothing that a shell would take apart, or sonde for an option. */
static bool is_plain_word(const char *word)
{
	return *word && *word != '-' &&
	       strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			    "0123456789._-") == strlen(word);
}

/* For the command to type next: the first target that still runs; by its name where none does, or
 * where that was recorded some time ago; "" where sonde had started it, so that it does not run. */
static void name_target(const struct sonde_snapshot *s, char *buf, size_t size)
{
	const char *pid = "PID", *comm = meta(s, "target.0.comm");
	bool gone = !strcmp(meta(s, "ended"), "target exited");

	for (uint32_t i = 0; i < 64; i++) {
		char key[32];

		snprintf(key, sizeof(key), "target.%u.pid", i);
		if (!*meta(s, key))
			break;
		pid = meta(s, key);
		if (!sonde_figure_is_gone(s, i))
			break;
	}
	if (*meta(s, "command.status"))
		buf[0] = '\0';
	else if (gone || *meta(s, "recording.path"))
		snprintf(buf, size, "-n %.20s", is_plain_word(comm) ? comm : "NAME");
	else
		snprintf(buf, size, "-p %.20s", pid);
}

static void fill_asking(const struct sonde_snapshot *s, struct sonde_figures *out)
{
	struct sonde_asking a;

	out->asking[0] = '\0';
	if (!sonde_asking_of(s, &a) || !sonde_asking_matters(&a))
		return;
	sonde_asking_text(&a, out->asking, sizeof(out->asking));
	out->memory.asking = out->asking;
}

void sonde_figures_of(const struct sonde_snapshot *s, struct sonde_figures *out)
{
	struct sonde_memory_figures *f = &out->memory;

	sonde_memory_figures_init(f);
	f->rss = figure(s, "rss.total", "", LAST);
	f->anon = figure(s, "rss.anon", "", LAST);
	f->file = figure(s, "rss.file", "", LAST);
	f->shmem = figure(s, "rss.shmem", "", LAST);
	f->file_data = file_data(s);
	f->allocator = allocator_bytes(s, f->anon);
	f->lazyfree = figure(s, "rss.lazyfree", "", LAST);
	f->anon_huge = figure(s, "rss.anon_huge", "", LAST);
	f->bloat = figure(s, "thp.bloat", NULL, LAST);
	f->held_own = figure(s, "rss.held_outside", "", LAST);
	f->held_system = figure(s, "rss.held_system", NULL, LAST);
	fill_over_time(s, f);
	fill_asking(s, out);
	file_parts(s, out->file_parts, sizeof(out->file_parts));
	name_target(s, out->target, sizeof(out->target));
	f->search_daemon = !strcmp(meta(s, "target.0.comm"), "searchd");
	f->allocator_name = meta(s, "target.0.allocator");
	fill_own(s, f);
	fill_heap(s, f);
	snprintf(out->live_why, sizeof(out->live_why), "%s", sonde_figure_why_not_live(s));
	f->live_why = out->live_why;
	f->file_parts = out->file_parts;
	f->target = out->target;
}
