// SPDX-License-Identifier: GPL-2.0-or-later
/* Histograms by window; see stats_windows.h. */
#include <errno.h>
#include <math.h>

#include "core/mem.h"
#include "judge/stats_windows.h"

_Static_assert(SONDE_HIST_BUCKETS <= UINT16_MAX, "bucket numbers are kept in 16 bits");

int sonde_windows_init(struct sonde_windows *w, size_t n)
{
	*w = (struct sonde_windows){.n = n};
	w->sum = calloc(n + 1, sizeof(*w->sum));
	w->count = calloc(n + 1, sizeof(*w->count));
	w->first = calloc(n + 1, sizeof(*w->first));
	if (w->sum && w->count && w->first && !sonde_hist_init(&w->open))
		return 0;
	sonde_windows_fini(w);
	return -ENOMEM;
}

void sonde_windows_fini(struct sonde_windows *w)
{
	free(w->sum);
	free(w->count);
	free(w->first);
	free(w->bucket);
	free(w->upto);
	if (w->open.buckets)
		sonde_hist_fini(&w->open);
	*w = (struct sonde_windows){0};
}

static int reserve(struct sonde_windows *w, size_t more)
{
	size_t cap = w->cap ? w->cap : 1024;
	uint16_t *bucket;
	uint32_t *upto;

	while (cap < w->used + more)
		cap *= 2;
	if (cap == w->cap)
		return 0;
	bucket = reallocarray(w->bucket, cap, sizeof(*bucket));
	if (bucket)
		w->bucket = bucket;
	upto = reallocarray(w->upto, cap, sizeof(*upto));
	if (upto)
		w->upto = upto;
	if (!bucket || !upto)
		return -ENOMEM;
	w->cap = cap;
	return 0;
}

/* The open window into its final form. */
static int close_window(struct sonde_windows *w)
{
	uint64_t total = 0;
	uint32_t low, high;

	if (!w->is_open)
		return 0;
	if (w->open.count > UINT32_MAX)
		return -EOVERFLOW;
	if (w->open.count) {
		low = sonde_hist_index(w->open.min);
		high = sonde_hist_index(w->open.max);
		if (reserve(w, high - low + 1))
			return -ENOMEM;
		for (uint32_t k = low; k <= high; k++) {
			if (!w->open.buckets[k])
				continue;
			total += w->open.buckets[k];
			w->bucket[w->used] = (uint16_t)k;
			w->upto[w->used++] = (uint32_t)total;
		}
		w->sum[w->open_at] = w->open.sum;
		w->count[w->open_at] = (double)total;
		sonde_hist_reset(&w->open);
	}
	w->is_open = false;
	return 0;
}

/* Windows up to @at begin where the last one ended. */
static void skip_to(struct sonde_windows *w, size_t from, size_t at)
{
	for (size_t i = from; i <= at; i++)
		w->first[i] = w->used;
}

static int open_window(struct sonde_windows *w, size_t at)
{
	int err;

	if (at >= w->n || w->open_at > at)
		return -EINVAL;
	if (w->open_at != at) {
		err = close_window(w);
		if (err)
			return err;
		skip_to(w, w->open_at + 1, at);
		w->open_at = at;
	}
	w->is_open = true;
	return 0;
}

int sonde_windows_add(struct sonde_windows *w, size_t at, const struct sonde_hist *h)
{
	int err = open_window(w, at);

	if (!err)
		sonde_hist_merge(&w->open, h);
	return err;
}

int sonde_windows_add_value(struct sonde_windows *w, size_t at, uint64_t value)
{
	int err = open_window(w, at);

	if (!err)
		sonde_hist_add(&w->open, value);
	return err;
}

int sonde_windows_seal(struct sonde_windows *w)
{
	int err = close_window(w);

	if (err)
		return err;
	skip_to(w, w->open_at + 1, w->n);
	if (w->open.buckets)
		sonde_hist_fini(&w->open);
	w->open_at = w->n;
	return 0;
}

/* ---- a view ---- */

static int find_occupied(struct sonde_view *v)
{
	bool *any = calloc(SONDE_HIST_BUCKETS, sizeof(*any));

	v->occupied = calloc(SONDE_HIST_BUCKETS, sizeof(*v->occupied));
	if (!any || !v->occupied) {
		free(any);
		return -ENOMEM;
	}
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = v->w->first[v->order[i]]; k < v->w->first[v->order[i] + 1]; k++)
			any[v->w->bucket[k]] = true;
	for (size_t k = 0; k < SONDE_HIST_BUCKETS; k++)
		if (any[k])
			v->occupied[v->n_occupied++] = (uint16_t)k;
	free(any);
	return 0;
}

int sonde_view_init(struct sonde_view *v, const struct sonde_windows *w, const uint32_t *order,
		    size_t n)
{
	*v = (struct sonde_view){.w = w, .order = order, .n = n};
	v->sum = calloc(n + 1, sizeof(*v->sum));
	v->count = calloc(n + 1, sizeof(*v->count));
	if (!v->sum || !v->count || find_occupied(v))
		goto no_memory;
	v->row = calloc(v->n_occupied + 1, sizeof(*v->row));
	if (!v->row)
		goto no_memory;
	for (size_t i = 0; i < n; i++) {
		v->sum[i + 1] = v->sum[i] + w->sum[order[i]];
		v->count[i + 1] = v->count[i] + w->count[order[i]];
	}
	return 0;
no_memory:
	sonde_view_fini(v);
	return -ENOMEM;
}

void sonde_view_fini(struct sonde_view *v)
{
	for (size_t k = 0; v->row && k < v->n_occupied; k++)
		free(v->row[k]);
	free(v->row);
	free(v->occupied);
	free(v->sum);
	free(v->count);
	*v = (struct sonde_view){0};
}

static double over_ranges(const double *prefix, const struct sonde_range *r, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += prefix[r[i].to] - prefix[r[i].from];
	return sum;
}

double sonde_view_count(const struct sonde_view *v, const struct sonde_range *r, size_t n_ranges)
{
	return over_ranges(v->count, r, n_ranges);
}

double sonde_view_mean(const struct sonde_view *v, const struct sonde_range *r, size_t n_ranges)
{
	double count = over_ranges(v->count, r, n_ranges);

	return count > 0 ? over_ranges(v->sum, r, n_ranges) / count : NAN;
}

/* How many values of window @at lie in buckets up to @bucket. */
static uint32_t window_upto(const struct sonde_windows *w, size_t at, uint16_t bucket)
{
	size_t begin = w->first[at], low = begin, high = w->first[at + 1];

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (w->bucket[middle] <= bucket)
			low = middle + 1;
		else
			high = middle;
	}
	return low > begin ? w->upto[low - 1] : 0;
}

static const uint64_t *get_row(struct sonde_view *v, size_t at)
{
	uint64_t *row = v->row[at];

	if (row)
		return row;
	row = malloc((v->n + 1) * sizeof(*row));
	if (!row)
		return NULL;
	row[0] = 0;
	for (size_t i = 0; i < v->n; i++)
		row[i + 1] = row[i] + window_upto(v->w, v->order[i], v->occupied[at]);
	v->row[at] = row;
	return row;
}

/* The rank-th smallest lies in the bucket at @at or before. -1 without memory. */
static int reaches(struct sonde_view *v, size_t at, const struct sonde_range *r, size_t n,
		   double rank)
{
	const uint64_t *row = get_row(v, at);
	uint64_t sum = 0;

	if (!row)
		return -1;
	for (size_t i = 0; i < n; i++)
		sum += row[r[i].to] - row[r[i].from];
	return (double)sum >= rank;
}

/*
 * First position that reaches @rank, of which there is one. From @probe away in steps that double
 * until the answer is enclosed, then by halves: a resample's quantile is near the last one's.
 * Without memory: n_occupied.
 */
static size_t find_position(struct sonde_view *v, const struct sonde_range *r, size_t n,
			    double rank, size_t probe)
{
	size_t low = 0, high = v->n_occupied - 1, step = 1; /* the answer is in [low, high] */
	int first = -1;

	if (probe > high)
		probe = high / 2;
	while (low < high) {
		int yes = reaches(v, probe, r, n, rank);

		if (yes < 0)
			return v->n_occupied;
		if (yes)
			high = probe;
		else
			low = probe + 1;
		if (first < 0)
			first = yes;
		if (yes == first && high - low > step)
			probe = yes ? high - step : low + step - 1;
		else
			probe = low + (high - low) / 2;
		step *= 2;
	}
	return high;
}

double sonde_view_quantile(struct sonde_view *v, const struct sonde_range *r, size_t n_ranges,
			   double q, size_t *hint)
{
	double count = over_ranges(v->count, r, n_ranges), rank;
	size_t at;
	uint64_t low;
	uint16_t bucket;

	if (!(count > 0))
		return NAN;
	rank = fmin(count, fmax(1, ceil(q * count - 1e-12)));
	at = find_position(v, r, n_ranges, rank, *hint);
	if (at >= v->n_occupied)
		return NAN;
	*hint = at;
	bucket = v->occupied[at];
	low = sonde_hist_low(bucket);
	if (bucket + 1u >= SONDE_HIST_BUCKETS)
		return (double)low;
	return (double)low + (double)(sonde_hist_high(bucket) - low) / 2;
}
