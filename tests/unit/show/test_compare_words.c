// SPDX-License-Identifier: GPL-2.0-or-later
/* What a comparison calls its rows and settings. */
#include "unit/unit.h"

#include "show/compare_words.h"

static void assert_words(const char *name, const char *label, const char *figure, const char *words)
{
	const struct sonde_compare_row row = {.name = name, .label = label, .figure = figure};
	char buf[128];

	assert_string_equal(sonde_compare_words(&row, buf, sizeof(buf)), words);
}

static void test_rows(void **state)
{
	(void)state;
	assert_words("rss.held_system", "2048kB", "level",
		     "system: huge pages mapped in part, 2048kB");
	assert_words("fault.count", "kernel_shmem.minor", "per s",
		     "faults: shared memory, in system calls, per s");
	assert_words("fault.count", "", "per query", "faults, per query");
	assert_words("rss.memcg_anon", "v1", "level", "cgroup: anonymous");
	assert_words("rss.file_ext", ".so", "level", "files named *.so");
	assert_words("alloc.free", "lists", "level", "free in the allocator, in lists");
	assert_words("stall.time", "", "per s", "off the CPU, per s");
	/* A new lens keeps its names. */
	assert_words("new.figure", "x", "p99", "new.figure x, p99");
}

static void test_settings(void **state)
{
	(void)state;
	assert_string_equal(sonde_compare_setting_words("run.thp_disable"),
			    "huge pages of the process");
	assert_string_equal(sonde_compare_setting_value("run.thp_disable", "1"), "off");
	assert_string_equal(sonde_compare_setting_value("run.thp_disable", "3"),
			    "only where advised");
	assert_string_equal(sonde_compare_setting_value("run.thp_disable", "17"), "17");
	assert_string_equal(sonde_compare_setting_value("kernel.release", NULL), "not set");
	assert_string_equal(sonde_compare_setting_words("kernel.release"), "kernel.release");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
