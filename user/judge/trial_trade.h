/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a treatment is to be weighed by: what it gives and what it takes, of the figures that were
 * fixed before the run and found different. Those that are not known are named, since a trade with
 * an unknown price is no bargain.
 */
#ifndef SONDE_JUDGE_TRIAL_TRADE_H
#define SONDE_JUDGE_TRIAL_TRADE_H

#include "judge/trial.h"

#define SONDE_TRADE_ROWS 8

struct sonde_trade {
	const char *arm; /* owned by the result */
	const struct sonde_verdict_row *gains[SONDE_TRADE_ROWS], *costs[SONDE_TRADE_ROWS];
	const struct sonde_verdict_row *unknown[SONDE_TRADE_ROWS];
	size_t n_gains, n_costs, n_unknown;
	bool has_memory; /* resident memory was found different                                  */
	double saved, saved_low, saved_high; /* bytes of a server, negative: it takes more       */
};

/* The arm whose first row is result->rows[@row]; its rows against the control (or nothing). */
void sonde_trade_make(const struct sonde_trial_result *r, size_t row, struct sonde_trade *out);
/* The next row after @row at which another treated arm's rows against the control begin; n_rows:
 * none. Begin with SIZE_MAX. */
size_t sonde_trade_next(const struct sonde_trial_result *r, size_t row);

#endif
