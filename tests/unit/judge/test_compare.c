// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two made-up recordings side by side: rates, amounts per query, levels at equal age, order, what
 * is absent, what was not the same, what weakens the comparison, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "core/log.h"
#include "core/mem.h"
#include "judge/compare.h"

#define S 1000000000ull

static const struct sonde_metric_desc faults = {"fault.count", "count", SONDE_COUNTER, ""};
static const struct sonde_metric_desc fault_time = {"fault.time", "ns", SONDE_COUNTER, ""};
static const struct sonde_metric_desc stalls = {"stall.time", "ns", SONDE_COUNTER, ""};
static const struct sonde_metric_desc spans = {"query.spans", "count", SONDE_COUNTER, ""};
static const struct sonde_metric_desc hits = {"cost.hits", "count", SONDE_COUNTER, ""};
static const struct sonde_metric_desc calls = {"alloc.calls", "count", SONDE_COUNTER, ""};
static const struct sonde_metric_desc anon = {"rss.anon", "bytes", SONDE_GAUGE, ""};
static const struct sonde_hist_desc latency = {"query.latency", "ns", ""};

/* An arm of a process that began at @start_s (monotonic), recorded from @from_s. */
static void arm_begin(struct sonde_arm *arm, const char *name, unsigned start_s, unsigned from_s)
{
	struct sonde_meta meta = {0};

	sonde_arm_init(arm, name);
	sonde_meta_set(&meta, "clock.mono_ns", "%llu", from_s * S);
	sonde_meta_set(&meta, "clock.real_ns", "%llu", 1000 * S);
	sonde_meta_set(&meta, "complete", "1");
	sonde_meta_set(&meta, "target.0.start_mono_ns", "%llu", start_s * S);
	sonde_meta_set(&meta, "target.0.pid", "%u", start_s + 7);
	sonde_visit(sonde_arm_visitor(arm), begin, &meta);
	sonde_meta_fini(&meta);
}

static void arm_meta(struct sonde_arm *arm, const char *key, const char *value)
{
	struct sonde_meta meta = {0};

	sonde_meta_set(&meta, key, "%s", value);
	sonde_visit(sonde_arm_visitor(arm), end, &meta);
	sonde_meta_fini(&meta);
}

static void put(struct sonde_arm *arm, const struct sonde_metric_desc *d, const char *label,
		uint32_t target, unsigned at_s, double value, const char *absent)
{
	struct sonde_metric m = {.desc = d,
				 .label = label,
				 .target = target,
				 .ts_ns = at_s * S,
				 .value = value,
				 .absent = absent};

	assert_int_equal(sonde_visit(sonde_arm_visitor(arm), metric, &m), 0);
}

static void ticks(struct sonde_arm *arm, unsigned from_s, unsigned to_s)
{
	for (unsigned t = from_s; t <= to_s; t++)
		sonde_visit(sonde_arm_visitor(arm), tick, t * S);
}

static void put_note(struct sonde_arm *arm, enum sonde_note_level level, const char *what)
{
	struct sonde_note n = {.level = level, .lens = "", .what = what, .remedy = ""};

	sonde_visit(sonde_arm_visitor(arm), note, &n);
}

/* 10 s observed of each, 100 and 200 queries. */
static struct sonde_arm a, b;

static int setup(void **state)
{
	(void)state;
	sonde_log_set_level(SONDE_LOG_ERROR);
	arm_begin(&a, "a.sonde", 90, 100);
	arm_begin(&b, "b.sonde", 4990, 5000);
	ticks(&a, 100, 110);
	ticks(&b, 5000, 5010);
	put(&a, &spans, "", 0, 110, 100, NULL);
	put(&b, &spans, "", 0, 5010, 200, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sonde_arm_fini(&a);
	sonde_arm_fini(&b);
	return 0;
}

static const struct sonde_compare_row *find(const struct sonde_compare *c, const char *name,
					    const char *label, const char *figure)
{
	for (size_t i = 0; i < c->n_rows; i++)
		if (!strcmp(c->rows[i].name, name) && !strcmp(c->rows[i].label, label) &&
		    !strcmp(c->rows[i].figure, figure))
			return &c->rows[i];
	return NULL;
}

static void assert_near(double x, double y, double tolerance)
{
	if (!(fabs(x - y) <= tolerance))
		fail_msg("%.17g is not %.17g", x, y);
}

static void assert_row(const struct sonde_compare *c, const char *name, const char *label,
		       const char *figure, double x, double y)
{
	const struct sonde_compare_row *row = find(c, name, label, figure);

	assert_non_null(row);
	assert_true(row->has[0] && row->has[1]);
	assert_near(row->v[0], x, 1e-9 * fabs(x));
	assert_near(row->v[1], y, 1e-9 * fabs(y));
}

static void test_rates(void **state)
{
	struct sonde_compare c;

	(void)state;
	put(&a, &faults, "base.minor", 0, 110, 5000, NULL);
	put(&a, &faults, "base.minor", 1, 110, 1000, NULL); /* a second process */
	put(&a, &faults, "pmd.minor", 0, 110, 4, NULL);
	put(&b, &faults, "base.minor", 0, 5010, 3000, NULL);
	put(&a, &fault_time, "base.minor", 0, 110, 2e9, NULL);
	put(&b, &fault_time, "base.minor", 0, 5010, 1e9, NULL);
	put(&a, &hits, "", 0, 110, 1e6, NULL);
	put(&b, &hits, "", 0, 5010, 1, NULL);
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	assert_row(&c, "fault.count", "base.minor", "per s", 600, 300);
	assert_row(&c, "fault.count", "base.minor", "per query", 60, 15);
	assert_row(&c, "fault.count", "", "per s", 600.4, 300);
	/* A class that one arm never met is 0 there, not absent. */
	assert_row(&c, "fault.count", "pmd.minor", "per s", 0.4, 0);
	assert_row(&c, "fault.time", "", "per s", 2e8, 1e8);
	assert_row(&c, "fault.time", "", "per query", 2e7, 5e6);
	assert_near(find(&c, "fault.count", "base.minor", "per s")->change, -0.5, 1e-12);
	assert_int_equal(find(&c, "fault.time", "", "per s")->unit, SONDE_COMPARE_NS_PER_S);
	/* What observing cost is not the target's. */
	assert_null(find(&c, "cost.hits", "", "per s"));
	sonde_compare_fini(&c);
}

static void test_absent(void **state)
{
	const struct sonde_compare_row *row;
	struct sonde_compare c;

	(void)state;
	put(&a, &stalls, "mmap_lock", 0, 110, 5e9, NULL);
	put(&b, &stalls, "mmap_lock", 0, 5010, 0, "this kernel has no such tracepoint");
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	row = find(&c, "stall.time", "mmap_lock", "per s");
	assert_non_null(row);
	assert_int_equal(row->section, SONDE_COMPARE_STALLS);
	assert_true(row->has[0]);
	assert_false(row->has[1]);
	assert_string_equal(row->absent[1], "this kernel has no such tracepoint");
	assert_true(isnan(row->change));
	assert_true(row->weight == 0);
	sonde_compare_fini(&c);
}

static void test_order(void **state)
{
	struct sonde_compare c;
	double last = INFINITY;
	bool tiny = false;

	(void)state;
	put(&a, &faults, "base.minor", 0, 110, 6000, NULL); /* halved */
	put(&b, &faults, "base.minor", 0, 5010, 3000, NULL);
	put(&a, &faults, "file.major", 0, 110, 100, NULL); /* ten times as many */
	put(&b, &faults, "file.major", 0, 5010, 1000, NULL);
	put(&a, &faults, "pmd.minor", 0, 110, 1, NULL); /* nine times next to nothing */
	put(&b, &faults, "pmd.minor", 0, 5010, 9, NULL);
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	assert_string_equal(c.rows[0].label, "file.major");
	assert_true(find(&c, "fault.count", "pmd.minor", "per s")->tiny);
	assert_false(find(&c, "fault.count", "file.major", "per s")->tiny);
	for (size_t i = 0; i < c.n_rows && c.rows[i].section == SONDE_COMPARE_FAULTS; i++) {
		if (c.rows[i].tiny != tiny) {
			assert_true(c.rows[i].tiny);
			tiny = true;
			last = INFINITY;
		}
		assert_true(c.rows[i].weight <= last);
		last = c.rows[i].weight;
	}
	assert_true(tiny);
	sonde_compare_fini(&c);
}

/* A began at 90 s, B at 4990 s; B is seen to the age of 20 s, A here to that of 40 s. */
static void test_equal_age(void **state)
{
	struct sonde_compare c;

	(void)state;
	ticks(&a, 111, 130);
	put(&a, &anon, "", 0, 105, 15e6, NULL);
	put(&a, &anon, "", 0, 109, 19e6, NULL);
	put(&a, &anon, "", 0, 130, 40e6, NULL);
	put(&a, &anon, "", 1, 101, 7e6, NULL); /* another process, gone by then */
	put(&a, &anon, "", 1, 104, 0, "the process is gone");
	put(&b, &anon, "", 0, 5010, 30e6, NULL);
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	assert_true(c.by_process_age);
	assert_int_equal(c.uptime_ns, 20 * S);
	assert_row(&c, "rss.anon", "", "level", 19e6, 30e6);
	sonde_compare_fini(&c);
}

static bool cautioned(const struct sonde_compare *c, const char *words)
{
	for (size_t i = 0; i < c->n_cautions; i++)
		if (strstr(c->cautions[i], words))
			return true;
	return false;
}

static void test_no_equal_age(void **state)
{
	struct sonde_compare c;

	(void)state;
	arm_meta(&b, "target.0.start_mono_ns", "1000000000"); /* 4999 s old */
	put(&a, &anon, "", 0, 110, 1e6, NULL);
	put(&b, &anon, "", 0, 5010, 2e6, NULL);
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	assert_false(c.by_process_age);
	assert_int_equal(c.uptime_ns, 10 * S);
	assert_row(&c, "rss.anon", "", "level", 1e6, 2e6);
	assert_true(cautioned(&c, "never seen at the same age"));
	sonde_compare_fini(&c);
}

static void put_latency(struct sonde_arm *arm, unsigned at_s, unsigned n, uint64_t step_ns)
{
	struct sonde_hist h;
	struct sonde_histrow row = {.desc = &latency,
				    .label = "",
				    .from_ns = (at_s - 1) * S,
				    .to_ns = at_s * S,
				    .hist = &h};

	assert_int_equal(sonde_hist_init(&h), 0);
	for (unsigned i = 1; i <= n; i++)
		sonde_hist_add(&h, i * step_ns);
	assert_int_equal(sonde_visit(sonde_arm_visitor(arm), hist, &row), 0);
	sonde_hist_fini(&h);
}

static void test_latency(void **state)
{
	static const struct {
		const char *figure;
		double a, b;
	} want[] = {{"mean", 50.5e6, 101e6},
		    {"p50", 50e6, 100e6},
		    {"p95", 95e6, 190e6},
		    {"p99", 99e6, 198e6}};
	struct sonde_compare c;

	(void)state;
	put_latency(&a, 105, 100, 1000000);
	put_latency(&b, 5005, 100, 2000000);
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(want); i++) {
		const struct sonde_compare_row *row = find(&c, "query.latency", "", want[i].figure);

		assert_non_null(row);
		assert_near(row->v[0], want[i].a, 0.004 * want[i].a);
		assert_near(row->v[1], want[i].b, 0.004 * want[i].b);
	}
	sonde_compare_fini(&c);
}

static void assert_differs(const struct sonde_compare *c, const char *what, const char *x,
			   const char *y)
{
	for (size_t i = 0; i < c->n_diffs; i++) {
		if (strcmp(c->diffs[i].what, what))
			continue;
		assert_true(x ? c->diffs[i].a && !strcmp(c->diffs[i].a, x) : !c->diffs[i].a);
		assert_true(y ? c->diffs[i].b && !strcmp(c->diffs[i].b, y) : !c->diffs[i].b);
		return;
	}
	fail_msg("%s is not among what differs", what);
}

static void test_settings(void **state)
{
	struct sonde_compare c;

	(void)state;
	arm_meta(&a, "thp.enabled", "madvise");
	arm_meta(&b, "thp.enabled", "always");
	arm_meta(&a, "kernel.release", "6.18.1");
	arm_meta(&b, "kernel.release", "6.18.1");
	arm_meta(&a, "target.0.allocator", "glibc");
	/* In B the second process serves: the first one's allocator is not to the point. */
	arm_meta(&b, "serving", "1");
	arm_meta(&b, "target.0.allocator", "glibc");
	arm_meta(&b, "target.1.allocator", "jemalloc");
	arm_meta(&b, "target.1.start_mono_ns", "4990000000000");
	arm_meta(&b, "target.1.env.MALLOC_CONF", "thp:never");
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	assert_differs(&c, "thp.enabled", "madvise", "always");
	assert_differs(&c, "allocator", "glibc", "jemalloc");
	assert_differs(&c, "env.MALLOC_CONF", NULL, "thp:never");
	assert_differs(&c, "load", "10 queries/s", "20 queries/s");
	assert_int_equal(c.n_diffs, 4); /* not the kernel, not the pids */
	sonde_compare_fini(&c);
}

static void test_cautions(void **state)
{
	struct sonde_drops lost = {.lens = SONDE_LENS_QUERY, .cause = 1, .count = 42};
	/* What leaves the counts right is no reason to warn. */
	struct sonde_drops kept = {
		.lens = SONDE_LENS_FAULT, .cause = SONDE_DROP_UNFINISHED, .count = 14};
	struct sonde_compare c;

	(void)state;
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	assert_int_equal(c.n_cautions, 0);
	sonde_compare_fini(&c);

	arm_meta(&a, "complete", "0");
	put_note(&a, SONDE_NOTE_EVENT, "thp.enabled changed from madvise to always");
	put_note(&a, SONDE_NOTE_EVENT, "child pid 5 is observed too");
	put_note(&b, SONDE_NOTE_DEGRADED, "no tracepoint");
	put(&b, &calls, "malloc", 0, 5010, 5, NULL);
	sonde_visit(sonde_arm_visitor(&b), drop, &lost);
	sonde_visit(sonde_arm_visitor(&b), drop, &kept);
	sonde_visit(sonde_arm_visitor(&a), drop, &kept);
	ticks(&b, 5011, 5030);
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	assert_true(cautioned(&c, "A is cut short"));
	assert_true(cautioned(&c, "A: while it was recorded thp.enabled changed from madvise"));
	assert_true(cautioned(&c, "B is degraded: no tracepoint"));
	assert_true(cautioned(&c, "B lost 42 events"));
	assert_false(cautioned(&c, "A lost"));
	assert_true(cautioned(&c, "only B counted every allocation"));
	assert_true(cautioned(&c, "A covers 10.0 s and B 30.0 s"));
	assert_int_equal(c.n_cautions, 6);
	sonde_compare_fini(&c);
}

static void test_refused(void **state)
{
	struct sonde_compare c;
	struct sonde_arm none, other;

	(void)state;
	sonde_log_set_level(SONDE_LOG_ERROR - 1);
	arm_begin(&none, "none.sonde", 1, 1);
	assert_int_equal(sonde_compare_make(&a, &none, &c), -ENODATA);
	ticks(&none, 2, 2);
	assert_int_equal(sonde_compare_make(&none, &b, &c), -ENODATA);
	sonde_arm_fini(&none);

	arm_begin(&other, "other.sonde", 1, 1);
	ticks(&other, 2, 12);
	put(&other, &anon, "", 0, 12, 1e6, NULL);
	assert_int_equal(sonde_compare_make(&a, &other, &c), -ENODATA);
	sonde_arm_fini(&other);
}

/* A gauge of both arms: @early, and @late in the last of the 10 s. */
static void put_levels(const struct sonde_metric_desc *d, double a_early, double a_late,
		       double b_early, double b_late)
{
	put(&a, d, "", 0, 101, a_early, NULL);
	put(&a, d, "", 0, 108, a_early, NULL);
	put(&a, d, "", 0, 110, a_late, NULL);
	put(&b, d, "", 0, 5001, b_early, NULL);
	put(&b, d, "", 0, 5008, b_early, NULL);
	put(&b, d, "", 0, 5010, b_late, NULL);
}

static const char *unranked(const struct sonde_compare *c, const char *name, const char *label,
			    const char *figure)
{
	const struct sonde_compare_row *row = find(c, name, label, figure);

	assert_non_null(row);
	return row->unranked;
}

static void test_few_events(void **state)
{
	struct sonde_compare c;

	(void)state;
	put(&a, &faults, "base.major", 0, 110, 1, NULL);
	put(&a, &fault_time, "base.major", 0, 110, 4390000, NULL);
	put(&b, &fault_time, "base.major", 0, 5010, 0, NULL);
	put(&a, &faults, "base.minor", 0, 110, 0, NULL);
	put(&b, &faults, "base.minor", 0, 5010, 64, NULL);
	put(&a, &fault_time, "base.minor", 0, 110, 0, NULL);
	put(&b, &fault_time, "base.minor", 0, 5010, 64e6, NULL);
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	assert_string_equal(unranked(&c, "fault.time", "base.major", "per s"), "few events");
	assert_string_equal(unranked(&c, "fault.count", "base.major", "per s"), "few events");
	/* Many against none is a difference. */
	assert_null(unranked(&c, "fault.count", "base.minor", "per s"));
	assert_null(unranked(&c, "fault.time", "base.minor", "per s"));
	sonde_compare_fini(&c);
}

static void test_one_instant(void **state)
{
	static const struct sonde_metric_desc live = {"alloc.allocated", "bytes", SONDE_GAUGE, ""};
	struct sonde_compare c;

	(void)state;
	put_levels(&live, 4340000, 4340000, 4350000, 1100000); /* the load ended before the last */
	put_levels(&anon, 9e7, 9.1e7, 5e7, 5.1e7);
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	assert_string_equal(unranked(&c, "alloc.allocated", "", "level"),
			    "moved as much within a run");
	assert_null(unranked(&c, "rss.anon", "", "level"));
	sonde_compare_fini(&c);
}

static void test_shared(void **state)
{
	static const struct sonde_metric_desc shared[] = {
		{"rss.memcg_anon_huge", "bytes", SONDE_GAUGE, ""},
		{"rss.held_system", "bytes", SONDE_GAUGE, ""},
		{"thp.system_level", "count", SONDE_GAUGE, ""},
	};
	struct sonde_compare c;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(shared); i++)
		put_levels(&shared[i], 1e6, 1e6, 9e7, 9e7);
	put_levels(&anon, 9e7, 9.1e7, 5e7, 5.1e7);
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(shared); i++)
		assert_int_equal(find(&c, shared[i].name, "", "level")->section,
				 SONDE_COMPARE_SHARED);
	assert_int_equal(find(&c, "rss.anon", "", "level")->section, SONDE_COMPARE_MEMORY);
	sonde_compare_fini(&c);
}

static void test_counted_over_unequal_time(void **state)
{
	static const struct sonde_metric_desc out = {"alloc.handed_out", "bytes", SONDE_COUNTER,
						     ""};
	static const struct sonde_metric_desc from = {"alloc.counted_from", "ns", SONDE_GAUGE, ""};
	struct sonde_compare c;

	(void)state;
	put(&a, &out, "", 0, 110, 28e6, NULL);
	put(&b, &out, "", 0, 5010, 13e6, NULL);
	put(&a, &from, "", 0, 110, 0, NULL);
	put(&b, &from, "", 0, 5010, 3e9, NULL);
	assert_int_equal(sonde_compare_make(&a, &b, &c), 0);
	assert_string_equal(unranked(&c, "alloc.handed_out", "", "per s"),
			    "not counted over the same time");
	assert_null(find(&c, "alloc.counted_from", "", "level"));
	assert_int_equal(c.n_cautions, 1);
	sonde_compare_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rates, setup, teardown),
		cmocka_unit_test_setup_teardown(test_absent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_equal_age, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_equal_age, setup, teardown),
		cmocka_unit_test_setup_teardown(test_latency, setup, teardown),
		cmocka_unit_test_setup_teardown(test_settings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cautions, setup, teardown),
		cmocka_unit_test_setup_teardown(test_few_events, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_instant, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shared, setup, teardown),
		cmocka_unit_test_setup_teardown(test_counted_over_unequal_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
