/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `sonde compare --pair ...`: recordings of several servers, and the verdict. */
#ifndef SONDE_CLI_COMPARE_ARMS_H
#define SONDE_CLI_COMPARE_ARMS_H

#include "cli/args.h"
#include "judge/trial_audit.h"
#include "judge/trial_why.h"
#include "record/reader.h"
#include "show/verdict.h"

/* A recording and the server that it is of. */
struct sonde_arms_file {
	struct sonde_reader *reader;
	size_t server;
};

/* Times of UTC, [from, to). */
struct sonde_arms_range {
	uint64_t from_ns, to_ns;
};

/*
 * compare_periods.c: from --pre and --post, and where these leave something open from what the
 * recordings hold, the periods of @t, its windows and their width. 0 or -EINVAL (logged).
 */
int sonde_arms_periods(const struct sonde_args *args, const struct sonde_arms_file *files, size_t n,
		       struct sonde_trial *t);

/* All that the files of `sonde compare --pair` share. Readers live until the end: the rest borrows.
 */
struct compare_arms {
	const struct sonde_args *args;
	char (*names)[SONDE_TRIAL_NAME]; /* of servers, as the options name them */
	size_t n_names, cap_names;
	struct sonde_arms_file *files;
	size_t n_files, cap_files;
	struct sonde_arm *facts; /* [n_names] settings, notes and losses of each server */
	struct sonde_audit_server *audited; /* [n_names] */
	struct sonde_trial trial;
	struct sonde_trial_queries queries;
	struct sonde_trial_result result;
	struct sonde_audit audit;
	struct sonde_why why;
	struct sonde_verdict_doc doc;
};

/* compare_judge.c: everything was read; judge and print it. 0 or -errno (logged). */
int sonde_compare_judge(struct compare_arms *a);
void sonde_compare_judge_fini(struct compare_arms *a);
/* Something to do next, by printf. 0 or -ENOMEM. */
int sonde_compare_add_next(struct compare_arms *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

int sonde_compare_arms(const struct sonde_args *args);

#endif
