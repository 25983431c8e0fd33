/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Series with known properties, and the simple methods that the verdict does not use: the tests
 * hold their published values, the simulation shows how often they are wrong.
 */
#ifndef SONDE_TESTS_STATS_FIXTURE_H
#define SONDE_TESTS_STATS_FIXTURE_H

#include <math.h>
#include <stdlib.h>

#include "judge/stats_boot.h"
#include "judge/stats_dist.h"
#include "judge/stats_series.h"

/* Nearly normal: the sum of 12 uniform numbers less 6. */
static inline double fixture_normal(struct sonde_rng *r)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += sonde_rng_unit(r);
	return sum - 6;
}

/* x[i] = rho x[i - 1] + scale e. From 0, or from its stationary distribution. */
static inline void fixture_ar1(struct sonde_rng *r, double *x, size_t n, double rho, double scale,
			       int stationary)
{
	x[0] = stationary ? scale * fixture_normal(r) / sqrt(1 - rho * rho) : 0;
	for (size_t i = 1; i < n; i++)
		x[i] = rho * x[i - 1] + scale * fixture_normal(r);
}

struct fixture_interval {
	double low, high, se;
};

/* Bootstrap of a mean with blocks of @block. */
static inline struct fixture_interval fixture_boot_mean(const double *x, size_t n, size_t block,
							size_t resamples, uint64_t seed)
{
	double *prefix = calloc(n + 1, sizeof(*prefix)), *means = calloc(resamples, sizeof(*means));
	struct sonde_rng rng = {seed};
	struct fixture_interval out;
	struct sonde_draw d;

	if (!prefix || !means || sonde_draw_init(&d, n, block))
		abort();
	for (size_t i = 0; i < n; i++)
		prefix[i + 1] = prefix[i] + x[i];
	for (size_t r = 0; r < resamples; r++) {
		sonde_draw_blocks(&d, &rng, 0, n, block);
		for (size_t i = 0; i < d.n; i++)
			means[r] += prefix[d.ranges[i].to] - prefix[d.ranges[i].from];
		means[r] /= (double)n;
	}
	qsort(means, resamples, sizeof(*means), sonde_stats_ascending);
	out.low = sonde_stats_rank_quantile(means, resamples, 0.025);
	out.high = sonde_stats_rank_quantile(means, resamples, 0.975);
	out.se = sqrt(sonde_stats_variance(means, resamples));
	sonde_draw_fini(&d);
	free(prefix);
	free(means);
	return out;
}

/* ---- what is not used, and why ---- */

/* Newey and West (1987): long-run variance with the Bartlett window. */
static inline double fixture_newey_west(const double *x, size_t n, size_t lag)
{
	double v = sonde_stats_autocov(x, n, 0);

	for (size_t k = 1; k <= lag; k++)
		v += 2 * (1 - (double)k / (double)(lag + 1)) * sonde_stats_autocov(x, n, k);
	return v;
}

static inline size_t fixture_newey_west_lag(size_t n)
{
	return (size_t)floor(4 * pow((double)n / 100, 2.0 / 9));
}

struct fixture_rank_test {
	double u, p;
};

/* Mann-Whitney, U of @x, two-sided p by the normal with ties and continuity. */
static inline struct fixture_rank_test fixture_mann_whitney(const double *x, size_t n,
							    const double *y, size_t m)
{
	double total = (double)(n + m), product = (double)n * (double)m, u = 0, ties = 0, z, var;
	double *all = calloc(n + m, sizeof(*all));

	if (!all)
		abort();
	for (size_t i = 0; i < n + m; i++)
		all[i] = i < n ? x[i] : y[i - n];
	qsort(all, n + m, sizeof(*all), sonde_stats_ascending);
	for (size_t i = 0, k; i < n + m; i = k) {
		for (k = i + 1; k < n + m && all[k] == all[i];)
			k++;
		ties += pow((double)(k - i), 3) - (double)(k - i);
	}
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < m; k++)
			u += x[i] > y[k] ? 1 : x[i] == y[k] ? 0.5 : 0;
	var = product / 12 * (total + 1 - ties / (total * (total - 1)));
	z = (fabs(u - product / 2) - 0.5) / sqrt(var);
	free(all);
	return (struct fixture_rank_test){u, 2 * (1 - sonde_stats_normal_cdf(fmax(z, 0)))};
}

/* Hodges and Lehmann: the median of all differences x - y. */
static inline double fixture_hodges_lehmann(const double *x, size_t n, const double *y, size_t m)
{
	double *d = calloc(n * m, sizeof(*d)), median;

	if (!d)
		abort();
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < m; k++)
			d[i * m + k] = x[i] - y[k];
	qsort(d, n * m, sizeof(*d), sonde_stats_ascending);
	median = sonde_stats_quantile7(d, n * m, 0.5);
	free(d);
	return median;
}

#endif
