// SPDX-License-Identifier: GPL-2.0-or-later
/* What no section of the report knows, as it is: a new lens shows up before anybody wrote a
 * section. */
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "show/report_other.h"
#include "show/summary.h"

#define N(v) sonde_fmt_count((char[32]){0}, 32, (uint64_t)(v))

/* Prefixes that a section above has said all of. */
static bool is_known(const struct sonde_snapshot *s, const char *name)
{
	static const char *const known[] = {"rss.",   "proc.", "query.", "alloc.",
					    "fault.", "cost.", "stall."};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(known); i++)
		if (sonde_str_starts(name, known[i]))
			return true;
	return sonde_str_starts(name, "thp.") && sonde_summary_has_thp(s);
}

static const char *in_unit(char *buf, size_t size, double v, const char *unit)
{
	if (!strcmp(unit, "bytes"))
		return sonde_fmt_bytes(buf, size, v);
	if (!strcmp(unit, "ns"))
		return sonde_fmt_ns(buf, size, v);
	if (!strcmp(unit, "count") && v >= 0)
		return sonde_fmt_count(buf, size, (uint64_t)v);
	snprintf(buf, size, "%.6g %s", v, unit);
	return buf;
}

static void print_other_metrics(FILE *out, const struct sonde_snapshot *s)
{
	char a[40], b[40];

	for (size_t i = 0; i < s->n_metrics; i++) {
		const struct sonde_snap_metric *m = &s->metrics[i];
		const char *unit = m->desc->unit;

		if (is_known(s, m->desc->name))
			continue;
		fprintf(out, "%s%s%s%s: ", m->desc->name, *m->label ? "{" : "", m->label,
			*m->label ? "}" : "");
		if (!m->present)
			fprintf(out, "absent: %s\n", m->absent ? m->absent : "no reason given");
		else if (m->desc->kind == SONDE_COUNTER)
			fprintf(out, "%s (%s)\n", in_unit(a, sizeof(a), m->last, unit),
				m->desc->help);
		else
			fprintf(out, "%s at first, %s at last (%s)\n",
				in_unit(a, sizeof(a), m->first, unit),
				in_unit(b, sizeof(b), m->last, unit), m->desc->help);
	}
}

static void print_hist(FILE *out, const struct sonde_snap_hist *h, const char *title)
{
	static const double qs[] = {0.5, 0.95, 0.99};
	char buf[40];

	fprintf(out, "%s: %s values, mean %s", title, N(h->total.count),
		in_unit(buf, sizeof(buf), sonde_hist_mean(&h->total), h->desc->unit));
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(qs); i++)
		fprintf(out, "  p%.0f %s", 100 * qs[i],
			in_unit(buf, sizeof(buf), (double)sonde_hist_quantile(&h->total, qs[i]),
				h->desc->unit));
	fprintf(out, "  max %s\n", in_unit(buf, sizeof(buf), (double)h->total.max, h->desc->unit));
}

static void print_other_hists(FILE *out, const struct sonde_snapshot *s, const char *period)
{
	char title[160];

	for (size_t i = 0; i < s->n_hists; i++) {
		const struct sonde_snap_hist *h = &s->hists[i];
		bool size = !strcmp(h->desc->name, "alloc.size");

		if ((is_known(s, h->desc->name) && !size) || !h->total.count)
			continue;
		snprintf(title, sizeof(title), "%s%s%s%s%s%s",
			 size ? "  size of a request" : h->desc->name, *h->label ? "{" : "",
			 h->label, *h->label ? "}" : "", *period ? " of " : "", period);
		print_hist(out, h, title);
	}
}

void sonde_report_other(FILE *out, const struct sonde_snapshot *s, const char *period)
{
	print_other_hists(out, s, period);
	print_other_metrics(out, s);
}
