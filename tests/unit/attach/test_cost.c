// SPDX-License-Identifier: GPL-2.0-or-later
/* What one operation costs by a given calibration. */
#include "unit/unit.h"

#include "attach/cost.h"
#include "attach/plan.h"

static const struct sonde_calibration calibration = {
	.hit_ns =
		{
			[SONDE_LINK_TP_BTF] = {50, 50},
			[SONDE_LINK_UPROBE_MULTI] =
				{[SONDE_INSN_STEPPED] = 9000, [SONDE_INSN_EMULATED] = 600},
			[SONDE_LINK_URETPROBE_MULTI] =
				{[SONDE_INSN_STEPPED] = 400, [SONDE_INSN_EMULATED] = 400},
			[SONDE_LINK_UPROBE_SESSION] =
				{[SONDE_INSN_STEPPED] = 9500, [SONDE_INSN_EMULATED] = 1000},
		},
};

static double cost(enum sonde_link_kind kind, const char *ret_program, enum sonde_insn_kind insn,
		   bool want_return)
{
	struct sonde_probe_site site = {.site.kind = insn, .want_return = want_return};
	struct sonde_hook hook = {.sites = &site, .n_sites = 1};
	struct sonde_plan_item item = {.hook = &hook, .kind = kind, .ret_program = ret_program};

	return sonde_cost_per_hit(&calibration, &item);
}

static void test_entry(void **state)
{
	(void)state;
	assert_true(cost(SONDE_LINK_UPROBE_MULTI, NULL, SONDE_INSN_EMULATED, false) == 600);
	assert_true(cost(SONDE_LINK_UPROBE_MULTI, NULL, SONDE_INSN_STEPPED, true) == 9000);
}

static void test_pair(void **state)
{
	(void)state;
	assert_true(cost(SONDE_LINK_UPROBE_MULTI, "r", SONDE_INSN_EMULATED, true) == 1000);
	assert_true(cost(SONDE_LINK_UPROBE_MULTI, "r", SONDE_INSN_EMULATED, false) == 600);
}

/* A return probe alone still takes the trap at the entry. */
static void test_return_alone(void **state)
{
	(void)state;
	assert_true(cost(SONDE_LINK_URETPROBE_MULTI, NULL, SONDE_INSN_STEPPED, true) == 9400);
}

static void test_session_holds_both(void **state)
{
	(void)state;
	assert_true(cost(SONDE_LINK_UPROBE_SESSION, NULL, SONDE_INSN_EMULATED, true) == 1000);
}

static void test_kernel_hook_and_nothing(void **state)
{
	struct sonde_hook hook = {};
	struct sonde_plan_item item = {.hook = &hook, .kind = SONDE_LINK_TP_BTF};

	(void)state;
	assert_true(sonde_cost_per_hit(&calibration, &item) == 50);
	item.kind = SONDE_LINK_UPROBE_PERF; /* not calibrated */
	assert_true(sonde_cost_per_hit(&calibration, &item) == 0);
	item.alt = -1;
	item.kind = SONDE_LINK_TP_BTF;
	assert_true(sonde_cost_per_hit(&calibration, &item) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entry),
		cmocka_unit_test(test_pair),
		cmocka_unit_test(test_return_alone),
		cmocka_unit_test(test_session_holds_both),
		cmocka_unit_test(test_kernel_hook_and_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
