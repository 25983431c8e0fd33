// SPDX-License-Identifier: GPL-2.0-or-later
/* The line per interval and the summary, of snapshots with figures made up here. */
#include <stdio.h>

#include "unit/unit.h"

#include "core/clock.h"
#include "core/mem.h"
#include "show/report_window.h"
#include "show/stat.h"
#include "show/summary.h"

#define BEGIN (1000 * SONDE_NS_PER_SEC)

static const struct sonde_metric_desc calls = {"alloc.calls", "count", SONDE_COUNTER, ""};
static const struct sonde_metric_desc requested = {"alloc.requested", "bytes", SONDE_COUNTER, ""};

static const struct sonde_metric_desc spans = {"query.spans", "count", SONDE_COUNTER, ""};

static void value(struct sonde_snapshot *s, const struct sonde_metric_desc *desc, const char *label,
		  double v)
{
	struct sonde_metric m = {.desc = desc, .label = label, .ts_ns = BEGIN, .value = v};

	assert_int_equal(sonde_visit(&s->visitor, metric, &m), 0);
}

/* A session of one second so far. */
static void start(struct sonde_snapshot *s)
{
	sonde_snapshot_init(s);
	sonde_visit(&s->visitor, start, BEGIN);
}

static void tick(struct sonde_snapshot *s, unsigned second)
{
	assert_int_equal(sonde_visit(&s->visitor, tick, BEGIN + second * SONDE_NS_PER_SEC), 0);
}

/* What @print leaves in the stream, malloc'ed. */
#define TEXT_OF(print)                                                                             \
	({                                                                                         \
		char *text_ = NULL;                                                                \
		size_t n_;                                                                         \
		FILE *out = open_memstream(&text_, &n_);                                           \
                                                                                                   \
		assert_non_null(out);                                                              \
		print;                                                                             \
		fclose(out);                                                                       \
		text_;                                                                             \
	})

static void assert_says(const char *text, const char *words, bool says)
{
	if (!strstr(text, words) == !says)
		return;
	print_error("'%s' is %sin:\n%s", words, says ? "not " : "", text);
	fail();
}

static void note(struct sonde_snapshot *s, const char *what)
{
	struct sonde_note n = {
		.ts_ns = BEGIN, .level = SONDE_NOTE_EVENT, .lens = "", .what = what, .remedy = ""};

	assert_int_equal(sonde_visit(&s->visitor, note, &n), 0);
}

/* What happens again and again is one line; a few of a kind are told one by one. */
static void test_many_events(void **state)
{
	struct sonde_snapshot s;
	char *text, what[64];

	(void)state;
	start(&s);
	for (int i = 0; i < 374; i++) {
		snprintf(what, sizeof(what), "pid %d replaced its program by x", 10 + i);
		note(&s, what);
	}
	for (int i = 0; i < 8; i++) {
		snprintf(what, sizeof(what), "y (pid %d) exited", 10 + i);
		note(&s, what);
	}
	text = TEXT_OF(sonde_summary_notes(out, &s));
	assert_says(text, "Event pid 10 replaced its program by x (and 373 more like it)\n", true);
	assert_says(text, "pid 11 replaced", false);
	assert_says(text, "Event y (pid 10) exited\n", true);
	assert_says(text, "Event y (pid 17) exited\n", true);
	free(text);
	sonde_snapshot_fini(&s);
}

/* A single reading has no rates, and its levels all the same. */
static void test_one_reading(void **state)
{
	static const struct sonde_metric_desc heap = {"alloc.heap", "bytes", SONDE_GAUGE, ""};
	static const struct sonde_metric_desc live = {"alloc.allocated", "bytes", SONDE_GAUGE, ""};
	const struct sonde_stat_end end = {.instant = true, .ended = "duration"};
	struct sonde_snapshot s;
	char *text;

	(void)state;
	start(&s);
	value(&s, &heap, "", 4 << 20);
	value(&s, &live, "", 3 << 20);
	text = TEXT_OF(sonde_stat_summary(out, &s, &end));
	assert_says(text, "live 3.00 MiB", true);
	assert_says(text, "of 4.00 MiB from the system", true);
	assert_says(text, "One reading", true);
	free(text);
	sonde_snapshot_fini(&s);
}

static void test_allocations(void **state)
{
	struct sonde_snapshot s;
	char *text;

	(void)state;
	start(&s);
	value(&s, &calls, "malloc", 300);
	value(&s, &calls, "operator new", 40);
	value(&s, &calls, "free", 250);
	value(&s, &calls, "operator delete (sized)", 5);
	value(&s, &requested, "malloc", 4096);
	tick(&s, 1);
	text = TEXT_OF(sonde_stat_json_line(out, &s));
	assert_says(text, "\"allocs_per_s\":340.0", true);
	free(text);
	text = TEXT_OF(sonde_summary_alloc(out, &s, 0));
	assert_says(text, "595 calls (340 allocations, 255 frees), 4.00 KiB requested", true);
	free(text);
	sonde_snapshot_fini(&s);
}

/* Lost since the line before, as every other column of the line. */
/* Bytes through jemalloc: since when they count, and their column. */
static void test_counted_from(void **state)
{
	static const struct sonde_metric_desc in = {"alloc.handed_out", "bytes", SONDE_COUNTER,
						     ""};
	static const struct sonde_metric_desc back = {"alloc.given_back", "bytes", SONDE_COUNTER,
						      ""};
	static const struct sonde_metric_desc from = {"alloc.counted_from", "ns", SONDE_GAUGE, ""};
	static const struct sonde_metric_desc n = {"alloc.threads", "count", SONDE_GAUGE, ""};
	struct sonde_stat_view view = {0};
	struct sonde_snapshot s;
	char *text;

	(void)state;
	start(&s);
	value(&s, &in, "", 4 << 20);
	value(&s, &back, "", 1 << 20);
	value(&s, &n, "", 3);
	value(&s, &from, "", 0);
	tick(&s, 1);
	text = TEXT_OF(sonde_summary_heap(out, &s, 2 * SONDE_NS_PER_SEC));
	assert_says(text, "handed out 4.00 MiB, given back 1.00 MiB since attach (2.00 MiB/s)",
		    true);
	free(text);
	value(&s, &from, "", 1.5e9);
	text = TEXT_OF(sonde_summary_heap(out, &s, 2 * SONDE_NS_PER_SEC));
	assert_says(text, "counted from +1.50 s", true);
	assert_says(text, "(8.00 MiB/s)", true);
	assert_says(text, "since attach", false);
	free(text);
	text = TEXT_OF((view.out = out, sonde_stat_line(&view, &s)));
	assert_says(text, "alloc B/s", true);
	free(text);
	sonde_snapshot_fini(&s);
}

/* The same lock in two lines says what each is. */
static void test_stalls(void **state)
{
	static const struct sonde_metric_desc time = {"stall.time", "ns", SONDE_COUNTER, ""};
	static const struct sonde_metric_desc count = {"stall.count", "count", SONDE_COUNTER, ""};
	static const struct sonde_metric_desc l_time = {"stall.lock_time", "ns", SONDE_COUNTER, ""};
	static const struct sonde_metric_desc l_count = {"stall.lock_count", "count", SONDE_COUNTER,
							 ""};
	struct sonde_snapshot s;
	char *text;

	(void)state;
	start(&s);
	value(&s, &time, "mmap_lock", 19700);
	value(&s, &count, "mmap_lock", 1);
	value(&s, &l_time, "mmap_lock", 103000);
	value(&s, &l_count, "mmap_lock", 1);
	tick(&s, 1);
	text = TEXT_OF(sonde_summary_stall(out, &s));
	assert_says(text, "asleep for mmap_lock       19.7 us", true);
	assert_says(text, "from finding a lock taken to having it", true);
	assert_says(text, "until it had mmap_lock      103 us", true);
	free(text);
	sonde_snapshot_fini(&s);
}

static void test_drops(void **state)
{
	struct sonde_drops d = {SONDE_LENS_QUERY, SONDE_DROP_RING_FULL, 7, BEGIN};
	struct sonde_snapshot s;
	char *text;

	(void)state;
	start(&s);
	assert_int_equal(sonde_visit(&s.visitor, drop, &d), 0);
	tick(&s, 1);
	text = TEXT_OF(sonde_stat_json_line(out, &s));
	assert_says(text, "\"drops\":7.0", true);
	free(text);
	sonde_snapshot_mark(&s);
	d.count = 9;
	assert_int_equal(sonde_visit(&s.visitor, drop, &d), 0);
	tick(&s, 2);
	text = TEXT_OF(sonde_stat_json_line(out, &s));
	assert_says(text, "\"drops\":2.0", true);
	free(text);
	text = TEXT_OF(sonde_summary_notes(out, &s));
	assert_says(text, "Drops 9;", true);
	free(text);
	sonde_snapshot_fini(&s);
}

/* Columns of queries come with the first query, under a heading of their own. */
static void test_columns(void **state)
{
	struct sonde_stat_view v = {0};
	struct sonde_snapshot s;
	char *text;

	(void)state;
	start(&s);
	value(&s, &spans, "", 0);
	tick(&s, 1);
	text = TEXT_OF((v.out = out, sonde_stat_line(&v, &s)));
	assert_says(text, "query/s", false);
	assert_says(text, "UTC", true);
	free(text);
	text = TEXT_OF(sonde_summary_queries(out, &s, SONDE_NS_PER_SEC));
	assert_string_equal(text, "Queries none seen\n");
	free(text);
	s.drops[SONDE_LENS_QUERY][SONDE_DROP_UNDECODED] = 3;
	text = TEXT_OF(sonde_summary_queries(out, &s, SONDE_NS_PER_SEC));
	assert_string_equal(text, "Queries none decoded: 3 connections speak no protocol that is "
				  "known here (known: MySQL, SphinxAPI, HTTP)\n");
	free(text);
	s.drops[SONDE_LENS_QUERY][SONDE_DROP_UNDECODED] = 0;
	sonde_snapshot_mark(&s);
	value(&s, &spans, "", 12);
	tick(&s, 2);
	text = TEXT_OF((v.out = out, sonde_stat_line(&v, &s)));
	assert_string_equal(
		text, "                                 -- latency of queries --------------\n"
		      "UTC             CPU   query/s      mean       p50       p95       p99      "
		      "cost     drops\n"
		      "00:00:00          -        12         -         -         -         -       "
		      "  -         0\n");
	free(text);
	text = TEXT_OF((v.out = out, sonde_stat_line(&v, &s)));
	assert_says(text, "UTC", false);
	free(text);
	sonde_snapshot_fini(&s);
}

static void hist(struct sonde_snapshot *s, const struct sonde_hist_desc *desc, const char *label,
		 uint64_t v)
{
	struct sonde_hist h;
	struct sonde_histrow row = {.desc = desc, .label = label, .hist = &h};

	assert_int_equal(sonde_hist_init(&h), 0);
	sonde_hist_add(&h, v);
	assert_int_equal(sonde_visit(&s->visitor, hist, &row), 0);
	sonde_hist_fini(&h);
}

/* What kind of thing a line is of, and labels in words. */
static void test_groups(void **state)
{
	static const struct sonde_metric_desc count = {"fault.count", "count", SONDE_COUNTER, ""};
	static const struct sonde_hist_desc latency = {"query.latency", "ns", ""};
	static const struct sonde_hist_desc wait = {"query.wait", "ns", ""};
	static const struct sonde_hist_desc fault = {"fault.latency", "ns", ""};
	struct sonde_snapshot s;
	char *text;

	(void)state;
	start(&s);
	value(&s, &spans, "", 1);
	value(&s, &count, "base.minor", 1);
	value(&s, &count, "kernel_base.major", 1);
	value(&s, &count, "pmd.minor", 1);
	value(&s, &count, "unsized", 1);
	hist(&s, &latency, "", 2000);
	hist(&s, &latency, "search", 2000);
	hist(&s, &wait, "", 100);
	hist(&s, &fault, "base.minor", 1000);
	hist(&s, &fault, "kernel_base.major", 1000);
	hist(&s, &fault, "pmd.minor", 1000);
	hist(&s, &fault, "unsized", 1000);
	text = TEXT_OF(sonde_summary_queries(out, &s, 0));
	assert_says(text, "\n  phases\n    queue wait           1  mean    100 ns  p50", true);
	assert_says(text, "\n  by command\n    search               1  mean   2.00 us  p50", true);
	free(text);
	text = TEXT_OF(sonde_summary_faults(out, &s, 0, false));
	assert_says(text, "\n  by page\n    4 KiB, user code                            1  p50",
		    true);
	assert_says(text, "\n    4 KiB, in system calls, disk read           1  p50", true);
	assert_says(text, "\n    2 MiB huge, user code                       1  p50", true);
	assert_says(text, "\n    unsized                                     1  p50", true);
	free(text);
	sonde_snapshot_fini(&s);
}

/* Rows by page are the counters', whatever part of the faults was timed. */
static void test_fault_rows(void **state)
{
	static const struct sonde_metric_desc count = {"fault.count", "count", SONDE_COUNTER, ""};
	static const struct sonde_metric_desc time = {"fault.time", "ns", SONDE_COUNTER, ""};
	static const struct sonde_metric_desc error = {"fault.time_error", "ns", SONDE_GAUGE, ""};
	static const struct sonde_hist_desc latency = {"fault.latency", "ns", ""};
	static const struct sonde_metric_desc by = {"fault.thread_count", "count", SONDE_COUNTER,
						    ""};
	struct sonde_snapshot s;
	char label[16], *text;

	(void)state;
	start(&s);
	value(&s, &count, "base.minor", 1000);
	value(&s, &time, "base.minor", 2000000);
	value(&s, &error, "base.minor", 1000);
	hist(&s, &latency, "base.minor", 1500);
	value(&s, &count, "zero.minor", 9);
	value(&s, &time, "zero.minor", 0);
	value(&s, &count, "cow.minor", 4);
	value(&s, &time, "cow.minor", 4000);
	hist(&s, &latency, "cow.minor", 1000);
	for (int i = 0; i < 12; i++) {
		snprintf(label, sizeof(label), "worker/%d", i);
		value(&s, &by, label, 100 - i);
	}
	text = TEXT_OF(sonde_summary_faults(out, &s, 0, false));
	assert_says(text, "Page faults 1,013 ", true);
	assert_says(text, "    4 KiB, user code               1,000  mean   2.00 us  p50", true);
	assert_says(text, "1.50 us  sampled\n", true);
	assert_says(text, "    zero page, user code               9  latency not sampled\n", true);
	assert_says(text, "    copy on write, user code           4  mean   1.00 us  p50", true);
	assert_says(text, "    and 4 more (-v lists all)\n", true);
	assert_says(text, "worker/11", false);
	free(text);
	text = TEXT_OF(sonde_summary_faults(out, &s, 0, true));
	assert_says(text, "more", false);
	assert_says(text, "worker/11", true);
	free(text);
	/* Beside a part of the recording: in the same words, with the time that they are of. */
	text = TEXT_OF(sonde_window_print(out, &s, "fault.", sonde_fault_title, "THEN to NOW"));
	assert_says(text, "these, and their counts, are of THEN to NOW\n    4 KiB, user code ",
		    true);
	assert_says(text, "base.minor", false);
	free(text);
	sonde_snapshot_fini(&s);
}

/* Beside the classes: what was estimated, what stalled, what the exception takes, and whose it was.
 */
static void test_faults(void **state)
{
	static const struct sonde_metric_desc count = {"fault.count", "count", SONDE_COUNTER, ""};
	static const struct sonde_metric_desc time = {"fault.time", "ns", SONDE_COUNTER, ""};
	static const struct sonde_metric_desc error = {"fault.time_error", "ns", SONDE_GAUGE, ""};
	static const struct sonde_metric_desc stalled = {"fault.stalled", "count", SONDE_COUNTER,
							 ""};
	static const struct sonde_metric_desc reclaim = {"fault.reclaim_time", "ns", SONDE_COUNTER,
							 ""};
	static const struct sonde_metric_desc exception = {"fault.exception", "ns", SONDE_GAUGE,
							   ""};
	static const struct sonde_metric_desc by = {"fault.mapping_count", "count", SONDE_COUNTER,
						    ""};
	static const struct sonde_metric_desc by_ns = {"fault.mapping_time", "ns", SONDE_COUNTER,
						       ""};
	struct sonde_snapshot s;
	char *text;

	(void)state;
	start(&s);
	value(&s, &count, "base.minor", 100);
	value(&s, &count, "cow.minor", 20);
	value(&s, &time, "base.minor", 300000);
	value(&s, &time, "cow.minor", 100000);
	text = TEXT_OF(sonde_summary_faults(out, &s, 0, false));
	assert_says(text, "Page faults 120  400 us of the target's time\n", true);
	assert_says(text, "reclaim", false);
	assert_says(text, "beside it", false);
	free(text);
	value(&s, &error, "base.minor", 3000);
	value(&s, &error, "cow.minor", 4000);
	value(&s, &stalled, "cow.minor", 2);
	value(&s, &reclaim, "cow.minor", 50000);
	value(&s, &exception, "", 600);
	value(&s, &by, "stacks", 20);
	value(&s, &by_ns, "stacks", 90000);
	value(&s, &by, "heap", 100);
	text = TEXT_OF(sonde_summary_faults(out, &s, 0, false));
	assert_says(text, "400 us of the target's time (sampled, +- 5.00 us)\n", true);
	assert_says(
		text,
		"  of it 50.0 us in direct reclaim and 0 ns in direct compaction, in 2 faults\n",
		true);
	assert_says(text,
		    "  beside it 600 ns a fault for the exception's entry and exit (calibrated): "
		    "72.0 us\n",
		    true);
	assert_true(strstr(text, "    heap ") < strstr(text, "    stacks "));
	free(text);
	sonde_snapshot_fini(&s);
}

static char *target_line(struct sonde_snapshot *s, const char *status, const char *ended)
{
	assert_int_equal(sonde_meta_set(&s->meta, "command.status", "%s", status), 0);
	assert_int_equal(sonde_meta_set(&s->meta, "ended", "%s", ended), 0);
	return TEXT_OF(sonde_summary_target(out, s, 2 * SONDE_NS_PER_SEC));
}

static void test_target(void **state)
{
	static const struct sonde_metric_desc ratio = {"cost.observed_ratio", "ratio", SONDE_GAUGE,
						       ""};
	static const struct {
		const char *status, *ended, *says;
	} rows[] = {
		{"0", "target exited", NULL},
		{"7", "target exited", "The command ended with status 7\n"},
		{"139", "target exited", "The command was ended by signal 11 ("},
		{"143", "target exited", "The command was ended by signal 15 ("},
		{"143", "duration", NULL},
	};
	struct sonde_snapshot s;
	char *text;

	(void)state;
	start(&s);
	sonde_meta_set(&s.meta, "target.0.allocator", "mimalloc");
	value(&s, &ratio, "", 0.9996);
	tick(&s, 1);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		text = target_line(&s, rows[i].status, rows[i].ended);
		assert_says(text, rows[i].says ? rows[i].says : "command", rows[i].says);
		assert_says(text, ", mimalloc, THP", true);
		assert_says(text, "; observed 2.0 s without a gap\n", true);
		free(text);
	}
	value(&s, &ratio, "", 0.5);
	tick(&s, 4);
	text = TEXT_OF(sonde_summary_cost(out, &s));
	assert_says(text, "Observed 50.0 % of the 4.0 s\n", true);
	free(text);
	sonde_snapshot_fini(&s);
}

/* Uptime is of the end, as the figures beside it; of what exited, of its last figures. */
static void test_uptime(void **state)
{
	static const struct sonde_metric_desc total = {"rss.total", "bytes", SONDE_GAUGE, ""};
	struct sonde_metric m = {
		.desc = &total, .label = "", .ts_ns = BEGIN + 30 * SONDE_NS_PER_SEC};
	struct sonde_snapshot s;
	char *text;

	(void)state;
	start(&s);
	value(&s, &total, "", 1 << 20);
	tick(&s, 60);
	text = target_line(&s, "0", "");
	assert_says(text, ", up", false);
	free(text);
	sonde_meta_set(&s.meta, "target.0.age_ns", "1500000000");
	text = target_line(&s, "0", "");
	assert_says(text, ", up 62 s;", true); /* of an old recording */
	free(text);
	sonde_meta_set(&s.meta, "target.0.start_mono_ns", "998000000000");
	text = target_line(&s, "0", "");
	assert_says(text, ", up 62 s;", true);
	free(text);
	tick(&s, 600);
	text = target_line(&s, "0", "");
	assert_says(text, ", up 10 min;", true);
	free(text);
	m.value = 1;
	assert_int_equal(sonde_visit(&s.visitor, metric, &m), 0);
	m.absent = "the process is gone";
	m.ts_ns += SONDE_NS_PER_SEC;
	assert_int_equal(sonde_visit(&s.visitor, metric, &m), 0);
	text = target_line(&s, "0", "");
	assert_says(text, ", up 32 s;", true);
	free(text);
	sonde_snapshot_fini(&s);
}

/* What is below 0 is told as it is, not as its change. */
static void test_unexplained(void **state)
{
	static const struct sonde_metric_desc total = {"rss.total", "bytes", SONDE_GAUGE, ""};
	static const struct sonde_metric_desc rows = {"rss.ledger", "bytes", SONDE_GAUGE, ""};
	static const struct sonde_metric_desc took = {"rss.walk_time", "ns", SONDE_GAUGE, ""};
	struct sonde_snapshot s;
	char *text;

	(void)state;
	start(&s);
	value(&s, &total, "", 1 << 20);
	value(&s, &rows, "unexplained", -4096);
	value(&s, &took, "smaps", 2e6);
	sonde_visit(&s.visitor, tick, BEGIN);
	text = TEXT_OF(sonde_summary_memory(out, &s));
	assert_says(text, "unexplained               -4.00 KiB  -0.4 %\n", true);
	assert_says(text, "by mapping: read now, in 2.00 ms\n", true);
	free(text);
	tick(&s, 9);
	text = TEXT_OF(sonde_summary_memory(out, &s));
	assert_says(text, "by mapping: read 9 s ago, in 2.00 ms\n", true);
	free(text);
	sonde_snapshot_fini(&s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allocations), cmocka_unit_test(test_counted_from),
		cmocka_unit_test(test_stalls),	    cmocka_unit_test(test_drops),
		cmocka_unit_test(test_many_events), cmocka_unit_test(test_one_reading),
		cmocka_unit_test(test_columns),	    cmocka_unit_test(test_groups),
		cmocka_unit_test(test_fault_rows),  cmocka_unit_test(test_faults),
		cmocka_unit_test(test_target),	    cmocka_unit_test(test_uptime),
		cmocka_unit_test(test_unexplained),
	};

	return cmocka_run_group_tests_name("show/stat", tests, NULL, NULL);
}
