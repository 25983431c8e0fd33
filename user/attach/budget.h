/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When to let go of the target. Pure functions over figures; the session acts on the answer.
 */
#ifndef SONDE_ATTACH_BUDGET_H
#define SONDE_ATTACH_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Visible harm: the query p50 is over `limit` times its value before attach, without a break, for
 * `hold_ns`. Without a baseline of at least SONDE_HARM_MIN_QUERIES queries there is no judgement.
 */
#define SONDE_HARM_MIN_QUERIES 20
/* An interval needs fewer: a target that sonde slows answers fewer queries, and must not escape notice. */
#define SONDE_HARM_MIN_INTERVAL 5

struct sonde_harm {
	double baseline_p50_ns; /* 0: none yet */
	double limit;		/* ratio, default 3 */
	uint64_t hold_ns;	/* default 2 s */
	uint64_t over_since_ns; /* 0: not over */
};

void sonde_harm_init(struct sonde_harm *h, double limit, uint64_t hold_ns);
/* Set the value before attach; false (nothing set) when @queries are too few to be one. */
bool sonde_harm_baseline(struct sonde_harm *h, double p50_ns, uint64_t queries);
/* True: detach now. @p50_ns over the last interval with @queries queries (too few: no change). */
bool sonde_harm_update(struct sonde_harm *h, uint64_t now_ns, double p50_ns, uint64_t queries);

#endif
