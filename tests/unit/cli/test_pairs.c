// SPDX-License-Identifier: GPL-2.0-or-later
/* What --pair, --margin and --look take, and what they refuse. */
#include <errno.h>
#include <math.h>

#include "unit/unit.h"
/* cmocka first */
#include "cli/pairs.h"
#include "core/mem.h"

static void test_pairs(void **state)
{
	static const char *const bad[] = {"",	  "a",	     "a=",  "a=b",   "a=b/",	    "a=/c",
					  "=b/c", "a=b/c/d", "b/c", "a/b=c", "a=/b/c.sonde"};
	struct sonde_pair_text p = {.arm = "kept"};
	char longest[3 * SONDE_TRIAL_NAME];

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(bad); i++)
		assert_int_equal(sonde_pair_split(bad[i], &p), -EINVAL);
	assert_string_equal(p.arm, "kept");
	assert_int_equal(sonde_pair_split("off=se03-2/se03.example.org", &p), 0);
	assert_string_equal(p.arm, "off");
	assert_string_equal(p.treated, "se03-2");
	assert_string_equal(p.reference, "se03.example.org");
	/* A name that does not fit is refused, not cut off. */
	memset(longest, 'x', sizeof(longest));
	memcpy(longest, "a=b/", 4);
	longest[4 + SONDE_TRIAL_NAME - 1] = '\0';
	assert_int_equal(sonde_pair_split(longest, &p), 0);
	longest[4 + SONDE_TRIAL_NAME - 1] = 'x';
	longest[4 + SONDE_TRIAL_NAME] = '\0';
	assert_int_equal(sonde_pair_split(longest, &p), -EINVAL);
}

static void test_margins(void **state)
{
	static const char *const bad[] = {"",	    "p95",     "p95=",	   "p95=5",   "=5%",
					  "p95=0%", "p95=-5%", "p95=100%", "p95=5%%", "p95=nan%"};
	struct sonde_margin_text m = {.margin = 7};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(bad); i++)
		assert_int_equal(sonde_margin_split(bad[i], &m), -EINVAL);
	assert_true(m.margin == 7);
	assert_int_equal(sonde_margin_split("CPU per query=2.5%", &m), 0);
	assert_string_equal(m.metric, "CPU per query");
	assert_true(fabs(m.margin - 0.025) < 1e-12);
}

static void test_looks(void **state)
{
	static const char *const bad[] = {"",	  "2",	   "/",		  "2/",	  "/4",
					  "0/4",  "5/4",   "1/0",	  "a/4",  "2/4x",
					  "-1/4", "1/101", "123456789/4", "1.5/4"};
	struct sonde_look_text look = {.look = 7};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(bad); i++)
		assert_int_equal(sonde_look_split(bad[i], &look), -EINVAL);
	assert_int_equal(look.look, 7);
	assert_int_equal(sonde_look_split("2/4", &look), 0);
	assert_true(look.look == 2 && look.looks == 4);
	assert_int_equal(sonde_look_split("1/1", &look), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_margins),
		cmocka_unit_test(test_looks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
