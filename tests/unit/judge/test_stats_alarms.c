// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How often is the verdict wrong? A small version, with fixed seeds, of what scripts/sim-stats
 * measures: nothing happens and nothing is found more often than promised; what happens is found.
 * Nominal 5 %; allowed are 8 % up to a correlation of 0.5 from window to window, 12 % at 0.8.
 */
#include "unit/unit.h"
/* cmocka first */
#include "trial_fixture.h"

#define N	336
#define SERIES	600
#define TRIALS	60
#define PLANTED 0.06

static const struct {
	double rho, allowed;
	uint64_t seed; /* the same series as the first ones of the simulation */
} cases[] = {{0, 0.08, 1}, {0.5, 0.08, 2000001}, {0.8, 0.12, 3000001}};

struct alarms {
	unsigned int batches, bootstrap, naive;
};

static void one_series(double rho, uint64_t seed, struct alarms *alarms)
{
	struct sonde_block_length b;
	struct fixture_interval i;
	struct sonde_estimate e;
	struct sonde_rng r = {seed};
	double x[N], length, mean;

	fixture_ar1(&r, x, N, rho, sqrt(1 - rho * rho), 1);
	mean = fabs(sonde_stats_mean(x, N));
	assert_int_equal(sonde_stats_block_length(x, N, &b), 0);
	length = fmax(1, ceil(b.circular));
	i = fixture_boot_mean(x, N, (size_t)length, 400, seed ^ 0x5eed);
	alarms->bootstrap += mean > sonde_stats_t_quantile(0.975, fmax(2, N / length - 1)) * i.se;
	assert_int_equal(
		sonde_stats_batch_mean(x, N, sonde_stats_batching(N, 0, b.correlation).length, &e),
		0);
	alarms->batches += fabs(e.value) > sonde_stats_t_quantile(0.975, e.df) * e.se;
	alarms->naive += mean > 1.96 * sqrt(sonde_stats_variance(x, N) / N);
}

static void test_series(void **state)
{
	(void)state;
	for (size_t k = 0; k < SONDE_ARRAY_SIZE(cases); k++) {
		struct alarms alarms = {0};

		for (unsigned int i = 0; i < SERIES; i++)
			one_series(cases[k].rho, cases[k].seed + i, &alarms);
		assert_true(alarms.batches <= cases[k].allowed * SERIES);
		assert_true(alarms.bootstrap <= cases[k].allowed * SERIES);
		/* An interval that never excludes 0 would pass, too, and would be of no use. */
		assert_true(alarms.batches >= 0.015 * SERIES && alarms.bootstrap >= 0.015 * SERIES);
		/* What the simulation can see: a test that knows of no memory. */
		if (cases[k].rho > 0)
			assert_true(alarms.naive > 0.15 * SERIES);
	}
}

struct tally {
	unsigned int alarms, different, equivalent, wrong_sign, missed;
};

/* Of mean, p95, p99 and RSS together: each is a test. */
static void one_trial(double rho, double planted, uint64_t seed, struct tally *tally)
{
	struct fixture_arm arm = {"arm", planted, planted, 0};
	struct fixture_trial f = {
		.before = N / 2,
		.after = N / 2,
		.window_ns = 600 * SONDE_NS_PER_SEC,
		.queries = 150,
		.rho = rho,
		.noise = 0.03,
		.load = 0.2,
		.restart = -0.02,
		.arms = &arm,
		.n_arms = 1,
		.seed = seed,
	};
	struct sonde_trial_result r;
	struct sonde_trial t;

	fixture_trial_make(&t, &f);
	t.options = (struct sonde_trial_options){.seed = seed, .resamples = 150};
	assert_int_equal(sonde_trial_judge(&t, &r), 0);
	for (size_t i = 0; i < 4; i++) {
		const struct sonde_verdict_row *row = &r.rows[i];

		tally->alarms += row->p < 0.05;
		tally->different += row->verdict == SONDE_VERDICT_DIFFERENT;
		tally->equivalent += row->verdict == SONDE_VERDICT_EQUIVALENT;
		tally->wrong_sign += row->verdict == SONDE_VERDICT_DIFFERENT && row->effect < 0;
		tally->missed += !(row->low <= planted && planted <= row->high);
	}
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

static void test_nothing_happens(void **state)
{
	(void)state;
	for (size_t k = 0; k < SONDE_ARRAY_SIZE(cases); k++) {
		struct tally t = {0};

		for (unsigned int i = 0; i < TRIALS; i++)
			one_trial(cases[k].rho, 0, 1 + i + 1000 * k, &t);
		assert_true(t.alarms <= cases[k].allowed * 4 * TRIALS);
		/* After Holm, and less what does not matter. */
		assert_true(t.different <= 0.05 * 4 * TRIALS);
		assert_true(t.equivalent > 0.2 * 4 * TRIALS);
	}
}

/* 6 % is several errors of each metric but p99. */
static void test_something_happens(void **state)
{
	(void)state;
	for (size_t k = 0; k < SONDE_ARRAY_SIZE(cases); k++) {
		struct tally t = {0};

		for (unsigned int i = 0; i < TRIALS / 2; i++)
			one_trial(cases[k].rho, PLANTED, 1 + i + 1000 * k, &t);
		assert_true(t.different > 0.5 * 2 * TRIALS);
		assert_int_equal(t.wrong_sign, 0);
		assert_true(t.missed <= cases[k].allowed * 2 * TRIALS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_series),
		cmocka_unit_test(test_nothing_happens),
		cmocka_unit_test(test_something_happens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
