// SPDX-License-Identifier: GPL-2.0-or-later
/* From recordings to windows: what lands where, by UTC, and what does not count. */
#include <errno.h>
#include <math.h>
#include <unistd.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/log.h"
#include "core/mem.h"
#include "judge/trial_fill.h"
#include "record/writer.h"

#define MINUTE	 (60 * SONDE_NS_PER_SEC)
#define START_NS (1794182400 * SONDE_NS_PER_SEC) /* a full minute */

static char dir[] = "/tmp/sonde-fill-XXXXXX";

static const struct sonde_metric_desc rss = {"rss.total", "bytes", SONDE_GAUGE, ""};
static const struct sonde_metric_desc spans = {"query.spans", "count", SONDE_COUNTER, ""};
static const struct sonde_metric_desc user = {"proc.cpu_user", "ns", SONDE_COUNTER, ""};
static const struct sonde_metric_desc sys = {"proc.cpu_sys", "ns", SONDE_COUNTER, ""};
static const struct sonde_metric_desc faults = {"fault.count", "count", SONDE_COUNTER, ""};
static const struct sonde_metric_desc stall = {"stall.time", "ns", SONDE_COUNTER, ""};
static const struct sonde_metric_desc other = {"thp.bloat", "bytes", SONDE_COUNTER, ""};
static const struct sonde_hist_desc latency = {"query.latency", "ns", ""};
static const struct sonde_hist_desc wait = {"query.wait", "ns", ""};

/* The host's monotonic clock has nothing to do with the time of day. */
static uint64_t mono(uint64_t boot_ns, uint64_t utc_ns)
{
	return utc_ns - START_NS + boot_ns;
}

static void put_label(const struct sonde_visitor *v, const struct sonde_metric_desc *d,
		      const char *label, uint64_t ts_ns, double value, const char *absent)
{
	struct sonde_metric m = {
		.desc = d, .label = label, .ts_ns = ts_ns, .value = value, .absent = absent};

	assert_int_equal(v->metric(v->ctx, &m), 0);
}

static void put(const struct sonde_visitor *v, const struct sonde_metric_desc *d, uint64_t ts_ns,
		double value, const char *absent)
{
	put_label(v, d, "", ts_ns, value, absent);
}

static void put_hist(const struct sonde_visitor *v, const struct sonde_hist_desc *d,
		     const char *label, uint64_t from_ns, uint64_t value)
{
	struct sonde_histrow row = {.desc = d,
				    .label = label,
				    .from_ns = from_ns,
				    .to_ns = from_ns + 20 * SONDE_NS_PER_SEC};
	struct sonde_hist h;

	assert_int_equal(sonde_hist_init(&h), 0);
	sonde_hist_add(&h, value);
	row.hist = &h;
	assert_int_equal(v->hist(v->ctx, &row), 0);
	sonde_hist_fini(&h);
}

/* Ticks every 20 s from @begin_s on; a reading each, counters grow by 10 and 1000, and fall once.
 */
static void record(const char *name, uint64_t boot_ns, int begin_s, int end_s, int falls_at_s)
{
	struct sonde_clockpair clock = {boot_ns, START_NS};
	struct sonde_writer_opts opts = {.clock = clock};
	const struct sonde_visitor *v;
	struct sonde_meta meta = {0};
	struct sonde_writer *w = NULL;
	double queries = 0;
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
	v = sonde_writer_visitor(w);
	assert_int_equal(sonde_meta_set_clock(&meta, &clock), 0);
	assert_int_equal(v->begin(v->ctx, &meta), 0);
	for (int s = begin_s + 20; s <= end_s; s += 20) {
		uint64_t ts = mono(boot_ns, START_NS + (uint64_t)(s * 1000) * SONDE_NS_PER_MS);

		queries = s == falls_at_s ? 5 : queries + 10;
		put(v, &rss, ts, 1000 + s, s % 60 == 40 ? "could not be read" : NULL);
		put(v, &spans, ts, queries, NULL);
		put(v, &user, ts, 100 * queries, NULL);
		put(v, &sys, ts, 20 * queries, NULL);
		put_label(v, &faults, "base.minor", ts, 3 * queries, NULL);
		put_label(v, &faults, "pmd.minor", ts, queries, NULL);
		put_label(v, &stall, "sleep", ts, 1e9 * queries, NULL);
		put_label(v, &stall, "runqueue", ts, 7 * queries, NULL);
		put(v, &other, ts, 7, NULL);
		put_hist(v, &latency, "", ts - 20 * SONDE_NS_PER_SEC, 1000000 + (uint64_t)s);
		put_hist(v, &latency, "slow", ts - 20 * SONDE_NS_PER_SEC, 5);
		put_hist(v, &wait, "", ts - 20 * SONDE_NS_PER_SEC, 5);
		assert_int_equal(v->tick(v->ctx, ts), 0);
	}
	assert_int_equal(v->end(v->ctx, NULL), 0);
	assert_int_equal(sonde_writer_close(&w), 0);
	sonde_meta_fini(&meta);
}

static int fill(struct sonde_trial *t, size_t server, const char *name)
{
	struct sonde_reader *r = NULL;
	char path[64];
	int err;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(sonde_reader_open(&r, path), 0);
	err = sonde_trial_fill_from(t, server, r, NULL, NULL);
	sonde_reader_free(&r);
	return err;
}

static const struct sonde_trial_cell *cell(const struct sonde_trial *t, const char *source,
					   size_t server)
{
	for (size_t i = 0; i < t->n_sources; i++)
		if (!strcmp(t->sources[i].name, source))
			return &t->sources[i].cell[server];
	fail_msg("no source %s", source);
	return NULL;
}

static void begin(struct sonde_trial *t)
{
	/* From minute 1 on, four minutes. */
	sonde_trial_init(t, START_NS + MINUTE, MINUTE, 4);
	assert_int_equal(sonde_trial_add_server(t, "a"), 0);
	assert_int_equal(sonde_trial_add_server(t, "b"), 1);
	assert_int_equal(sonde_trial_fill_begin(t), 0);
}

static void test_windows(void **state)
{
	struct sonde_trial t;

	(void)state;
	record("a.sonde", 77 * SONDE_NS_PER_SEC, 0, 600, 200);
	record("b.sonde", 123456 * SONDE_NS_PER_SEC, 140, 240, 0);
	begin(&t);
	assert_int_equal(fill(&t, 0, "a.sonde"), 0);
	assert_int_equal(fill(&t, 1, "b.sonde"), 0);
	assert_int_equal(sonde_trial_fill_end(&t), 0);
	/* Minute 1 of a: readings at 80, (100 absent), 120; the last one is of the time before it.
	 */
	assert_true(cell(&t, "rss.total", 0)->num[0] == 1080 + 1120);
	assert_true(cell(&t, "rss.total", 0)->den[0] == 2);
	/* What it grew by since the reading on the window's begin, which is of the time before. */
	assert_true(cell(&t, "cpu", 0)->den[0] == 30 && cell(&t, "cpu", 0)->num[0] == 30 * 120);
	assert_true(cell(&t, "cpu", 0)->den[1] == 30 && cell(&t, "cpu", 0)->num[1] == 30 * 120);
	/* Of faults all, and those of huge pages; of stalls no rest. */
	assert_true(cell(&t, "fault.count", 0)->num[1] == 120 &&
		    cell(&t, "fault.huge", 0)->num[1] == 30 &&
		    cell(&t, "fault.huge", 0)->den[1] == 30);
	assert_true(cell(&t, "runqueue", 0)->num[1] == 210 &&
		    cell(&t, "mmap_lock", 0)->num[1] == 0);
	/* At 200 s the counter began anew: minute 3 has lost a third. */
	assert_true(cell(&t, "cpu", 0)->den[2] == 20 && cell(&t, "cpu", 0)->num[2] == 20 * 120);
	for (int w = 0; w < 4; w++) {
		assert_int_equal(t.seen[w], 1);
		assert_true(cell(&t, "query.latency", 0)->den[w] == 3);
		assert_true(fabs(cell(&t, "query.latency", 0)->num[w] - 3e6 - 3 * (100 + 60 * w)) <
			    1e-6);
	}
	/* b was there from 140 to 240 s. */
	assert_true(t.seen[4] == 0 && t.seen[5] == 1 && t.seen[6] == 1 && t.seen[7] == 0);
	assert_true(cell(&t, "query.latency", 1)->den[0] == 0 &&
		    cell(&t, "query.latency", 1)->den[1] == 2 &&
		    cell(&t, "query.latency", 1)->den[2] == 3);
	sonde_trial_fini(&t);
}

static const struct sonde_trial_metric *find_metric(const struct sonde_trial *t, const char *name)
{
	for (size_t i = 0; i < t->n_metrics; i++)
		if (!strcmp(t->metrics[i].name, name))
			return &t->metrics[i];
	return NULL;
}

/* A label is a metric of its own, told only where it differs, and divided by all queries, also
 * those before it was met. */
static void test_families(void **state)
{
	const struct sonde_trial_metric *m;
	struct sonde_trial t;

	(void)state;
	begin(&t);
	assert_int_equal(fill(&t, 0, "a.sonde"), 0);
	assert_int_equal(sonde_trial_fill_end(&t), 0);
	m = find_metric(&t, "faults pmd.minor per query");
	assert_non_null(m);
	assert_true(m->detail == SONDE_TRIAL_IF_DIFFERENT && !m->primary);
	assert_true(cell(&t, "fault.count pmd.minor", 0)->num[1] == 30 &&
		    cell(&t, "fault.count pmd.minor", 0)->den[1] == 30);
	assert_non_null(find_metric(&t, "faults base.minor per query"));
	assert_true(cell(&t, "fault.count base.minor", 0)->num[1] == 90);
	sonde_trial_fini(&t);
}

/* What nobody recorded is no metric, and has no margin. */
static void test_metrics(void **state)
{
	struct sonde_trial t;
	char names[256];

	(void)state;
	begin(&t);
	assert_int_equal(sonde_trial_fill_margin(&t, "fault time per query", 0.1), 0);
	assert_int_equal(fill(&t, 0, "a.sonde"), 0);
	assert_int_equal(sonde_trial_fill_end(&t), 0);
	assert_string_equal(sonde_trial_fill_names(&t, names, sizeof(names)),
			    "RSS, mean, p95, p99, RSS growth a day, p50, p99.9, CPU per query, "
			    "faults per query, huge faults per query, run queue per query");
	assert_int_equal(sonde_trial_fill_margin(&t, "fault time per query", 0.1), -ENOENT);
	assert_int_equal(sonde_trial_fill_margin(&t, "p95", 0.1), 0);
	assert_string_equal(t.metrics[2].name, "p95");
	assert_true(t.metrics[2].margin == 0.1 && t.metrics[0].margin == 0.03);
	sonde_trial_fini(&t);
}

/* One after the other is one server's time; at the same time it would count twice. */
static void test_order(void **state)
{
	struct sonde_trial t;

	(void)state;
	record("a1.sonde", 5 * SONDE_NS_PER_SEC, 0, 150, 0);
	record("a2.sonde", 9 * SONDE_NS_PER_SEC, 150, 300, 0);
	begin(&t);
	assert_int_equal(fill(&t, 0, "a1.sonde"), 0);
	assert_int_equal(fill(&t, 0, "a2.sonde"), 0);
	sonde_log_set_level(SONDE_LOG_NONE);
	assert_int_equal(fill(&t, 0, "a1.sonde"), -EINVAL);
	sonde_log_set_level(SONDE_LOG_WARN);
	assert_int_equal(sonde_trial_fill_end(&t), 0);
	/* Of minute 2 the first has seen 20 s and the second 20 s; what crosses its end is counted
	 * later. */
	assert_true(cell(&t, "query.latency", 0)->den[1] == 2);
	sonde_trial_fini(&t);
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	static const char *const files[] = {"a.sonde", "b.sonde", "a1.sonde", "a2.sonde"};
	char path[64];

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		unlink(path);
	}
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
