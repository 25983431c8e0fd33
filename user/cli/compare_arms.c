// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From servers' names and recordings to a verdict; see compare_arms.h. A recording belongs to the
 * server whose name its file has (se03.sonde, se03.2026-11.sonde), else to that of its host. What
 * the servers of a pair do not have in common is said with the verdict: the treatment should be all
 * of it.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/compare_arms.h"
#include "cli/output.h"
#include "cli/pairs.h"
#include "core/err.h"
#include "core/mem.h"
#include "judge/compare.h"
#include "judge/trial_fill.h"
#include "show/verdict.h"

#define SEED 1 /* any will do; kept with the result */

struct arms {
	const struct sonde_args *args;
	char (*names)[SONDE_TRIAL_NAME]; /* of servers, as the options name them */
	size_t n_names, cap_names;
	struct sonde_arms_file *files;
	size_t n_files, cap_files;
	struct sonde_arm *facts; /* [n_names] settings, notes and losses of each server */
	struct sonde_trial trial;
	struct sonde_trial_result result;
	struct sonde_verdict_doc doc;
	struct sonde_str next;
};

/* ---- servers ---- */

static int name_server(struct arms *a, const char *name)
{
	for (size_t i = 0; i < a->n_names; i++)
		if (!strcmp(a->names[i], name))
			return 0;
	if (SONDE_GROW(a->names, a->n_names, a->cap_names))
		return -ENOMEM;
	snprintf(a->names[a->n_names++], SONDE_TRIAL_NAME, "%s", name);
	return 0;
}

static int name_servers(struct arms *a)
{
	const struct sonde_text_list *lists[] = {&a->args->pairs, &a->args->controls};
	int err = 0;

	for (size_t k = 0; k < SONDE_ARRAY_SIZE(lists); k++) {
		for (size_t i = 0; i < lists[k]->n && !err; i++) {
			struct sonde_pair_text pair;

			err = sonde_pair_split(lists[k]->text[i], &pair);
			err = err ? err : name_server(a, pair.treated);
			err = err ? err : name_server(a, pair.reference);
		}
	}
	return err;
}

static int add_pairs(struct arms *a)
{
	int err = 0;

	for (size_t i = 0; i < a->n_names && err >= 0; i++)
		err = sonde_trial_add_server(&a->trial, a->names[i]);
	for (size_t i = 0; i < a->args->pairs.n + a->args->controls.n && err >= 0; i++) {
		bool control = i >= a->args->pairs.n;
		const char *text = control ? a->args->controls.text[i - a->args->pairs.n]
					   : a->args->pairs.text[i];
		struct sonde_pair_text pair;

		err = sonde_pair_split(text, &pair);
		if (!err)
			err = sonde_trial_add_pair(
				&a->trial, pair.arm, control,
				(size_t)sonde_trial_add_server(&a->trial, pair.treated),
				(size_t)sonde_trial_add_server(&a->trial, pair.reference));
	}
	return err < 0 ? err : 0;
}

/* ---- recordings ---- */

/* Is @path named after @server: its name, or its name, a dot and more? */
static bool is_named(const char *path, const char *server)
{
	const char *base = strrchr(path, '/');
	size_t len = strlen(server);

	base = base ? base + 1 : path;
	return !strncmp(base, server, len) && (base[len] == '\0' || base[len] == '.');
}

static int find_server(const struct arms *a, const char *path, const struct sonde_reader *r,
		       size_t *server)
{
	const char *host = sonde_meta_find(sonde_reader_meta(r), "host.name");
	size_t longest = 0;

	for (size_t i = 0; i < a->n_names; i++) {
		if (!is_named(path, a->names[i]) || strlen(a->names[i]) <= longest)
			continue;
		longest = strlen(a->names[i]);
		*server = i;
	}
	for (size_t i = 0; host && !longest && i < a->n_names; i++) {
		if (strcmp(host, a->names[i]))
			continue;
		longest = strlen(host);
		*server = i;
	}
	if (longest)
		return 0;
	return sonde_err(EINVAL,
			 "%s is of no server that --pair or --control names (its host is %s); name "
			 "the file after its server",
			 path, host ? SONDE_PLAIN(host) : "not known");
}

static int open_file(struct arms *a, const char *path)
{
	struct sonde_arms_file *f;
	int err;

	if (SONDE_GROW(a->files, a->n_files, a->cap_files))
		return -ENOMEM;
	f = &a->files[a->n_files];
	*f = (struct sonde_arms_file){0};
	err = sonde_reader_open(&f->reader, path);
	if (err)
		return err;
	a->n_files++;
	return find_server(a, path, f->reader, &f->server);
}

static int by_time(const void *x, const void *y)
{
	uint64_t a = sonde_reader_start_ns(((const struct sonde_arms_file *)x)->reader);
	uint64_t b = sonde_reader_start_ns(((const struct sonde_arms_file *)y)->reader);

	return a < b ? -1 : a > b;
}

/* Recordings of a server, in order of time: one after the other. */
static int check_server(const struct arms *a, size_t server)
{
	const struct sonde_reader *last = NULL;

	for (size_t i = 0; i < a->n_files; i++) {
		const struct sonde_reader *r = a->files[i].reader;

		if (a->files[i].server != server)
			continue;
		if (last && sonde_reader_start_ns(r) < sonde_reader_end_ns(last))
			return sonde_err(
				EINVAL,
				"%s and %s are both of %s and overlap in time; give one of "
				"them",
				sonde_reader_path(last), sonde_reader_path(r), a->names[server]);
		last = r;
	}
	return last ? 0
		    : sonde_err(EINVAL, "no recording of %s is given; name its file %s.sonde",
				a->names[server], a->names[server]);
}

static int open_files(struct arms *a)
{
	int err = 0;

	for (size_t i = 0; i < a->args->n_words && !err; i++)
		err = open_file(a, a->args->words[i]);
	if (a->n_files)
		qsort(a->files, a->n_files, sizeof(*a->files), by_time);
	for (size_t s = 0; s < a->n_names && !err; s++)
		err = check_server(a, s);
	return err;
}

static int read_files(struct arms *a)
{
	int err = sonde_trial_fill_begin(&a->trial);

	a->facts = calloc(a->n_names, sizeof(*a->facts));
	if (!a->facts)
		return -ENOMEM;
	for (size_t s = 0; s < a->n_names; s++)
		sonde_arm_init(&a->facts[s], a->names[s]);
	for (size_t i = 0; i < a->n_files && !err; i++) {
		const struct sonde_arms_file *f = &a->files[i];
		/* What a server says of itself; figures are the trial's. */
		const struct sonde_visitor *all = &a->facts[f->server].snap.visitor;
		struct sonde_visitor facts = {.ctx = all->ctx,
					      .begin = all->begin,
					      .note = all->note,
					      .drop = all->drop,
					      .end = all->end};

		err = sonde_trial_fill_from(&a->trial, f->server, f->reader, &facts);
	}
	return err ? err : sonde_trial_fill_end(&a->trial);
}

/* ---- the verdict ---- */

static int set_margins(struct arms *a)
{
	const struct sonde_text_list *list = &a->args->margins;
	int err = 0;

	for (size_t i = 0; i < list->n && !err; i++) {
		struct sonde_margin_text m;
		char names[256];

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

static int make_pair(const struct arms *a, const struct sonde_trial_arm *arm,
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

static const char *last_path(const struct arms *a, size_t server)
{
	const char *path = "";

	for (size_t i = 0; i < a->n_files; i++)
		if (a->files[i].server == server)
			path = sonde_reader_path(a->files[i].reader);
	return path;
}

/* All figures of the first pair side by side: the verdict has only a few. */
static void say_next(struct arms *a)
{
	const struct sonde_trial_pair *p = &a->doc.pairs[0].pair;

	if (!sonde_str_addf(&a->next, "sonde compare %s %s", last_path(a, p->treated),
			    last_path(a, p->reference)))
		a->doc.next = sonde_str_get(&a->next);
}

static int make_doc(struct arms *a)
{
	struct sonde_trial *t = &a->trial;
	struct sonde_verdict_doc *d = &a->doc;
	size_t n = 0;
	int err = 0;

	*d = (struct sonde_verdict_doc){.trial = t, .result = &a->result};
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

static int judge(struct arms *a)
{
	struct sonde_trial *t = &a->trial;
	size_t warmup;
	int err = set_margins(a);

	if (err)
		return err;
	if (!t->n_metrics)
		return sonde_err(ENODATA, "the recordings have neither memory nor latency to "
					  "compare; record without --lens, or with rss and query");
	t->options = (struct sonde_trial_options){.seed = SEED};
	err = make_doc(a);
	if (!err)
		say_next(a);
	warmup = sonde_trial_warmup(t, &a->doc.settled);
	a->doc.warmup_ns = warmup * t->window_ns;
	t->after.from += warmup;
	return err ? err : sonde_trial_judge(t, &a->result);
}

static int print(struct arms *a)
{
	FILE *out;
	int err = sonde_output_open(&out, a->args);

	if (err)
		return err;
	err = a->args->json ? sonde_verdict_json(out, &a->doc) : sonde_verdict_print(out, &a->doc);
	return sonde_output_close(&out, a->args, err);
}

static void fini(struct arms *a)
{
	for (size_t i = 0; i < a->doc.n_pairs; i++)
		sonde_compare_fini(&a->doc.pairs[i].config);
	free(a->doc.pairs);
	sonde_str_fini(&a->next);
	sonde_trial_result_fini(&a->result);
	for (size_t s = 0; a->facts && s < a->n_names; s++)
		sonde_arm_fini(&a->facts[s]);
	free(a->facts);
	sonde_trial_fini(&a->trial);
	for (size_t i = 0; i < a->n_files; i++)
		sonde_reader_free(&a->files[i].reader);
	free(a->files);
	free(a->names);
}

int sonde_compare_arms(const struct sonde_args *args)
{
	struct arms a = {.args = args};
	int err = name_servers(&a);

	err = err ? err : open_files(&a);
	err = err ? err : sonde_arms_periods(args, a.files, a.n_files, &a.trial);
	err = err ? err : add_pairs(&a);
	err = err ? err : read_files(&a);
	err = err ? err : judge(&a);
	err = err ? err : print(&a);
	fini(&a);
	return err;
}
