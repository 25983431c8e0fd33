// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From figures to a verdict: margins, looks, what differs besides the treatment, and what to do
 * next. See compare_arms.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "cli/next_plans.h"
#include "cli/output.h"
#include "cli/pairs.h"
#include "core/err.h"
#include "core/mem.h"
#include "judge/trial_fill.h"

#define SEED 1 /* any will do; kept with the result */

static int set_margins(struct compare_arms *a)
{
	const struct sonde_text_list *list = &a->args->margins;
	int err = 0;

	for (size_t i = 0; i < list->n && !err; i++) {
		struct sonde_margin_text m;
		char names[1024];

		err = sonde_margin_split(list->text[i], &m);
		if (!err && sonde_trial_fill_margin(&a->trial, m.metric, m.margin))
			err = sonde_err(EINVAL,
					"--margin %s: these recordings have no %s; they have: %s",
					list->text[i], m.metric,
					sonde_trial_fill_names(&a->trial, names, sizeof(names)));
	}
	return err;
}

/* Two hosts have two names; that is no setting. */
static void drop_host_name(struct sonde_compare *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n_diffs; i++)
		if (strcmp(c->diffs[i].what, "host.name"))
			c->diffs[kept++] = c->diffs[i];
	c->n_diffs = kept;
}

static int make_pair(const struct compare_arms *a, const struct sonde_trial_arm *arm,
		     struct sonde_trial_pair pair, struct sonde_verdict_pair *p)
{
	int err;

	p->arm = arm;
	p->pair = pair;
	snprintf(p->names[0], sizeof(p->names[0]), "%s", a->names[pair.treated]);
	snprintf(p->names[1], sizeof(p->names[1]), "%s (reference)", a->names[pair.reference]);
	for (int k = 0; k < 2; k++)
		p->config.names[k] = p->names[k];
	p->share[0] = sonde_trial_share(&a->trial, &pair, &a->trial.before);
	p->share[1] = sonde_trial_share(&a->trial, &pair, &a->trial.after);
	err = sonde_compare_config(&a->facts[pair.treated], &a->facts[pair.reference], &p->config);
	drop_host_name(&p->config);
	return err;
}

/* What is compared are the processes that ran last. */
static int choose_processes(struct compare_arms *a)
{
	char target[16];
	int err = 0;

	for (size_t s = 0; s < a->n_names && !err; s++) {
		sonde_audit_last_target(&a->audited[s], target, sizeof(target));
		err = sonde_meta_set(&a->facts[s].snap.meta, "serving", "%s", target);
	}
	return err;
}

static int make_doc(struct compare_arms *a)
{
	struct sonde_trial *t = &a->trial;
	struct sonde_verdict_doc *d = &a->doc;
	size_t n = 0;
	int err = choose_processes(a);

	*d = (struct sonde_verdict_doc){
		.trial = t,
		.result = &a->result,
		.audit = &a->audit,
		.no_forms = a->queries.no_forms,
		.hosts = a->args->hosts,
		.ram_per_host = a->args->ram_per_host,
		.all = a->args->verbose > 0,
	};
	for (size_t i = 0; i < t->n_arms; i++)
		n += t->arms[i].n_pairs;
	d->pairs = calloc(n + 1, sizeof(*d->pairs));
	if (!d->pairs)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_arms && !err; i++) {
		for (size_t k = 0; k < t->arms[i].n_pairs && !err; k++) {
			struct sonde_verdict_pair *p = &d->pairs[d->n_pairs++];

			err = make_pair(a, &t->arms[i], t->arms[i].pairs[k], p);
		}
	}
	return err;
}

/* ---- what to do next ---- */

int sonde_compare_add_next(struct compare_arms *a, const char *fmt, ...)
{
	struct sonde_verdict_doc *d = &a->doc;
	va_list ap;
	int err;

	va_start(ap, fmt);
	err = sonde_lines_vaddf(&d->next, &d->n_next, &d->cap_next, fmt, ap);
	va_end(ap);
	return err;
}

static const char *last_path(const struct compare_arms *a, size_t server)
{
	const char *path = "";

	for (size_t i = 0; i < a->n_files; i++)
		if (a->files[i].server == server)
			path = sonde_reader_path(a->files[i].reader);
	return path;
}

/* All figures of the first pair side by side: the verdict has only a few. */
static int say_next(struct compare_arms *a)
{
	const struct sonde_trial_pair *p = &a->doc.pairs[0].pair;

	return sonde_compare_add_next(a,
				      "sonde compare %s %s   what else is not the same in a pair",
				      last_path(a, p->treated), last_path(a, p->reference));
}

/* ---- the verdict ---- */

static int judge_why(struct compare_arms *a)
{
	const struct sonde_why_data *d = &a->queries.why;
	bool totals = true;
	int err;

	if (!a->args->why)
		return 0;
	for (size_t s = 0; s < d->n_servers; s++)
		totals = totals && d->by_total[s];
	err = sonde_why_judge(&a->trial, &a->queries.why, totals ? "" : a->queries.no_mean,
			      a->queries.no_tail, &a->why);
	a->doc.why = &a->why;
	return err;
}

static int judge(struct compare_arms *a)
{
	struct sonde_trial *t = &a->trial;
	size_t warmup;
	int err = set_margins(a);

	if (err)
		return err;
	if (!t->n_metrics)
		return sonde_err(ENODATA, "the recordings have neither memory nor latency to "
					  "compare; record without --lens, or with rss and query");
	t->options = (struct sonde_trial_options){
		.seed = SEED, .look = a->args->look.look, .looks = a->args->look.looks};
	err = make_doc(a);
	err = err ? err : sonde_audit_make(t, a->audited, &a->queries, &a->audit);
	err = err ? err : say_next(a);
	warmup = sonde_trial_warmup(t, &a->doc.settled);
	a->doc.warmup_ns = warmup * t->window_ns;
	t->after.from += warmup;
	err = err ? err : sonde_trial_judge(t, &a->result);
	err = err ? err : judge_why(a);
	return err || !a->args->next_plans ? err : sonde_next_plans_write(a);
}

static int print(struct compare_arms *a)
{
	FILE *out;
	int err = sonde_output_open(&out, a->args);

	if (err)
		return err;
	err = a->args->json ? sonde_verdict_json(out, &a->doc) : sonde_verdict_print(out, &a->doc);
	return sonde_output_close(&out, a->args, err);
}

int sonde_compare_judge(struct compare_arms *a)
{
	int err = judge(a);

	return err ? err : print(a);
}

void sonde_compare_judge_fini(struct compare_arms *a)
{
	for (size_t i = 0; i < a->doc.n_pairs; i++)
		sonde_compare_fini(&a->doc.pairs[i].config);
	for (size_t i = 0; i < a->doc.n_next; i++)
		free(a->doc.next[i]);
	free(a->doc.next);
	free(a->doc.pairs);
	sonde_audit_fini(&a->audit);
	sonde_why_result_fini(&a->why);
	sonde_trial_result_fini(&a->result);
}
