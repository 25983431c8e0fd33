// SPDX-License-Identifier: GPL-2.0-or-later
/* The split of a change: exact shares of made-up servers, whose sum is the effect. */
#include <math.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/clock.h"
#include "core/mem.h"
#include "judge/trial_figures.h"
#include "judge/trial_why.h"
#include "stats_fixture.h"

#define WINDOWS 40
#define QUERIES 200 /* a window: the slowest 1 % are 2 of them */

enum { TREATED, REFERENCE, RESTARTED, UNTOUCHED, SERVERS };

static struct sonde_trial trial;
static struct sonde_why_data data;

static void begin(size_t before)
{
	static const char *const names[SERVERS] = {"t", "u", "ct", "cu"};

	sonde_trial_init(&trial, SONDE_NS_PER_SEC, 3600 * SONDE_NS_PER_SEC, WINDOWS);
	trial.before = (struct sonde_trial_period){0, before};
	trial.after = (struct sonde_trial_period){before, WINDOWS};
	trial.options = (struct sonde_trial_options){.seed = 1, .resamples = 200};
	for (size_t s = 0; s < SERVERS; s++)
		assert_int_equal(sonde_trial_add_server(&trial, names[s]), (int)s);
	assert_int_equal(sonde_trial_add_pair(&trial, "on", false, TREATED, REFERENCE), 0);
	assert_int_equal(sonde_trial_add_pair(&trial, "restart", true, RESTARTED, UNTOUCHED), 0);
	assert_int_equal(sonde_figures_begin(&trial), 0);
	assert_int_equal(sonde_why_init(&data, &trial), 0);
}

/* A query of 1 ms, 10 ms where it is slow: 60 % user CPU, 40 % base faults; and what @after adds.
 */
static void put(size_t server, size_t w, bool slow, double factor, uint64_t huge_ns,
		uint64_t lock_ns)
{
	struct sonde_span s = {.arrival_ns = 1000000, .has_parts = true};
	uint64_t ns = (uint64_t)((slow ? 10e6 : 1e6) * factor);

	s.part_ns[SONDE_PART_USER] = ns * 6 / 10;
	s.part_ns[SONDE_PART_FAULT_BASE] = ns - s.part_ns[SONDE_PART_USER];
	s.part_ns[SONDE_PART_FAULT_PMD] = huge_ns;
	s.part_ns[SONDE_PART_OFF_MMAP_LOCK] = slow ? lock_ns : 0;
	ns += huge_ns + s.part_ns[SONDE_PART_OFF_MMAP_LOCK];
	s.last_ns = s.arrival_ns + ns;
	sonde_why_put(&data, server, w >= trial.after.from, w, &s);
	assert_int_equal(sonde_windows_add_value(
				 sonde_trial_hist(&trial, sonde_figure_latency(), server), w, ns),
			 0);
}

static void fill(void)
{
	struct sonde_rng r = {3};

	for (size_t w = 0; w < WINDOWS; w++) {
		double load = exp(0.05 * fixture_normal(&r));

		for (size_t s = 0; s < SERVERS; s++) {
			bool after = w >= trial.after.from, treated = after && s == TREATED;
			double factor =
				load * (after && (s == TREATED || s == RESTARTED) ? 0.98 : 1);

			sonde_trial_see(&trial, s, w);
			for (int i = 0; i < QUERIES; i++)
				put(s, w, i < 2, factor, treated ? 100000 : 0,
				    treated ? 3000000 : 0);
		}
	}
	for (size_t s = 0; s < SERVERS; s++)
		assert_int_equal(
			sonde_windows_seal(sonde_trial_hist(&trial, sonde_figure_latency(), s)), 0);
}

static double sum(const struct sonde_why_row *row)
{
	double all = 0;

	for (size_t p = 0; p < SONDE_PART__MAX; p++)
		all += row->points[p];
	return all;
}

static void end(void)
{
	sonde_why_fini(&data);
	sonde_trial_fini(&trial);
}

/* 1.09 ms a query; 100 us more of huge pages and 30 us of the lock (3 ms of 1 in 100). */
static void test_split(void **state)
{
	const struct sonde_why_row *mean, *tail;
	struct sonde_why why;

	(void)state;
	begin(WINDOWS / 2);
	fill();
	assert_int_equal(sonde_why_judge(&trial, &data, "", "", &why), 0);
	assert_int_equal(why.n, 2);
	assert_true(!*why.no_mean && !*why.no_tail);
	mean = &why.rows[0];
	tail = &why.rows[1];
	assert_false(mean->tail);
	assert_true(mean->known == 1);
	assert_true(fabs(sum(mean) - mean->change) < 1e-9);
	/* Of 0.98 ms * 1.09: 9.36 % and 2.81 %. */
	assert_true(fabs(mean->points[SONDE_PART_FAULT_PMD] - 9.36) < 0.2);
	assert_true(fabs(mean->points[SONDE_PART_OFF_MMAP_LOCK] - 2.81) < 0.1);
	assert_true(fabs(mean->points[SONDE_PART_USER]) < 0.5);
	assert_true(mean->low[SONDE_PART_FAULT_PMD] < 9.36 &&
		    mean->high[SONDE_PART_FAULT_PMD] > 9.36);
	/* The slow ones: 9.8 ms and 3.1 more. */
	assert_true(tail->tail && tail->share == 0.01);
	assert_true(fabs(sum(tail) - tail->change) < 1e-9);
	assert_true(fabs(tail->points[SONDE_PART_OFF_MMAP_LOCK] - 30.6) < 1);
	assert_true(fabs(tail->points[SONDE_PART_FAULT_PMD] - 1.02) < 0.1);
	sonde_why_result_fini(&why);
	end();
}

/* Without a time before, the two of a pair are held against each other. */
static void test_no_baseline(void **state)
{
	struct sonde_why why;

	(void)state;
	begin(0);
	fill();
	assert_int_equal(sonde_why_judge(&trial, &data, "", "", &why), 0);
	assert_true(fabs(why.rows[0].points[SONDE_PART_FAULT_PMD] - 9.36) < 0.2);
	assert_true(fabs(sum(&why.rows[0]) - why.rows[0].change) < 1e-9);
	sonde_why_result_fini(&why);
	end();
}

/* What is not known of one server is not guessed from the others; a tail is as long as it is whole.
 */
static void test_unknown(void **state)
{
	struct sonde_why why;

	(void)state;
	begin(WINDOWS / 2);
	fill();
	/* Of an hour of the reference only queries above 20 ms were kept. */
	sonde_why_hour(&data, REFERENCE, 0, 20000000);
	assert_int_equal(sonde_why_judge(&trial, &data, "because", "", &why), 0);
	assert_int_equal(why.n, 0);
	assert_string_equal(why.no_mean, "because");
	assert_non_null(strstr(why.no_tail, "too few of the slowest queries are kept"));
	sonde_why_result_fini(&why);
	memset(data.count, 0, WINDOWS * sizeof(*data.count));
	assert_int_equal(sonde_why_judge(&trial, &data, "", "", &why), 0);
	assert_non_null(strstr(why.no_mean, "no query of t before the change was taken apart"));
	sonde_why_result_fini(&why);
	end();
}

static void test_words(void **state)
{
	(void)state;
	for (unsigned int p = 0; p < SONDE_PART__MAX; p++)
		assert_true(*sonde_why_words(p) != '?' &&
			    !strchr(sonde_why_words(p), '_') == (p != SONDE_PART_OFF_MMAP_LOCK));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_no_baseline),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
