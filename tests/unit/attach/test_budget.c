// SPDX-License-Identifier: GPL-2.0-or-later
/* The judgement of harm, from tables of intervals. */
#include "unit/unit.h"

#include "attach/budget.h"
#include "core/mem.h"

#define SECOND 1000000000ull

struct interval {
	double t_s, p50;
	uint64_t queries;
	bool detach;
};

static void play(double baseline, const struct interval *rows, size_t n)
{
	struct sonde_harm h;

	sonde_harm_init(&h, 0, 0);
	if (baseline > 0)
		assert_true(sonde_harm_baseline(&h, baseline, 1000));
	for (size_t i = 0; i < n; i++)
		assert_int_equal(sonde_harm_update(&h, (uint64_t)(rows[i].t_s * SECOND),
						   rows[i].p50, rows[i].queries),
				 rows[i].detach);
}

#define PLAY(baseline, ...)                                                                        \
	do {                                                                                       \
		static const struct interval rows[] = {__VA_ARGS__};                               \
		play(baseline, rows, SONDE_ARRAY_SIZE(rows));                                      \
	} while (0)

static void test_over_for_two_seconds(void **state)
{
	(void)state;
	PLAY(100, {1, 120, 500, false}, {2, 301, 500, false}, {3, 350, 500, false},
	     {3.9, 350, 500, false}, {4, 350, 500, true});
}

static void test_a_good_interval_starts_anew(void **state)
{
	(void)state;
	PLAY(100, {1, 400, 500, false}, {2.9, 400, 500, false}, {3, 300, 500, false},
	     {3.5, 400, 500, false}, {5, 400, 500, false}, {5.5, 400, 500, true});
}

static void test_exactly_the_limit_is_no_harm(void **state)
{
	(void)state;
	PLAY(100, {1, 300, 500, false}, {5, 300, 500, false}, {9, 300, 500, false});
}

static void test_few_queries_neither_accuse_nor_acquit(void **state)
{
	(void)state;
	PLAY(100, {1, 900, 500, false}, {2, 1, SONDE_HARM_MIN_INTERVAL - 1, false},
	     {2.5, 0, 0, false}, {3, 900, SONDE_HARM_MIN_INTERVAL, true});
}

static void test_no_baseline_no_judgement(void **state)
{
	(void)state;
	PLAY(0, {1, 1e9, 500, false}, {100, 1e9, 500, false});
}

static void test_baseline_needs_queries(void **state)
{
	struct sonde_harm h;

	(void)state;
	sonde_harm_init(&h, 2, SECOND);
	assert_false(sonde_harm_baseline(&h, 100, SONDE_HARM_MIN_QUERIES - 1));
	assert_false(sonde_harm_baseline(&h, 0, SONDE_HARM_MIN_QUERIES));
	assert_false(sonde_harm_update(&h, SECOND, 1e9, 100));
	assert_true(sonde_harm_baseline(&h, 100, SONDE_HARM_MIN_QUERIES));
	assert_false(sonde_harm_update(&h, 10 * SECOND, 201, 100));
	assert_true(sonde_harm_update(&h, 11 * SECOND, 201, 100));
}

static void test_defaults(void **state)
{
	struct sonde_harm h;

	(void)state;
	sonde_harm_init(&h, 0, 0);
	assert_true(h.limit == 3);
	assert_int_equal(h.hold_ns, 2 * SECOND);
	sonde_harm_init(&h, 1.5, 7);
	assert_true(h.limit == 1.5);
	assert_int_equal(h.hold_ns, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_over_for_two_seconds),
		cmocka_unit_test(test_a_good_interval_starts_anew),
		cmocka_unit_test(test_exactly_the_limit_is_no_harm),
		cmocka_unit_test(test_few_queries_neither_accuse_nor_acquit),
		cmocka_unit_test(test_no_baseline_no_judgement),
		cmocka_unit_test(test_baseline_needs_queries),
		cmocka_unit_test(test_defaults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
