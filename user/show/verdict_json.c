// SPDX-License-Identifier: GPL-2.0-or-later
/* A verdict as JSON: every figure, effects as logarithms of ratios; see verdict.h. */
#include <errno.h>
#include <jansson.h>
#include <math.h>

#include "show/verdict.h"

static json_t *number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
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
	json_t *o = json_pack("{s:s, s:s, s:o, s:b, s:b, s:s, s:s, s:b, s:b, s:I, s:I}", "metric",
			      row->metric, "arm", row->arm, "against",
			      *row->against ? json_string(row->against) : json_null(), "primary",
			      row->primary, "between_arms", row->between, "verdict",
			      sonde_verdict_name(row->verdict), "reason", row->reason, "resampled",
			      row->resampled, "forms_differ", row->forms_differ, "tests",
			      (json_int_t)row->family, "block_windows", (json_int_t)row->block);

	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		json_object_set_new(o, figures[i].key, number(figures[i].v));
	json_object_set_new(o, "short_batches", json_boolean(row->short_batches));
	json_object_set_new(o, "batches_before", json_integer((json_int_t)row->batches_before));
	json_object_set_new(o, "batches_after", json_integer((json_int_t)row->batches_after));
	json_object_set_new(o, "placebo_splits", json_integer((json_int_t)row->placebo_splits));
	json_object_set_new(o, "fewest_queries", json_integer((json_int_t)row->fewest));
	json_object_set_new(o, "queries_needed", json_integer((json_int_t)row->needed));
	return o;
}

static json_t *text_or_null(const char *s)
{
	return s ? json_string(s) : json_null();
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
	err = json_dumpf(o, out, JSON_COMPACT) || fputc('\n', out) == EOF ? -EIO : 0;
	json_decref(o);
	return err;
}
