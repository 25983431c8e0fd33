// SPDX-License-Identifier: GPL-2.0-or-later
/* From sampled faults to the time of all: exact where all are timed, near and growing where not. */
#include <math.h>
#include <stdlib.h>

#include "unit/unit.h"

#include "lens/fault_priv.h"

static void near(double got, double want, double by)
{
	if (fabs(got - want) > by)
		fail_msg("got %f, wanted %f within %f", got, want, by);
}

static void all_timed_is_the_sum(void **state)
{
	struct fault_time t = {};
	struct sonde_fault_sum s = {.count = 3, .ns = 700};

	(void)state;
	fault_time_update(&t, &s);
	near(t.ns, 700, 0);
	near(t.error_ns, 0, 0);
	s = (struct sonde_fault_sum){.count = 5, .ns = 1000};
	fault_time_update(&t, &s);
	near(t.ns, 1000, 0);
}

/* Of 160 plain faults 10 were timed, at 100 ns each: the others took as long. */
static void the_others_took_as_long(void **state)
{
	struct fault_time t = {};
	struct sonde_fault_sum s = {.count = 176,
				    .ns = 16 * 90,
				    .plain = 160,
				    .timed = 10,
				    .plain_ns = 10 * 96,
				    .plain_sq = 10 * 36};

	(void)state;
	fault_time_update(&t, &s);
	near(t.ns, 16 * 90 + 160 * 96, 1e-6);
	near(t.error_ns, 0, 1e-6); /* they are all alike */
}

/* Later samples that are shorter make the mean smaller, not the time. */
static void time_only_grows(void **state)
{
	struct fault_time t = {};
	struct sonde_fault_sum s = {.count = 100, .plain = 100, .timed = 5, .plain_ns = 5000};
	double before;

	(void)state;
	fault_time_update(&t, &s);
	near(t.ns, 100 * 1000, 1e-6);
	before = t.ns;
	s.count = s.plain = 110;
	s.timed = 6;
	s.plain_ns += 10;
	fault_time_update(&t, &s);
	near(t.ns, before + 10 * 10, 1e-6);
	/* No sample in between: as long as all of them so far. */
	before = t.ns;
	s.count = s.plain = 112;
	fault_time_update(&t, &s);
	near(t.ns, before + 2 * 5010.0 / 6, 1e-6);
}

static void without_a_sample_those_before_sampling_count(void **state)
{
	struct fault_time t = {};
	struct sonde_fault_sum s = {.count = 20, .ns = 16 * 50, .plain = 4};

	(void)state;
	fault_time_update(&t, &s);
	near(t.ns, 20 * 50, 1e-6);
	t = (struct fault_time){};
	s = (struct sonde_fault_sum){.count = 1, .plain = 1}; /* its begin was not seen */
	fault_time_update(&t, &s);
	near(t.ns, 0, 0);
}

/* One in 16 of faults whose times are spread: at most about 5 of 100 runs may be off by more. */
static void the_error_holds(void **state)
{
	unsigned seed = 7;
	int off = 0;

	(void)state;
	for (int run = 0; run < 1000; run++) {
		struct fault_time t = {};
		struct sonde_fault_sum s = {};
		double truth = 0;

		for (int i = 0; i < 3200; i++) {
			uint64_t ns = 1000 + (uint64_t)(rand_r(&seed) % 4000);

			truth += (double)ns;
			s.count++;
			s.plain++;
			if (rand_r(&seed) % 16)
				continue;
			s.timed++;
			s.plain_ns += ns;
			s.plain_sq += (ns >> 4) * (ns >> 4);
		}
		fault_time_update(&t, &s);
		off += fabs(t.ns - truth) > t.error_ns;
	}
	if (off < 20 || off > 90)
		fail_msg("%d of 1000 are off by more than the error says", off);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_timed_is_the_sum),
		cmocka_unit_test(the_others_took_as_long),
		cmocka_unit_test(time_only_grows),
		cmocka_unit_test(without_a_sample_those_before_sampling_count),
		cmocka_unit_test(the_error_holds),
	};

	return cmocka_run_group_tests_name("fault_sample", tests, NULL, NULL);
}
