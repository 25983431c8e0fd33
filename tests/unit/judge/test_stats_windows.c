// SPDX-License-Identifier: GPL-2.0-or-later
/* Histograms by window: quantiles from prefix sums are those of histograms that were really merged.
 */
#include <errno.h>
#include <math.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/mem.h"
#include "judge/stats_windows.h"
#include "stats_fixture.h"

#define near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

/* 1 to 10,000 us in ns, all in one window or spread over many. */
static void test_published(void **state)
{
	static const double q[] = {0.5, 0.95, 0.99, 0.999};
	static const double expected[] = {4997119.5, 9469951.5, 9928703.5, 9994239.5};
	const uint32_t order[] = {0, 1, 2, 3, 4};
	struct sonde_range all = {0, 5};
	struct sonde_windows w;
	struct sonde_hist h;
	struct sonde_view v;
	size_t hint = SIZE_MAX;

	(void)state;
	assert_int_equal(sonde_windows_init(&w, 5), 0);
	for (uint64_t at = 0; at < 5; at++) {
		assert_int_equal(sonde_hist_init(&h), 0);
		for (uint64_t i = at + 1; i <= 10000; i += 5)
			sonde_hist_add(&h, i * 1000);
		assert_int_equal(sonde_windows_add(&w, at, &h), 0);
		sonde_hist_fini(&h);
	}
	assert_int_equal(sonde_windows_seal(&w), 0);
	assert_int_equal(sonde_view_init(&v, &w, order, 5), 0);
	near(sonde_view_count(&v, &all, 1), 10000, 0);
	near(sonde_view_mean(&v, &all, 1), 5000500, 1e-6);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(q); i++)
		near(sonde_view_quantile(&v, &all, 1, q[i], &hint), expected[i], 0);
	sonde_view_fini(&v);
	sonde_windows_fini(&w);
}

/* What the view must agree with: counts added up, bucket by bucket. */
static double merged_quantile(const struct sonde_hist *hists, const uint32_t *order,
			      const struct sonde_range *r, size_t n, double q)
{
	struct sonde_hist sum;
	double rank, seen = 0, v = NAN;

	assert_int_equal(sonde_hist_init(&sum), 0);
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = r[i].from; k < r[i].to; k++)
			sonde_hist_merge(&sum, &hists[order[k]]);
	rank = fmax(1, ceil(q * (double)sum.count - 1e-12));
	for (uint32_t k = 0; k < SONDE_HIST_BUCKETS && isnan(v) && sum.count; k++) {
		seen += (double)sum.buckets[k];
		if (seen >= rank)
			v = ((double)sonde_hist_low(k) + (double)sonde_hist_high(k)) / 2;
	}
	sonde_hist_fini(&sum);
	return v;
}

#define WINDOWS 24

static void test_resamples(void **state)
{
	static const double q[] = {0, 0.01, 0.5, 0.95, 0.99, 0.999, 1};
	uint32_t order[WINDOWS];
	struct sonde_rng rng = {11};
	struct sonde_windows w;
	struct sonde_hist h[WINDOWS];
	struct sonde_draw d;
	struct sonde_view v;
	size_t hint = 0;

	(void)state;
	assert_int_equal(sonde_windows_init(&w, WINDOWS), 0);
	for (size_t at = 0; at < WINDOWS; at++) {
		order[at] = (uint32_t)((at * 7 + 3) % WINDOWS);
		assert_int_equal(sonde_hist_init(&h[at]), 0);
		/* Some windows are empty, some come in two parts. */
		for (uint64_t i = 0; i < (at % 5 == 4 ? 0 : 40 + at); i++)
			sonde_hist_add(&h[at], (uint64_t)exp(14 + 2 * fixture_normal(&rng)));
		assert_int_equal(sonde_windows_add(&w, at, &h[at]), 0);
		if (at % 7 != 6)
			continue;
		assert_int_equal(sonde_windows_add(&w, at, &h[at - 1]), 0);
		sonde_hist_merge(&h[at], &h[at - 1]);
	}
	assert_int_equal(sonde_windows_seal(&w), 0);
	assert_int_equal(sonde_view_init(&v, &w, order, WINDOWS), 0);
	assert_int_equal(sonde_draw_init(&d, WINDOWS, 5), 0);
	for (int r = 0; r < 100; r++) {
		sonde_draw_blocks(&d, &rng, 0, WINDOWS, 5);
		for (size_t i = 0; i < SONDE_ARRAY_SIZE(q); i++)
			near(sonde_view_quantile(&v, d.ranges, d.n, q[i], &hint),
			     merged_quantile(h, order, d.ranges, d.n, q[i]), 0);
	}
	sonde_draw_fini(&d);
	sonde_view_fini(&v);
	sonde_windows_fini(&w);
	for (size_t at = 0; at < WINDOWS; at++)
		sonde_hist_fini(&h[at]);
}

static void test_edges(void **state)
{
	const uint32_t order[] = {1, 0, 2};
	struct sonde_range empty = {0, 1}, all = {0, 3};
	struct sonde_windows w;
	struct sonde_hist h;
	struct sonde_view v;
	size_t hint = 99;

	(void)state;
	assert_int_equal(sonde_windows_init(&w, 3), 0);
	assert_int_equal(sonde_hist_init(&h), 0);
	sonde_hist_add(&h, UINT64_MAX); /* the bucket of all that is too large */
	assert_int_equal(sonde_windows_add(&w, 2, &h), 0);
	assert_int_equal(sonde_windows_add(&w, 1, &h), -EINVAL);
	assert_int_equal(sonde_windows_add(&w, 3, &h), -EINVAL);
	assert_int_equal(sonde_windows_seal(&w), 0);
	assert_int_equal(sonde_view_init(&v, &w, order, 3), 0);
	assert_true(isnan(sonde_view_quantile(&v, &empty, 1, 0.5, &hint)));
	assert_true(isnan(sonde_view_mean(&v, &empty, 1)));
	near(sonde_view_quantile(&v, &all, 1, 0.5, &hint), 0x1p42, 0);
	sonde_view_fini(&v);
	sonde_windows_fini(&w);

	/* Nothing was ever added. */
	assert_int_equal(sonde_windows_init(&w, 3), 0);
	assert_int_equal(sonde_windows_seal(&w), 0);
	assert_int_equal(sonde_view_init(&v, &w, order, 3), 0);
	assert_true(isnan(sonde_view_quantile(&v, &all, 1, 0.5, &hint)));
	sonde_view_fini(&v);
	sonde_windows_fini(&w);

	/* More values than a window can count are refused, not cut off. */
	assert_int_equal(sonde_windows_init(&w, 3), 0);
	sonde_hist_add_bucket(&h, 5, 1ull << 32);
	assert_int_equal(sonde_windows_add(&w, 0, &h), 0);
	assert_int_equal(sonde_windows_seal(&w), -EOVERFLOW);
	sonde_windows_fini(&w);
	sonde_hist_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published),
		cmocka_unit_test(test_resamples),
		cmocka_unit_test(test_edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
