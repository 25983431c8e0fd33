// SPDX-License-Identifier: GPL-2.0-or-later
/* When page tables may be walked: predicted short, and for at most 1 % of the time. */
#include "unit/unit.h"
/* cmocka first */
#include "lens/rss_priv.h"

#define MS SONDE_NS_PER_MS

static void test_first(void **state)
{
	struct rss_walk never = {0};

	(void)state;
	assert_true(rss_may_walk(&never, 49 * MS, 50 * MS, 1));
	assert_false(rss_may_walk(&never, 51 * MS, 50 * MS, 1));
	assert_true(rss_may_walk(&never, 5000 * MS, UINT64_MAX, 1));
}

/* What it took is believed more than what was predicted. */
static void test_again(void **state)
{
	struct rss_walk w = {.last_ns = 1000 * MS, .took_ns = 20 * MS};

	(void)state;
	assert_false(rss_may_walk(&w, 1, 50 * MS, 1000 * MS + 1999 * MS));
	assert_true(rss_may_walk(&w, 1, 50 * MS, 1000 * MS + 2000 * MS));
	assert_true(rss_may_walk(&w, 5000 * MS, 50 * MS, 1000 * MS + 2000 * MS));
	w.took_ns = 60 * MS;
	assert_false(rss_may_walk(&w, 1, 50 * MS, 1000 * MS + 60000 * MS));
	assert_true(rss_may_walk(&w, 1, UINT64_MAX, 1000 * MS + 60000 * MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests_name("rss_walk", tests, NULL, NULL);
}
