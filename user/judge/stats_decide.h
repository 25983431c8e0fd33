/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From estimates to verdicts. Effects are differences of logarithms throughout: 0.05 means 5.1 %
 * more. The rules are those of docs/statistics.md, in its order.
 */
#ifndef SONDE_JUDGE_STATS_DECIDE_H
#define SONDE_JUDGE_STATS_DECIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "judge/stats_series.h"

/* Difference in differences: has the treated server changed against its reference by more than the
 * control pair has? Each is a logarithm: [treated, reference]; NULL control: 0 is subtracted. */
struct sonde_did {
	double before[2], after[2];
};
double sonde_stats_did(const struct sonde_did *treated, const struct sonde_did *control);
/* 0.05 -> 5.127 */
double sonde_stats_percent(double log_ratio);

/* after - before, whose errors are independent: variances add, and the degrees of freedom are those
 * of Welch and Satterthwaite. NULL @before: only @after. */
struct sonde_estimate sonde_stats_change(const struct sonde_estimate *before,
					 const struct sonde_estimate *after);

/* p-values adjusted for there being @n of them, in the order given; @out may be @p. 0 or -ENOMEM.
 * Holm (1979): the chance of any false alarm. Benjamini and Hochberg (1995): the share of them. */
int sonde_stats_holm(const double *p, size_t n, double *out);
int sonde_stats_benjamini_hochberg(const double *p, size_t n, double *out);

/* The least effect that a test at @alpha (two-sided) finds with probability @power: 2.8016 se. */
double sonde_stats_mde(double se, double alpha, double power);
/* Length, in the unit of @length, with which the least effect is @margin; the error falls with the
 * root of the length. */
double sonde_stats_length_needed(double length, double mde, double margin);
/* The same where only one part can grow: @fixed variance stays, @growing falls with the length.
 * INFINITY where no length suffices. @multiplier is mde / se. */
double sonde_stats_growth_needed(double length, double fixed, double growing, double multiplier,
				 double margin);

/* How often a 95 % interval of one restart an arm is wrong, where restarts alone differ by
 * @restart_sd and the interval knows only of @se. */
double sonde_stats_restart_alarm(double se, double restart_sd);

/* By how many pages a process's RSS may be off: the kernel keeps it in per-CPU counters that it
 * adds up every max(32, 2 cpus) pages (lib/percpu_counter.c; in mm_struct since 6.2). */
uint64_t sonde_stats_rss_drift_pages(unsigned int cpus);

enum sonde_verdict {
	SONDE_VERDICT_INCONCLUSIVE,
	SONDE_VERDICT_DIFFERENT,
	SONDE_VERDICT_EQUIVALENT, /* inside the margin of error */
	SONDE_VERDICT_UNSTABLE,	  /* the control differs from itself by more than the margin */
};

const char *sonde_verdict_name(enum sonde_verdict verdict);

struct sonde_evidence {
	struct sonde_estimate effect;
	double alpha;	     /* 0.05                                                      */
	double p_adjusted;   /* two-sided, for all tests of the family                    */
	double margin;	     /* > 0: effects inside do not matter                         */
	double placebo_over; /* share of placebo splits beyond the asked margin; NAN: no control */
	double spread;	     /* 95th percentile of the placebo; only looked at if there is one */
	/* Percentile intervals, 1 - alpha and 1 - 2 alpha, where there are any; NAN: none. Where
	 * they disagree with the symmetric ones, both have to agree to a verdict. */
	double low, high, low2, high2;
};

/*
 * Unstable: more than 10 % of the placebo splits are beyond the margin, unless the whole interval
 * of a difference lies beyond the control's spread as well. Else equivalent, else different, else
 * neither.
 */
enum sonde_verdict sonde_stats_decide(const struct sonde_evidence *e);

#endif
