// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A comparison as text; see compare.h. Figures too small for a ratio are left to the JSON, and
 * counted.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "show/compare.h"
#include "show/compare_words.h"

#define MOST	       10
#define MOST_MIN_RATIO 1.1  /* what differs by less is not among what differs most */
#define SAME	       0.01 /* and by less than this is told as a number of figures */
#define WHAT_COLUMNS   52
#define NO_VERDICT     "no verdict: one run per arm"

static const char *const unit_names[] = {
	[SONDE_COMPARE_BYTES] = "bytes",
	[SONDE_COMPARE_BYTES_PER_S] = "bytes/s",
	[SONDE_COMPARE_NS] = "ns",
	[SONDE_COMPARE_NS_PER_QUERY] = "ns/query",
	[SONDE_COMPARE_NS_PER_S] = "ns/s",
	[SONDE_COMPARE_PER_S] = "1/s",
	[SONDE_COMPARE_PER_QUERY] = "1/query",
	[SONDE_COMPARE_COUNT] = "count",
	[SONDE_COMPARE_RATIO] = "ratio",
};

static const char *number(char *buf, size_t size, double v)
{
	if (v >= 100)
		return sonde_fmt_count(buf, size, (uint64_t)(v + 0.5));
	snprintf(buf, size, "%.3g", v);
	return buf;
}

static const char *value(char *buf, size_t size, enum sonde_compare_unit unit, double v)
{
	double x = fabs(v);
	char text[32];

	switch (unit) {
	case SONDE_COMPARE_BYTES:
	case SONDE_COMPARE_BYTES_PER_S:
		sonde_fmt_bytes(text, sizeof(text), x);
		break;
	case SONDE_COMPARE_NS:
	case SONDE_COMPARE_NS_PER_S:
	case SONDE_COMPARE_NS_PER_QUERY:
		sonde_fmt_ns(text, sizeof(text), x);
		break;
	default:
		number(text, sizeof(text), x);
		break;
	}
	snprintf(buf, size, "%s%s", v < 0 ? "-" : "", text);
	return buf;
}

static const char *change(char *buf, size_t size, const struct sonde_compare_row *row)
{
	if (!row->has[0] || !row->has[1])
		snprintf(buf, size, "-");
	else if (isnan(row->change))
		snprintf(buf, size, "from 0");
	else if (row->change >= 9)
		snprintf(buf, size, "x %.0f", row->change + 1);
	else
		snprintf(buf, size, "%+.*f %%", fabs(row->change) < 0.1 ? 1 : 0, 100 * row->change);
	return buf;
}

static void print_row(FILE *out, const struct sonde_compare_row *row)
{
	char what[128], cell[2][40], ratio[32];

	for (int k = 0; k < 2; k++) {
		if (row->has[k])
			value(cell[k], sizeof(cell[k]), row->unit, row->v[k]);
		else
			snprintf(cell[k], sizeof(cell[k]), "absent");
	}
	fprintf(out, "  %-*s %12s %12s %10s", WHAT_COLUMNS,
		sonde_compare_words(row, what, sizeof(what)), cell[0], cell[1],
		change(ratio, sizeof(ratio), row));
	for (int k = 0; k < 2; k++)
		if (!row->has[k] && row->absent[k])
			fprintf(out, "  %s: %s", sonde_compare_arm_names[k], row->absent[k]);
	if (row->has[0] && row->has[1] && row->unranked)
		fprintf(out, "  %s", row->unranked);
	fputc('\n', out);
}

static void print_columns(FILE *out, const char *title)
{
	fprintf(out, "%-*s %12s %12s %10s\n", WHAT_COLUMNS + 2, title, "A", "B", "B to A");
}

static void print_arm(FILE *out, const struct sonde_arm *arm, const char *name)
{
	const char *comm = sonde_arm_target_meta(arm, "comm");
	struct sonde_clockpair clock = {0};
	char when[40], length[32];
	bool present;
	double queries = sonde_snapshot_sum(&arm->snap, "query.spans", &present);

	sonde_meta_clock(&arm->snap.meta, &clock);
	sonde_fmt_rfc3339(when, sizeof(when),
			  sonde_clockpair_real(&clock, sonde_arm_begin_ns(arm)));
	when[10] = ' ';
	when[19] = '\0';
	fprintf(out, "%s  %s: %s, %s UTC, %s", name, arm->name, comm ? comm : "?", when,
		sonde_fmt_ns(length, sizeof(length), (double)sonde_arm_covered_ns(arm)));
	if (present)
		fprintf(out, ", %s queries", number((char[32]){0}, 32, queries));
	fputc('\n', out);
}

static void print_differences(FILE *out, const struct sonde_compare *c)
{
	if (!c->n_diffs) {
		fprintf(out, "Settings: no difference is recorded\n");
		return;
	}
	fprintf(out, "Settings that are not the same\n");
	for (size_t i = 0; i < c->n_diffs; i++) {
		const struct sonde_compare_difference *d = &c->diffs[i];

		fprintf(out, "  %-30s A: %s   B: %s\n", sonde_compare_setting_words(d->what),
			sonde_compare_setting_value(d->what, d->a),
			sonde_compare_setting_value(d->what, d->b));
	}
}

static int by_weight(const void *x, const void *y)
{
	double a = (*(const struct sonde_compare_row *const *)x)->weight;
	double b = (*(const struct sonde_compare_row *const *)y)->weight;

	return (a < b) - (a > b);
}

/* One figure each metric is enough to draw attention to it. */
static bool is_told(const struct sonde_compare_row *const *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(rows[i]->name, rows[n]->name) &&
		    !strcmp(rows[i]->label, rows[n]->label))
			return true;
	return false;
}

static int print_most(FILE *out, const struct sonde_compare *c)
{
	const struct sonde_compare_row **rows = calloc(c->n_rows + 1, sizeof(*rows));
	size_t n = 0, shown = 0;

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_rows; i++)
		if (!c->rows[i].tiny && !c->rows[i].unranked &&
		    c->rows[i].section != SONDE_COMPARE_SHARED &&
		    c->rows[i].weight >= log(MOST_MIN_RATIO))
			rows[n++] = &c->rows[i];
	qsort(rows, n, sizeof(*rows), by_weight);
	if (n)
		print_columns(out, "Differs most");
	else
		fprintf(out, "Nothing differs by more than %.0f %%\n", 100 * (MOST_MIN_RATIO - 1));
	for (size_t i = 0; i < n && shown < MOST; i++) {
		if (is_told(rows, i))
			continue;
		print_row(out, rows[i]);
		shown++;
	}
	free(rows);
	return 0;
}

/* What is not shown, by number: under its section, or beside its title where all of it is the same.
 */
static void print_folded(FILE *out, const char *title, size_t same, size_t tiny)
{
	if (title && !same)
		return;
	if (title)
		fprintf(out, "%s\n", title);
	if (same)
		fprintf(out, "  %zu figure%s by less than %.0f %% (--json has them)\n", same,
			same == 1 ? " differs" : "s differ", 100 * SAME);
	if (tiny)
		fprintf(out, "  %zu too small to compare (--json has them)\n", tiny);
}

static void print_section(FILE *out, const struct sonde_compare *c,
			  enum sonde_compare_section section)
{
	size_t shown = 0, tiny = 0, same = 0;
	char title[64], age[32];

	snprintf(title, sizeof(title), "%s", sonde_compare_section_title(section));
	if (section == SONDE_COMPARE_MEMORY)
		snprintf(title, sizeof(title), "Memory %s %s",
			 sonde_fmt_ns(age, sizeof(age), (double)c->uptime_ns),
			 c->by_process_age ? "after the process began" : "into the recording");
	for (size_t i = 0; i < c->n_rows; i++) {
		if (c->rows[i].section != section)
			continue;
		if (c->rows[i].tiny) {
			tiny++;
			continue;
		}
		if (fabs(c->rows[i].change) < SAME) {
			same++;
			continue;
		}
		if (!shown++)
			print_columns(out, title);
		print_row(out, &c->rows[i]);
	}
	print_folded(out, shown ? NULL : title, same, tiny);
}

int sonde_compare_print(FILE *out, const struct sonde_arm *a, const struct sonde_arm *b,
			const struct sonde_compare *c)
{
	int err;

	print_arm(out, a, sonde_compare_arm_names[0]);
	print_arm(out, b, sonde_compare_arm_names[1]);
	print_differences(out, c);
	for (size_t i = 0; i < c->n_cautions; i++)
		fprintf(out, "CAUTION %s\n", c->cautions[i]);
	err = print_most(out, c);
	for (int s = 0; s < SONDE_COMPARE__MAX && !err; s++)
		print_section(out, c, (enum sonde_compare_section)s);
	fprintf(out, "%s\n", NO_VERDICT);
	if (err)
		return err;
	return ferror(out) ? -EIO : 0;
}

/* ---- JSON ---- */

static json_t *arm_json(const struct sonde_arm *arm)
{
	const char *complete = sonde_meta_find(&arm->snap.meta, "complete");
	bool present;
	double queries = sonde_snapshot_sum(&arm->snap, "query.spans", &present);

	return json_pack("{s:s, s:b, s:I, s:o}", "file", arm->name, "complete",
			 complete && !strcmp(complete, "1"), "covered_ns",
			 (json_int_t)sonde_arm_covered_ns(arm), "queries",
			 present ? json_real(queries) : json_null());
}

static json_t *text_or_null(const char *s)
{
	return s ? json_string(s) : json_null();
}

static json_t *differences_json(const struct sonde_compare *c)
{
	json_t *all = json_array();

	for (size_t i = 0; i < c->n_diffs; i++)
		json_array_append_new(all, json_pack("{s:s, s:o, s:o}", "what", c->diffs[i].what,
						     "a", text_or_null(c->diffs[i].a), "b",
						     text_or_null(c->diffs[i].b)));
	return all;
}

static json_t *row_json(const struct sonde_compare_row *row)
{
	static const char *const keys[] = {"a", "b"}, *const why[] = {"a_absent", "b_absent"};
	json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "section",
			      sonde_compare_section_title(row->section), "metric", row->name,
			      "figure", row->figure, "unit", unit_names[row->unit]);

	if (*row->label)
		json_object_set_new(o, "label", json_string(row->label));
	for (int k = 0; k < 2; k++) {
		json_object_set_new(o, keys[k], row->has[k] ? json_real(row->v[k]) : json_null());
		if (!row->has[k])
			json_object_set_new(o, why[k], text_or_null(row->absent[k]));
	}
	json_object_set_new(o, "change", isnan(row->change) ? json_null() : json_real(row->change));
	json_object_set_new(o, "weight", json_real(row->weight));
	json_object_set_new(o, "unranked",
			    text_or_null(row->section == SONDE_COMPARE_SHARED
						 ? "not of the target alone"
						 : row->unranked));
	json_object_set_new(o, "tiny", json_boolean(row->tiny));
	return o;
}

int sonde_compare_json(FILE *out, const struct sonde_arm *a, const struct sonde_arm *b,
		       const struct sonde_compare *c)
{
	json_t *rows = json_array(), *cautions = json_array(), *o;
	int err;

	for (size_t i = 0; i < c->n_rows; i++)
		json_array_append_new(rows, row_json(&c->rows[i]));
	for (size_t i = 0; i < c->n_cautions; i++)
		json_array_append_new(cautions, json_string(c->cautions[i]));
	o = json_pack("{s:o, s:o, s:o, s:o, s:I, s:s, s:o, s:n, s:s}", "a", arm_json(a), "b",
		      arm_json(b), "settings", differences_json(c), "cautions", cautions,
		      "memory_at_ns", (json_int_t)c->uptime_ns, "memory_at",
		      c->by_process_age ? "process age" : "time since the recording began", "rows",
		      rows, "verdict", "why", NO_VERDICT);
	if (!o)
		return -ENOMEM;
	err = json_dumpf(o, out, JSON_COMPACT) || fputc('\n', out) == EOF ? -EIO : 0;
	json_decref(o);
	return err;
}
