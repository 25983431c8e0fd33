// SPDX-License-Identifier: GPL-2.0-or-later
/* Windows under loads that change, simulated: shares are kept at every moment, periods are not met.
 */
#include <math.h>
#include <stdbool.h>

#include "unit/unit.h"
/* cmocka first */
#include "lens/window_budget.h"

#define MS 1000000.0
#define S  1000000000ull

/* What a window takes while the target is as it is. */
struct load {
	double cpus;	     /* that the target uses                                             */
	double disturbed_ms; /* links made, window, links closed                                 */
	double late_ms;	     /* cost of traps outside the counting part                          */
	double open_ms;	     /* and in it, if it may                                             */
};

struct play {
	struct sonde_window_budget b;
	uint64_t now, windows;
	double cpu;
	double over_time, over_cpu; /* the most by which a share was exceeded, in windows */
	double phase[2]; /* sums of cosine and sine of the begin's phase in a period    */
	uint64_t period;
};

static void one_window(struct play *p, const struct load *l)
{
	double allowance = sonde_window_budget_allowance(&p->b, p->cpu);
	double open = fmin(allowance, l->open_ms * MS), angle, over;

	p->now += sonde_window_budget_delay(&p->b);
	angle = 2 * M_PI * (double)(p->now % p->period) / (double)p->period;
	p->phase[0] += cos(angle);
	p->phase[1] += sin(angle);
	assert_true(sonde_window_budget_length(&p->b) >= SONDE_WINDOW_LENGTH_NS / 2);
	assert_true(sonde_window_budget_length(&p->b) <= SONDE_WINDOW_LENGTH_NS / 2 * 3);
	p->now += (uint64_t)(l->disturbed_ms * MS);
	p->cpu += l->cpus * l->disturbed_ms * MS;
	sonde_window_budget_spent(&p->b, l->disturbed_ms * MS, open, open + l->late_ms * MS);
	p->windows++;
	over = (p->b.disturbed_ns - p->b.time_share * (double)(p->now - p->b.began_ns)) /
	       (l->disturbed_ms * MS);
	p->over_time = fmax(p->over_time, over);
	over = (p->b.cost_ns - p->b.cpu_share * p->cpu) / (open + l->late_ms * MS);
	p->over_cpu = fmax(p->over_cpu, over);
}

static void play(struct play *p, const struct load *l, uint64_t length)
{
	for (uint64_t end = p->now + length; p->now < end;) {
		p->now += 10 * S / 1000;
		p->cpu += l->cpus * 10 * MS;
		if (sonde_window_budget_due(&p->b, p->now, p->cpu))
			one_window(p, l);
	}
}

static void begin(struct play *p, uint64_t seed)
{
	*p = (struct play){.now = S, .period = S};
	sonde_window_budget_init(&p->b, 0.01, 0.005, p->now, seed);
}

/* One load for ten minutes: never over, and the budget is used, not hoarded. */
static void test_steady(void **state)
{
	static const struct load loads[] = {
		{1, 35, 2, 5},
		{2, 60, 40, 40},
		{0.05, 35, 0.2, 0.5},
		{100, 300, 200, 100},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		struct play p;

		begin(&p, i + 1);
		play(&p, &loads[i], 600 * S);
		assert_true(p.windows >= 2);
		assert_true(p.b.disturbed_ns <= 0.005 * 600e9);
		assert_true(p.b.cost_ns <= 0.01 * p.cpu);
	}
}

/* Loads that change between windows: beyond what was expected by one window at most, made up for.
 */
static void test_changing(void **state)
{
	static const struct load idle = {0.02, 20, 0.1, 0.1}, burst = {2, 80, 60, 40};
	struct play p;

	(void)state;
	begin(&p, 7);
	for (int i = 0; i < 30; i++) {
		play(&p, &idle, 13 * S);
		play(&p, &burst, 7 * S);
	}
	assert_true(p.windows >= 10);
	assert_true(p.over_time <= 1);
	assert_true(p.over_cpu <= 1);
	play(&p, &idle, 60 * S);
	assert_true(p.b.disturbed_ns <= 0.005 * (double)(p.now - p.b.began_ns));
	assert_true(p.b.cost_ns <= 0.01 * p.cpu);
}

/* A target that is idle gives no CPU time to take a share of. */
static void test_idle(void **state)
{
	static const struct load idle = {0, 20, 0, 0};
	struct play p;

	(void)state;
	begin(&p, 3);
	play(&p, &idle, 600 * S);
	assert_int_equal(p.windows, 0);
}

/* Begins are spread over a period of the target's, whatever it is: the mean of n unit vectors is
 * longer than 3 / sqrt(n) once in 8,000 times if they are. */
static void test_no_alias(void **state)
{
	static const struct load load = {1, 35, 2, 5};
	static const uint64_t periods[] = {S / 100, S / 3, S, 7 * S, 10 * S, 60 * S};

	(void)state;
	for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
		struct play p;
		double n;

		begin(&p, 100 + i);
		p.period = periods[i];
		play(&p, &load, 20000 * S);
		n = (double)p.windows;
		assert_true(n > 1000);
		if (hypot(p.phase[0], p.phase[1]) / n > 3 / sqrt(n))
			fail_msg("%.0f windows meet a period of %.2f s", n,
				 (double)periods[i] / 1e9);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steady), cmocka_unit_test(test_changing),
		cmocka_unit_test(test_idle), cmocka_unit_test(test_no_alias)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
