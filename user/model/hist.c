// SPDX-License-Identifier: GPL-2.0-or-later
/* Histograms; see hist.h and sonde/hist.h for the scheme. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/hist.h"

int sonde_hist_init(struct sonde_hist *h)
{
	uint64_t *buckets = calloc(SONDE_HIST_BUCKETS, sizeof(*buckets));

	if (!buckets)
		return -ENOMEM;
	*h = (struct sonde_hist){.min = UINT64_MAX, .buckets = buckets};
	return 0;
}

void sonde_hist_fini(struct sonde_hist *h)
{
	free(h->buckets);
	*h = (struct sonde_hist){.min = UINT64_MAX};
}

void sonde_hist_reset(struct sonde_hist *h)
{
	uint64_t *buckets = h->buckets;

	if (h->min <= h->max) {
		uint32_t low = sonde_hist_index(h->min), high = sonde_hist_index(h->max);

		memset(buckets + low, 0, (high - low + 1) * sizeof(*buckets));
	}
	*h = (struct sonde_hist){.min = UINT64_MAX, .buckets = buckets};
}

uint64_t sonde_hist_low(uint32_t index)
{
	uint32_t octave = index / SONDE_HIST_SUB;

	if (octave == 0)
		return index;
	return (uint64_t)(SONDE_HIST_SUB + index % SONDE_HIST_SUB) << (octave - 1);
}

uint64_t sonde_hist_high(uint32_t index)
{
	return index + 1 < SONDE_HIST_BUCKETS ? sonde_hist_low(index + 1) - 1 : UINT64_MAX;
}

static void widen(struct sonde_hist *h, uint64_t low, uint64_t high)
{
	if (low < h->min)
		h->min = low;
	if (high > h->max)
		h->max = high;
}

void sonde_hist_add(struct sonde_hist *h, uint64_t value)
{
	h->buckets[sonde_hist_index(value)]++;
	h->count++;
	h->sum += (double)value;
	widen(h, value, value);
}

void sonde_hist_add_omitted(struct sonde_hist *h, uint64_t value, uint64_t interval)
{
	sonde_hist_add(h, value);
	while (interval && value >= 2 * interval) {
		value -= interval;
		sonde_hist_add(h, value);
	}
}

static double bucket_middle(uint32_t index)
{
	uint64_t low = sonde_hist_low(index);

	if (index + 1 >= SONDE_HIST_BUCKETS)
		return (double)low;
	return ((double)low + (double)sonde_hist_high(index)) / 2;
}

void sonde_hist_add_bucket(struct sonde_hist *h, uint32_t index, uint64_t n)
{
	if (!n || index >= SONDE_HIST_BUCKETS)
		return;
	h->buckets[index] += n;
	h->count += n;
	h->sum += bucket_middle(index) * (double)n;
	widen(h, sonde_hist_low(index),
	      index + 1 < SONDE_HIST_BUCKETS ? sonde_hist_high(index) : sonde_hist_low(index));
}

void sonde_hist_merge(struct sonde_hist *into, const struct sonde_hist *from)
{
	uint32_t high;

	if (!from->count)
		return;
	high = sonde_hist_index(from->max);
	for (uint32_t i = sonde_hist_index(from->min); i <= high; i++)
		into->buckets[i] += from->buckets[i];
	into->count += from->count;
	into->sum += from->sum;
	widen(into, from->min, from->max);
}

uint64_t sonde_hist_quantile(const struct sonde_hist *h, double q)
{
	uint64_t rank = (uint64_t)ceil(q * (double)h->count), seen = 0, v;

	if (!h->count)
		return 0;
	if (rank < 1)
		rank = 1;
	if (rank > h->count)
		rank = h->count;
	for (uint32_t i = 0; i < SONDE_HIST_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen < rank)
			continue;
		v = (uint64_t)bucket_middle(i);
		return v < h->min ? h->min : v > h->max ? h->max : v;
	}
	return h->max;
}

double sonde_hist_mean(const struct sonde_hist *h)
{
	return h->count ? h->sum / (double)h->count : 0;
}
