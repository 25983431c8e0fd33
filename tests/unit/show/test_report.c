// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The text report of a made-up session, against tests/golden/report.txt. After a change that is
 * meant, look at the difference and run `test_report --make tests/golden/report.txt`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/file.h"
#include "show/report.h"
#include "unit/record/fixture.h"

/* The report of @path, malloc'ed, with the path itself replaced by FILE. */
static char *report_of(const char *path, const struct sonde_reader_filter *f, unsigned slowest)
{
	struct sonde_report_opts opts = {.slowest = slowest};
	struct sonde_report *rep = NULL;
	struct sonde_reader *r = NULL;
	char *text = NULL, *at;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	assert_int_equal(sonde_reader_open(&r, path), 0);
	assert_int_equal(sonde_report_new(&rep, &opts), 0);
	assert_int_equal(sonde_reader_visit(r, f, sonde_report_visitor(rep)), 0);
	assert_int_equal(sonde_report_print(rep, out), 0);
	sonde_report_free(&rep);
	sonde_reader_free(&r);
	fclose(out);
	while ((at = strstr(text, path))) {
		memcpy(at, "FILE", 4);
		memmove(at + 4, at + strlen(path), strlen(at + strlen(path)) + 1);
	}
	return text;
}

static void test_golden(void **state)
{
	const char *path = fix_path("report");
	char *got, *want = NULL;

	(void)state;
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	got = report_of(path, NULL, 3);
	assert_int_equal(sonde_read_file("tests/golden/report.txt", &want, NULL), 0);
	assert_string_equal(got, want);
	free(got);
	free(want);
	fix_remove(path);
}

static void assert_says(const char *text, const char *words)
{
	if (strstr(text, words))
		return;
	print_error("'%s' is not in the report:\n", words);
	fputs(text, stderr);
	fail();
}

static void test_cut_short(void **state)
{
	const char *path = fix_path("cut");
	char *got;

	(void)state;
	assert_int_equal(fix_record(path, NULL, 30, false), 0);
	got = report_of(path, NULL, 1);
	assert_says(got, "17:28:30 to 17:29:00 UTC (30.0 s), NOT COMPLETE: cut short, or still "
			 "being written");
	free(got);
	fix_remove(path);
}

/* One counter, of a target that did nothing at first: no histogram says when recording began. */
static int record_idle_at_first(const char *path, bool say_start, double cpu_ns)
{
	static const struct sonde_metric_desc minflt = {"proc.minflt", "count", SONDE_COUNTER, ""};
	static const struct sonde_metric_desc user = {"proc.cpu_user", "ns", SONDE_COUNTER, ""};
	static const struct sonde_metric_desc sys = {"proc.cpu_sys", "ns", SONDE_COUNTER, ""};
	static const struct sonde_writer_opts opts;
	struct sonde_writer *w = NULL;
	const struct sonde_visitor *v;
	int err;

	fix_remove(path);
	err = sonde_writer_open(&w, path, &opts);
	if (err)
		return err;
	v = sonde_writer_visitor(w);
	err = fix_push_begin(v);
	if (!err && say_start)
		err = sonde_visit(v, start, FIX_MONO);
	for (unsigned t = 1; t <= 6 && !err; t++) {
		struct sonde_metric m = {.desc = &minflt, .label = "", .value = (t - 1) * 1000.0};

		m.ts_ns = FIX_MONO + t * SONDE_NS_PER_SEC;
		err = sonde_visit(v, metric, &m);
		m.desc = &sys;
		m.value = 0;
		err = err ? err : sonde_visit(v, metric, &m);
		m.desc = &user;
		m.value = t > 1 ? cpu_ns : 0;
		err = err ? err : sonde_visit(v, metric, &m);
		err = err ? err : sonde_visit(v, tick, m.ts_ns);
	}
	return err ? err : sonde_writer_close(&w);
}

static void test_first_interval_counts(void **state)
{
	struct sonde_reader_filter f = {.since_ns = FIX_REAL + 2 * SONDE_NS_PER_SEC,
					.rebase = true};
	const char *path = fix_path("idle");
	char *got;

	(void)state;
	assert_int_equal(record_idle_at_first(path, true, 3e9), 0);
	got = report_of(path, NULL, 1);
	assert_says(got, "17:28:30 to 17:28:36 UTC (6.00 s), NOT COMPLETE");
	assert_says(got, "CPU 3.00 s (3.00 s user, 0 ns system): 0.50 cores");
	free(got);
	got = report_of(path, &f, 1);
	assert_says(got, "17:28:32 to 17:28:36 UTC (4.00 s)");
	free(got);
	f.since_ns = FIX_REAL + 100;
	got = report_of(path, &f, 1);
	assert_says(got, "17:28:30 to 17:28:36 UTC (6.00 s)");
	free(got);
	/* Of an older version: it is not known to have begun before its first tick. */
	assert_int_equal(record_idle_at_first(path, false, 48.8e6), 0);
	got = report_of(path, NULL, 1);
	assert_says(got, "17:28:31 to 17:28:36 UTC (5.00 s)");
	/* Too little for ticks to tell user from system. */
	assert_says(got, "CPU 48.8 ms: 0.01 cores");
	free(got);
	fix_remove(path);
}

/* Counters and drops count from --since, and latency is that of the traces there; where those are
 * not kept, the histograms stand apart and say their time. The one of 250 ms is before. */
static void test_since(void **state)
{
	struct sonde_reader_filter f = {.since_ns = FIX_REAL + 71 * SONDE_NS_PER_SEC,
					.rebase = true};
	const char *path = fix_path("since");
	char *got;

	(void)state;
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	got = report_of(path, &f, 1);
	assert_says(got, "CPU 9.50 s (7.60 s user, 1.90 s system): 0.50 cores");
	assert_says(got, "Queries 380 (20/s)");
	assert_says(got, "  max 1.80 ms\n  phases\n    queue wait         380  mean   20.0 us");
	assert_null(strstr(got, "UTC minute"));
	assert_null(strstr(got, "max 250 ms"));
	assert_says(got, "Query traces: 380 of 380 queries (--spans all)");
	assert_says(got, "malloc                         24,700 calls");
	assert_says(got, "DEGRADED query: no queue wait");
	assert_says(got, "Drops 0");
	free(got);
	fix_remove(path);
}

static void test_since_no_spans(void **state)
{
	struct sonde_reader_filter f = {.since_ns = FIX_REAL + 71 * SONDE_NS_PER_SEC,
					.rebase = true};
	struct sonde_writer_opts opts = {.spans = {SONDE_SPANS_NONE, 0}};
	const char *path = fix_path("sincenone");
	char *got;

	(void)state;
	assert_int_equal(fix_record(path, &opts, FIX_TICKS, true), 0);
	got = report_of(path, &f, 1);
	assert_says(got,
		    "Queries 380 (20/s)\n  distributions are kept by the UTC minute; these, and "
		    "their counts, are of 2026-11-30 17:29:00 to 17:30:00\n"
		    "    query.latency                  1,200"
		    "  mean ");
	free(got);
	fix_remove(path);
}

static void test_no_spans(void **state)
{
	struct sonde_writer_opts opts = {.spans = {SONDE_SPANS_NONE, 0}};
	const char *path = fix_path("nospans");
	char *got;

	(void)state;
	assert_int_equal(fix_record(path, &opts, FIX_TICKS, true), 0);
	got = report_of(path, NULL, 1);
	assert_says(got, "Queries 1,800 (20/s)  mean 1.59 ms");
	assert_says(got, "Query traces: none of 1,800 queries (--spans none)");
	free(got);
	fix_remove(path);
}

/* The filter is named; the total is what was seen, not what came to the writer. */
static void test_slower_than(void **state)
{
	struct sonde_writer_opts opts = {.slower_than_ns = 5 * SONDE_NS_PER_MS};
	const char *path = fix_path("slower");
	char *got;

	(void)state;
	assert_int_equal(fix_record(path, &opts, 30, true), 0);
	got = report_of(path, NULL, 1);
	assert_says(got, "Query traces: 600 of 600 queries (--spans all, only those of 5.00 ms or "
			 "more: --slower-than)");
	assert_null(strstr(got, "against the middle"));
	free(got);
	fix_remove(path);
}

/* Nothing but a beginning: no figure is made up. */
static void test_empty(void **state)
{
	const char *path = fix_path("empty");
	char *got;

	(void)state;
	assert_int_equal(fix_record(path, NULL, 0, false), 0);
	got = report_of(path, NULL, 1);
	assert_says(got, "nothing was recorded in this time; NOT COMPLETE");
	assert_null(strstr(got, "RSS 0"));
	assert_null(strstr(got, "nan"));
	free(got);
	fix_remove(path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_first_interval_counts),
		cmocka_unit_test(test_since),
		cmocka_unit_test(test_no_spans),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_slower_than),
		cmocka_unit_test(test_since_no_spans),
	};

	if (argc == 3 && !strcmp(argv[1], "--make")) {
		const char *path = fix_path("make");
		char *text;
		FILE *f;

		fix_record(path, NULL, FIX_TICKS, true);
		text = report_of(path, NULL, 3);
		f = fopen(argv[2], "w");
		fputs(text, f);
		fclose(f);
		free(text);
		fix_remove(path);
		return 0;
	}
	return cmocka_run_group_tests_name("show/report", tests, NULL, NULL);
}
