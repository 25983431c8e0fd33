/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The verdict as text or JSON: what differs by how much and whether that is more than noise, first;
 * then the control's own spread, what weakens it, how it was reached, and what to type next.
 */
#ifndef SONDE_SHOW_VERDICT_H
#define SONDE_SHOW_VERDICT_H

#include <stdio.h>

#include "judge/compare.h"
#include "judge/trial.h"
#include "judge/trial_audit.h"
#include "judge/trial_why.h"

/* What the servers of a pair do not have in common, treated (A) and reference (B). */
struct sonde_verdict_pair {
	const struct sonde_trial_arm *arm;
	struct sonde_trial_pair pair;
	struct sonde_compare config; /* settings and cautions only */
	char names[2][SONDE_TRIAL_NAME + 16];
	double share[2]; /* of the pair's queries that A answered, before and after; NAN: not known
			  */
};

struct sonde_verdict_doc {
	const struct sonde_trial *trial;
	const struct sonde_trial_result *result;
	struct sonde_verdict_pair *pairs;
	size_t n_pairs;
	uint64_t warmup_ns; /* left out after the change */
	bool settled;
	const struct sonde_audit *audit; /* or NULL */
	const struct sonde_why *why;	 /* NULL: was not asked */
	const char *no_forms;		 /* why nothing is told by form of queries; "": it is */
	uint32_t hosts;			 /* 0: not asked */
	uint64_t ram_per_host;
	bool all;    /* every row, also those that say nothing */
	char **next; /* what to do next */
	size_t n_next, cap_next;
};

/* 0, or -errno not logged where @out could not be written. */
int sonde_verdict_print(FILE *out, const struct sonde_verdict_doc *d);
int sonde_verdict_json(FILE *out, const struct sonde_verdict_doc *d);

#endif
