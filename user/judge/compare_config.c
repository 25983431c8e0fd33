// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What was not the same on purpose or by accident (settings, allocator, kernel, build, load), and
 * what makes a comparison weaker than it looks. Both come before the figures.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "judge/compare.h"
#include "judge/settings.h"

#define LOAD_DIFFERS   0.05
#define LENGTH_DIFFERS 0.2
#define MAX_DEGRADED   5 /* told of each arm */

int sonde_compare_caution(struct sonde_compare *c, const char *fmt, ...)
{
	va_list ap;
	int err;

	va_start(ap, fmt);
	err = sonde_lines_vaddf(&c->cautions, &c->n_cautions, &c->cap_cautions, fmt, ap);
	va_end(ap);
	return err;
}

static struct sonde_settings settings_of(const struct sonde_arm *arm)
{
	const char *serving = sonde_meta_find(&arm->snap.meta, "serving");
	struct sonde_settings s = {.meta = &arm->snap.meta};

	snprintf(s.target, sizeof(s.target), "%s", serving ? serving : "0");
	return s;
}

const char *sonde_arm_target_meta(const struct sonde_arm *arm, const char *what)
{
	struct sonde_settings s = settings_of(arm);

	return sonde_settings_target(&s, what);
}

static int add_difference(void *ctx, const char *what, const char *a, const char *b)
{
	struct sonde_compare *c = ctx;

	if (SONDE_GROW(c->diffs, c->n_diffs, c->cap_diffs))
		return -ENOMEM;
	c->diffs[c->n_diffs++] = (struct sonde_compare_difference){what, a, b};
	return 0;
}

static int compare_settings(const struct sonde_arm *a, const struct sonde_arm *b,
			    struct sonde_compare *c)
{
	struct sonde_settings x = settings_of(a), y = settings_of(b);

	return sonde_settings_compare(&x, &y, add_difference, c);
}

static double queries_per_s(const struct sonde_arm *arm)
{
	bool present;
	double n = sonde_snapshot_sum(&arm->snap, "query.spans", &present);

	return present ? n * 1e9 / (double)sonde_arm_covered_ns(arm) : -1;
}

static int compare_load(const struct sonde_arm *a, const struct sonde_arm *b,
			struct sonde_compare *c)
{
	double x = queries_per_s(a), y = queries_per_s(b), most = x > y ? x : y;

	if (x < 0 || y < 0 || most < 1 || fabs(x - y) <= LOAD_DIFFERS * most)
		return 0;
	if (asprintf(&c->load[0], "%.0f queries/s", x) < 0 ||
	    asprintf(&c->load[1], "%.0f queries/s", y) < 0)
		return -ENOMEM;
	return add_difference(c, "load", c->load[0], c->load[1]);
}

static int check_length(const struct sonde_arm *a, const struct sonde_arm *b,
			struct sonde_compare *c)
{
	uint64_t x = sonde_arm_covered_ns(a), y = sonde_arm_covered_ns(b), most = x > y ? x : y;

	if ((double)(x > y ? x - y : y - x) <= LENGTH_DIFFERS * (double)most)
		return 0;
	return sonde_compare_caution(
		c, "A covers %s and B %s: the longer one saw more of what is rare",
		sonde_fmt_ns((char[32]){0}, 32, (double)x),
		sonde_fmt_ns((char[32]){0}, 32, (double)y));
}

/* What the recording says of itself. */
static int check_notes(const struct sonde_arm *arm, const char *name, struct sonde_compare *c)
{
	int err = 0, degraded = 0;

	for (size_t i = 0; i < arm->snap.n_notes && !err; i++) {
		const struct sonde_note *n = &arm->snap.notes[i].note;
		bool changed = n->level == SONDE_NOTE_EVENT && strstr(n->what, " changed from ");

		if (changed)
			err = sonde_compare_caution(c, "%s: while it was recorded %s", name,
						    n->what);
		else if (n->level == SONDE_NOTE_DEGRADED && degraded++ < MAX_DEGRADED)
			err = sonde_compare_caution(c, "%s is degraded: %s%s%s", name, n->lens,
						    *n->lens ? ": " : "", n->what);
	}
	return err;
}

static int check_arm(const struct sonde_arm *arm, const char *name, struct sonde_compare *c)
{
	const char *complete = sonde_meta_find(&arm->snap.meta, "complete");
	uint64_t drops = sonde_snapshot_drops(&arm->snap);
	int err = 0;

	if (!complete || strcmp(complete, "1"))
		err = sonde_compare_caution(
			c,
			"%s is cut short, or still being written: what it holds "
			"is compared, its end is missing",
			name);
	if (!err && drops)
		err = sonde_compare_caution(c,
					    "%s lost %s events; its counts are that much too low",
					    name, sonde_fmt_count((char[32]){0}, 32, drops));
	return err ? err : check_notes(arm, name, c);
}

/* Exact counting traps every allocation: nothing of time can be held against a run without it. */
static int check_exact(const struct sonde_arm *a, const struct sonde_arm *b,
		       struct sonde_compare *c)
{
	bool x, y;

	sonde_snapshot_sum(&a->snap, "alloc.calls", &x);
	sonde_snapshot_sum(&b->snap, "alloc.calls", &y);
	if (x == y)
		return 0;
	return sonde_compare_caution(
		c,
		"only %s counted every allocation, which slows the target many "
		"times: no time in it compares",
		x ? "A" : "B");
}

int sonde_compare_config(const struct sonde_arm *a, const struct sonde_arm *b,
			 struct sonde_compare *c)
{
	int err = compare_settings(a, b, c);

	err = err ? err : compare_load(a, b, c);
	err = err ? err : check_arm(a, c->names[0] ? c->names[0] : sonde_compare_arm_names[0], c);
	err = err ? err : check_arm(b, c->names[1] ? c->names[1] : sonde_compare_arm_names[1], c);
	err = err ? err : check_length(a, b, c);
	return err ? err : check_exact(a, b, c);
}
