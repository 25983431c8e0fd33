// SPDX-License-Identifier: GPL-2.0-or-later
/* What goes into a recording comes out of it again: every field, in order, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/record/fixture.h"

static int visit(const char *path, const struct sonde_reader_filter *f, struct fix_log *log)
{
	struct sonde_reader *r = NULL;
	int err = sonde_reader_open(&r, path);

	if (!err)
		err = sonde_reader_visit(r, f, &log->visitor);
	sonde_reader_free(&r);
	return err;
}

static void test_round_trip(void **state)
{
	const char *path = fix_path("round");
	struct fix_log in, out;

	(void)state;
	fix_log_init(&in);
	fix_log_init(&out);
	assert_int_equal(fix_push(&in.visitor, FIX_TICKS, true), 0);
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	assert_int_equal(visit(path, NULL, &out), 0);

	assert_int_equal(out.n_spans, FIX_TICKS * FIX_SPANS_PER_TICK);
	assert_string_equal(in.spans.s, out.spans.s);
	assert_string_equal(in.metrics.s, out.metrics.s);
	assert_string_equal(in.notes.s, out.notes.s);
	assert_string_equal(in.ticks.s, out.ticks.s);
	/* 90 ticks say 0, 1, 2, of which only the changes are kept. */
	assert_string_equal(out.drops.s, "query no_entry 0\nquery no_entry 1\nquery no_entry 2\n");
	assert_int_equal(out.n_ends, 1);
	fix_log_fini(&in);
	fix_log_fini(&out);
	fix_remove(path);
}

static void test_histograms_merge_exactly(void **state)
{
	const char *path = fix_path("hist");
	struct fix_log in, out;

	(void)state;
	fix_log_init(&in);
	fix_log_init(&out);
	assert_int_equal(fix_push(&in.visitor, FIX_TICKS, true), 0);
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	assert_int_equal(visit(path, NULL, &out), 0);
	assert_int_equal(in.n_hists, FIX_TICKS);
	/* 17:28:30 to 17:30:00 touches two UTC minutes. */
	assert_int_equal(out.n_hists, 2);
	assert_memory_equal(in.hist.buckets, out.hist.buckets,
			    SONDE_HIST_BUCKETS * sizeof(*in.hist.buckets));
	assert_int_equal(in.hist.count, out.hist.count);
	assert_int_equal(in.hist.min, out.hist.min);
	assert_int_equal(in.hist.max, out.hist.max);
	assert_true(in.hist.sum == out.hist.sum);
	fix_log_fini(&in);
	fix_log_fini(&out);
	fix_remove(path);
}

static void test_meta_and_times(void **state)
{
	const char *path = fix_path("meta");
	struct sonde_reader *r = NULL;
	const struct sonde_meta *m;

	(void)state;
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	assert_int_equal(sonde_reader_open(&r, path), 0);
	m = sonde_reader_meta(r);
	assert_string_equal(sonde_meta_find(m, "kernel.release"), "6.1.0-18-amd64");
	assert_string_equal(sonde_meta_find(m, "complete"), "1");
	assert_string_equal(sonde_meta_find(m, "ended"), "duration");
	assert_string_equal(sonde_meta_find(m, "recording.spans"), "all");
	assert_string_equal(sonde_meta_find(m, "recording.spans_seen"), "1800");
	assert_string_equal(sonde_meta_find(m, "recording.spans_stored"), "1800");
	assert_true(sonde_reader_complete(r));
	assert_int_equal(sonde_reader_start_ns(r), FIX_REAL);
	assert_int_equal(sonde_reader_end_ns(r), FIX_REAL + FIX_TICKS * SONDE_NS_PER_SEC);
	sonde_reader_free(&r);
	fix_remove(path);
}

/* Ticks 31..60 end in [since, until]; spans of tick 31..59 and metrics of the same. */
static void test_since_until(void **state)
{
	const char *path = fix_path("filter");
	struct sonde_reader_filter f = {.since_ns = FIX_REAL + 30 * SONDE_NS_PER_SEC,
					.until_ns = FIX_REAL + 60 * SONDE_NS_PER_SEC};
	struct fix_log out;

	(void)state;
	fix_log_init(&out);
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	assert_int_equal(visit(path, &f, &out), 0);
	assert_int_equal(out.n_ticks, 30);
	assert_int_equal(out.n_spans, 30 * FIX_SPANS_PER_TICK);
	assert_int_equal(out.n_hists, 1);
	/* The count before the filter's start is taken off: 30 ticks after tick 30 add 1. */
	assert_string_equal(out.drops.s, "query no_entry 1\n");
	/* Of tick 11: it is earlier, but what it says of the figures still holds. */
	assert_non_null(out.notes.s);
	fix_log_fini(&out);
	fix_remove(path);
}

/* alloc.calls{malloc} grows by 1300 a tick; the tick before since has 29 x 1300. */
static void test_rebase(void **state)
{
	const char *path = fix_path("rebase");
	struct sonde_reader_filter f = {.since_ns = FIX_REAL + 31 * SONDE_NS_PER_SEC,
					.rebase = true};
	struct fix_log out;

	(void)state;
	fix_log_init(&out);
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	assert_int_equal(visit(path, &f, &out), 0);
	assert_non_null(strstr(out.metrics.s, " alloc.calls{malloc} count 1 0 1300 \n"));
	/* Gauges are levels and stay. */
	assert_non_null(strstr(out.metrics.s, " rss.total{} bytes 2 0 1000122880 \n"));
	fix_log_fini(&out);
	fix_remove(path);
}

/* The bounds grow to whole intervals; a tick that is only a little off is the one that was meant.
 */
static void test_rebase_window(void **state)
{
	static const struct {
		uint64_t since_ms, until_ms;
		unsigned ticks; /* one more than intervals */
		const char *first, *last;
	} rows[] = {
		{88000, 0, 3, "88", "90"},     {88020, 0, 3, "88", "90"},
		{87980, 0, 3, "88", "90"},     {87500, 0, 4, "87", "90"},
		{40000, 41000, 2, "40", "41"}, {39990, 41020, 2, "40", "41"},
		{40300, 40400, 2, "40", "41"}, {40980, 40990, 2, "40", "41"},
	};
	const char *path = fix_path("window");

	(void)state;
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		struct sonde_reader_filter f = {
			.since_ns = FIX_REAL + rows[i].since_ms * SONDE_NS_PER_MS,
			.until_ns = rows[i].until_ms ? FIX_REAL + rows[i].until_ms * SONDE_NS_PER_MS
						     : 0,
			.rebase = true};
		char line[64];
		struct fix_log out;

		fix_log_init(&out);
		assert_int_equal(visit(path, &f, &out), 0);
		assert_int_equal(out.n_ticks, rows[i].ticks);
		assert_int_equal(out.n_spans, (rows[i].ticks - 1) * FIX_SPANS_PER_TICK);
		snprintf(line, sizeof(line), "10%s000000000 after", rows[i].first);
		assert_non_null(strstr(out.ticks.s, line));
		snprintf(line, sizeof(line), "10%s000000000 query.spans{} count 1 0 %u ",
			 rows[i].last, (rows[i].ticks - 1) * FIX_SPANS_PER_TICK);
		assert_non_null(strstr(out.metrics.s, line));
		assert_int_equal(out.n_hists, 1);
		fix_log_fini(&out);
	}
	fix_remove(path);
}

static int longest_first(void *ctx, const struct sonde_span *s)
{
	uint64_t *last = ctx;

	assert_true(sonde_span_duration_ns(s) <= *last);
	*last = sonde_span_duration_ns(s);
	return 0;
}

static void test_slowest(void **state)
{
	const char *path = fix_path("slowest");
	struct sonde_reader_filter f = {.slowest = 5};
	struct fix_log out;
	uint64_t last = UINT64_MAX;
	struct sonde_visitor order = {.ctx = &last, .span = longest_first};
	struct sonde_reader *r = NULL;

	(void)state;
	fix_log_init(&out);
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	assert_int_equal(visit(path, &f, &out), 0);
	assert_int_equal(out.n_spans, 5);
	assert_int_equal(sonde_reader_open(&r, path), 0);
	assert_int_equal(sonde_reader_visit(r, &f, &order), 0);
	/* After span 777's 250 ms come 1.999 (once: 1999 is past the end), 1.998, 1.997, 1.996 ms.
	 */
	assert_int_equal(last, 1996000);
	sonde_reader_free(&r);
	fix_log_fini(&out);
	fix_remove(path);
}

static int fail_at_10(void *ctx, uint64_t ts)
{
	unsigned *n = ctx;

	(void)ts;
	return ++*n == 10 ? -EPIPE : 0;
}

static void test_hook_error_stops(void **state)
{
	const char *path = fix_path("stop");
	struct sonde_reader *r = NULL;
	unsigned n = 0;
	struct sonde_visitor v = {.ctx = &n, .tick = fail_at_10};

	(void)state;
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	assert_int_equal(sonde_reader_open(&r, path), 0);
	assert_int_equal(sonde_reader_visit(r, NULL, &v), -EPIPE);
	assert_int_equal(n, 10);
	/* The reader is usable after that. */
	assert_int_equal(sonde_reader_visit(r, NULL, &v), 0);
	assert_int_equal(n, 10 + FIX_TICKS);
	sonde_reader_free(&r);
	fix_remove(path);
}

static void test_read_while_written(void **state)
{
	const char *path = fix_path("live");
	struct sonde_writer_opts opts = {0};
	struct sonde_writer *w = NULL;
	struct sonde_reader *r = NULL;
	struct fix_log a, b;
	struct sonde_hist h;

	(void)state;
	fix_remove(path);
	fix_log_init(&a);
	fix_log_init(&b);
	assert_int_equal(sonde_hist_init(&h), 0);
	assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
	assert_int_equal(fix_push(sonde_writer_visitor(w), 3, false), 0);
	/* Half a tick is not seen: it is not committed. */
	assert_int_equal(fix_push_spans(sonde_writer_visitor(w), 3, &h), 0);
	assert_int_equal(sonde_reader_open(&r, path), 0);
	assert_false(sonde_reader_complete(r));
	assert_int_equal(sonde_reader_visit(r, NULL, &a.visitor), 0);
	assert_int_equal(a.n_spans, 3 * FIX_SPANS_PER_TICK);
	assert_int_equal(sonde_reader_end_ns(r), FIX_REAL + 3 * SONDE_NS_PER_SEC);
	/* The same reader sees what came since, on its next visit. */
	assert_int_equal(fix_push_tick(sonde_writer_visitor(w), 4, &h), 0);
	assert_int_equal(sonde_reader_visit(r, NULL, &b.visitor), 0);
	assert_int_equal(b.n_spans, 5 * FIX_SPANS_PER_TICK);
	assert_int_equal(sonde_reader_end_ns(r), FIX_REAL + 5 * SONDE_NS_PER_SEC);
	sonde_reader_free(&r);
	assert_int_equal(sonde_writer_close(&w), 0);
	sonde_hist_fini(&h);
	fix_log_fini(&a);
	fix_log_fini(&b);
	fix_remove(path);
}

static void test_times_as_typed(void **state)
{
	static const struct {
		const char *typed;
		uint64_t ns; /* 0: refused */
	} rows[] = {
		{"2026-11-30T17:28:30Z", FIX_REAL},
		{"2026-11-30T17:28:30.25Z", FIX_REAL + 250000000},
		{"2026-11-30T19:28:30+02:00", FIX_REAL},
		{"2026-11-30 12:28:30-05:00", FIX_REAL},
		{"-30s", FIX_REAL + (FIX_TICKS - 30) * SONDE_NS_PER_SEC},
		{"-1m", FIX_REAL + (FIX_TICKS - 60) * SONDE_NS_PER_SEC},
		{"2026-02-30T17:28:30Z", 0},
		{"2026-11-30T17:28:30", 0},
		{"2026-11-30", 0},
		{"yesterday", 0},
		{"30s", 0},
		{"", 0},
		{"2026-11-30T17:28:30Zz", 0},
		/* The last second that fits signed nanoseconds whole, and what would wrap around.
		 */
		{"2262-04-11T23:47:15.5Z", 9223372035500000000},
		{"2262-04-11T23:47:16Z", 0},
		{"2300-01-01T00:00:00Z", 0},
		{"9999-12-31T23:59:59Z", 0},
		{"1969-12-31T23:59:59Z", 0},
	};
	const char *path = fix_path("when");
	struct sonde_reader *r = NULL;
	uint64_t ns;

	(void)state;
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	assert_int_equal(sonde_reader_open(&r, path), 0);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		ns = 0;
		assert_int_equal(sonde_reader_parse_time(r, rows[i].typed, &ns),
				 rows[i].ns ? 0 : -EINVAL);
		assert_int_equal(ns, rows[i].ns);
	}
	sonde_reader_free(&r);
	fix_remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_histograms_merge_exactly),
		cmocka_unit_test(test_meta_and_times),
		cmocka_unit_test(test_since_until),
		cmocka_unit_test(test_rebase),
		cmocka_unit_test(test_rebase_window),
		cmocka_unit_test(test_slowest),
		cmocka_unit_test(test_hook_error_stops),
		cmocka_unit_test(test_read_while_written),
		cmocka_unit_test(test_times_as_typed),
	};

	return cmocka_run_group_tests_name("record/replay", tests, NULL, NULL);
}
