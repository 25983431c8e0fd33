/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why a mean, or the tail, changed: the change of a latency split into the parts that each query's
 * time is divided into (sonde/part.h). For each server the change of ln(mean) is divided exactly,
 * part p having (after_p - before_p) / L(after, before), L the logarithmic mean (Ang 2005, LMDI);
 * contrasts are then formed of the parts as they are of the whole. So the parts add up to the
 * effect: nothing is left over, and what nobody explains is its own part, "unattributed".
 */
#ifndef SONDE_JUDGE_TRIAL_WHY_H
#define SONDE_JUDGE_TRIAL_WHY_H

#include "judge/trial.h"
#include "model/span.h"

#define SONDE_WHY_TAIL 0.01 /* "the slowest 1 %" */

/* A query of the tail. */
struct sonde_why_slow {
	uint64_t ns;
	uint32_t window;
	float part[SONDE_PART__MAX];
};

/* Of one server in one period. */
struct sonde_why_cell {
	struct sonde_why_slow *slow; /* a heap, the fastest first; sorted descending by the end */
	size_t n, cap;
	double queries;	      /* answered, of all: counted when it is judged                     */
	uint64_t complete_ns; /* of queries slower than this all are known                       */
};

struct sonde_why_data {
	size_t n_servers, n_windows;
	double *part;  /* [server][window][SONDE_PART__MAX] ns                                   */
	double *count; /* [server][window] queries whose parts are known                         */
	struct sonde_why_cell *cell; /* [server][2]                                              */
	bool *by_total; /* [server] the kernel's totals are there: queries add nothing           */
};

/* 0 or -ENOMEM. What was not begun takes nothing. */
int sonde_why_init(struct sonde_why_data *d, const struct sonde_trial *t);
void sonde_why_fini(struct sonde_why_data *d);
/* Memory that it lacks for one of the slowest makes the known tail shorter. */
void sonde_why_put(struct sonde_why_data *d, size_t server, int period, size_t window,
		   const struct sonde_span *s);
/* What a counter of the kernel's totals grew by: "query.part_spans" or "query.part.NAME". False: it
 * is neither. */
bool sonde_why_put_total(struct sonde_why_data *d, size_t server, size_t window, const char *name,
			 double grown);
/* Of the hour that was kept by its @n slowest the fastest kept took @ns: faster ones are missing.
 */
void sonde_why_hour(struct sonde_why_data *d, size_t server, int period, uint64_t ns);

/* What is told of one contrast. Points of percent of the effect; they add up to it. */
struct sonde_why_row {
	char arm[SONDE_TRIAL_NAME], against[SONDE_TRIAL_NAME];
	bool tail;
	double share;  /* tail: of the queries, those that are told of                           */
	double change; /* percent                                                                */
	double points[SONDE_PART__MAX];
	double low[SONDE_PART__MAX], high[SONDE_PART__MAX]; /* 1 - alpha; NAN: no interval       */
	double known; /* of the queries, the share whose parts are known                         */
};

struct sonde_why {
	struct sonde_why_row *rows;
	size_t n, cap;
	char no_mean[240], no_tail[240]; /* why there are none; "": there are                    */
};

/* The same contrasts as sonde_trial_judge(), from the same windows. @no_mean, @no_tail: why not;
 * "": it can be. 0 or -errno. */
int sonde_why_judge(const struct sonde_trial *t, struct sonde_why_data *d, const char *no_mean,
		    const char *no_tail, struct sonde_why *out);
void sonde_why_result_fini(struct sonde_why *w);

/* "huge page faults": a part in a sentence. */
const char *sonde_why_words(unsigned part);

#endif
