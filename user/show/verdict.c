// SPDX-License-Identifier: GPL-2.0-or-later
/* A verdict as text; see verdict.h. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/str.h"
#include "show/verdict.h"

#define METRIC_COLUMNS 21
#define SHARE_MOVED    2 /* points of percent */
#define SHARE_UNEVEN   5

/* "14.0 d", "6.0 h", "10 min" */
static const char *span(char *buf, size_t size, double ns)
{
	static const struct {
		double seconds, from;
		const char *unit;
		int digits;
	} units[] = {{86400, 86400, "d", 1}, {3600, 7200, "h", 1}, {60, 60, "min", 0}};
	double s = ns / (double)SONDE_NS_PER_SEC;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(units); i++) {
		if (s < units[i].from)
			continue;
		snprintf(buf, size, "%.*f %s", units[i].digits, s / units[i].seconds,
			 units[i].unit);
		return buf;
	}
	snprintf(buf, size, "%.0f s", s);
	return buf;
}

/* To be shown with one digit, and never as -0.0. */
static double percent(double log_ratio)
{
	double v = sonde_stats_percent(log_ratio);

	return fabs(v) < 0.05 ? 0 : v;
}

/* ---- heading ---- */

static void print_heading(FILE *out, const struct sonde_verdict_doc *d)
{
	const struct sonde_trial_result *r = d->result;
	double window = (double)d->trial->window_ns;
	char before[32], after[32], level[16];

	snprintf(level, sizeof(level), "%.3g", 100 * (1 - r->alpha));
	if (r->baseline)
		fprintf(out, "%s before, ",
			span(before, sizeof(before), (double)r->windows_before * window));
	fprintf(out, "%s after, %zu pair%s; change against %s, %s %% CI\n",
		span(after, sizeof(after), (double)r->windows_after * window), d->n_pairs,
		d->n_pairs == 1 ? "" : "s",
		r->control ? "restart-only control" : "the untouched reference", level);
}

/* ---- rows ---- */

static void print_effect(FILE *out, const struct sonde_verdict_row *row)
{
	char interval[48];

	if (!row->has_effect) {
		fprintf(out, "%7s   %-18s %s\n", "-", "", row->reason);
		return;
	}
	if (row->has_interval)
		snprintf(interval, sizeof(interval), "[%+.1f, %+.1f]", percent(row->low),
			 percent(row->high));
	else
		snprintf(interval, sizeof(interval), "no interval");
	fprintf(out, "%+7.1f %% %-18s %-13s %s\n", percent(row->effect), interval,
		sonde_verdict_name(row->verdict), row->reason);
}

static bool same_contrast(const struct sonde_verdict_row *a, const struct sonde_verdict_row *b)
{
	return !strcmp(a->arm, b->arm) && !strcmp(a->against, b->against);
}

static void print_title(FILE *out, const struct sonde_verdict_row *row)
{
	fprintf(out, "%s%s%s\n", SONDE_PLAIN(row->arm), *row->against ? " against " : "",
		SONDE_PLAIN(row->against));
}

static void print_rows(FILE *out, const struct sonde_trial_result *r)
{
	for (size_t i = 0; i < r->n_rows; i++) {
		const struct sonde_verdict_row *row = &r->rows[i];
		bool first = !i || !same_contrast(row, row - 1);

		if (first)
			print_title(out, row);
		if (!row->primary && (first || row[-1].primary))
			fprintf(out, "  exploratory: hints, not evidence\n");
		fprintf(out, "  %-*s", METRIC_COLUMNS, row->metric);
		print_effect(out, row);
	}
}

/* One figure a metric: the control does not depend on the contrast. */
static void print_spread(FILE *out, const struct sonde_trial_result *r)
{
	const char *comma = "Control's own spread: ";

	for (size_t i = 0; i < r->n_rows && same_contrast(&r->rows[i], &r->rows[0]); i++) {
		if (isnan(r->rows[i].spread))
			continue;
		fprintf(out, "%s%s %.1f", comma, r->rows[i].metric, percent(r->rows[i].spread));
		comma = ", ";
	}
	if (*comma == ',')
		fprintf(out, " %%\n");
	else if (r->control)
		fprintf(out, "Control's own spread: too few windows to tell\n");
}

/* ---- what weakens it ---- */

/* A balancer that sends one of them less makes it faster, and no setting did. */
static void print_share(FILE *out, const struct sonde_verdict_pair *p, const char *treated)
{
	double before = 100 * p->share[0], after = 100 * p->share[1];

	if (fabs(after - before) > SHARE_MOVED)
		fprintf(out,
			"CAUTION %s answered %.1f %% of its pair's queries before and %.1f %% "
			"after: "
			"its load is not what it was\n",
			SONDE_PLAIN(treated), before, after);
	else if (isnan(before) && fabs(after - 50) > SHARE_UNEVEN)
		fprintf(out,
			"CAUTION %s answered %.1f %% of its pair's queries: the load of the two is "
			"not the same\n",
			SONDE_PLAIN(treated), after);
}

static void print_settings(FILE *out, const struct sonde_verdict_doc *d)
{
	for (size_t i = 0; i < d->n_pairs; i++) {
		const struct sonde_verdict_pair *p = &d->pairs[i];
		const char *a = d->trial->servers[p->pair.treated];
		const char *b = d->trial->servers[p->pair.reference];

		fprintf(out, "Pair %s: %s (A) and its reference %s (B)%s\n",
			SONDE_PLAIN(p->arm->name), SONDE_PLAIN(a), SONDE_PLAIN(b),
			p->config.n_diffs ? " are not the same" : ": settings are the same");
		for (size_t k = 0; k < p->config.n_diffs; k++) {
			const struct sonde_compare_difference *s = &p->config.diffs[k];

			fprintf(out, "  %-28s A: %s   B: %s\n", s->what,
				s->a ? SONDE_PLAIN(s->a) : "not set",
				s->b ? SONDE_PLAIN(s->b) : "not set");
		}
		print_share(out, p, a);
		for (size_t k = 0; k < p->config.n_cautions; k++)
			fprintf(out, "CAUTION %s\n", SONDE_PLAIN(p->config.cautions[k]));
	}
}

/* The worst of the primary rows: that of the smallest error. */
static double restart_alarm(const struct sonde_trial_result *r)
{
	double most = 0;

	for (size_t i = 0; i < r->n_rows; i++)
		if (r->rows[i].primary && r->rows[i].has_interval)
			most = fmax(most, r->rows[i].restart_alarm);
	return most;
}

/* Which metrics stay as they are for so long that batches of them are not independent. */
static void print_short(FILE *out, const struct sonde_trial_result *r)
{
	const char *comma = "CAUTION intervals may be too narrow, since it changes so slowly: ";

	for (size_t i = 0; i < r->n_rows; i++) {
		if (!r->rows[i].has_interval || !r->rows[i].short_batches)
			continue;
		fprintf(out, "%s%s of %s", comma, r->rows[i].metric, SONDE_PLAIN(r->rows[i].arm));
		comma = ", ";
	}
	if (*comma == ',')
		fprintf(out, "; record for longer\n");
}

static void print_cautions(FILE *out, const struct sonde_verdict_doc *d)
{
	const struct sonde_trial_result *r = d->result;
	size_t single = 0;
	char text[32];

	for (size_t i = 0; i < d->trial->n_arms; i++)
		single += d->trial->arms[i].n_pairs == 1;
	if (single)
		fprintf(out,
			"CAUTION 1 restart per arm: restart luck not measured; if restarts alone "
			"differ by 1 %%, the narrowest interval here misses in %.0f %% of trials\n",
			100 * restart_alarm(r));
	if (!r->baseline)
		fprintf(out, "CAUTION no baseline: server differences not removed\n");
	if (!r->control)
		fprintf(out,
			"CAUTION no control: what the restart alone did is part of the change, "
			"and noise is known from the intervals only\n");
	print_short(out, r);
	if (r->windows_dropped)
		fprintf(out, "CAUTION %s left out: not every server was recorded then\n",
			span(text, sizeof(text),
			     (double)r->windows_dropped * (double)d->trial->window_ns));
	if (d->warmup_ns)
		fprintf(out, "%s%s after the change left out as warm-up%s\n",
			d->settled ? "" : "CAUTION ",
			span(text, sizeof(text), (double)d->warmup_ns),
			d->settled ? "" : ", and it had not settled by then");
}

static void print_how(FILE *out, const struct sonde_verdict_doc *d)
{
	const struct sonde_trial_result *r = d->result;
	char text[32];

	fprintf(out,
		"Windows of %s; means by batches, quantiles by a block bootstrap (%u resamples, "
		"seed %llu)\n",
		span(text, sizeof(text), (double)d->trial->window_ns), r->resamples,
		(unsigned long long)r->seed);
}

int sonde_verdict_print(FILE *out, const struct sonde_verdict_doc *d)
{
	print_heading(out, d);
	print_rows(out, d->result);
	print_spread(out, d->result);
	print_cautions(out, d);
	print_settings(out, d);
	print_how(out, d);
	if (d->next)
		fprintf(out, "Next: %s   what else is not the same in a pair\n",
			SONDE_PLAIN(d->next));
	return ferror(out) ? -EIO : 0;
}
