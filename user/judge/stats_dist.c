// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Distributions; see stats_dist.h. GSL's default handler aborts the process when a series does not
 * converge, so it is turned off: a figure that could not be had is NAN.
 */
#include <errno.h>
#include <math.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_errno.h>

#include "judge/stats_dist.h"

static int is_probability(double p)
{
	return p > 0 && p < 1;
}

double sonde_stats_normal_cdf(double z)
{
	return gsl_cdf_ugaussian_P(z);
}

double sonde_stats_normal_quantile(double p)
{
	return is_probability(p) ? gsl_cdf_ugaussian_Pinv(p) : NAN;
}

double sonde_stats_t_quantile(double p, double df)
{
	if (!is_probability(p) || !(df > 0))
		return NAN;
	gsl_set_error_handler_off();
	return gsl_cdf_tdist_Pinv(p, df);
}

double sonde_stats_t_p(double t, double df)
{
	if (isnan(t) || !(df > 0))
		return NAN;
	if (isinf(t))
		return 0;
	gsl_set_error_handler_off();
	return fmin(1, 2 * gsl_cdf_tdist_Q(fabs(t), df));
}

/* Smallest k with P(X <= k) >= p, or > p: X is how many of n values lie below the quantile. */
static uint64_t binomial_first(uint64_t n, double q, double p, int above)
{
	uint64_t low = 0, high = n;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		double f = gsl_cdf_binomial_P((unsigned int)middle, q, (unsigned int)n);

		if (above ? f > p : f >= p)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

int sonde_stats_order_ci(uint64_t n, double q, double level, struct sonde_order_ci *out)
{
	double tail = (1 - level) / 2, below;
	uint64_t lower, upper;

	if (!n || n > UINT32_MAX || !is_probability(q) || !is_probability(level))
		return -EINVAL;
	gsl_set_error_handler_off();
	/* lower: the largest l with F(l - 1) <= tail; 0 where even F(0) is more. */
	lower = binomial_first(n, q, tail, 1);
	upper = binomial_first(n, q, 1 - tail, 0) + 1;
	below = lower ? gsl_cdf_binomial_P((unsigned int)lower - 1, q, (unsigned int)n) : 0;
	out->coverage =
		(upper > n ? 1 : gsl_cdf_binomial_P((unsigned int)upper - 1, q, (unsigned int)n)) -
		below;
	out->lower = lower;
	out->upper = upper;
	return 0;
}

uint64_t sonde_stats_order_floor(double q, double tail)
{
	double side = fmax(q, 1 - q);

	if (!is_probability(q) || !is_probability(tail))
		return UINT64_MAX;
	return (uint64_t)ceil(log(tail) / log(side));
}
