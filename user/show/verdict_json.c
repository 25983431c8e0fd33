// SPDX-License-Identifier: GPL-2.0-or-later
/* A verdict as JSON: every figure, effects as logarithms of ratios; see verdict.h. */
#include <errno.h>
#include <jansson.h>
#include <math.h>

#include "core/mem.h"
#include "core/str.h"
#include "judge/trial_trade.h"
#include "show/verdict.h"

static json_t *number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *text_or_null(const char *s)
{
	return s ? json_string(s) : json_null();
}

/* Names of the target and queries are bytes, JSON strings are not. */
static json_t *bytes_json(const char *bytes)
{
	sonde_autostr struct sonde_str text = {0};

	if (sonde_str_add_utf8(&text, bytes, strlen(bytes)))
		return json_null();
	return json_string(sonde_str_get(&text));
}

static json_t *plain_json(const double plain[2][2])
{
	return json_pack("{s:o, s:o, s:o, s:o}", "treated_before", number(plain[0][0]),
			 "treated_after", number(plain[0][1]), "reference_before",
			 number(plain[1][0]), "reference_after", number(plain[1][1]));
}

static json_t *row_json(const struct sonde_verdict_row *row)
{
	const struct {
		const char *key;
		double v;
	} figures[] = {
		{"effect", row->effect},
		{"low", row->low},
		{"high", row->high},
		{"percentile_low", row->percentile_low},
		{"percentile_high", row->percentile_high},
		{"se", row->se},
		{"df", row->has_interval ? row->df : NAN},
		{"p", row->p},
		{"p_adjusted", row->p_adjusted},
		{"margin_asked", row->margin_asked},
		{"margin", row->margin},
		{"control_spread", row->spread},
		{"placebo_over", row->placebo_over},
		{"least_effect", row->mde},
		{"days", row->days},
		{"days_needed", row->days_needed},
		{"false_if_restarts_differ_by_1_percent", row->restart_alarm},
	};
	json_t *o = json_pack("{s:o, s:s, s:o, s:b, s:b, s:s, s:s, s:b, s:b, s:I, s:I}", "metric",
			      bytes_json(row->metric), "arm", row->arm, "against",
			      *row->against ? json_string(row->against) : json_null(), "primary",
			      row->primary, "between_arms", row->between, "verdict",
			      sonde_verdict_name(row->verdict), "reason", row->reason, "resampled",
			      row->resampled, "forms_differ", row->forms_differ, "tests",
			      (json_int_t)row->family, "block_windows", (json_int_t)row->block);

	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		json_object_set_new(o, figures[i].key, number(figures[i].v));
	json_object_set_new(o, "group", *row->group ? bytes_json(row->group) : json_null());
	json_object_set_new(o, "unit", text_or_null(row->unit));
	json_object_set_new(o, "values", plain_json(row->plain));
	json_object_set_new(o, "restarts", json_integer((json_int_t)row->restarts));
	json_object_set_new(o, "by_restarts", json_boolean(row->by_restarts));
	json_object_set_new(o, "short_batches", json_boolean(row->short_batches));
	json_object_set_new(o, "batches_before", json_integer((json_int_t)row->batches_before));
	json_object_set_new(o, "batches_after", json_integer((json_int_t)row->batches_after));
	json_object_set_new(o, "placebo_splits", json_integer((json_int_t)row->placebo_splits));
	json_object_set_new(o, "fewest_queries", json_integer((json_int_t)row->fewest));
	json_object_set_new(o, "queries_needed", json_integer((json_int_t)row->needed));
	return o;
}

static json_t *pair_json(const struct sonde_verdict_doc *d, const struct sonde_verdict_pair *p)
{
	json_t *settings = json_array(), *cautions = json_array();

	for (size_t i = 0; i < p->config.n_diffs; i++)
		json_array_append_new(settings,
				      json_pack("{s:s, s:o, s:o}", "what", p->config.diffs[i].what,
						"treated", text_or_null(p->config.diffs[i].a),
						"reference", text_or_null(p->config.diffs[i].b)));
	for (size_t i = 0; i < p->config.n_cautions; i++)
		json_array_append_new(cautions, json_string(p->config.cautions[i]));
	return json_pack("{s:s, s:b, s:s, s:s, s:o, s:o, s:o, s:o}", "arm", p->arm->name, "control",
			 p->arm->control, "treated", d->trial->servers[p->pair.treated],
			 "reference", d->trial->servers[p->pair.reference], "settings", settings,
			 "cautions", cautions, "share_before", number(p->share[0]), "share_after",
			 number(p->share[1]));
}

static json_t *lines_json(char *const *lines, size_t n)
{
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(a, bytes_json(lines[i]));
	return a;
}

static json_t *audit_json(const struct sonde_audit *a)
{
	return json_pack("{s:o, s:o, s:o}", "changes", lines_json(a->lines, a->n_lines), "cautions",
			 lines_json(a->cautions, a->n_cautions), "refused",
			 lines_json(a->refused, a->n_refused));
}

/* ---- why ---- */

static json_t *why_row_json(const struct sonde_why_row *row)
{
	json_t *parts = json_object();

	for (unsigned int p = 0; p < SONDE_PART__MAX; p++)
		json_object_set_new(parts, sonde_part_name(p),
				    json_pack("{s:o, s:o, s:o}", "points", number(row->points[p]),
					      "low", number(row->low[p]), "high",
					      number(row->high[p])));
	return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:o}", "arm", row->arm, "against",
			 *row->against ? json_string(row->against) : json_null(), "of",
			 row->tail ? "slowest" : "mean", "share",
			 row->tail ? number(row->share) : json_null(), "change_percent",
			 number(row->change), "known", number(row->known), "parts", parts);
}

static json_t *why_json(const struct sonde_why *why)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < why->n; i++)
		json_array_append_new(rows, why_row_json(&why->rows[i]));
	return json_pack("{s:o, s:o, s:o}", "rows", rows, "no_mean",
			 *why->no_mean ? bytes_json(why->no_mean) : json_null(), "no_slowest",
			 *why->no_tail ? bytes_json(why->no_tail) : json_null());
}

/* ---- trade ---- */

static json_t *names_json(const struct sonde_verdict_row *const *rows, size_t n)
{
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(a, json_string(rows[i]->metric));
	return a;
}

static json_t *trade_json(const struct sonde_verdict_doc *d)
{
	const struct sonde_trial_result *r = d->result;
	json_t *a = json_array();

	for (size_t i = sonde_trade_next(r, SIZE_MAX); i < r->n_rows; i = sonde_trade_next(r, i)) {
		struct sonde_trade t;

		sonde_trade_make(r, i, &t);
		json_array_append_new(
			a, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "arm", t.arm, "saves",
				     names_json(t.gains, t.n_gains), "costs",
				     names_json(t.costs, t.n_costs), "not_known",
				     names_json(t.unknown, t.n_unknown), "saved_bytes_a_server",
				     t.has_memory ? number(t.saved) : json_null(), "saved_low",
				     t.has_memory ? number(t.saved_low) : json_null(), "saved_high",
				     t.has_memory ? number(t.saved_high) : json_null()));
	}
	return a;
}

int sonde_verdict_json(FILE *out, const struct sonde_verdict_doc *d)
{
	const struct sonde_trial_result *r = d->result;
	json_t *rows = json_array(), *pairs = json_array(), *o;
	int err;

	for (size_t i = 0; i < r->n_rows; i++)
		json_array_append_new(rows, row_json(&r->rows[i]));
	for (size_t i = 0; i < d->n_pairs; i++)
		json_array_append_new(pairs, pair_json(d, &d->pairs[i]));
	o = json_pack("{s:o, s:o, s:f, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I}", "rows",
		      rows, "pairs", pairs, "alpha", r->alpha, "baseline", r->baseline, "control",
		      r->control, "window_ns", (json_int_t)d->trial->window_ns, "windows_before",
		      (json_int_t)r->windows_before, "windows_after", (json_int_t)r->windows_after,
		      "windows_dropped", (json_int_t)r->windows_dropped, "warmup_ns",
		      (json_int_t)d->warmup_ns, "settled", d->settled, "resamples",
		      (json_int_t)r->resamples, "seed", (json_int_t)r->seed);
	if (!o)
		return -ENOMEM;
	json_object_set_new(o, "look", json_integer(r->look));
	json_object_set_new(o, "looks", json_integer(r->looks));
	json_object_set_new(o, "trade", trade_json(d));
	json_object_set_new(o, "not_by_form", *d->no_forms ? bytes_json(d->no_forms) : json_null());
	if (d->audit)
		json_object_set_new(o, "audit", audit_json(d->audit));
	if (d->why)
		json_object_set_new(o, "why", why_json(d->why));
	err = json_dumpf(o, out, JSON_COMPACT) || fputc('\n', out) == EOF ? -EIO : 0;
	json_decref(o);
	return err;
}
