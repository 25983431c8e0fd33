/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One series of values at equal steps of time: moments, quantiles, how long it remembers, and the
 * interval of its mean that allows for that. Arrays in, numbers out.
 */
#ifndef SONDE_JUDGE_STATS_SERIES_H
#define SONDE_JUDGE_STATS_SERIES_H

#include <stdbool.h>
#include <stddef.h>

/* Of @n values, none of them NAN; NAN where there are too few. */
double sonde_stats_mean(const double *x, size_t n);
double sonde_stats_variance(const double *x, size_t n); /* divides by n - 1 */
double sonde_stats_autocov(const double *x, size_t n, size_t lag);

/* Ascending, for qsort(); no NAN. */
int sonde_stats_ascending(const void *a, const void *b);
/* Of values in ascending order: the one of rank ceil(q n), and the interpolation that R calls
 * type 7. */
double sonde_stats_rank_quantile(const double *sorted, size_t n, double q);
double sonde_stats_quantile7(const double *sorted, size_t n, double q);

/*
 * The length of blocks that a bootstrap of the mean needs: Politis and White (2004) with the
 * correction of Patton, Politis and White (2009), flat-top lag window. Lengths are in steps and at
 * most min(3 sqrt(n), n / 3).
 */
struct sonde_block_length {
	size_t lag, window; /* last lag that matters, and twice that              */
	double stationary;  /* for the stationary bootstrap                       */
	double circular;    /* for the circular one: what is used here            */
	double correlation; /* correlation time in steps: 0.5 for white noise     */
};

/* 0, or -EINVAL: fewer than 8 values. A constant series gives length 1. */
int sonde_stats_block_length(const double *x, size_t n, struct sonde_block_length *out);

/*
 * How to cut @n steps into batches: whole days where there are at least 7 of them, 7 to 14 batches;
 * otherwise 7 to 14 that are at least 10 correlation times long, or 7.
 * count is 0 where n < 7.
 */
struct sonde_batching {
	size_t count, length; /* what is left over at the end belongs to no batch */
	bool short_batches;   /* shorter than 5 correlation times: the interval may be too narrow */
};

struct sonde_batching sonde_stats_batching(size_t n, double steps_per_day, double correlation);

/* A figure, how well it is known and by how many degrees of freedom. */
struct sonde_estimate {
	double value, se, df;
};

/*
 * Mean by batches of @length: NAN in @x is a gap, and a batch that is less than half full is left
 * out. se * se is s^2 / B of the batches' means, df is B - 1. 0, or -ENODATA: fewer than 2 batches.
 */
int sonde_stats_batch_mean(const double *x, size_t n, size_t length, struct sonde_estimate *out);

/*
 * How many values at the beginning are warm-up: MSER-5 (White, 1997), the cut of whole groups of 5,
 * at most half, that minimises the squared error of the mean of the rest. With @slack the earliest
 * cut whose error is at most so much (0.1: 10 %) above the least: of a series without any warm-up
 * the least lies anywhere. @score, unless NULL, is the least error. 0 where there are fewer than 10
 * values.
 */
size_t sonde_stats_warmup(const double *x, size_t n, double slack, double *score);

#endif
