// SPDX-License-Identifier: GPL-2.0-or-later
/* What weakens a verdict, and what the servers do not have in common; see verdict.h. */
#include <math.h>
#include <string.h>

#include "core/str.h"
#include "show/verdict_impl.h"

#define SHARE_MOVED  2 /* points of percent */
#define SHARE_UNEVEN 5

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

static void print_lines(FILE *out, const char *before, char *const *lines, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%s%s\n", before, SONDE_PLAIN(lines[i]));
}

/* What was changed on purpose is told from what was not, where that is known. */
static const char *whose(const struct sonde_audit *audit, size_t server, const char *what)
{
	if (!audit || !sonde_audit_knows_changes(audit, server))
		return "";
	return sonde_audit_is_change(audit, server, what) ? "   (the treatment)"
							  : "   NOT the treatment";
}

static void print_pair(FILE *out, const struct sonde_verdict_doc *d,
		       const struct sonde_verdict_pair *p)
{
	const char *a = d->trial->servers[p->pair.treated];
	const char *b = d->trial->servers[p->pair.reference];

	fprintf(out, "Pair %s: %s (A) and its reference %s (B)%s\n", SONDE_PLAIN(p->arm->name),
		SONDE_PLAIN(a), SONDE_PLAIN(b),
		p->config.n_diffs ? " are not the same" : ": settings are the same");
	for (size_t k = 0; k < p->config.n_diffs; k++) {
		const struct sonde_compare_difference *s = &p->config.diffs[k];

		fprintf(out, "  %-28s A: %s   B: %s%s\n", s->what,
			s->a ? SONDE_PLAIN(s->a) : "not set", s->b ? SONDE_PLAIN(s->b) : "not set",
			whose(d->audit, p->pair.treated, s->what));
	}
	print_share(out, p, a);
	for (size_t k = 0; k < p->config.n_cautions; k++)
		fprintf(out, "CAUTION %s\n", SONDE_PLAIN(p->config.cautions[k]));
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
	size_t more = 0, told = 0;

	for (size_t i = 0; i < r->n_rows; i++) {
		if (!r->rows[i].has_interval || !r->rows[i].short_batches)
			continue;
		if (!r->rows[i].primary) {
			more++;
			continue;
		}
		fprintf(out, "%s%s of %s", comma, r->rows[i].metric, SONDE_PLAIN(r->rows[i].arm));
		comma = ", ";
		told++;
	}
	if (told && more)
		fprintf(out, " and %zu exploratory rows", more);
	if (told)
		fprintf(out, "; record for longer\n");
}

static void print_cautions(FILE *out, const struct sonde_verdict_doc *d)
{
	const struct sonde_trial_result *r = d->result;
	size_t least = SIZE_MAX;
	char text[32];

	for (size_t i = 0; i < d->trial->n_arms; i++)
		if (d->trial->arms[i].n_pairs < least)
			least = d->trial->arms[i].n_pairs;
	if (least < SONDE_RESTARTS_LEAST)
		fprintf(out,
			"CAUTION %zu restart%s per arm: restart luck not measured; if restarts "
			"alone differ by 1 %%, the narrowest interval here misses in %.0f %% of "
			"trials\n",
			least, least == 1 ? "" : "s", 100 * restart_alarm(r));
	else
		fprintf(out,
			"%zu restarts per arm: intervals are of how far these are apart where that "
			"is more than windows say\n",
			least);
	if (!r->baseline)
		fprintf(out, "CAUTION no baseline: server differences not removed\n");
	if (!r->control)
		fprintf(out,
			"CAUTION no control: what the restart alone did is part of the change, "
			"and noise is known from the intervals only\n");
	print_short(out, r);
	if (r->windows_dropped)
		fprintf(out, "CAUTION %s left out: not every server was recorded then\n",
			sonde_verdict_span(text, sizeof(text),
					   (double)r->windows_dropped *
						   (double)d->trial->window_ns));
	if (d->warmup_ns)
		fprintf(out, "%s%s after the change left out as warm-up%s\n",
			d->settled ? "" : "CAUTION ",
			sonde_verdict_span(text, sizeof(text), (double)d->warmup_ns),
			d->settled ? "" : ", and it had not settled by then");
}

void sonde_verdict_print_cautions(FILE *out, const struct sonde_verdict_doc *d)
{
	const struct sonde_audit *a = d->audit;

	if (a)
		print_lines(out, "REFUSED ", a->refused, a->n_refused);
	print_cautions(out, d);
	if (a)
		print_lines(out, "CAUTION ", a->cautions, a->n_cautions);
	if (*d->no_forms)
		fprintf(out, "Not judged by form and cost of queries: %s\n",
			SONDE_PLAIN(d->no_forms));
	if (a)
		print_lines(out, "Audit: ", a->lines, a->n_lines);
	for (size_t i = 0; i < d->n_pairs; i++)
		print_pair(out, d, &d->pairs[i]);
}
