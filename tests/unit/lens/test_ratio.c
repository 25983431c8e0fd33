// SPDX-License-Identifier: GPL-2.0-or-later
/* Ratios over windows: against figures worked out by hand, and for coverage by simulation. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "unit/unit.h"
/* cmocka first */
#include "lens/ratio.h"

static void assert_near(double a, double b, double within)
{
	if (!(fabs(a - b) <= within))
		fail_msg("%.9g is not within %g of %.9g", a, within, b);
}

static void test_quantiles(void **state)
{
	static const struct {
		size_t df;
		double t;
	} known[] = {{1, 12.706},  {7, 2.365},	  {30, 2.042},	 {31, 2.0395},
		     {60, 2.0003}, {120, 1.9799}, {1000, 1.9623}};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_near(sonde_ratio_t975(known[i].df), known[i].t, 0.001);
	assert_true(isinf(sonde_ratio_t975(0)));
}

/* Sums, not means of ratios: 10 / 1 and 0 / 9 are 1 together. */
static void test_value(void **state)
{
	struct sonde_ratio r = {0};
	struct sonde_ratio_estimate e;

	(void)state;
	assert_false(sonde_ratio_estimate(&r, &e));
	assert_int_equal(sonde_ratio_add(&r, 7, 0), 0); /* calls, but no query: says nothing */
	assert_false(sonde_ratio_estimate(&r, &e));
	assert_int_equal(sonde_ratio_add(&r, 10, 1), 0);
	assert_int_equal(sonde_ratio_add(&r, 0, 9), 0);
	assert_true(sonde_ratio_estimate(&r, &e));
	assert_near(e.value, 1, 1e-12);
	assert_false(e.has_interval);
	sonde_ratio_fini(&r);
}

/* With equal x the jackknife is the textbook's interval of a mean: 1..8, mean 4.5, s = 2.449,
 * half-width 2.3646 * 2.449 / sqrt(8). */
static void test_interval(void **state)
{
	struct sonde_ratio r = {0};
	struct sonde_ratio_estimate e;

	(void)state;
	for (int i = 1; i <= 8; i++) {
		if (i == 8) {
			assert_true(sonde_ratio_estimate(&r, &e));
			assert_false(e.has_interval); /* seven windows */
		}
		assert_int_equal(sonde_ratio_add(&r, i, 1), 0);
	}
	assert_true(sonde_ratio_estimate(&r, &e));
	assert_true(e.has_interval);
	assert_near(e.value, 4.5, 1e-12);
	assert_near(e.high - e.value, 2.0479, 0.001);
	assert_near(e.value - e.low, 2.0479, 0.001);
	sonde_ratio_fini(&r);
}

/* Uniform in (0, 1). */
static double draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return ((double)(*seed >> 11) + 0.5) / (double)(1ull << 53);
}

/*
 * Windows that take in queries until a number of calls is reached, and count the last one whole.
 * Queries make 1 to 200 calls, so a window's ratio by itself is biased; the sums are not.
 */
static bool covers(uint64_t *seed, int windows)
{
	struct sonde_ratio r = {0};
	struct sonde_ratio_estimate e = {0};
	bool hit;

	for (int w = 0; w < windows; w++) {
		double calls = 0, queries = 0, limit = 500 + 2000 * draw(seed);

		for (; calls < limit; queries++)
			calls += floor(200 * draw(seed)) + 1;
		assert_int_equal(sonde_ratio_add(&r, calls, queries), 0);
	}
	sonde_ratio_estimate(&r, &e);
	hit = e.low <= 100.5 && 100.5 <= e.high;
	sonde_ratio_fini(&r);
	return hit;
}

static void test_coverage(void **state)
{
	uint64_t seed = 20261130;
	int hits = 0;

	(void)state;
	for (int i = 0; i < 2000; i++)
		hits += covers(&seed, 12);
	if (hits < 1840 || hits > 1960) /* 92 to 98 % */
		fail_msg("%d of 2000 intervals cover", hits);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quantiles), cmocka_unit_test(test_value),
		cmocka_unit_test(test_interval), cmocka_unit_test(test_coverage)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
