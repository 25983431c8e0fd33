// SPDX-License-Identifier: GPL-2.0-or-later
/* Random numbers, distributions, order statistics and the histogram's buckets: published values. */
#include <errno.h>
#include <math.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/mem.h"
#include "judge/stats_dist.h"
#include "model/hist.h"
#include "stats_fixture.h"

#define near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static void test_rng(void **state)
{
	static const uint64_t published[] = {6457827717110365317u, 3203168211198807973u,
					     9817491932198370423u, 4593380528125082431u,
					     16408922859458223821u};
	static const uint64_t one[] = {10451216379200822465u, 13757245211066428519u,
				       17911839290282890590u};
	static const uint64_t below[] = {5, 7, 9, 4, 4, 7, 8, 5, 2, 7};
	static const double unit[] = {0.741564878772, 0.159910392877, 0.278601130255};
	static const double normal[] = {-0.894133443193, -0.466534796794, 1.592539553910};
	struct sonde_rng r = {1234567}, s = {1}, t = {1}, u = {42}, v = {42};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(published); i++)
		assert_int_equal(sonde_rng_next(&r), published[i]);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(one); i++)
		assert_int_equal(sonde_rng_next(&s), one[i]);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(below); i++)
		assert_int_equal(sonde_rng_below(&t, 10), below[i]);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(unit); i++)
		near(sonde_rng_unit(&u), unit[i], 1e-12);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(normal); i++)
		near(fixture_normal(&v), normal[i], 1e-12);
}

static void test_normal_and_t(void **state)
{
	(void)state;
	near(sonde_stats_normal_quantile(0.975), 1.959964, 5e-7);
	near(sonde_stats_normal_quantile(0.9), 1.281552, 5e-7);
	near(sonde_stats_normal_quantile(0.8), 0.841621, 5e-7);
	near(sonde_stats_normal_cdf(sonde_stats_normal_quantile(0.3)), 0.3, 1e-12);
	near(sonde_stats_t_quantile(0.975, 29), 2.04523, 5e-6);
	near(sonde_stats_t_quantile(0.975, 13), 2.16037, 5e-6);
	near(sonde_stats_t_quantile(0.975, 4), 2.77645, 5e-6);
	near(sonde_stats_t_quantile(0.95, 13), 1.77093, 5e-6);
	near(sonde_stats_t_p(-sonde_stats_t_quantile(0.975, 6.5), 6.5), 0.05, 1e-9);
	near(sonde_stats_t_p(0, 5), 1, 1e-12);
	assert_true(sonde_stats_t_p(INFINITY, 5) == 0);
	/* What makes no sense has no value, and ends no process. */
	assert_true(isnan(sonde_stats_t_quantile(0.975, 0)) && isnan(sonde_stats_t_p(NAN, 3)));
	assert_true(isnan(sonde_stats_normal_quantile(1)) && isnan(sonde_stats_t_quantile(-1, 3)));
}

static void test_order_intervals(void **state)
{
	static const struct {
		uint64_t n;
		double q;
		uint64_t lower, upper;
		double coverage;
	} v[] = {
		{100, 0.5, 40, 61, 0.96480},	     {100, 0.95, 90, 100, 0.98261},
		{400, 0.99, 392, 400, 0.96128},	     {1000, 0.95, 936, 964, 0.95810},
		{1000, 0.99, 983, 997, 0.97609},     {10000, 0.99, 9880, 9920, 0.95575},
		{10000, 0.999, 9983, 9997, 0.97546}, {100000, 0.999, 99880, 99920, 0.95479},
	};
	struct sonde_order_ci c;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(v); i++) {
		assert_int_equal(sonde_stats_order_ci(v[i].n, v[i].q, 0.95, &c), 0);
		assert_int_equal(c.lower, v[i].lower);
		assert_int_equal(c.upper, v[i].upper);
		near(c.coverage, v[i].coverage, 5.1e-6);
	}
	assert_int_equal(sonde_stats_order_ci(0, 0.5, 0.95, &c), -EINVAL);
	assert_int_equal(sonde_stats_order_ci(10, 1, 0.95, &c), -EINVAL);
	assert_int_equal(sonde_stats_order_ci(1ull << 32, 0.5, 0.95, &c), -EINVAL);
}

/* The floor is where the bound becomes finite: one value less, and there is none. */
static void test_order_floors(void **state)
{
	static const struct {
		double q, tail;
		uint64_t n;
	} v[] = {
		{0.95, 0.025, 72}, {0.99, 0.025, 368}, {0.999, 0.025, 3688},
		{0.05, 0.025, 72}, {0.99, 0.05, 299},  {0.999, 0.05, 2995},
	};
	struct sonde_order_ci c;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(v); i++) {
		assert_int_equal(sonde_stats_order_floor(v[i].q, v[i].tail), v[i].n);
		if (v[i].q < 0.5)
			continue;
		assert_int_equal(sonde_stats_order_ci(v[i].n, v[i].q, 1 - 2 * v[i].tail, &c), 0);
		assert_true(c.upper <= v[i].n);
		assert_int_equal(sonde_stats_order_ci(v[i].n - 1, v[i].q, 1 - 2 * v[i].tail, &c),
				 0);
		assert_int_equal(c.upper, v[i].n);
	}
}

/* Any number of mantissa bits, to hold the one that is used against. */
static uint32_t loglin_index(uint64_t v, unsigned int bits)
{
	unsigned int shift;

	if (v < 2ull << bits)
		return (uint32_t)v;
	shift = 63 - (unsigned int)__builtin_clzll(v) - bits;
	return (shift << bits) + (uint32_t)(v >> shift);
}

static double loglin_middle(uint32_t i, unsigned int bits, uint64_t *low, uint64_t *width)
{
	unsigned int shift = i < 2u << bits ? 0 : (i >> bits) - 1;

	*low = shift ? (uint64_t)((i & ((1u << bits) - 1)) | 1u << bits) << shift : i;
	*width = 1ull << shift;
	return (double)*low + (double)(*width - 1) / 2;
}

static void test_buckets(void **state)
{
	static const struct {
		unsigned int bits;
		uint64_t v;
		uint32_t index;
		uint64_t low, width;
	} v[] = {
		{5, 63, 63, 63, 1},
		{5, 64, 64, 64, 2},
		{5, 127, 95, 126, 2},
		{5, 128, 96, 128, 4},
		{5, 255, 127, 252, 4},
		{5, 1000, 190, 992, 16},
		{5, 1000000, 509, 999424, 16384},
		{5, 123456789, 730, 121634816, 2097152},
		{5, (1ull << 36) - 1, 1023, 0, 0},
		{7, 255, 255, 255, 1},
		{7, 256, 256, 256, 2},
		{7, 1000, 506, 1000, 4},
		{7, 1000000, 1780, 999424, 4096},
		{7, 123456789, 2667, 123207680, 524288},
		{7, (1ull << 36) - 1, 3839, 0, 0},
	};
	uint64_t low, width;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(v); i++) {
		assert_int_equal(loglin_index(v[i].v, v[i].bits), v[i].index);
		loglin_middle(v[i].index, v[i].bits, &low, &width);
		if (v[i].width)
			assert_true(low == v[i].low && width == v[i].width);
		if (v[i].bits != SONDE_HIST_MANTISSA_BITS)
			continue;
		assert_int_equal(sonde_hist_index(v[i].v), v[i].index);
		assert_int_equal(sonde_hist_low(v[i].index), low);
		assert_int_equal(sonde_hist_high(v[i].index), low + width - 1);
	}
}

/* 1 to 10,000 us in ns: what 5 bits would give, and what 7 do. */
static void test_bucket_quantiles(void **state)
{
	static const double q[] = {0.5, 0.95, 0.99, 0.999};
	static const double five[] = {5046271.5, 9568255.5, 9830399.5, 10092543.5};
	static const double seven[] = {4997119.5, 9469951.5, 9928703.5, 9994239.5};
	static const struct {
		unsigned int bits;
		const double *expected;
	} v[] = {{5, five}, {7, seven}};
	uint64_t low, width, rank;

	(void)state;
	for (size_t k = 0; k < SONDE_ARRAY_SIZE(v); k++) {
		for (size_t i = 0; i < SONDE_ARRAY_SIZE(q); i++) {
			rank = (uint64_t)ceil(q[i] * 10000 - 1e-9);
			near(loglin_middle(loglin_index(rank * 1000, v[k].bits), v[k].bits, &low,
					   &width),
			     v[k].expected[i], 0);
		}
	}
}

static void test_omission(void **state)
{
	struct sonde_hist h;

	(void)state;
	assert_int_equal(sonde_hist_init(&h), 0);
	sonde_hist_add_omitted(&h, 100, 10);
	assert_int_equal(h.count, 10);
	for (uint32_t v = 10; v <= 100; v += 10)
		assert_int_equal(h.buckets[v], 1);
	near(sonde_hist_mean(&h), 55, 0);
	sonde_hist_reset(&h);
	sonde_hist_add_omitted(&h, 25, 10);
	assert_true(h.count == 2 && h.buckets[25] == 1 && h.buckets[15] == 1);
	sonde_hist_reset(&h);
	sonde_hist_add_omitted(&h, 9, 10);
	sonde_hist_add_omitted(&h, 9, 0);
	assert_true(h.count == 2 && h.buckets[9] == 2);
	sonde_hist_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rng),
		cmocka_unit_test(test_normal_and_t),
		cmocka_unit_test(test_order_intervals),
		cmocka_unit_test(test_order_floors),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_bucket_quantiles),
		cmocka_unit_test(test_omission),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
