// SPDX-License-Identifier: GPL-2.0-or-later
/* Where each arm has several restarts, what these differ by is in the interval. */
#include <math.h>
#include <stdio.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/clock.h"
#include "core/mem.h"
#include "judge/trial.h"
#include "stats_fixture.h"

#define WINDOWS 40
#define RUNS	400

static const struct sonde_trial_metric rss = {
	.name = "RSS", .stat = SONDE_TRIAL_MEAN, .primary = true};

/* Each restart is lucky or not by 2 %, windows differ by 0.2 %. */
static struct sonde_verdict_row run(uint64_t seed, size_t pairs, double effect)
{
	struct sonde_rng r = {seed};
	struct sonde_trial t;
	struct sonde_trial_result out = {0};
	struct sonde_verdict_row row;

	sonde_trial_init(&t, SONDE_NS_PER_SEC, 60 * SONDE_NS_PER_SEC, WINDOWS);
	t.before = (struct sonde_trial_period){0, WINDOWS / 2};
	t.after = (struct sonde_trial_period){WINDOWS / 2, WINDOWS};
	for (size_t s = 0; s < 4 * pairs; s++) {
		char name[16];

		snprintf(name, sizeof(name), "s%zu", s);
		assert_int_equal(sonde_trial_add_server(&t, name), (int)s);
	}
	for (size_t p = 0; p < 2 * pairs; p++)
		assert_int_equal(sonde_trial_add_pair(&t, p < pairs ? "off" : "restart", p >= pairs,
						      2 * p, 2 * p + 1),
				 0);
	assert_int_equal(sonde_trial_add_source(&t, "rss", SONDE_TRIAL_LEVEL), 0);
	assert_int_equal(sonde_trial_add_metric(&t, &rss), 0);
	for (size_t s = 0; s < 4 * pairs; s++) {
		bool restarted = s % 2 == 0, treated = restarted && s / 2 < pairs;
		double luck = restarted ? 0.02 * fixture_normal(&r) : 0;

		for (size_t w = 0; w < WINDOWS; w++) {
			double after = w >= WINDOWS / 2 ? luck + (treated ? effect : 0) : 0;

			sonde_trial_see(&t, s, w);
			sonde_trial_put(&t, 0, s, w, 1e9 * exp(after + 0.002 * fixture_normal(&r)),
					1);
		}
	}
	assert_int_equal(sonde_trial_judge(&t, &out), 0);
	row = out.rows[0];
	sonde_trial_result_fini(&out);
	sonde_trial_fini(&t);
	return row;
}

static double alarms(size_t pairs, double effect)
{
	int n = 0;

	for (uint64_t i = 0; i < RUNS; i++)
		n += run(i + 1, pairs, effect).p < 0.05;
	return 100.0 * n / RUNS;
}

/* By windows alone nearly every run would be a false alarm (2 restarts: it is, and the row says
 * so). With the restarts' own spread it is one in twenty; the standard error of that is 1.1 points.
 */
static void test_false_alarms(void **state)
{
	struct sonde_verdict_row row = run(1, 2, 0);

	(void)state;
	assert_false(row.by_restarts);
	assert_true(row.restart_alarm > 0.8);
	assert_true(alarms(2, 0) > 80);
	assert_true(alarms(3, 0) <= 8);
	assert_true(alarms(5, 0) <= 8);
}

/* 5 restarts each: the error is 2 % * sqrt(2 / 5) = 1.3 %, so that 6 % is found nearly always. */
static void test_power(void **state)
{
	struct sonde_verdict_row row = run(1, 5, 0);

	(void)state;
	assert_true(row.by_restarts && row.restarts == 5 && row.df <= 8);
	assert_true(isnan(row.restart_alarm));
	assert_true(row.se > 0.005 && row.se < 0.03);
	assert_true(alarms(5, -0.06) > 90);
	row = run(2, 3, 0.01);
	assert_int_equal(row.verdict, SONDE_VERDICT_INCONCLUSIVE);
	assert_non_null(strstr(row.reason, "restarts differ: about "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_false_alarms),
		cmocka_unit_test(test_power),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
