// SPDX-License-Identifier: GPL-2.0-or-later
/* Bytes by name: nothing is lost, and a series that began goes on. */
#include <stdio.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/str.h"
#include "lens/rss_tally.h"

static int note(void *ctx, const char *name, uint64_t bytes)
{
	return sonde_str_addf(ctx, "%s=%u ", name, (unsigned)bytes);
}

static void assert_pushes(struct rss_tally *t, size_t top, size_t max, const char *want)
{
	struct sonde_str got = {0};

	assert_int_equal(rss_tally_push(t, top, max, note, &got), 0);
	assert_string_equal(sonde_str_get(&got), want);
	sonde_str_fini(&got);
}

static void test_series_go_on(void **state)
{
	struct rss_tally t = {0};

	(void)state;
	rss_tally_add(&t, "a", 5);
	rss_tally_add(&t, "b", 7);
	rss_tally_add(&t, "a", 5);
	rss_tally_add(&t, "c", 1);
	rss_tally_add(&t, "none", 0);
	assert_pushes(&t, 2, 3, "a=10 b=7 other=1 ");
	/* b is gone and c has grown; d finds no room. */
	rss_tally_add(&t, "c", 50);
	rss_tally_add(&t, "d", 40);
	assert_pushes(&t, 2, 3, "a=0 b=0 c=50 other=40 ");
	/* Nothing is left in "other": it says so, its last value would stay otherwise. */
	assert_pushes(&t, 2, 3, "a=0 b=0 c=0 other=0 ");
	rss_tally_fini(&t);
}

static void test_empty(void **state)
{
	struct rss_tally t = {0};

	(void)state;
	assert_pushes(&t, 10, 24, "");
	rss_tally_fini(&t);
}

static int refuse(void *ctx, const char *name, uint64_t bytes)
{
	(void)ctx;
	(void)name;
	(void)bytes;
	return -7;
}

static void test_error(void **state)
{
	struct rss_tally t = {0};

	(void)state;
	rss_tally_add(&t, "a", 5);
	assert_int_equal(rss_tally_push(&t, 10, 24, refuse, NULL), -7);
	assert_pushes(&t, 10, 24, "a=0 ");
	rss_tally_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_series_go_on),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_error),
	};

	return cmocka_run_group_tests_name("rss_tally", tests, NULL, NULL);
}
