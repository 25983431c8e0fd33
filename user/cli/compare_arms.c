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
#include "cli/pairs.h"
#include "core/err.h"
#include "core/mem.h"
#include "judge/trial_fill.h"

/* ---- servers ---- */

static int name_server(struct compare_arms *a, const char *name)
{
	for (size_t i = 0; i < a->n_names; i++)
		if (!strcmp(a->names[i], name))
			return 0;
	if (SONDE_GROW(a->names, a->n_names, a->cap_names))
		return -ENOMEM;
	snprintf(a->names[a->n_names++], SONDE_TRIAL_NAME, "%s", name);
	return 0;
}

static int name_servers(struct compare_arms *a)
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

static int add_pairs(struct compare_arms *a)
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

static int find_server(const struct compare_arms *a, const char *path, const struct sonde_reader *r,
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

static int open_file(struct compare_arms *a, const char *path)
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
static int check_server(const struct compare_arms *a, size_t server)
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

static int open_files(struct compare_arms *a)
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

/* The files' queries are counted first, so that their forms are known when figures are read. */
static int count_queries(struct compare_arms *a)
{
	int err = sonde_queries_init(&a->queries, &a->trial, a->args->why);

	for (size_t i = 0; i < a->n_files && !err; i++)
		err = sonde_queries_count(&a->queries, &a->trial, a->files[i].server,
					  a->files[i].reader);
	if (!err)
		err = sonde_queries_choose(&a->queries, &a->trial, a->args->fingerprints);
	return err;
}

static int read_files(struct compare_arms *a)
{
	int err = sonde_trial_fill_begin(&a->trial);

	err = err ? err : count_queries(a);
	a->facts = calloc(a->n_names, sizeof(*a->facts));
	a->audited = calloc(a->n_names, sizeof(*a->audited));
	if (!a->facts || !a->audited)
		return -ENOMEM;
	for (size_t s = 0; s < a->n_names; s++) {
		sonde_arm_init(&a->facts[s], a->names[s]);
		a->audited[s].snap = &a->facts[s].snap;
	}
	for (size_t i = 0; i < a->n_files && !err; i++) {
		const struct sonde_arms_file *f = &a->files[i];
		/* What a server says of itself; figures are the trial's. */
		const struct sonde_visitor *all = &a->facts[f->server].snap.visitor;
		struct sonde_visitor facts = {.ctx = all->ctx,
					      .begin = all->begin,
					      .note = all->note,
					      .drop = all->drop,
					      .end = all->end};

		err = sonde_audit_add(&a->audited[f->server], f->reader);
		err = err ? err
			  : sonde_trial_fill_from(&a->trial, f->server, f->reader, &a->queries,
						  &facts);
	}
	return err ? err : sonde_trial_fill_end(&a->trial);
}

static void fini(struct compare_arms *a)
{
	sonde_compare_judge_fini(a);
	for (size_t s = 0; a->facts && s < a->n_names; s++)
		sonde_arm_fini(&a->facts[s]);
	for (size_t s = 0; a->audited && s < a->n_names; s++)
		sonde_audit_server_fini(&a->audited[s]);
	free(a->facts);
	free(a->audited);
	sonde_queries_fini(&a->queries);
	sonde_trial_fini(&a->trial);
	for (size_t i = 0; i < a->n_files; i++)
		sonde_reader_free(&a->files[i].reader);
	free(a->files);
	free(a->names);
}

int sonde_compare_arms(const struct sonde_args *args)
{
	struct compare_arms a = {.args = args};
	int err = name_servers(&a);

	err = err ? err : open_files(&a);
	err = err ? err : sonde_arms_periods(args, a.files, a.n_files, &a.trial);
	err = err ? err : add_pairs(&a);
	err = err ? err : read_files(&a);
	err = err ? err : sonde_compare_judge(&a);
	fini(&a);
	return err;
}
