// SPDX-License-Identifier: GPL-2.0-or-later
/* A verdict as text; see verdict.h. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/str.h"
#include "show/verdict_impl.h"

#define METRIC_COLUMNS 21 /* at least */
#define METRIC_MOST    36

/* "14.0 d", "6.0 h", "10 min" */
const char *sonde_verdict_span(char *buf, size_t size, double ns)
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

	snprintf(level, sizeof(level), "%.4g", 100 * (1 - r->alpha));
	if (r->baseline)
		fprintf(out, "%s before, ",
			sonde_verdict_span(before, sizeof(before),
					   (double)r->windows_before * window));
	fprintf(out, "%s after, %zu pair%s; change against %s, %s %% CI",
		sonde_verdict_span(after, sizeof(after), (double)r->windows_after * window),
		d->n_pairs, d->n_pairs == 1 ? "" : "s",
		r->control ? "restart-only control" : "the untouched reference", level);
	if (r->looks > 1)
		fprintf(out, " (look %u of %u)", r->look, r->looks);
	fputc('\n', out);
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

static bool is_shown(const struct sonde_verdict_doc *d, const struct sonde_verdict_row *row)
{
	bool different = row->has_interval && row->verdict == SONDE_VERDICT_DIFFERENT;

	return d->all || row->detail == SONDE_TRIAL_ALWAYS ||
	       (row->detail == SONDE_TRIAL_IF_DIFFERENT && different);
}

static int name_columns(const struct sonde_verdict_doc *d)
{
	size_t most = METRIC_COLUMNS;

	for (size_t i = 0; i < d->result->n_rows; i++) {
		size_t len = strlen(d->result->rows[i].metric) + 2;

		if (is_shown(d, &d->result->rows[i]) && len > most)
			most = len;
	}
	return (int)(most < METRIC_MOST ? most : METRIC_MOST);
}

/* The rows of one contrast from @from on; returns where the next one begins. */
static size_t print_contrast(FILE *out, const struct sonde_verdict_doc *d, size_t from, int columns)
{
	const struct sonde_verdict_row *first = &d->result->rows[from];
	const char *group = "";
	size_t i = from, hidden = 0;
	bool exploratory = false;

	print_title(out, first);
	for (; i < d->result->n_rows; i++) {
		const struct sonde_verdict_row *row = &d->result->rows[i];

		if (!same_contrast(row, first))
			break;
		if (!is_shown(d, row)) {
			hidden++;
			continue;
		}
		if (!row->primary && !exploratory)
			fprintf(out, "  exploratory: hints, not evidence\n");
		exploratory = exploratory || !row->primary;
		if (strcmp(row->group, group))
			fprintf(out, "  %.90s\n", SONDE_PLAIN(row->group));
		group = row->group;
		fprintf(out, "%s%-*s", *group ? "    " : "  ", columns - (*group ? 2 : 0),
			SONDE_PLAIN(row->metric));
		print_effect(out, row);
	}
	if (hidden)
		fprintf(out, "  %zu more, by part or by form: -v\n", hidden);
	return i;
}

static void print_rows(FILE *out, const struct sonde_verdict_doc *d)
{
	int columns = name_columns(d);

	for (size_t i = 0; i < d->result->n_rows;)
		i = print_contrast(out, d, i, columns);
}

/* One figure a metric: the control does not depend on the contrast. */
static void print_spread(FILE *out, const struct sonde_trial_result *r)
{
	const char *comma = "Control's own spread: ";

	for (size_t i = 0; i < r->n_rows && same_contrast(&r->rows[i], &r->rows[0]); i++) {
		if (isnan(r->rows[i].spread) || r->rows[i].detail || *r->rows[i].group)
			continue;
		fprintf(out, "%s%s %.1f", comma, r->rows[i].metric, percent(r->rows[i].spread));
		comma = ", ";
	}
	if (*comma == ',')
		fprintf(out, " %%\n");
	else if (r->control)
		fprintf(out, "Control's own spread: too few windows to tell\n");
}

static void print_how(FILE *out, const struct sonde_verdict_doc *d)
{
	const struct sonde_trial_result *r = d->result;
	char text[32];

	fprintf(out,
		"Windows of %s; means by batches, quantiles by a block bootstrap (%u resamples, "
		"seed %llu)\n",
		sonde_verdict_span(text, sizeof(text), (double)d->trial->window_ns), r->resamples,
		(unsigned long long)r->seed);
}

int sonde_verdict_print(FILE *out, const struct sonde_verdict_doc *d)
{
	print_heading(out, d);
	print_rows(out, d);
	print_spread(out, d->result);
	sonde_verdict_print_why(out, d);
	sonde_verdict_print_trade(out, d);
	sonde_verdict_print_cautions(out, d);
	print_how(out, d);
	for (size_t i = 0; i < d->n_next; i++)
		fprintf(out, "Next: %s\n", SONDE_PLAIN(d->next[i]));
	return ferror(out) ? -EIO : 0;
}
