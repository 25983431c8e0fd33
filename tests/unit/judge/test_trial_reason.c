// SPDX-License-Identifier: GPL-2.0-or-later
/* A verdict in words, and what would resolve it. */
#include <math.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/mem.h"
#include "judge/trial_reason.h"

static struct sonde_verdict_row row(enum sonde_verdict verdict)
{
	return (struct sonde_verdict_row){
		.has_effect = true,
		.has_interval = true,
		.verdict = verdict,
		.alpha = 0.05,
		.p = 0.3,
		.p_adjusted = 0.3,
		.family = 8,
		.margin_asked = log(1.05),
		.margin = log(1.05),
		.mde = log(1.07),
		.days_before = 7,
		.days = 14,
		.days_needed = 27.2,
		.placebo_over = 0.24,
		.placebo_splits = 100,
	};
}

#define says(r, text)                                                                              \
	do {                                                                                       \
		sonde_verdict_reason(&(r));                                                        \
		assert_string_equal((r).reason, text);                                             \
	} while (0)

static void test_different(void **state)
{
	struct sonde_verdict_row r = row(SONDE_VERDICT_DIFFERENT);

	(void)state;
	r.p_adjusted = 0.0123;
	says(r, "p 0.012, of 8 tests");
	r.p_adjusted = 1e-9; /* no tail is known so well */
	says(r, "p < 1e-06, of 8 tests");
	r.family = 1;
	says(r, "p < 1e-06");
}

static void test_equivalent(void **state)
{
	struct sonde_verdict_row r = row(SONDE_VERDICT_EQUIVALENT);

	(void)state;
	says(r, "inside the margin of error, 5.0 %");
	r.margin = log(1.061);
	says(r, "inside the margin of error, 6.1 % (the control's own spread)");
}

static void test_unstable(void **state)
{
	struct sonde_verdict_row r = row(SONDE_VERDICT_UNSTABLE);

	(void)state;
	says(r, "the control differs from itself by more than 5.0 % in 24 % of 100 placebo splits");
}

static void test_inconclusive(void **state)
{
	struct sonde_verdict_row r = row(SONDE_VERDICT_INCONCLUSIVE);

	(void)state;
	says(r, "effects below 7.0 % cannot be seen; about 14 more days resolve 5.0 %");
	r.days_needed = 14.3;
	says(r, "effects below 7.0 % cannot be seen; about 8 more hours resolve 5.0 %");
	/* More of what came after does not help much, or at all: both periods have to be longer. */
	r.days_needed = 184;
	says(r, "effects below 7.0 % cannot be seen; a new run of 14 days before and 27 after "
		"resolves 5.0 %");
	r.days_needed = INFINITY;
	says(r, "effects below 7.0 % cannot be seen; a new run of 14 days before and 27 after "
		"resolves 5.0 %");
	/* Precise enough, but on the edge. */
	r.mde = log(1.04);
	r.days_needed = 9;
	says(r, "effects below 4.0 % cannot be seen; its interval crosses the margin, 5.0 %");
	r.p = 0.02;
	says(r, "different if it were the only test, not as one of 8; its interval crosses the "
		"margin, 5.0 %");
	r.has_interval = false;
	says(r, "too few windows in a period for an interval");
}

static void test_no_effect(void **state)
{
	struct sonde_verdict_row r = row(SONDE_VERDICT_INCONCLUSIVE);

	(void)state;
	r.has_effect = false;
	snprintf(r.reason, sizeof(r.reason), "too few queries");
	says(r, "too few queries");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_different), cmocka_unit_test(test_equivalent),
		cmocka_unit_test(test_unstable),  cmocka_unit_test(test_inconclusive),
		cmocka_unit_test(test_no_effect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
