// SPDX-License-Identifier: GPL-2.0-or-later
/* A span through a recording and back: what a stranger sent, what is not known, and each column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sqlite3.h>

#include "unit/record/fixture.h"

static int one_span(const char *path, const struct sonde_span *s)
{
	struct sonde_writer_opts opts = {0};
	struct sonde_writer *w = NULL;
	const struct sonde_visitor *v;
	int err, err2;

	fix_remove(path);
	err = sonde_writer_open(&w, path, &opts);
	if (err)
		return err;
	v = sonde_writer_visitor(w);
	err = fix_push_begin(v);
	if (!err)
		err = sonde_visit(v, span, s);
	if (!err)
		err = sonde_visit(v, tick, FIX_MONO + 1);
	err2 = sonde_writer_close(&w);
	return err ? err : err2;
}

/* Bytes of a stranger: invalid UTF-8, control characters, numbers at their ends. */
static void test_hostile_span(void **state)
{
	const char *path = fix_path("hostile");
	struct sonde_span s = {
		.conn = UINT64_MAX,
		.seq = UINT64_MAX,
		.bytes_in = INT64_MAX,
		.tid = UINT32_MAX,
		.start_ns = FIX_MONO,
		.last_ns = FIX_MONO + 5,
		.fingerprint_id = UINT64_MAX,
		.fingerprint = "a\xff\x01"
			       "b",
		.command = "q\xc3\x28",
		.client = "",
		.index = "\xf0\x9f\x98\x80",
		.text = "x\r\n\xed\xa0\x80y",
		.error = UINT32_MAX,
	};
	struct sonde_reader *r = NULL;
	struct fix_log log;

	(void)state;
	fix_log_init(&log);
	assert_int_equal(one_span(path, &s), 0);
	assert_int_equal(sonde_reader_open(&r, path), 0);
	assert_int_equal(sonde_reader_visit(r, NULL, &log.visitor), 0);
	sonde_reader_free(&r);
	assert_int_equal(log.n_spans, 1);
	assert_non_null(
		strstr(log.spans.s, "ffffffffffffffff 18446744073709551615 0 0 4294967295"));
	assert_non_null(strstr(log.spans.s, "'q\xef\xbf\xbd(' '' '\xf0\x9f\x98\x80' "
					    "'a\xef\xbf\xbd\xef\xbf\xbd"
					    "b' 'x\xef\xbf\xbd\n"));
	fix_log_fini(&log);
	fix_remove(path);
}

static int on_span(void *ctx, const struct sonde_span *s)
{
	*(struct sonde_span *)ctx = *s;
	return 0;
}

static const struct sonde_span plain = {
	.start_ns = FIX_MONO,
	.last_ns = FIX_MONO + 5,
	.command = "query",
	.client = "",
	.index = "",
	.fingerprint = "",
};

/* @s, written and read back; its strings are the reader's, and gone. */
static struct sonde_span round_trip(const char *name, const struct sonde_span *s)
{
	const char *path = fix_path(name);
	struct sonde_span got = {0};
	struct sonde_visitor visitor = {.ctx = &got, .span = on_span};
	struct sonde_reader *r = NULL;

	assert_int_equal(one_span(path, s), 0);
	assert_int_equal(sonde_reader_open(&r, path), 0);
	assert_int_equal(sonde_reader_visit(r, NULL, &visitor), 0);
	sonde_reader_free(&r);
	fix_remove(path);
	return got;
}

/* What the allocator counted, a known 0 included; and nothing where it is not known. */
static void test_heap_of_a_span(void **state)
{
	struct sonde_span s = plain, got;

	(void)state;
	s.heap_allocated = 1ull << 40;
	for (int known = 1; known >= 0; known--) {
		s.has_heap = known;
		got = round_trip("heap", &s);
		assert_int_equal(got.has_heap, known);
		assert_int_equal(got.heap_allocated, known ? 1ull << 40 : 0);
		assert_int_equal(got.heap_freed, 0);
	}
}

/* Every part and count goes to its own column and comes back; and nothing where none was seen. */
static void test_anatomy_of_a_span(void **state)
{
	struct sonde_span s = plain, got;

	(void)state;
	for (int i = 0; i < SONDE_PART__MAX; i++)
		s.part_ns[i] = 1000 + i;
	for (int i = 0; i < SONDE_PART_FAULTS; i++)
		s.fault_count[i] = 1 + i;
	for (int known = 1; known >= 0; known--) {
		s.has_parts = known;
		got = round_trip("anatomy", &s);
		assert_int_equal(got.has_parts, known);
		for (int i = 0; i < SONDE_PART__MAX; i++)
			assert_int_equal(got.part_ns[i], known ? 1000 + i : 0);
		for (int i = 0; i < SONDE_PART_FAULTS; i++)
			assert_int_equal(got.fault_count[i], known ? 1 + i : 0);
	}
}

/* The columns are named as the parts are, in their order. */
static void test_anatomy_columns(void **state)
{
	const char *path = fix_path("columns");
	sqlite3 *db = NULL;
	sqlite3_stmt *st = NULL;
	char want[64];

	(void)state;
	assert_int_equal(fix_record(path, NULL, 1, true), 0);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT * FROM anatomy", -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_column_count(st), 1 + SONDE_PART__MAX + SONDE_PART_FAULTS);
	for (int i = 0; i < SONDE_PART__MAX; i++) {
		snprintf(want, sizeof(want), "%s_ns", sonde_part_name(i));
		assert_string_equal(sqlite3_column_name(st, 1 + i), want);
	}
	for (int i = 0; i < SONDE_PART_FAULTS; i++) {
		snprintf(want, sizeof(want), "%s_count",
			 sonde_part_name(SONDE_PART_FAULT_BASE + i));
		assert_string_equal(sqlite3_column_name(st, 1 + SONDE_PART__MAX + i), want);
	}
	sqlite3_finalize(st);
	sqlite3_close(db);
	fix_remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile_span),
		cmocka_unit_test(test_heap_of_a_span),
		cmocka_unit_test(test_anatomy_of_a_span),
		cmocka_unit_test(test_anatomy_columns),
	};

	return cmocka_run_group_tests_name("record/spans", tests, NULL, NULL);
}
