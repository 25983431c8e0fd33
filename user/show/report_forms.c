// SPDX-License-Identifier: GPL-2.0-or-later
/* See report_forms.h. The kernel's histogram of all answered queries says how many there were. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "show/report_forms.h"
#include "show/report_queries.h"

#define NS(v) sonde_fmt_ns((char[32]){0}, 32, (double)(v))
#define N(v)  sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

#define TEXT_BYTES 256

static bool is_form(const struct sonde_snap_hist *h)
{
	return !strcmp(h->desc->name, SONDE_FORM_HIST) && h->total.count;
}

static int by_time(const void *a, const void *b)
{
	double x = (*(const struct sonde_snap_hist *const *)a)->total.sum;
	double y = (*(const struct sonde_snap_hist *const *)b)->total.sum;

	return x < y ? 1 : x > y ? -1 : 0;
}

static void print_form(FILE *out, const struct sonde_snap_hist *h, double total,
		       sonde_form_text *text, void *ctx)
{
	const struct sonde_hist *t = &h->total;
	char raw[TEXT_BYTES] = "", plain[3 * TEXT_BYTES];
	uint64_t id;

	if (text && !sonde_parse_u64(h->label, &id))
		text(ctx, id, raw, sizeof(raw));
	fprintf(out, "%10s ", N(t->count));
	sonde_hist_print_columns(out, t);
	fprintf(out, " %9s %5.1f %%  %s\n", NS(t->sum), total > 0 ? 100 * t->sum / total : 0,
		sonde_plain(plain, sizeof(plain), *raw ? raw : h->label));
}

static void print_head(FILE *out, uint64_t counted, uint64_t all)
{
	fprintf(out, "By form: %s of %s answered queries", N(counted),
		N(all > counted ? all : counted));
	if (all > counted)
		fprintf(out,
			"; %s missed (the event ring was full, or --slower-than left them out)",
			N(all - counted));
	fprintf(out, "\n%10s " SONDE_HIST_HEAD " %9s %7s  %s\n", "queries", "total", "share",
		"what (literals replaced)");
}

void sonde_report_forms(FILE *out, const struct sonde_snapshot *s, size_t rows,
			sonde_form_text *text, void *ctx)
{
	const struct sonde_snap_hist **forms = calloc(s->n_hists + 1, sizeof(*forms));
	uint64_t counted = 0, all = 0;
	double total = 0;
	size_t n = 0;

	for (size_t i = 0; forms && i < s->n_hists; i++) {
		const struct sonde_snap_hist *h = &s->hists[i];

		if (!strcmp(h->desc->name, "query.latency") && !*h->label)
			all += h->total.count;
		if (!is_form(h))
			continue;
		forms[n++] = h;
		counted += h->total.count;
		total += h->total.sum;
	}
	if (n) {
		qsort(forms, n, sizeof(*forms), by_time);
		print_head(out, counted, all);
		for (size_t i = 0; i < n && i < rows; i++)
			print_form(out, forms[i], total, text, ctx);
		if (n > rows)
			fprintf(out, "  %s more: --rows %zu shows them\n", N(n - rows), n);
	}
	free(forms);
}
