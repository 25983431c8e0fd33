// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recordings of every schema version so far (tests/golden/recording-vN.sonde, made by this program
 * with `test_golden --make FILE`) are read for ever: each is the fixture's first 12 ticks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "record/schema.h"
#include "unit/record/fixture.h"

#define TICKS 12

static void test_every_version(void **state)
{
	struct fix_log want;

	(void)state;
	fix_log_init(&want);
	assert_int_equal(fix_push(&want.visitor, TICKS, true), 0);
	for (int version = 1; version <= SONDE_RECORD_SCHEMA; version++) {
		struct sonde_reader *r = NULL;
		struct fix_log got;
		char path[64];

		fix_log_init(&got);
		snprintf(path, sizeof(path), "tests/golden/recording-v%d.sonde", version);
		assert_int_equal(sonde_reader_open(&r, path), 0);
		assert_int_equal(sonde_reader_visit(r, NULL, &got.visitor), 0);
		assert_true(sonde_reader_complete(r));
		assert_string_equal(got.spans.s, want.spans.s);
		assert_string_equal(got.metrics.s, want.metrics.s);
		assert_string_equal(got.notes.s, want.notes.s);
		assert_memory_equal(got.hist.buckets, want.hist.buckets,
				    SONDE_HIST_BUCKETS * sizeof(*want.hist.buckets));
		sonde_reader_free(&r);
		fix_log_fini(&got);
	}
	fix_log_fini(&want);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_version)};

	if (argc == 3 && !strcmp(argv[1], "--make"))
		return fix_record(argv[2], NULL, TICKS, true) ? 1 : 0;
	return cmocka_run_group_tests_name("record/golden", tests, NULL, NULL);
}
