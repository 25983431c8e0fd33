// SPDX-License-Identifier: GPL-2.0-or-later
/* A snapshot remembers last values, differences over an interval, merged histograms, notes and
 * drops. */
#include "unit/unit.h"

#include "model/snapshot.h"

static const struct sonde_metric_desc counter = {"x.count", "count", SONDE_COUNTER, ""};
static const struct sonde_metric_desc gauge = {"x.level", "bytes", SONDE_GAUGE, ""};
static const struct sonde_hist_desc latency = {"x.latency", "ns", ""};

static void push(struct sonde_snapshot *s, const struct sonde_metric_desc *d, const char *label,
		 uint32_t target, double v)
{
	struct sonde_metric m = {.desc = d, .label = label, .target = target, .value = v};

	assert_int_equal(sonde_visit(&s->visitor, metric, &m), 0);
}

static void test_counters(void **state)
{
	struct sonde_snapshot s;
	bool present;

	(void)state;
	sonde_snapshot_init(&s);
	push(&s, &counter, "a", 0, 10);
	push(&s, &counter, "b", 1, 5);
	assert_true(sonde_snapshot_delta(&s, "x.count", &present) == 15);
	sonde_snapshot_mark(&s);
	push(&s, &counter, "a", 0, 12);
	assert_true(sonde_snapshot_delta(&s, "x.count", &present) == 2);
	assert_true(sonde_snapshot_sum(&s, "x.count", &present) == 17);
	assert_true(present);
	sonde_snapshot_sum(&s, "x.none", &present);
	assert_false(present);
	sonde_snapshot_fini(&s);
}

static void test_gauge_and_absence(void **state)
{
	struct sonde_metric gone = {.desc = &gauge, .label = "", .absent = "no such thing"};
	const struct sonde_snap_metric *m;
	struct sonde_snapshot s;
	bool present;

	(void)state;
	sonde_snapshot_init(&s);
	assert_int_equal(sonde_visit(&s.visitor, metric, &gone), 0);
	m = sonde_snapshot_find_metric(&s, "x.level", "", 0);
	assert_false(m->present);
	assert_string_equal(m->absent, "no such thing");
	sonde_snapshot_sum(&s, "x.level", &present);
	assert_false(present); /* absent is not 0 */
	push(&s, &gauge, "", 0, 7);
	push(&s, &gauge, "", 0, 3);
	m = sonde_snapshot_find_metric(&s, "x.level", "", 0);
	assert_true(m->present && !m->absent && m->first == 7 && m->last == 3 && m->min == 3 &&
		    m->max == 7);
	sonde_snapshot_fini(&s);
}

static void test_hist_intervals(void **state)
{
	struct sonde_snapshot s;
	struct sonde_hist h, sum;
	struct sonde_histrow row = {.desc = &latency, .label = "", .hist = &h};

	(void)state;
	sonde_snapshot_init(&s);
	assert_int_equal(sonde_hist_init(&h) | sonde_hist_init(&sum), 0);
	sonde_hist_add(&h, 100);
	assert_int_equal(sonde_visit(&s.visitor, hist, &row), 0);
	row.target = 1;
	assert_int_equal(sonde_visit(&s.visitor, hist, &row), 0);
	assert_int_equal(sonde_visit(&s.visitor, tick, 1000), 0);
	assert_int_equal(sonde_snapshot_hist_total(&s, "x.latency", "", true, &sum), 0);
	assert_int_equal(sum.count, 2); /* both targets */
	assert_int_equal(sonde_visit(&s.visitor, tick, 2000), 0);
	sonde_hist_reset(&sum);
	assert_int_not_equal(sonde_snapshot_hist_total(&s, "x.latency", "", true, &sum), 0);
	assert_int_equal(sonde_snapshot_hist_total(&s, "x.latency", "", false, &sum), 0);
	assert_int_equal(sum.count, 2);
	sonde_hist_fini(&h);
	sonde_hist_fini(&sum);
	sonde_snapshot_fini(&s);
}

static void test_drops_and_notes(void **state)
{
	struct sonde_drops d = {.lens = SONDE_LENS_QUERY, .cause = SONDE_DROP_GAP, .count = 3};
	struct sonde_note n = {.level = SONDE_NOTE_EVENT, .what = "happened"};
	struct sonde_snapshot s;

	(void)state;
	sonde_snapshot_init(&s);
	assert_int_equal(sonde_visit(&s.visitor, drop, &d), 0);
	d.count = 4; /* cumulative, so it replaces */
	assert_int_equal(sonde_visit(&s.visitor, drop, &d), 0);
	assert_int_equal(sonde_snapshot_drops(&s), 4);
	/* What leaves the counts right is kept, and is no loss. */
	d = (struct sonde_drops){
		.lens = SONDE_LENS_FAULT, .cause = SONDE_DROP_UNFINISHED, .count = 14};
	assert_int_equal(sonde_visit(&s.visitor, drop, &d), 0);
	assert_int_equal(s.drops[SONDE_LENS_FAULT][SONDE_DROP_UNFINISHED], 14);
	assert_int_equal(sonde_snapshot_drops(&s), 4);
	assert_int_equal(sonde_visit(&s.visitor, note, &n), 0);
	assert_int_equal(s.n_notes, 1);
	assert_string_equal(s.notes[0].note.lens, "");
	sonde_snapshot_fini(&s);
}

/* Every row of the tables that derive names is filled. */
static void test_names(void **state)
{
	(void)state;
	for (int i = 0; i < SONDE_LENS__MAX; i++)
		assert_string_not_equal(sonde_lens_id_name(i), "?");
	for (int i = 0; i < SONDE_DROP__MAX; i++) {
		assert_string_not_equal(sonde_drop_name(i), "?");
		assert_string_not_equal(sonde_drop_help(i), "?");
	}
	for (int i = 0; i <= SONDE_SPAN_UNFINISHED; i++)
		assert_string_not_equal(sonde_span_status_name(i), "?");
	assert_string_equal(sonde_span_status_name(SONDE_SPAN_ABORTED), "aborted");
	assert_string_equal(sonde_span_status_name(SONDE_SPAN_UNFINISHED), "unfinished");
	assert_string_equal(sonde_span_status_name(SONDE_SPAN_UNFINISHED + 1), "?");
	for (int i = 0; i < SONDE_PROTO__MAX; i++)
		assert_string_not_equal(sonde_proto_name(i), "?");
	assert_string_equal(sonde_proto_name(SONDE_PROTO__MAX), "?");
	assert_string_equal(sonde_lens_id_name(SONDE_LENS__MAX), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counters),       cmocka_unit_test(test_gauge_and_absence),
		cmocka_unit_test(test_hist_intervals), cmocka_unit_test(test_drops_and_notes),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
