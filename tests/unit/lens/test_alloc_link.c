// SPDX-License-Identifier: GPL-2.0-or-later
/* All hits of an operation are priced as those of its busiest site. */
#include "unit/unit.h"

#include "lens/alloc_link.h"

static const struct sonde_probe_site plain = {.site.kind = SONDE_INSN_EMULATED};
static const struct sonde_probe_site aligned = {.site.kind = SONDE_INSN_STEPPED};

static void test_first_site_of_a_hook(void **state)
{
	struct sonde_hook hook = {.name = "alloc.wrapper"};
	struct sonde_plan_item item = {
		.hook = &hook, .kind = SONDE_LINK_UPROBE_MULTI, .program = "alloc_wrapper"};
	struct sonde_alloc_link op = {0};

	(void)state;
	sonde_alloc_link_take(&op, &item, &plain);
	sonde_alloc_link_take(&op, &item, &aligned);
	assert_int_equal(op.insn, SONDE_INSN_EMULATED);
	assert_int_equal(op.entry, SONDE_LINK_UPROBE_MULTI);
	assert_int_equal(op.ret, SONDE_LINK_NONE);
}

/* What is seen at its return is busier than what stands beside it; rets have a price of their own.
 */
static void test_returns(void **state)
{
	struct sonde_hook hooks[] = {
		{.name = "alloc.return"}, {.name = "alloc.take"}, {.name = "alloc.ret"}};
	struct sonde_plan_item pair = {.hook = &hooks[0],
				       .kind = SONDE_LINK_UPROBE_PERF,
				       .program = "alloc_entry",
				       .ret_program = "alloc_return"};
	struct sonde_plan_item take = {
		.hook = &hooks[1], .kind = SONDE_LINK_UPROBE_MULTI, .program = "alloc_take"};
	struct sonde_plan_item ret = {
		.hook = &hooks[2], .kind = SONDE_LINK_UPROBE_MULTI, .program = "alloc_ret"};
	struct sonde_alloc_link op = {0};

	(void)state;
	sonde_alloc_link_take(&op, &pair, &aligned);
	sonde_alloc_link_take(&op, &take, &plain);
	assert_int_equal(op.entry, SONDE_LINK_UPROBE_PERF);
	assert_int_equal(op.ret, SONDE_LINK_URETPROBE_PERF);
	assert_int_equal(op.insn, SONDE_INSN_STEPPED);
	op = (struct sonde_alloc_link){0};
	sonde_alloc_link_take(&op, &take, &plain);
	sonde_alloc_link_take(&op, &take, &aligned);
	sonde_alloc_link_take(&op, &ret, &aligned);
	sonde_alloc_link_take(&op, &ret, &plain);
	assert_int_equal(op.entry, SONDE_LINK_UPROBE_MULTI);
	assert_int_equal(op.insn, SONDE_INSN_EMULATED);
	assert_int_equal(op.ret, SONDE_LINK_UPROBE_MULTI);
	assert_int_equal(op.ret_insn, SONDE_INSN_STEPPED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_site_of_a_hook),
		cmocka_unit_test(test_returns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
