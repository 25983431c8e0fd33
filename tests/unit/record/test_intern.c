// SPDX-License-Identifier: GPL-2.0-or-later
/* Interning: ids in order of first sight, through every growth of the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "record/intern.h"

#define MANY 20000

static void test_strings(void **state)
{
	struct sonde_intern in = {0};
	char key[32];
	uint32_t id;
	bool added;

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < MANY; i++) {
			snprintf(key, sizeof(key), "10.0.0.1:%u", i);
			assert_int_equal(sonde_intern_get(&in, key, strlen(key), &id, &added), 0);
			assert_int_equal(id, i + 1);
			assert_int_equal(added, round == 0);
		}
	}
	assert_int_equal(in.n, MANY);
	sonde_intern_fini(&in);
}

/* A key is its bytes: one that begins another, or holds a NUL, is its own. */
static void test_bytes(void **state)
{
	static const struct {
		const char *key;
		size_t len;
	} keys[] = {{"ab", 2}, {"abc", 3}, {"ab\0c", 4}, {"ab\0d", 4}, {"", 0}};
	struct sonde_intern in = {0};
	uint32_t id;
	bool added;

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(sonde_intern_get(&in, keys[i].key, keys[i].len, &id, &added), 0);
		assert_true(added);
		assert_int_equal(id, i + 1);
	}
	sonde_intern_fini(&in);
}

static void test_ids(void **state)
{
	struct sonde_idset set = {0};

	(void)state;
	for (int round = 0; round < 2; round++)
		for (uint64_t i = 1; i <= MANY; i++)
			assert_int_equal(sonde_idset_add(&set, i << 32 | i), round == 0);
	assert_int_equal(sonde_idset_add(&set, UINT64_MAX), 1);
	assert_int_equal(sonde_idset_add(&set, UINT64_MAX), 0);
	assert_int_equal(set.n, MANY + 1);
	sonde_idset_fini(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_ids),
	};

	return cmocka_run_group_tests_name("record/intern", tests, NULL, NULL);
}
