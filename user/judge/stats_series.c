// SPDX-License-Identifier: GPL-2.0-or-later
/* One series; see stats_series.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "judge/stats_series.h"

#define MIN_BATCHES		7
#define MAX_BATCHES		14
#define BATCH_CORRELATION_TIMES 10
#define BATCH_TOO_SHORT		5

double sonde_stats_mean(const double *x, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += x[i];
	return n ? sum / (double)n : NAN;
}

double sonde_stats_variance(const double *x, size_t n)
{
	double mean = sonde_stats_mean(x, n), sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (x[i] - mean) * (x[i] - mean);
	return n > 1 ? sum / (double)(n - 1) : NAN;
}

static double autocov_about(const double *x, size_t n, size_t lag, double mean)
{
	double sum = 0;

	for (size_t i = lag; i < n; i++)
		sum += (x[i] - mean) * (x[i - lag] - mean);
	return sum / (double)n;
}

double sonde_stats_autocov(const double *x, size_t n, size_t lag)
{
	return n ? autocov_about(x, n, lag, sonde_stats_mean(x, n)) : NAN;
}

int sonde_stats_ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double sonde_stats_rank_quantile(const double *sorted, size_t n, double q)
{
	double rank = ceil(q * (double)n - 1e-12); /* 0.95 * 100 is a little more than 95 */

	if (!n)
		return NAN;
	if (rank < 1)
		rank = 1;
	if (rank > (double)n)
		rank = (double)n;
	return sorted[(size_t)rank - 1];
}

double sonde_stats_quantile7(const double *sorted, size_t n, double q)
{
	double at = (double)(n - 1) * q;
	size_t i;

	if (!n)
		return NAN;
	i = (size_t)floor(at);
	return i + 1 < n ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i])
			 : sorted[n - 1];
}

/* ---- block length ---- */

/* The flat-top window of Politis and Romano. */
static double flat_top(double t)
{
	return t <= 0.5 ? 1 : t <= 1 ? 2 * (1 - t) : 0;
}

/* The lag after which @run correlations in a row are within chance, or the last that is not. */
static size_t last_lag(const double *gamma, size_t max, size_t run, double band)
{
	size_t inside = 0, last = 1;

	for (size_t k = 1; k <= max; k++) {
		inside = fabs(gamma[k]) < band * gamma[0] ? inside + 1 : 0;
		if (inside == run)
			return k - run ? k - run : 1;
	}
	for (size_t k = 1; k <= max; k++)
		if (fabs(gamma[k]) > band * gamma[0])
			last = k;
	return last;
}

int sonde_stats_block_length(const double *x, size_t n, struct sonde_block_length *out)
{
	double size = (double)n, mean = sonde_stats_mean(x, n), g = 0, s, cap, b;
	size_t run, max;
	double *gamma;

	if (n < 8)
		return -EINVAL;
	run = (size_t)fmax(5, ceil(log10(size)));
	max = (size_t)ceil(sqrt(size)) + run;
	if (max > n - 1)
		max = n - 1;
	gamma = malloc((max + 1) * sizeof(*gamma));
	if (!gamma)
		return -ENOMEM;
	for (size_t k = 0; k <= max; k++)
		gamma[k] = autocov_about(x, n, k, mean);
	*out = (struct sonde_block_length){1, 1, 1, 1, 0.5};
	if (gamma[0] > 0) {
		out->lag = last_lag(gamma, max, run, 2 * sqrt(log10(size) / size));
		out->window = 2 * out->lag < max ? 2 * out->lag : max;
		s = gamma[0];
		for (size_t k = 1; k <= out->window; k++) {
			double w = 2 * flat_top((double)k / (double)out->window) * gamma[k];

			g += w * (double)k;
			s += w;
		}
		cap = ceil(fmin(3 * sqrt(size), size / 3));
		b = cbrt(2 * g * g * size / (2 * s * s));
		out->stationary = fmin(b, cap);
		out->circular = fmin(b * cbrt(1.5), cap);
		out->correlation = fmax(0.5, s / (2 * gamma[0]));
	}
	free(gamma);
	return 0;
}

/* ---- batches ---- */

struct sonde_batching sonde_stats_batching(size_t n, double steps_per_day, double correlation)
{
	double least = BATCH_CORRELATION_TIMES * correlation;
	double days = steps_per_day > 0 ? floor((double)n / steps_per_day) : 0;
	struct sonde_batching b = {0};

	if (n < MIN_BATCHES)
		return b;
	if (days >= MIN_BATCHES) {
		double per_batch = ceil(days / MAX_BATCHES);

		b.count = (size_t)floor(days / per_batch);
		b.length = (size_t)floor(per_batch * steps_per_day);
	} else {
		b.count = (size_t)fmin(MAX_BATCHES, fmax(MIN_BATCHES, floor((double)n / least)));
		b.length = n / b.count;
	}
	b.short_batches = (double)b.length < BATCH_TOO_SHORT * correlation;
	return b;
}

int sonde_stats_batch_mean(const double *x, size_t n, size_t length, struct sonde_estimate *out)
{
	double sum = 0, squares = 0, mean;
	size_t batches = length ? n / length : 0, used = 0;

	/* Welford's recurrence: batch by batch, no array. */
	for (size_t b = 0; b < batches; b++) {
		double in = 0;
		size_t full = 0;

		for (size_t i = b * length; i < (b + 1) * length; i++) {
			if (isnan(x[i]))
				continue;
			in += x[i];
			full++;
		}
		if (full == 0 || 2 * full < length)
			continue;
		in /= (double)full;
		used++;
		mean = sum + (in - sum) / (double)used;
		squares += (in - sum) * (in - mean);
		sum = mean;
	}
	if (used < 2)
		return -ENODATA;
	*out = (struct sonde_estimate){
		.value = sum,
		.se = sqrt(squares / (double)(used - 1) / (double)used),
		.df = (double)(used - 1),
	};
	return 0;
}

/* ---- warm-up ---- */

/* The error of the mean of the groups that each cut leaves; from the end to the front, so that a
 * cut costs one step. Cuts from 0 to @cuts - 1. */
static void cut_errors(const double *x, size_t groups, size_t cuts, double *out)
{
	double mean = 0, squares = 0;

	for (size_t g = groups; g-- > 0;) {
		double y = sonde_stats_mean(x + 5 * g, 5), before = mean;
		double kept = (double)(groups - g);

		mean += (y - mean) / kept;
		squares += (y - before) * (y - mean);
		if (g < cuts)
			out[g] = squares / (kept * kept);
	}
}

size_t sonde_stats_warmup(const double *x, size_t n, double slack, double *score)
{
	size_t groups = n / 5, cuts = groups / 2 + 1, best = 0;
	double *error, least;

	if (groups < 2)
		return 0;
	error = calloc(cuts, sizeof(*error));
	if (!error)
		return 0;
	cut_errors(x, groups, cuts, error);
	least = error[0];
	for (size_t g = 1; g < cuts; g++)
		least = fmin(least, error[g]);
	while (error[best] > least * (1 + slack))
		best++;
	free(error);
	if (score)
		*score = least;
	return 5 * best;
}
