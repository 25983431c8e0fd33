/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When the next window may begin, how long it may last and what it may cost. Pure functions of
 * times and costs; inside lens/ only.
 *
 * The invariant: a window begins only if, with what the worst of late have taken, both shares are
 * kept over the time since recording began. Nothing is borrowed from the future.
 */
#ifndef SONDE_LENS_WINDOW_BUDGET_H
#define SONDE_LENS_WINDOW_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define SONDE_WINDOW_LENGTH_NS 10000000ull /* on average                                      */
#define SONDE_WINDOW_FINISH_NS 20000000ull /* for queries to end, at most                     */
#define SONDE_WINDOW_COST_LEAST_NS                                                                 \
	1000000.0 /* of traps: a window that may take less is not worth                            \
		   * attaching for                                   */
#define SONDE_WINDOW_COST_MOST_NS 20000000.0

struct sonde_window_budget {
	double cpu_share;  /* of the target's CPU time that traps may take                       */
	double time_share; /* of the time that windows may disturb                               */
	uint64_t began_ns;
	double disturbed_ns, cost_ns; /* of all windows so far                                  */
	double expect_ns,
		expect_late_ns; /* what a window disturbs; what traps take after it closed */
	double expect_cost_ns;	/* of all its traps                                              */
	uint64_t next_ns;	/* drawn once both shares allow a window; 0: they do not yet      */
	uint64_t seed;
};

void sonde_window_budget_init(struct sonde_window_budget *b, double cpu_share, double time_share,
			      uint64_t now_ns, uint64_t seed);
/* How far apart windows are at least, on average, if they go on taking what they take. */
double sonde_window_budget_gap(const struct sonde_window_budget *b, uint64_t now_ns, double cpu_ns);
/*
 * May a window begin? @cpu_ns: the target's CPU time since the budget's begin, traps left out. When
 * both shares allow one it begins after a random time, exponential with the gap as its mean (the
 * first sooner): begins are then all but a Poisson process, which meets every phase of every period
 * alike.
 */
bool sonde_window_budget_due(struct sonde_window_budget *b, uint64_t now_ns, double cpu_ns);
/* What is asked is asked every 10 ms: a begin may be anywhere in between. */
uint64_t sonde_window_budget_delay(struct sonde_window_budget *b);
/* Uniform between half the mean and one and a half. */
uint64_t sonde_window_budget_length(struct sonde_window_budget *b);
/* ns of traps that it may take while it counts. */
double sonde_window_budget_allowance(const struct sonde_window_budget *b, double cpu_ns);
/* One ended: what it disturbed, what its traps took until it closed and in all. */
void sonde_window_budget_spent(struct sonde_window_budget *b, double disturbed_ns,
			       double open_cost_ns, double cost_ns);

#endif
