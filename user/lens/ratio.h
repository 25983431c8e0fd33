/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ratio of two sums over windows, with an interval from how much windows differ: all that a
 * sample of short windows can tell. Pure functions; docs/windows.md has the formulas.
 */
#ifndef SONDE_LENS_RATIO_H
#define SONDE_LENS_RATIO_H

#include <stdbool.h>
#include <stddef.h>

#define SONDE_RATIO_WINDOWS 8 /* fewer give no interval */

struct sonde_ratio {
	double *y, *x; /* of each window in which there was anything (x > 0) */
	size_t n, cap;
	double sum_y, sum_x;
};

struct sonde_ratio_estimate {
	double value;
	double low, high; /* 95 %; where has_interval */
	bool has_interval;
};

/* 0 or -ENOMEM. A window with x = 0 says nothing and is left out. */
int sonde_ratio_add(struct sonde_ratio *r, double y, double x);
/* False: there is none. */
bool sonde_ratio_estimate(const struct sonde_ratio *r, struct sonde_ratio_estimate *out);
void sonde_ratio_fini(struct sonde_ratio *r);

/* The 0.975 quantile of Student's t with @df >= 1 degrees of freedom, to within 0.001. */
double sonde_ratio_t975(size_t df);

#endif
