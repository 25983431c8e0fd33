// SPDX-License-Identifier: GPL-2.0-or-later
/* The scheme's promises: every value in its bucket, 0.4 %, exact merges, quantiles of a known set. */
#include "unit/unit.h"

#include <math.h>

#include "model/hist.h"

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void test_value_in_bucket(void **state)
{
	uint64_t x = 88172645463325252u;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint64_t v = next_random(&x) >> (22 + next_random(&x) % 42);
		uint32_t b = sonde_hist_index(v);

		assert_true(b < SONDE_HIST_BUCKETS);
		assert_true(sonde_hist_low(b) <= v && v <= sonde_hist_high(b));
		if (v && v < 1ull << SONDE_HIST_MAX_LOG2) {
			double mid = ((double)sonde_hist_low(b) + (double)sonde_hist_high(b)) / 2;

			assert_true(fabs(mid - (double)v) <= 0.004 * (double)v);
		}
	}
}

static void test_buckets_tile(void **state)
{
	(void)state;
	for (uint32_t b = 0; b + 1 < SONDE_HIST_BUCKETS; b++) {
		assert_int_equal(sonde_hist_high(b) + 1, sonde_hist_low(b + 1));
		assert_int_equal(sonde_hist_index(sonde_hist_low(b)), b);
		assert_int_equal(sonde_hist_index(sonde_hist_high(b)), b);
	}
	assert_int_equal(sonde_hist_index(UINT64_MAX), SONDE_HIST_BUCKETS - 1);
	assert_int_equal(sonde_hist_index(1ull << SONDE_HIST_MAX_LOG2), SONDE_HIST_BUCKETS - 1);
}

static void test_quantiles(void **state)
{
	struct sonde_hist h;

	(void)state;
	assert_int_equal(sonde_hist_init(&h), 0);
	assert_int_equal(sonde_hist_quantile(&h, 0.5), 0);
	for (uint64_t v = 1; v <= 100; v++)
		sonde_hist_add(&h, v);
	assert_int_equal(sonde_hist_quantile(&h, 0.5), 50);
	assert_int_equal(sonde_hist_quantile(&h, 0.99), 99);
	assert_int_equal(sonde_hist_quantile(&h, 1), 100);
	assert_int_equal(sonde_hist_quantile(&h, 0), 1);
	assert_int_equal(h.min, 1);
	assert_int_equal(h.max, 100);
	assert_true(sonde_hist_mean(&h) == 50.5);
	sonde_hist_fini(&h);
}

static void test_merge(void **state)
{
	struct sonde_hist a, b, both;
	uint64_t x = 1234567;

	(void)state;
	assert_int_equal(sonde_hist_init(&a) | sonde_hist_init(&b) | sonde_hist_init(&both), 0);
	for (int i = 0; i < 10000; i++) {
		uint64_t v = next_random(&x) >> 30;

		sonde_hist_add(i % 3 ? &a : &b, v);
		sonde_hist_add(&both, v);
	}
	sonde_hist_merge(&a, &b);
	assert_int_equal(a.count, both.count);
	assert_int_equal(a.min, both.min);
	assert_int_equal(a.max, both.max);
	assert_memory_equal(a.buckets, both.buckets, SONDE_HIST_BUCKETS * sizeof(*a.buckets));
	sonde_hist_reset(&b);
	sonde_hist_merge(&a, &b);
	assert_int_equal(a.count, both.count);
	assert_int_equal(a.min, both.min);
	sonde_hist_fini(&a);
	sonde_hist_fini(&b);
	sonde_hist_fini(&both);
}

static void test_add_bucket(void **state)
{
	struct sonde_hist h;

	(void)state;
	assert_int_equal(sonde_hist_init(&h), 0);
	sonde_hist_add_bucket(&h, sonde_hist_index(1000), 5);
	sonde_hist_add_bucket(&h, SONDE_HIST_BUCKETS, 5); /* out of range: ignored */
	assert_int_equal(h.count, 5);
	assert_true(fabs(sonde_hist_mean(&h) - 1000) <= 4);
	assert_true(h.min <= 1000 && h.max >= 1000);
	sonde_hist_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_value_in_bucket), cmocka_unit_test(test_buckets_tile),
		cmocka_unit_test(test_quantiles),	cmocka_unit_test(test_merge),
		cmocka_unit_test(test_add_bucket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
