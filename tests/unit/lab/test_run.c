// SPDX-License-Identifier: GPL-2.0-or-later
/* What a setting is made of, and what is refused before anything is started. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/log.h"
#include "core/mem.h"
#include "lab/library.h"
#include "lab/run.h"

static int make(const struct sonde_run_setting *setting, char *library, size_t size)
{
	struct sonde_run *run = NULL;
	int err = sonde_run_new(&run, setting);

	if (!err)
		snprintf(library, size, "%s", sonde_run_library(run));
	else
		assert_null(run);
	sonde_run_free(&run);
	return err;
}

static void test_allocators(void **state)
{
	struct sonde_run_setting set = {0};
	char library[512], want[512], real[4096];

	(void)state;
	assert_int_equal(make(&set, library, sizeof(library)), 0);
	assert_string_equal(library, "");
	set.alloc = "system";
	assert_int_equal(make(&set, library, sizeof(library)), 0);
	assert_string_equal(library, "");
	set.alloc = "jemalloc";
	if (!sonde_library_find("libjemalloc.so.2", want, sizeof(want))) {
		assert_int_equal(make(&set, library, sizeof(library)), 0);
		assert_non_null(realpath(want, real));
		assert_string_equal(library, real);
	} else {
		assert_int_equal(make(&set, library, sizeof(library)), -ENOENT);
	}
}

static void test_refused(void **state)
{
	static const char *const no_equals[] = {"NAME"}, *const no_name[] = {"=value"};
	const struct sonde_run_setting bad[] = {
		{.alloc = "nomalloc"},
		{.alloc = "libjemalloc.so.2"}, /* neither a name nor a path */
		{.alloc = "/etc/passwd"},
		{.alloc = "/etc"},
		{.alloc = "/lib/x86_64-linux-gnu/libm.so.6"}, /* no malloc in it */
		{.env = no_equals, .n_env = 1},
		{.env = no_name, .n_env = 1},
	};
	const struct sonde_run_setting missing = {.alloc = "/nonexistent/lib.so"};
	char library[64];

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(bad); i++)
		assert_int_equal(make(&bad[i], library, sizeof(library)), -EINVAL);
	assert_int_equal(make(&missing, library, sizeof(library)), -ENOENT);
}

/* The allocator's own settings go to one variable, where it has one. */
static void test_conf(void **state)
{
	struct sonde_run_setting set = {.alloc_conf = "thp:never", .alloc = "tcmalloc"};
	char library[512], path[512];
	int err = make(&set, library, sizeof(library));

	(void)state;
	assert_int_equal(err,
			 sonde_library_find("libtcmalloc_minimal.so.4", path, sizeof(path)) &&
					 sonde_library_find("libtcmalloc.so.4", path, sizeof(path))
				 ? -ENOENT
				 : -EINVAL);
	set.alloc = "system";
	assert_int_equal(make(&set, library, sizeof(library)), 0);
}

static int quiet(void **state)
{
	(void)state;
	sonde_log_set_level(SONDE_LOG_ERROR - 1);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allocators),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_conf),
	};

	return cmocka_run_group_tests(tests, quiet, NULL);
}
