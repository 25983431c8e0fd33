// SPDX-License-Identifier: GPL-2.0-or-later
/* One series: quantiles, memory, block lengths, batches, warm-up. */
#include <errno.h>
#include <math.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/mem.h"
#include "judge/stats_series.h"
#include "stats_fixture.h"

#define near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))
#define N		      400

/* rho 0.7 from 0, seed 7: the series of most values below. */
static void make_series(double *x)
{
	struct sonde_rng r = {7};

	fixture_ar1(&r, x, N, 0.7, 1, 0);
}

static void test_quantiles(void **state)
{
	double x[1000];

	(void)state;
	for (int i = 0; i < 1000; i++)
		x[i] = i + 1;
	near(sonde_stats_rank_quantile(x, 10, 0.5), 5, 0);
	near(sonde_stats_rank_quantile(x, 10, 0.95), 10, 0);
	near(sonde_stats_rank_quantile(x, 10, 0.99), 10, 0);
	near(sonde_stats_quantile7(x, 10, 0.5), 5.5, 1e-9);
	near(sonde_stats_quantile7(x, 10, 0.95), 9.55, 1e-9);
	near(sonde_stats_quantile7(x, 10, 0.99), 9.91, 1e-9);
	near(sonde_stats_rank_quantile(x, 1000, 0.5), 500, 0);
	near(sonde_stats_rank_quantile(x, 1000, 0.95), 950, 0);
	near(sonde_stats_rank_quantile(x, 1000, 0.99), 990, 0);
	near(sonde_stats_rank_quantile(x, 1000, 0.999), 999, 0);
	near(sonde_stats_quantile7(x, 1000, 0.5), 500.5, 1e-9);
	near(sonde_stats_quantile7(x, 1000, 0.95), 950.05, 1e-9);
	near(sonde_stats_quantile7(x, 1000, 0.99), 990.01, 1e-9);
	near(sonde_stats_quantile7(x, 1000, 0.999), 999.001, 1e-9);
	near(sonde_stats_rank_quantile(x, 10, 0), 1, 0);
	near(sonde_stats_quantile7(x, 10, 1), 10, 0);
	assert_true(isnan(sonde_stats_rank_quantile(x, 0, 0.5)) &&
		    isnan(sonde_stats_quantile7(x, 0, 0.5)));
}

static void test_memory(void **state)
{
	double x[N];

	(void)state;
	make_series(x);
	near(x[1], -1.000954102632, 1e-9);
	near(x[399], 3.874626325309, 1e-9);
	near(sonde_stats_mean(x, N), -0.146546572277, 1e-9);
	near(sonde_stats_autocov(x, N, 0), 1.919991689, 1e-9);
	near(sonde_stats_autocov(x, N, 1), 1.353097931, 1e-9);
	near(sonde_stats_autocov(x, N, 2), 0.959679024, 1e-9);
	near(sonde_stats_autocov(x, N, 1) / sonde_stats_autocov(x, N, 0), 0.704742, 5e-7);
	near(sqrt(sonde_stats_variance(x, N) / N), 0.069368647, 1e-9);
	assert_int_equal(fixture_newey_west_lag(N), 5);
	near(fixture_newey_west(x, N, 5), 6.724054001, 1e-9);
	near(sqrt(fixture_newey_west(x, N, 5) / N), 0.129653905, 1e-9);
	near(N * (1 - 0.7) / (1 + 0.7), 70.59, 0.005); /* so many independent values in theory */
}

static void test_block_length(void **state)
{
	struct sonde_block_length b = {0};
	double x[N], flat[8] = {0};

	(void)state;
	make_series(x);
	assert_int_equal(sonde_stats_block_length(x, N, &b), 0);
	assert_int_equal(b.lag, 6);
	assert_int_equal(b.window, 12);
	near(b.stationary, 14.484682, 5e-7);
	near(b.circular, 16.580822, 5e-7);
	/* In theory (1 + rho) / (1 - rho) / 2 = 2.83 steps. */
	assert_true(b.correlation > 1.8 && b.correlation < 4);
	assert_int_equal(sonde_stats_block_length(flat, 8, &b), 0);
	near(b.circular, 1, 0);
	near(b.correlation, 0.5, 0);
	assert_int_equal(sonde_stats_block_length(x, 7, &b), -EINVAL);
}

/* Blocks never get longer than a third of what there is, whatever the series. */
static void test_block_length_bounds(void **state)
{
	struct sonde_block_length b;
	double x[200];

	(void)state;
	for (size_t n = 8; n <= 200; n += 3) {
		for (size_t i = 0; i < n; i++)
			x[i] = i < n / 2 ? 1 : -1; /* remembers all of it */
		assert_int_equal(sonde_stats_block_length(x, n, &b), 0);
		assert_true(b.circular <= ceil((double)n / 3) && b.circular > 0);
		assert_true(b.correlation >= 0.5 && b.window < n);
	}
}

static void test_boot_of_mean(void **state)
{
	static const uint32_t first[] = {104, 105, 106, 107, 108, 12, 13, 14, 15, 16, 333, 334};
	struct fixture_interval i;
	struct sonde_rng r = {99};
	struct sonde_draw d;
	double x[N];
	size_t at = 0, total = 0;

	(void)state;
	make_series(x);
	assert_int_equal(sonde_draw_init(&d, N, 5), 0);
	sonde_draw_blocks(&d, &r, 0, N, 5);
	for (size_t k = 0; k < d.n; k++) {
		for (uint32_t w = d.ranges[k].from; w < d.ranges[k].to; w++, at++)
			if (at < SONDE_ARRAY_SIZE(first))
				assert_int_equal(w, first[at]);
		total += d.ranges[k].to - d.ranges[k].from;
		assert_true(d.ranges[k].from < d.ranges[k].to && d.ranges[k].to <= N);
	}
	assert_int_equal(total, N);
	sonde_draw_fini(&d);

	i = fixture_boot_mean(x, N, 17, 2000, 99);
	near(i.low, -0.467059913, 1e-9);
	near(i.high, 0.171854385, 1e-9);
	near(i.se, 0.164834240, 1e-9);
}

/* Ranges stay inside their period, also where blocks cross its seam or are as long as it. */
static void test_draw_bounds(void **state)
{
	(void)state;
	for (size_t n = 1; n < 40; n++) {
		for (size_t block = 1; block <= n; block++) {
			struct sonde_rng r = {n * 100 + block};
			struct sonde_draw d;
			size_t total = 0;

			assert_int_equal(sonde_draw_init(&d, n, block), 0);
			for (int k = 0; k < 20; k++) {
				sonde_draw_blocks(&d, &r, 1000, n, block);
				assert_true(d.n <= d.cap);
				for (size_t i = 0; i < d.n; i++) {
					assert_true(d.ranges[i].from >= 1000 &&
						    d.ranges[i].to <= 1000 + n);
					total += d.ranges[i].to - d.ranges[i].from;
				}
			}
			assert_int_equal(total, 20 * n);
			sonde_draw_fini(&d);
		}
	}
}

static void test_batch_mean(void **state)
{
	struct sonde_estimate e = {0};
	double x[N], t;

	(void)state;
	make_series(x);
	assert_int_equal(sonde_stats_batch_mean(x, N, N / 20, &e), 0);
	t = sonde_stats_t_quantile(0.975, e.df);
	near(e.df, 19, 0);
	near(e.se, 0.170764036, 1e-9);
	near(e.value - t * e.se, -0.503959806, 1e-9);
	near(e.value + t * e.se, 0.210866662, 1e-9);
	assert_int_equal(sonde_stats_batch_mean(x, N, N, &e), -ENODATA);
	assert_int_equal(sonde_stats_batch_mean(x, N, 0, &e), -ENODATA);
}

static void test_batch_gaps(void **state)
{
	double x[] = {1, 3, NAN, 5, NAN, NAN, 7, 9, 100};
	struct sonde_estimate e;

	(void)state;
	/* Means 2, 5, none, 8; the last value belongs to no batch. */
	assert_int_equal(sonde_stats_batch_mean(x, 9, 2, &e), 0);
	near(e.value, 5, 1e-12);
	near(e.se, 3 / sqrt(3), 1e-12);
	near(e.df, 2, 0);
}

static void test_batching(void **state)
{
	static const struct {
		size_t n;
		double per_day, correlation;
		size_t count, length;
		bool is_short;
	} v[] = {
		{6, 0, 0.5, 0, 0, false},	/* too few */
		{7, 0, 0.5, 7, 1, true},	/* shorter than 2.5 steps */
		{336, 0, 0.5, 14, 24, false},	/* white noise: as many as allowed */
		{336, 0, 4.5, 7, 48, false},	/* rho 0.8 */
		{336, 0, 19.5, 7, 48, true},	/* rho 0.95: said to be too short */
		{2016, 144, 3, 14, 144, false}, /* 14 days of 10 min: days */
		{1008, 144, 3, 7, 144, false},	/* 7 days */
		{1007, 144, 3, 14, 71, false},	/* not quite */
		{15 * 144, 144, 3, 7, 288, false},
		{21 * 144 + 7, 144, 3, 10, 288, false},
		{60 * 144, 144, 3, 12, 720, false},
		{1008, 144, 30, 7, 144, true}, /* remembers for hours */
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(v); i++) {
		struct sonde_batching b =
			sonde_stats_batching(v[i].n, v[i].per_day, v[i].correlation);

		assert_int_equal(b.count, v[i].count);
		assert_int_equal(b.length, v[i].length);
		assert_int_equal(b.short_batches, v[i].is_short);
		assert_true(b.count * b.length <= v[i].n);
	}
}

static void test_warmup(void **state)
{
	struct sonde_rng r = {5};
	double y[300], score = 0;

	(void)state;
	for (int i = 0; i < 300; i++)
		y[i] = 10 * exp(-i / 20.0) + fixture_normal(&r) * 0.5 + 5;
	near(y[0], 14.576713509, 1e-9);
	assert_int_equal(sonde_stats_warmup(y, 300, 0, &score), 60);
	near(score, 0.001258492, 1e-9);
	assert_int_equal(sonde_stats_warmup(y, 9, 0, NULL), 0);
	/* A little earlier is nearly as good; not much earlier. */
	assert_in_range(sonde_stats_warmup(y, 300, 0.1, NULL), 40, 60);
	for (int i = 0; i < 300; i++)
		y[i] = 1;
	assert_int_equal(sonde_stats_warmup(y, 300, 0, NULL), 0);
}

/* The simple methods that the simulation holds against these. */
static void test_rank_tests(void **state)
{
	static const double a[] = {32, 39, 26, 35, 43, 27, 40, 37, 34, 29};
	static const double b[] = {36, 44, 47, 42, 49, 39, 46, 31, 33, 48};
	static const double low[] = {1, 2, 3, 4, 5}, high[] = {6, 7, 8, 9, 10};
	struct fixture_rank_test t = fixture_mann_whitney(b, 10, a, 10);

	(void)state;
	near(t.u, 79.5, 0);
	near(t.u / 100, 0.795, 1e-9);
	near(t.p, 0.028306, 5e-7);
	near(fixture_hodges_lehmann(b, 10, a, 10), 7, 0);
	t = fixture_mann_whitney(low, 5, high, 5);
	near(t.u, 0, 0);
	near(t.p, 0.012186, 5e-7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quantiles),    cmocka_unit_test(test_memory),
		cmocka_unit_test(test_block_length), cmocka_unit_test(test_block_length_bounds),
		cmocka_unit_test(test_boot_of_mean), cmocka_unit_test(test_draw_bounds),
		cmocka_unit_test(test_batch_mean),   cmocka_unit_test(test_batch_gaps),
		cmocka_unit_test(test_batching),     cmocka_unit_test(test_warmup),
		cmocka_unit_test(test_rank_tests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
