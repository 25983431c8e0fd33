// SPDX-License-Identifier: GPL-2.0-or-later
/* Clock pairs convert both ways of their instant, and times print as RFC 3339. */
#include "unit/unit.h"

#include "core/clock.h"

static void test_pair(void **state)
{
	struct sonde_clockpair p = {.mono_ns = 5000, .real_ns = 1000000};

	(void)state;
	assert_int_equal(sonde_clockpair_real(&p, 6000), 1001000);
	assert_int_equal(sonde_clockpair_real(&p, 4000), 999000);
	p = sonde_clockpair_now();
	assert_true(sonde_clockpair_real(&p, sonde_mono_ns()) >= p.real_ns);
}

static void test_rfc3339(void **state)
{
	char buf[40];

	(void)state;
	assert_string_equal(sonde_fmt_rfc3339(buf, sizeof(buf), 0), "1970-01-01T00:00:00.000000Z");
	assert_string_equal(sonde_fmt_rfc3339(buf, sizeof(buf), 951782400123456789),
			    "2000-02-29T00:00:00.123456Z");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pair),
		cmocka_unit_test(test_rfc3339),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
