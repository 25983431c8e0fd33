/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `sonde compare --pair ...`: recordings of several servers, and the verdict. */
#ifndef SONDE_CLI_COMPARE_ARMS_H
#define SONDE_CLI_COMPARE_ARMS_H

#include "cli/args.h"
#include "judge/trial.h"
#include "record/reader.h"

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

int sonde_compare_arms(const struct sonde_args *args);

#endif
