// SPDX-License-Identifier: GPL-2.0-or-later
/* From estimates to verdicts: differences in differences, many tests, margins, what would be
 * enough. */
#include <math.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/mem.h"
#include "judge/stats_decide.h"
#include "judge/stats_dist.h"

#define near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static void test_did(void **state)
{
	struct sonde_did treated = {{log(10.0), log(10.2)}, {log(9.0), log(10.5)}};
	struct sonde_did control = {{log(9.9), log(10.0)}, {log(10.1), log(10.3)}};

	(void)state;
	near(sonde_stats_did(&treated, NULL), -0.134348053, 1e-9);
	near(sonde_stats_did(&control, NULL), -0.009558136, 1e-9);
	near(sonde_stats_did(&treated, &control), -0.124789917, 1e-9);
	near(sonde_stats_percent(sonde_stats_did(&treated, &control)), -11.731768, 1e-6);
}

/* Textbook case: variances 4 and 1 with 9 and 4 degrees of freedom. */
static void test_change(void **state)
{
	struct sonde_estimate before = {1, 2, 9}, after = {4, 1, 4}, c;

	(void)state;
	c = sonde_stats_change(&before, &after);
	near(c.value, 3, 0);
	near(c.se, sqrt(5), 1e-12);
	near(c.df, 25 / (16 / 9.0 + 1 / 4.0), 1e-12);
	c = sonde_stats_change(NULL, &after);
	assert_true(c.value == 4 && c.se == 1 && c.df == 4);
	before.se = after.se = 0;
	c = sonde_stats_change(&before, &after);
	assert_true(c.se == 0 && c.df == 13);
}

static void test_many(void **state)
{
	static const double p[] = {.001, .008, .039, .041, .042, .06, .074, .205, .212, .216};
	static const double holm[] = {.01, .072, .312, .312, .312, .312, .312, .615, .615, .615};
	static const double bh[] = {.01, .04, .084, .084, .084, .1, .74 / 7, .216, .216, .216};
	double shuffled[10], out[10];

	(void)state;
	assert_int_equal(sonde_stats_holm(p, 10, out), 0);
	for (int i = 0; i < 10; i++)
		near(out[i], holm[i], 1e-9);
	assert_int_equal(sonde_stats_benjamini_hochberg(p, 10, out), 0);
	for (int i = 0; i < 10; i++)
		near(out[i], bh[i], 1e-9);
	/* In any order, and in place. */
	for (int i = 0; i < 10; i++)
		shuffled[i] = p[i * 7 % 10];
	assert_int_equal(sonde_stats_holm(shuffled, 10, shuffled), 0);
	for (int i = 0; i < 10; i++)
		near(shuffled[i], holm[i * 7 % 10], 1e-9);
	assert_int_equal(sonde_stats_holm(p, 0, out), 0);
}

static void test_enough(void **state)
{
	double mde = sonde_stats_mde(0.01, 0.05, 0.8);

	(void)state;
	near(mde, 0.028016, 5e-7);
	near(sonde_stats_percent(mde), 2.8412, 5e-5);
	near(sonde_stats_mde(1, 0.05, 0.8), 2.801585, 5e-7);
	near(sonde_stats_mde(1, 0.05, 0.9), 3.241516, 5e-7);
	near(sonde_stats_length_needed(14, 0.04, 0.02), 56, 1e-12);
	/* Nothing is fixed: the same. Else more, and at some point no length will do. */
	near(sonde_stats_growth_needed(14, 0, 1, 2, 1), sonde_stats_length_needed(14, 2, 1), 1e-12);
	near(sonde_stats_growth_needed(14, 0.125, 1, 2, 1), 112, 1e-12);
	assert_true(isinf(sonde_stats_growth_needed(14, 0.25, 1, 2, 1)));
}

static void test_restart_luck(void **state)
{
	static const double v[][2] = {{0, 0.0500}, {0.005, 0.335}, {0.01, 0.594}, {0.02, 0.784}};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(v); i++)
		near(sonde_stats_restart_alarm(0.004, v[i][0]), v[i][1], 5e-4);
}

static void test_rss_drift(void **state)
{
	(void)state;
	assert_int_equal(sonde_stats_rss_drift_pages(2), 64);
	assert_int_equal(sonde_stats_rss_drift_pages(16), 512);
	assert_int_equal(sonde_stats_rss_drift_pages(64), 8192);
	assert_int_equal(sonde_stats_rss_drift_pages(192), 73728);
}

static struct sonde_evidence evidence(double effect, double se)
{
	return (struct sonde_evidence){
		.effect = {effect, se, 13},
		.alpha = 0.05,
		.p_adjusted = sonde_stats_t_p(effect / se, 13),
		.margin = log(1.02),
		.placebo_over = NAN,
		.low = NAN,
		.high = NAN,
		.low2 = NAN,
		.high2 = NAN,
	};
}

static void test_intervals(void **state)
{
	static const double v[][6] = {
		{0.004, 0.003, -0.002481, 0.010481, -0.001313, 0.009313},
		{0.012, 0.003, 0.005519, 0.018481, 0.006687, 0.017313},
	};
	double t = sonde_stats_t_quantile(0.975, 13), t2 = sonde_stats_t_quantile(0.95, 13);

	(void)state;
	near(log(1.02), 0.019803, 5e-7);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(v); i++) {
		near(v[i][0] - t * v[i][1], v[i][2], 5.1e-7);
		near(v[i][0] + t * v[i][1], v[i][3], 5.1e-7);
		near(v[i][0] - t2 * v[i][1], v[i][4], 5.1e-7);
		near(v[i][0] + t2 * v[i][1], v[i][5], 5.1e-7);
	}
	near(0.004 - t * 0.012, -0.021924, 5.1e-7);
	near(0.004 + t * 0.012, 0.029924, 5.1e-7);
}

static void test_verdicts(void **state)
{
	struct sonde_evidence e;

	(void)state;
	e = evidence(0.004, 0.003);
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_EQUIVALENT);
	e = evidence(0.012, 0.003); /* not 0, but it does not matter */
	assert_true(e.p_adjusted < 0.05);
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_EQUIVALENT);
	e = evidence(0.004, 0.012);
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_INCONCLUSIVE);
	e = evidence(-0.05, 0.01);
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_DIFFERENT);
	e.p_adjusted = 0.06; /* one of many tests */
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_INCONCLUSIVE);
	e = evidence(-0.05, 0.01);
	e.placebo_over = 0.10; /* at most that is allowed */
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_DIFFERENT);
	e.placebo_over = 0.11;
	e.spread = 0.029; /* -0.05 +- 0.0216 is not beyond that */
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_UNSTABLE);
	e.spread = 0.028;
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_DIFFERENT);
	e = evidence(0.004, 0.003);
	e.placebo_over = 0.11;
	e.spread = 0;
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_UNSTABLE);
}

/* A percentile interval that says otherwise takes a verdict back, and never makes one. */
static void test_two_forms(void **state)
{
	struct sonde_evidence e = evidence(-0.05, 0.01);

	(void)state;
	e.low = -0.08, e.high = 0.001, e.low2 = -0.07, e.high2 = -0.005;
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_INCONCLUSIVE);
	e.high = -0.001;
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_DIFFERENT);
	e = evidence(0.004, 0.003);
	e.low = -0.01, e.high = 0.03, e.low2 = -0.005, e.high2 = 0.021;
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_INCONCLUSIVE);
	e = evidence(0.004, 0.012);
	e.low = 0.001, e.high = 0.01, e.low2 = 0.002, e.high2 = 0.009;
	assert_int_equal(sonde_stats_decide(&e), SONDE_VERDICT_INCONCLUSIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_did),	     cmocka_unit_test(test_change),
		cmocka_unit_test(test_many),	     cmocka_unit_test(test_enough),
		cmocka_unit_test(test_restart_luck), cmocka_unit_test(test_rss_drift),
		cmocka_unit_test(test_intervals),    cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_two_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
