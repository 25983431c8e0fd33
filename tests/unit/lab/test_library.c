// SPDX-License-Identifier: GPL-2.0-or-later
/* The dynamic linker's cache: made-up ones, damaged ones, and this machine's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/mem.h"
#include "lab/library.h"

#define HEADER 48
#define ENTRY  24

/* A cache of two libraries: for i386 first, which must not be taken. */
static size_t make_cache(char *buf)
{
	static const char text[] = "libx.so.1\0/lib32/libx.so.1\0/lib64/libx.so.1";
	const uint32_t strings = HEADER + 2 * ENTRY;
	uint32_t counts[2] = {2, sizeof(text)};
	struct {
		int32_t flags;
		uint32_t key, value, os;
		uint64_t hwcap;
	} entries[2] = {{0x0003, strings, strings + 10, 0, 0},
			{0x0303, strings, strings + 27, 0, 0}};

	memset(buf, 0, HEADER);
	memcpy(buf, "glibc-ld.so.cache1.1", 20);
	memcpy(buf + 20, counts, sizeof(counts));
	memcpy(buf + HEADER, entries, sizeof(entries));
	memcpy(buf + strings, text, sizeof(text));
	return strings + sizeof(text);
}

static void test_found(void **state)
{
	char cache[512], path[64] = "";
	size_t len = make_cache(cache);

	(void)state;
	assert_int_equal(sonde_library_in_cache(cache, len, "libx.so.1", path, sizeof(path)), 0);
	assert_string_equal(path, "/lib64/libx.so.1");
	assert_int_equal(sonde_library_in_cache(cache, len, "libx.so", path, sizeof(path)),
			 -ENOENT);
	assert_int_equal(sonde_library_in_cache(cache, len, "libx.so.1", path, 8), -ENAMETOOLONG);
	assert_string_equal(path, "/lib64/libx.so.1");
}

/* An older table in front of it: offsets count from the newer header. */
static void test_after_old_table(void **state)
{
	char cache[600], path[64] = "";
	size_t len;

	(void)state;
	memset(cache, 0, 64);
	memcpy(cache, "ld.so-1.7.0", 11);
	len = 64 + make_cache(cache + 64);
	assert_int_equal(sonde_library_in_cache(cache, len, "libx.so.1", path, sizeof(path)), 0);
	assert_string_equal(path, "/lib64/libx.so.1");
}

/* Cut anywhere, and with any byte of its tables changed, it is read within its bounds: the
 * sanitizers watch, since the buffer is exactly as long as the cache. */
static void test_damaged(void **state)
{
	char cache[512], path[64];
	size_t len = make_cache(cache);

	(void)state;
	for (size_t cut = 0; cut < len; cut++) {
		char *copy = malloc(cut ? cut : 1);

		memcpy(copy, cache, cut);
		assert_int_not_equal(
			sonde_library_in_cache(copy, cut, "libx.so.1", path, sizeof(path)), 0);
		free(copy);
	}
	for (size_t at = 20; at < HEADER + 2 * ENTRY; at++) {
		char *copy = malloc(len);
		int err;

		memcpy(copy, cache, len);
		copy[at] = (char)0xff;
		err = sonde_library_in_cache(copy, len, "libx.so.1", path, sizeof(path));
		assert_true(!err || err == -ENOENT);
		free(copy);
	}
}

static void test_this_machine(void **state)
{
	char path[512];

	(void)state;
	assert_int_equal(sonde_library_find("libc.so.6", path, sizeof(path)), 0);
	assert_int_equal(access(path, R_OK), 0);
	assert_int_equal(sonde_library_find("libno-such-library.so.9", path, sizeof(path)),
			 -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_after_old_table),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
