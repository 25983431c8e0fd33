// SPDX-License-Identifier: GPL-2.0-or-later
/* What is to be weighed: only what is known to differ, and the names of what is not known. */
#include <math.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/mem.h"
#include "judge/trial_trade.h"

#define GIB (1024.0 * 1024 * 1024)

static struct sonde_verdict_row row(const char *arm, const char *metric, double effect,
				    enum sonde_verdict verdict)
{
	struct sonde_verdict_row r = {.primary = true,
				      .has_effect = true,
				      .has_interval = true,
				      .effect = effect,
				      .low = effect - 0.01,
				      .high = effect + 0.01,
				      .unit = "ns",
				      .verdict = verdict};

	snprintf(r.arm, sizeof(r.arm), "%s", arm);
	snprintf(r.against, sizeof(r.against), "restart");
	snprintf(r.metric, sizeof(r.metric), "%s", metric);
	return r;
}

static void test_trade(void **state)
{
	struct sonde_verdict_row rows[7] = {
		row("off", "RSS", log(0.95), SONDE_VERDICT_DIFFERENT),
		row("off", "mean", -0.1, SONDE_VERDICT_DIFFERENT),
		row("off", "p95", 0.08, SONDE_VERDICT_DIFFERENT),
		row("off", "p99", -0.03, SONDE_VERDICT_INCONCLUSIVE),
		row("off", "p50", -0.2, SONDE_VERDICT_DIFFERENT),
		row("on", "RSS", -0.001, SONDE_VERDICT_EQUIVALENT),
		row("off", "mean", -0.1, SONDE_VERDICT_DIFFERENT),
	};
	struct sonde_trial_result r = {.rows = rows, .n_rows = 7};
	struct sonde_trade t;

	(void)state;
	rows[0].unit = rows[5].unit = "bytes";
	rows[0].plain[0][1] = 57 * GIB;
	rows[4].primary = false;
	rows[6].between = true;
	assert_int_equal(sonde_trade_next(&r, SIZE_MAX), 0);
	assert_int_equal(sonde_trade_next(&r, 0), 5);
	assert_int_equal(sonde_trade_next(&r, 5), 7);
	sonde_trade_make(&r, 0, &t);
	assert_true(t.n_gains == 2 && t.n_costs == 1 && t.n_unknown == 1);
	assert_string_equal(t.gains[1]->metric, "mean");
	assert_string_equal(t.costs[0]->metric, "p95");
	assert_string_equal(t.unknown[0]->metric, "p99");
	/* 57 GiB are 95 % of 60. */
	assert_true(t.has_memory && fabs(t.saved - 3 * GIB) < 1);
	assert_true(t.saved_low < t.saved && t.saved < t.saved_high);
	sonde_trade_make(&r, 5, &t);
	assert_true(!t.n_gains && !t.n_costs && !t.n_unknown && !t.has_memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trade),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
