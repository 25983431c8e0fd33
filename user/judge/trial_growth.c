// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does it go on growing? The slope of the contrast's logarithm over the time after the change, per
 * day: what a level gains against its reference and the control. The line goes through the means of
 * batches, the same that the interval of the mean uses, so that its points are as good as
 * independent. Its slope is the median of those of all pairs of points (Theil, Sen), which shrugs
 * off a spike; its error is that of least squares, which does not, times sqrt(pi / 3), the price of
 * the median where there are no spikes.
 */
#include <errno.h>
#include <math.h>

#include "core/clock.h"
#include "core/mem.h"
#include "judge/trial_impl.h"

#define POINTS	     14 /* no more batches than that */
#define MIN_POINTS   5
#define DAY_NS	     (24.0 * 3600 * (double)SONDE_NS_PER_SEC)
#define MEDIAN_PRICE 1.0233

struct line {
	double t[POINTS], y[POINTS];
	size_t n;
};

/* Means of batches of @length windows; one that is less than half there is left out. */
static void take_points(struct line *line, const double *x, const struct sonde_batching *b,
			double window_days)
{
	for (size_t k = 0; k < b->count && line->n < POINTS; k++) {
		double sum = 0;
		size_t full = 0;

		for (size_t i = k * b->length; i < (k + 1) * b->length; i++) {
			if (isnan(x[i]))
				continue;
			sum += x[i];
			full++;
		}
		if (!full || 2 * full < b->length)
			continue;
		line->t[line->n] = ((double)k + 0.5) * (double)b->length * window_days;
		line->y[line->n++] = sum / (double)full;
	}
}

static double median_slope(const struct line *line)
{
	double slopes[POINTS * POINTS / 2];
	size_t n = 0;

	for (size_t i = 0; i < line->n; i++)
		for (size_t k = i + 1; k < line->n; k++)
			slopes[n++] = (line->y[k] - line->y[i]) / (line->t[k] - line->t[i]);
	qsort(slopes, n, sizeof(*slopes), sonde_stats_ascending);
	return sonde_stats_quantile7(slopes, n, 0.5);
}

/* Standard error of the slope of least squares. */
static double slope_error(const struct line *line)
{
	double t = sonde_stats_mean(line->t, line->n), y = sonde_stats_mean(line->y, line->n);
	double tt = 0, ty = 0, left = 0;

	for (size_t i = 0; i < line->n; i++) {
		tt += (line->t[i] - t) * (line->t[i] - t);
		ty += (line->t[i] - t) * (line->y[i] - y);
	}
	for (size_t i = 0; i < line->n; i++) {
		double off = line->y[i] - y - ty / tt * (line->t[i] - t);

		left += off * off;
	}
	return sqrt(left / (double)(line->n - 2) / tt);
}

int sonde_effect_growth(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			const double *weight, struct sonde_effect *out)
{
	const struct sonde_trial_period *p = &k->t->after;
	sonde_autofree double *x = sonde_work_series(k, m, weight, SONDE_AFTER);
	double window_days = (double)k->t->window_ns / DAY_NS;
	struct line line = {.n = 0};
	struct sonde_batching b;

	if (!x)
		return -ENOMEM;
	b = sonde_work_batching(k, x, p->to - p->from);
	take_points(&line, x, &b, window_days);
	if (line.n < MIN_POINTS)
		return -ENODATA;
	*out = (struct sonde_effect){
		.e = {median_slope(&line), MEDIAN_PRICE * slope_error(&line), (double)line.n - 2},
		.short_batches = b.short_batches,
		.low = NAN,
		.high = NAN,
		.low2 = NAN,
		.high2 = NAN,
	};
	out->batches[SONDE_AFTER] = line.n;
	out->variance[SONDE_AFTER] = out->e.se * out->e.se;
	return 0;
}
