// SPDX-License-Identifier: GPL-2.0-or-later
/* CPU time is exact in sum; ticks only divide it, and nothing that was said shrinks. */
#include "unit/unit.h"

#include "lens/proc.h"

#define TICK 10000000ull

static void test_no_tick_yet(void **state)
{
	uint64_t user = 0, sys = 0;

	(void)state;
	sonde_proc_split(3000000, 0, 0, &user, &sys);
	assert_int_equal(user, 3000000);
	assert_int_equal(sys, 0);
}

static void test_by_ticks(void **state)
{
	uint64_t user = 0, sys = 0;

	(void)state;
	sonde_proc_split(43000000, 3 * TICK, TICK, &user, &sys);
	assert_int_equal(sys, 43000000 / 4);
	assert_int_equal(user, 43000000 - 43000000 / 4);
}

static void test_never_shrinks(void **state)
{
	uint64_t user = 0, sys = 0;

	(void)state;
	sonde_proc_split(8000000, 0, 0, &user, &sys);
	/* The first tick is one of system time; what was called user stays user. */
	sonde_proc_split(12000000, 0, TICK, &user, &sys);
	assert_int_equal(user, 8000000);
	assert_int_equal(sys, 4000000);
	sonde_proc_split(100000000, 9 * TICK, TICK, &user, &sys);
	assert_int_equal(sys, 10000000);
	assert_int_equal(user, 90000000);
	sonde_proc_split(101000000, 10 * TICK, 0, &user, &sys);
	assert_int_equal(sys, 10000000);
	assert_int_equal(user, 91000000);
	/* A clock that fell changes nothing. */
	sonde_proc_split(5, TICK, 0, &user, &sys);
	assert_int_equal(user + sys, 101000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_tick_yet),
		cmocka_unit_test(test_by_ticks),
		cmocka_unit_test(test_never_shrinks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
