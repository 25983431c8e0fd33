/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The histograms of one figure of one server, window by window, and quantiles of any windows
 * merged. Merging is exact: counts add. What makes 2,000 resamples of weeks cheap is that the
 * histograms are never added up: for a bucket there is a row of prefix sums over time, "how many
 * values up to this bucket before window i", so a probe of the merged distribution costs two reads
 * a block. Rows are made when first asked for: only buckets near a quantile ever are.
 */
#ifndef SONDE_JUDGE_STATS_WINDOWS_H
#define SONDE_JUDGE_STATS_WINDOWS_H

#include <stdbool.h>

#include "judge/stats_boot.h"
#include "model/hist.h"

struct sonde_windows {
	size_t n; /* windows; those that nothing was added to are empty */
	/* [n] exact sums and counts, as doubles: what ratios are made of */
	double *sum, *count;
	/* Of window i the buckets [first[i], first[i + 1]) that hold something, ascending, and how
	 * many values lie in the window up to each. */
	size_t *first;
	uint16_t *bucket;
	uint32_t *upto;
	size_t used, cap;
	struct sonde_hist open; /* the window that is being added to */
	size_t open_at;
	bool is_open;
};

/* 0 or -ENOMEM. */
int sonde_windows_init(struct sonde_windows *w, size_t n);
void sonde_windows_fini(struct sonde_windows *w);
/* Add @h to window @at. Windows come in ascending order, each as often as needed. 0, -ENOMEM,
 * -EINVAL (order, or no such window) or -EOVERFLOW (2^32 values in one window). */
int sonde_windows_add(struct sonde_windows *w, size_t at, const struct sonde_hist *h);
/* The same with one value. */
int sonde_windows_add_value(struct sonde_windows *w, size_t at, uint64_t value);
/* After the last: the windows may now be looked at. As sonde_windows_add. */
int sonde_windows_seal(struct sonde_windows *w);

/* Chosen windows of @w in a chosen order: ranges of a view count in that order. */
struct sonde_view {
	const struct sonde_windows *w; /* borrowed, sealed */
	const uint32_t *order;	       /* borrowed: [n] */
	size_t n;
	double *sum, *count; /* [n + 1] prefix sums                                       */
	uint16_t *occupied;  /* buckets that hold something anywhere                      */
	size_t n_occupied;
	uint64_t **row; /* [n_occupied], each NULL or [n + 1]                        */
};

/* 0 or -ENOMEM. */
int sonde_view_init(struct sonde_view *v, const struct sonde_windows *w, const uint32_t *order,
		    size_t n);
void sonde_view_fini(struct sonde_view *v);

double sonde_view_count(const struct sonde_view *v, const struct sonde_range *r, size_t n_ranges);
/* Sum of values over their number; NAN without values. */
double sonde_view_mean(const struct sonde_view *v, const struct sonde_range *r, size_t n_ranges);
/*
 * The middle of the bucket that holds the value of rank ceil(q count), within 0.4 % of it; NAN
 * without values, or without memory. @hint: where to begin to look, any value at first; updated.
 */
double sonde_view_quantile(struct sonde_view *v, const struct sonde_range *r, size_t n_ranges,
			   double q, size_t *hint);

#endif
