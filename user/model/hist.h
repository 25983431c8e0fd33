/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Histograms of the one scheme in sonde/hist.h. Counts add, so merging windows, CPUs and hosts is
 * exact; a quantile is within 0.4 % of the true sample quantile. Percentiles are computed from
 * merged counts, never averaged.
 */
#ifndef SONDE_MODEL_HIST_H
#define SONDE_MODEL_HIST_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/hist.h"

struct sonde_hist_desc {
	const char *name; /* "query.latency"                              */
	const char *unit; /* "ns", "bytes"                                */
	const char *help;
};

struct sonde_hist {
	uint64_t count;
	double sum;	   /* of the values as recorded where known, else of bucket middles */
	uint64_t min, max; /* exact where values were added one by one; min > max: empty.
			    * Their buckets are the outermost that hold something */
	uint64_t *buckets; /* SONDE_HIST_BUCKETS, heap                    */
};

/* 0 or -ENOMEM. */
int sonde_hist_init(struct sonde_hist *h);
void sonde_hist_fini(struct sonde_hist *h);
void sonde_hist_reset(struct sonde_hist *h);
void sonde_hist_add(struct sonde_hist *h, uint64_t value);
/*
 * A client that asks every @interval and waited @value did not ask meanwhile: add what it would
 * have waited as well, value - interval, value - 2 interval, ... down to the interval (coordinated
 * omission). @interval 0: only @value.
 */
void sonde_hist_add_omitted(struct sonde_hist *h, uint64_t value, uint64_t interval);
/* Add @n values that are only known to lie in bucket @index. */
void sonde_hist_add_bucket(struct sonde_hist *h, uint32_t index, uint64_t n);
void sonde_hist_merge(struct sonde_hist *into, const struct sonde_hist *from);
/*
 * Quantile @q in [0, 1]: the middle of the bucket that holds the sample of rank ceil(q * count),
 * clamped to [min, max]. 0 when empty: ask count first.
 */
uint64_t sonde_hist_quantile(const struct sonde_hist *h, double q);
/* Mean; 0 when empty. */
double sonde_hist_mean(const struct sonde_hist *h);
/* Lowest and highest value of bucket @index (inclusive). */
uint64_t sonde_hist_low(uint32_t index);
uint64_t sonde_hist_high(uint32_t index);

/* Latency by form of query, made of the spans that pass by a recording, kept or not. The
 * label is the fingerprint's id as "0x" and 16 digits, or "other". */
#define SONDE_FORM_HIST "query.form"

/* A histogram on its way through the model: the values of [from_ns, to_ns), borrowed. */
struct sonde_histrow {
	const struct sonde_hist_desc *desc;
	const char *label;
	uint64_t from_ns, to_ns;
	uint32_t target;
	const struct sonde_hist *hist;
};

#endif
