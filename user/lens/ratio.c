// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Ratio estimator and its jackknife. The invariant: one window more or less changes the estimate by
 * what that window weighs, so a window with many queries counts for more than one with few.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/mem.h"
#include "lens/ratio.h"

int sonde_ratio_add(struct sonde_ratio *r, double y, double x)
{
	size_t cap = r->cap ? r->cap * 2 : 64;
	double *ys, *xs;

	if (!(x > 0))
		return 0;
	if (r->n == r->cap) {
		ys = reallocarray(r->y, cap, sizeof(*ys));
		r->y = ys ? ys : r->y;
		xs = ys ? reallocarray(r->x, cap, sizeof(*xs)) : NULL;
		if (!xs)
			return -ENOMEM;
		r->x = xs;
		r->cap = cap;
	}
	r->y[r->n] = y;
	r->x[r->n++] = x;
	r->sum_y += y;
	r->sum_x += x;
	return 0;
}

void sonde_ratio_fini(struct sonde_ratio *r)
{
	free(r->y);
	free(r->x);
	*r = (struct sonde_ratio){0};
}

/* Up to 30 from the tables; beyond, the first terms of its expansion around the normal quantile. */
double sonde_ratio_t975(size_t df)
{
	static const double table[] = {
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
		2.201,	2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
		2.080,	2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
	};
	const double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z;
	double n = (double)df;

	if (!df)
		return INFINITY;
	if (df <= SONDE_ARRAY_SIZE(table))
		return table[df - 1];
	return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n);
}

/* Without window @i. */
static double without(const struct sonde_ratio *r, size_t i)
{
	return (r->sum_y - r->y[i]) / (r->sum_x - r->x[i]);
}

bool sonde_ratio_estimate(const struct sonde_ratio *r, struct sonde_ratio_estimate *out)
{
	double mean = 0, squares = 0, half;

	if (!r->n)
		return false;
	*out = (struct sonde_ratio_estimate){.value = r->sum_y / r->sum_x};
	if (r->n < SONDE_RATIO_WINDOWS)
		return true;
	for (size_t i = 0; i < r->n; i++)
		mean += without(r, i) / (double)r->n;
	for (size_t i = 0; i < r->n; i++)
		squares += (without(r, i) - mean) * (without(r, i) - mean);
	half = sonde_ratio_t975(r->n - 1) * sqrt(squares * (double)(r->n - 1) / (double)r->n);
	out->low = out->value > half ? out->value - half : 0;
	out->high = out->value + half;
	out->has_interval = true;
	return true;
}
