// SPDX-License-Identifier: GPL-2.0-or-later
/* A recording that something else cuts off or writes to while it grows: one sentence and a failure,
 * never a crash and never a success that was none. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "unit/unit.h"
/* cmocka first */
#include "record/writer.h"
#include "unit/record/fixture.h"

/* Any file of the recording cut off, whether or not something was in it: noticed at the next tick,
 * or at the end, before a success is claimed. What SQLite would do with what is left cannot kill
 * either. */
static void test_cut_off(void **state)
{
	static const char *const endings[] = {"", "-wal", "-shm"};
	const char *path = fix_path("cut");
	char name[300], said[512];

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct sonde_writer_opts opts = {0};
		struct sonde_writer *w = NULL;
		const struct sonde_visitor *v;
		FILE *err_out;
		int saved, err;

		fix_remove(path);
		assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
		v = sonde_writer_visitor(w);
		assert_int_equal(fix_push(v, 5, false), 0);
		snprintf(name, sizeof(name), "%s%s", path, endings[i % 3]);
		saved = capture_begin(&err_out);
		assert_int_equal(truncate(name, 0), 0);
		err = i < 3 ? fix_push(v, 5, false) : sonde_visit(v, end, NULL);
		sonde_writer_close(&w);
		capture_end(saved, err_out, said, sizeof(said));
		assert_int_equal(err, -ESTALE);
		assert_non_null(strstr(said, "was cut off by something else"));
		assert_non_null(strstr(said, name));
		assert_string_equal(strchr(said, '\n'), "\n");
	}
	fix_remove(path);
}

/* A hole that was filled again before anybody looked: the file itself is asked at the end. */
static void test_damaged_at_the_end(void **state)
{
	const char *path = fix_path("hole");
	struct sonde_writer_opts opts = {0};
	struct sonde_writer *w = NULL;
	char said[512], zeros[4096] = {0};
	FILE *err_out, *f;
	int saved, err;

	(void)state;
	fix_remove(path);
	assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
	assert_int_equal(fix_push(sonde_writer_visitor(w), 5, true), 0);
	f = fopen(path, "r+");
	assert_int_equal(fseek(f, 4096 * 3, SEEK_SET), 0);
	assert_int_equal(fwrite(zeros, sizeof(zeros), 1, f), 1);
	fclose(f);
	saved = capture_begin(&err_out);
	err = sonde_writer_close(&w);
	capture_end(saved, err_out, said, sizeof(said));
	assert_int_equal(err, -EBADMSG);
	assert_non_null(strstr(said, "is damaged"));
	assert_string_equal(strchr(said, '\n'), "\n");
	fix_remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_off),
		cmocka_unit_test(test_damaged_at_the_end),
	};

	return cmocka_run_group_tests_name("record/cut_off", tests, NULL, NULL);
}
