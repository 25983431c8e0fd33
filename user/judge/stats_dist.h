/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Distributions, and what order statistics allow: GSL's functions with arguments as they are used
 * here. NAN where an argument makes no sense; nothing is logged.
 */
#ifndef SONDE_JUDGE_STATS_DIST_H
#define SONDE_JUDGE_STATS_DIST_H

#include <stdint.h>

double sonde_stats_normal_cdf(double z);
double sonde_stats_normal_quantile(double p);
/* Student's t; @df > 0 need not be whole. */
double sonde_stats_t_quantile(double p, double df);
/* Two-sided: the probability of a |t| at least this large. @t may be infinite. */
double sonde_stats_t_p(double t, double df);

/*
 * Distribution-free interval of a quantile: from the @lower-th to the @upper-th smallest of @n
 * independent values (from 1; upper = n + 1: no finite bound), with at most (1 - level) / 2 of
 * probability outside on either side. David and Nagaraja, Order Statistics, 7.1.
 */
struct sonde_order_ci {
	uint64_t lower, upper;
	double coverage;
};

/* 0, or -EINVAL: @q and @level must lie in (0, 1), @n in [1, 2^32). */
int sonde_stats_order_ci(uint64_t n, double q, double level, struct sonde_order_ci *out);

/* The fewest values with which quantile @q has a finite bound on its thinner side, @tail of
 * probability beyond it: 368 for p99 and 0.025. */
uint64_t sonde_stats_order_floor(double q, double tail);

#endif
