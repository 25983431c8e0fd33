// SPDX-License-Identifier: GPL-2.0-or-later
/* What exporters make of hostile text, missing values and outputs that cannot be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>

#include "core/mem.h"
#include "export/columns.h"
#include "export/export.h"

static const struct sonde_clockpair clock_pair = {1000, 1796059710ull * SONDE_NS_PER_SEC + 1000};

/* Export one span; the text is malloc'ed. */
static char *export_span(const char *format, const struct sonde_span *s)
{
	struct sonde_meta meta = {0};
	struct sonde_export *x = NULL;
	const struct sonde_visitor *v;
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	sonde_meta_set_clock(&meta, &clock_pair);
	assert_int_equal(sonde_export_open(&x, format, NULL, f), 0);
	v = sonde_export_visitor(x);
	assert_int_equal(sonde_visit(v, begin, &meta), 0);
	assert_int_equal(sonde_visit(v, span, s), 0);
	assert_int_equal(sonde_visit(v, end, &meta), 0);
	assert_int_equal(sonde_export_close(&x), 0);
	fclose(f);
	sonde_meta_fini(&meta);
	return text;
}

/* The cell in RFC 4180 form, between its commas. */
static void test_csv_text(void **state)
{
	static const struct {
		const char *text, *cell;
	} rows[] = {
		{"plain", ",plain,"},
		{"=1+1", ",'=1+1,"},
		{"+1", ",'+1,"},
		{"-1", ",'-1,"},
		{"@SUM(A1)", ",'@SUM(A1),"},
		{"\tx", ",\"'\tx\","},
		{"\rx", ",'\xef\xbf\xbdx,"},
		{"a,b", ",\"a,b\","},
		{"say \"hi\"", ",\"say \"\"hi\"\"\","},
		{"=HYPERLINK(\"x\",\"y\")", ",\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\","},
		{"two\nlines", ",\"two\nlines\","},
		{"bad\xff", ",bad\xef\xbf\xbd,"},
		{"a=b", ",a=b,"},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		struct sonde_span s = {.command = "",
				       .client = "",
				       .index = "",
				       .fingerprint = rows[i].text,
				       .start_ns = 2000,
				       .last_ns = 5000};
		char *got = export_span("csv", &s);

		if (!strstr(got, rows[i].cell))
			fail_msg("%s is not in: %s", rows[i].cell, got);
		free(got);
	}
}

/* Every column once: what is not known is empty, and a known 0 (fault_ns) is 0. */
static void test_csv_row(void **state)
{
	static const char want[] =
		"target,pid,tid,connection_id,seq,client,protocol,command,command_id,index,status,"
		"error_code,statements,arrival_utc,start_utc,request_end_utc,first_byte_utc,last_"
		"byte_utc,"
		"duration_ns,wait_ns,service_ns,send_ns,request_bytes,response_bytes,alloc_bytes,"
		"alloc_calls,heap_allocated_bytes,heap_freed_bytes,faults,fault_ns,handler_utc,"
		"found_rows,handler_wall_ms,handler_hits,"
		"fingerprint_id,fingerprint,text,text_full_bytes,flags"
		",part_queued_ns,part_user_ns,part_fault_base_ns,part_fault_mthp_ns"
		",part_fault_pmd_ns,part_fault_cow_ns,part_fault_file_ns"
		",part_fault_swap_ns,part_fault_other_ns,part_reclaim_ns"
		",part_compaction_ns,part_sys_madvise_ns,part_sys_munmap_ns"
		",part_sys_mmap_ns,part_sys_brk_ns,part_sys_other_ns,part_runqueue_ns"
		",part_off_mmap_lock_ns,part_off_alloc_lock_ns,part_off_lock_ns"
		",part_off_io_ns,part_off_socket_ns,part_off_sleep_ns,part_off_other_ns"
		",part_unattributed_ns\n"
		"1,12,13,0x00000000000000ff,4,unix,mysql,query,3,,ok,,1,,2026-11-30T17:28:30."
		"001000Z,,"
		"2026-11-30T17:28:30.003000Z,2026-11-30T17:28:30.004500Z,3500000,,2000000,1500000,"
		"20,30,,"
		",4096,0,7,0,,,,,0x8000000000000001,SELECT ?,,15,no_wait|unix"
		",0,3000000,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,500000\n";
	struct sonde_span s = {
		.target = 1,
		.pid = 12,
		.tid = 13,
		.conn = 255,
		.seq = 4,
		.client = "unix",
		.proto = SONDE_PROTO_MYSQL,
		.has_heap = true,
		.heap_allocated = 4096,
		.command = "query",
		.command_id = 3,
		.index = "",
		.statements = 1,
		.start_ns = 1000000,
		.first_ns = 3000000,
		.last_ns = 4500000,
		.bytes_in = 20,
		.bytes_out = 30,
		.has_faults = true,
		.faults = 7,
		.flags = SONDE_SPAN_F_NO_WAIT | SONDE_SPAN_F_UNIX,
		.fingerprint_id = 0x8000000000000001ull,
		.fingerprint = "SELECT ?",
		.request_len = 15,
		.has_parts = true,
		.part_ns = {[SONDE_PART_USER] = 3000000, [SONDE_PART_UNATTRIBUTED] = 500000},
	};
	char *got = export_span("csv", &s);

	(void)state;
	assert_string_equal(got, want);
	free(got);
}

static void test_jsonl_text(void **state)
{
	struct sonde_span s = {.command = "\xff",
			       .client = "a\"\\\n",
			       .index = "",
			       .fingerprint = "\xed\xa0\x80",
			       .conn = UINT64_MAX,
			       .bytes_in = UINT64_MAX,
			       .start_ns = 2000,
			       .last_ns = 5000};
	char *got = export_span("jsonl", &s), *second = strchr(got, '\n') + 1;
	json_t *o = json_loads(second, JSON_DISABLE_EOF_CHECK, NULL);

	(void)state;
	assert_non_null(o);
	assert_string_equal(json_string_value(json_object_get(o, "command")), "\xef\xbf\xbd");
	assert_string_equal(json_string_value(json_object_get(o, "client")), "a\"\\\n");
	assert_string_equal(json_string_value(json_object_get(o, "connection_id")),
			    "0xffffffffffffffff");
	assert_true(json_is_real(json_object_get(o, "request_bytes")));
	assert_null(json_object_get(o, "index"));
	assert_null(json_object_get(o, "arrival_utc"));
	assert_int_equal(json_integer_value(json_object_get(o, "duration_ns")), 3000);
	json_decref(o);
	free(got);
}

static void test_table_is_filled(void **state)
{
	(void)state;
	assert_true(sonde_exporter_count >= 2);
	for (size_t i = 0; i < sonde_exporter_count; i++) {
		const struct sonde_exporter *e = sonde_exporters[i];

		assert_non_null(e->name);
		assert_non_null(e->summary);
		assert_non_null(e->suffix);
		assert_non_null(e->open);
		assert_true(e->takes);
		assert_ptr_equal(sonde_exporter_find(e->name), e);
	}
	assert_null(sonde_exporter_find("xls"));
}

static void test_unknown_format(void **state)
{
	struct sonde_export *x = NULL;

	(void)state;
	assert_int_equal(sonde_export_open(&x, "xls", NULL, stdout), -EINVAL);
	assert_null(x);
}

static void test_full_device(void **state)
{
	struct sonde_span s = {.command = "", .client = "", .index = "", .fingerprint = ""};
	struct sonde_meta meta = {0};
	struct sonde_export *x = NULL;
	FILE *f = fopen("/dev/full", "w");
	int err = 0;

	(void)state;
	sonde_meta_set_clock(&meta, &clock_pair);
	assert_int_equal(sonde_export_open(&x, "csv", NULL, f), 0);
	sonde_visit(sonde_export_visitor(x), begin, &meta);
	for (int i = 0; i < 1000 && !err; i++)
		err = sonde_visit(sonde_export_visitor(x), span, &s);
	assert_int_equal(err, -ENOSPC);
	assert_int_not_equal(sonde_export_close(&x), 0);
	fclose(f);
	sonde_meta_fini(&meta);
}

static void test_doubles(void **state)
{
	static const double values[] = {0,	1,  -1, 0.1, 1.0 / 3, 1e300, 123456789012345.0,
					5e-324, 2.5};
	char buf[40];

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(values); i++)
		assert_true(strtod(sonde_fmt_double(buf, sizeof(buf), values[i]), NULL) ==
			    values[i]);
	assert_string_equal(sonde_fmt_double(buf, sizeof(buf), 0.1), "0.1");
	assert_string_equal(sonde_fmt_double(buf, sizeof(buf), 1e15), "1000000000000000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_csv_text),       cmocka_unit_test(test_csv_row),
		cmocka_unit_test(test_jsonl_text),     cmocka_unit_test(test_table_is_filled),
		cmocka_unit_test(test_unknown_format), cmocka_unit_test(test_full_device),
		cmocka_unit_test(test_doubles),
	};

	return cmocka_run_group_tests_name("export/formats", tests, NULL, NULL);
}
