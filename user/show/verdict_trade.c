// SPDX-License-Identifier: GPL-2.0-or-later
/* What the change is made of, and what is to be decided; see verdict.h. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "judge/trial_trade.h"
#include "show/verdict_impl.h"

#define MOST_PARTS   8
#define LEAST_POINTS 0.1 /* of percent: what is less is in the rest */
#define KNOWN_WELL   0.95

/* ---- why ---- */

struct ranked {
	unsigned int part;
	double points;
};

static int by_size(const void *a, const void *b)
{
	double x = fabs(((const struct ranked *)a)->points);
	double y = fabs(((const struct ranked *)b)->points);

	return x > y ? -1 : x < y;
}

/* Told by name: what its interval tells from nothing, and, without intervals, what is large. */
static bool is_told(const struct sonde_why_row *row, const struct ranked *r)
{
	double low = row->low[r->part], high = row->high[r->part];

	if (fabs(r->points) < LEAST_POINTS)
		return false;
	return isnan(low) ? fabs(r->points) > 0.05 * fabs(row->change) : low > 0 || high < 0;
}

static void print_parts(FILE *out, const struct sonde_why_row *row)
{
	struct ranked order[SONDE_PART__MAX];
	double rest = 0;
	size_t told = 0;

	for (unsigned int p = 0; p < SONDE_PART__MAX; p++)
		order[p] = (struct ranked){p, row->points[p]};
	qsort(order, SONDE_PART__MAX, sizeof(*order), by_size);
	for (size_t i = 0; i < SONDE_PART__MAX; i++) {
		const struct ranked *r = &order[i];

		if (told == MOST_PARTS || !is_told(row, r)) {
			rest += r->points;
			continue;
		}
		told++;
		fprintf(out, "  %-32s %+6.1f", sonde_why_words(r->part), r->points);
		if (!isnan(row->low[r->part]))
			fprintf(out, " [%+.1f, %+.1f]", row->low[r->part], row->high[r->part]);
		fputc('\n', out);
	}
	fprintf(out, "  %-32s %+6.1f\n", told ? "the rest, none of it certain" : "nothing certain",
		rest);
}

static void print_why_row(FILE *out, const struct sonde_why_row *row)
{
	char of[48] = "the mean";

	if (row->tail)
		snprintf(of, sizeof(of), "the slowest %.3g %%", 100 * row->share);
	fprintf(out, "Why %s of %s changed by %+.1f %% against %s, in points:\n", of,
		SONDE_PLAIN(row->arm), row->change,
		*row->against ? SONDE_PLAIN(row->against) : "the reference");
	print_parts(out, row);
	if (row->known < KNOWN_WELL)
		fprintf(out,
			"CAUTION of %.0f %% of the queries it is not known where their time "
			"went\n",
			100 * (1 - row->known));
}

void sonde_verdict_print_why(FILE *out, const struct sonde_verdict_doc *d)
{
	if (!d->why)
		return;
	for (size_t i = 0; i < d->why->n; i++)
		print_why_row(out, &d->why->rows[i]);
	if (*d->why->no_mean)
		fprintf(out, "Why the mean changed is not known: %s\n",
			SONDE_PLAIN(d->why->no_mean));
	if (*d->why->no_tail)
		fprintf(out, "Why the slowest changed is not known: %s\n",
			SONDE_PLAIN(d->why->no_tail));
}

/* ---- trade ---- */

static void print_list(FILE *out, const struct sonde_trade *t,
		       const struct sonde_verdict_row *const *rows, size_t n)
{
	char bytes[32];

	for (size_t i = 0; i < n; i++) {
		const char *join = !i ? " " : i + 1 == n ? " and " : ", ";
		double percent = fabs(sonde_stats_percent(rows[i]->effect));

		if (t->has_memory && rows[i]->unit && !strcmp(rows[i]->unit, "bytes"))
			fprintf(out, "%s%s a server (%.1f %% of %s)", join,
				sonde_fmt_bytes(bytes, sizeof(bytes), fabs(t->saved)), percent,
				rows[i]->metric);
		else
			fprintf(out, "%s%.1f %% of %s", join, percent, rows[i]->metric);
	}
}

static void print_trade(FILE *out, const struct sonde_trade *t)
{
	fprintf(out, "Trade: %s", SONDE_PLAIN(t->arm));
	if (t->n_gains) {
		fprintf(out, " saves");
		print_list(out, t, t->gains, t->n_gains);
	}
	if (t->n_costs) {
		fprintf(out, "%s costs", t->n_gains ? "," : "");
		print_list(out, t, t->costs, t->n_costs);
	}
	if (!t->n_gains && !t->n_costs)
		fprintf(out, " changes nothing that was to be judged");
	for (size_t i = 0; i < t->n_unknown; i++)
		fprintf(out, "%s%s", i ? ", " : "; not known: ", t->unknown[i]->metric);
	fputc('\n', out);
}

static void print_hosts(FILE *out, const struct sonde_verdict_doc *d, const struct sonde_trade *t)
{
	double n = d->hosts, ram = (double)d->ram_per_host;
	char all[32], low[32], high[32], one[32];

	if (!t->has_memory) {
		fprintf(out,
			"On %u hosts: no memory to count on, RSS of %s is not known to differ\n",
			d->hosts, SONDE_PLAIN(t->arm));
		return;
	}
	fprintf(out, "On %u hosts: %s %s %s [%s, %s]", d->hosts, SONDE_PLAIN(t->arm),
		t->saved > 0 ? "saves" : "takes",
		sonde_fmt_bytes(all, sizeof(all), n * fabs(t->saved)),
		sonde_fmt_bytes(low, sizeof(low),
				n * fmin(fabs(t->saved_low), fabs(t->saved_high))),
		sonde_fmt_bytes(high, sizeof(high),
				n * fmax(fabs(t->saved_low), fabs(t->saved_high))));
	if (ram > 0)
		fprintf(out, ", the memory of %.1f hosts of %s", n * fabs(t->saved) / ram,
			sonde_fmt_bytes(one, sizeof(one), ram));
	fputc('\n', out);
}

void sonde_verdict_print_trade(FILE *out, const struct sonde_verdict_doc *d)
{
	const struct sonde_trial_result *r = d->result;

	for (size_t i = sonde_trade_next(r, SIZE_MAX); i < r->n_rows; i = sonde_trade_next(r, i)) {
		struct sonde_trade t;

		sonde_trade_make(r, i, &t);
		print_trade(out, &t);
		if (d->hosts)
			print_hosts(out, d, &t);
	}
}
