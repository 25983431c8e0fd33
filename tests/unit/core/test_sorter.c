// SPDX-License-Identifier: GPL-2.0-or-later
/* The external sort against a plain one: in memory, in many runs, with large and empty records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>

#include "core/mem.h"
#include "core/sorter.h"

#define N 5000

struct item {
	struct sonde_sort_key key;
	uint32_t number;
	uint32_t len;
};

static struct item items[N];
static char data[200000];

static int by_key(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	for (int i = 0; i < 4; i++)
		if (x->key.k[i] != y->key.k[i])
			return x->key.k[i] < y->key.k[i] ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Few different keys, so that the order of arrival decides often. */
static void make_items(void)
{
	uint32_t x = 12345;

	for (uint32_t i = 0; i < N; i++) {
		for (int k = 0; k < 4; k++) {
			x = x * 1664525 + 1013904223;
			items[i].key.k[k] = k == 1 ? (uint64_t)(x >> 30) << 60 : x >> 30;
		}
		items[i].number = i;
		items[i].len = i % 1000 == 7 ? 150000 : i % 97;
	}
}

static void check_sorted(size_t memory, size_t least_runs)
{
	struct sonde_sorter *s = NULL;
	struct sonde_sort_record r;

	make_items();
	assert_int_equal(sonde_sorter_new(&s, memory), 0);
	for (uint32_t i = 0; i < N; i++) {
		memset(data, (int)(i & 0xff), sizeof(data));
		memcpy(data, &i, sizeof(i));
		assert_int_equal(sonde_sorter_add(s, &items[i].key, data,
						  items[i].len < 4 ? 4 : items[i].len),
				 0);
	}
	qsort(items, N, sizeof(items[0]), by_key);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t number, len = items[i].len < 4 ? 4 : items[i].len;

		assert_int_equal(sonde_sorter_next(s, &r), 1);
		memcpy(&number, r.data, sizeof(number));
		assert_int_equal(number, items[i].number);
		assert_int_equal(r.len, len);
		assert_int_equal((uintptr_t)r.data % 8, 0);
		assert_memory_equal(&r.key, &items[i].key, sizeof(r.key));
		if (len > 4)
			assert_int_equal(((const unsigned char *)r.data)[len - 1], number & 0xff);
	}
	assert_int_equal(sonde_sorter_next(s, &r), 0);
	assert_int_equal(sonde_sorter_next(s, &r), 0);
	assert_true(sonde_sorter_runs(s) >= least_runs);
	sonde_sorter_free(&s);
	assert_null(s);
}

static void test_in_memory(void **state)
{
	(void)state;
	check_sorted(64 << 20, 0);
}

static void test_in_runs(void **state)
{
	(void)state;
	check_sorted(1 << 20, 2);
	check_sorted(16 << 10, 20);
	check_sorted(1, N); /* each record alone is too large */
}

static void test_empty(void **state)
{
	struct sonde_sorter *s = NULL;
	struct sonde_sort_record r;

	(void)state;
	assert_int_equal(sonde_sorter_new(&s, 1000), 0);
	assert_int_equal(sonde_sorter_next(s, &r), 0);
	sonde_sorter_free(&s);
	sonde_sorter_free(&s);
}

/* The temporary file cannot be made: said, and an error; the sorter can still be freed. */
static void test_no_directory(void **state)
{
	struct sonde_sort_key key = {{1}};
	struct sonde_sorter *s = NULL;

	(void)state;
	setenv("TMPDIR", "/nonexistent/sonde", 1);
	assert_int_equal(sonde_sorter_new(&s, 1), 0);
	assert_int_equal(sonde_sorter_add(s, &key, "x", 1), 0);
	assert_int_equal(sonde_sorter_add(s, &key, "y", 1), -ENOENT);
	sonde_sorter_free(&s);
	unsetenv("TMPDIR");
}

/* Nothing is left behind in the directory, not even while it is used. */
static void test_no_name(void **state)
{
	char dir[] = "/tmp/sonde-sorter-XXXXXX";
	struct sonde_sort_key key = {{1}};
	struct sonde_sorter *s = NULL;
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	(void)state;
	assert_non_null(mkdtemp(dir));
	setenv("TMPDIR", dir, 1);
	assert_int_equal(sonde_sorter_new(&s, 1), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(sonde_sorter_add(s, &key, "x", 1), 0);
	assert_true(sonde_sorter_runs(s) > 0);
	d = opendir(dir);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	assert_int_equal(n, 0);
	sonde_sorter_free(&s);
	unsetenv("TMPDIR");
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_memory), cmocka_unit_test(test_in_runs),
		cmocka_unit_test(test_empty),	  cmocka_unit_test(test_no_directory),
		cmocka_unit_test(test_no_name),
	};

	return cmocka_run_group_tests_name("core/sorter", tests, NULL, NULL);
}
