/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What recordings hold of queries one by one: their forms, where their time went, the slowest. Most
 * recordings of weeks keep only some of them or none; what therefore cannot be told has its reason.
 */
#ifndef SONDE_JUDGE_TRIAL_QUERIES_H
#define SONDE_JUDGE_TRIAL_QUERIES_H

#include "judge/trial_forms.h"
#include "judge/trial_why.h"
#include "record/reader.h"

struct sonde_trial_queries {
	struct sonde_forms forms;    /* by the queries themselves; empty: not to be had          */
	struct sonde_forms commands; /* by the histograms of each command, which all have        */
	struct sonde_why_data why;
	/* Recordings that hold forms as histograms: their queries are not counted again. */
	const struct sonde_reader **with_forms;
	size_t n_with_forms, cap_with_forms;
	char no_forms[240]; /* why there are no forms; "": there are                             */
	char no_mean[240], no_tail[240];
	bool *exact;  /* [n_servers] was every allocation counted?                               */
	size_t *last; /* [n_servers] window of the query before, since windows ascend            */
	struct sonde_queries_hour {
		uint64_t hour, least_ns, n;
	} * hour; /* [n_servers] */
};

/* How much a recording keeps of its queries. */
enum sonde_kept { SONDE_KEPT_NONE, SONDE_KEPT_SLOWEST, SONDE_KEPT_ALL };
enum sonde_kept sonde_queries_kept(const struct sonde_reader *r, uint64_t *slowest_n);

/* @why: also where their time went. 0 or -ENOMEM. */
int sonde_queries_init(struct sonde_trial_queries *q, const struct sonde_trial *t, bool why);
void sonde_queries_fini(struct sonde_trial_queries *q);
/* Before, 1 after, -1 in neither period. */
int sonde_queries_period(const struct sonde_trial *t, size_t window);
/* Does a recording hold forms as histograms? After the first reading. */
bool sonde_queries_has_forms(const struct sonde_trial_queries *q, const struct sonde_reader *r);
/* "0x00000000000033ff" or "other": the form of a histogram. */
uint64_t sonde_queries_form_id(const char *label);
/* First reading of a recording: forms are counted, by their histograms, or where it has none but
 * all its queries by these. 0 or -errno. */
int sonde_queries_count(struct sonde_trial_queries *q, const struct sonde_trial *t, size_t server,
			struct sonde_reader *r);
/* Between the readings; see sonde_forms_choose. */
int sonde_queries_choose(struct sonde_trial_queries *q, struct sonde_trial *t, size_t most);
/* A query of the second reading; @forms: its form, too. 0 or -errno. */
int sonde_queries_put(struct sonde_trial_queries *q, struct sonde_trial *t, size_t server,
		      size_t window, uint64_t utc_ns, uint64_t slowest_n, bool forms,
		      const struct sonde_span *s);

#endif
