// SPDX-License-Identifier: GPL-2.0-or-later
/* The price that exact mode is agreed to at is that of malloc and free, whatever else is probed. */
#include "unit/unit.h"

#include "core/mem.h"
#include "session/internal.h"
#include "sonde/alloc.h"

#define SITE(op, insn)                                                                             \
	{                                                                                          \
		.site.kind = (insn), .cookie = SONDE_ALLOC_COOKIE(op, 0, 0, 0)                     \
	}
#define RUN 160 /* of a program, beside the trap */

static const struct sonde_calibration calibration = {
	.hit_ns = {[SONDE_LINK_UPROBE_MULTI] =
			   {[SONDE_INSN_STEPPED] = 8980, [SONDE_INSN_EMULATED] = 620},
		   [SONDE_LINK_UPROBE_SESSION] =
			   {[SONDE_INSN_STEPPED] = 9500, [SONDE_INSN_EMULATED] = 1090}},
};

static struct sonde_probe_site returns[] = {
	SITE(SONDE_ALLOC_MALLOC, SONDE_INSN_EMULATED),
	SITE(SONDE_ALLOC_MEMALIGN, SONDE_INSN_STEPPED),
};
static struct sonde_probe_site frees[] = {SITE(SONDE_ALLOC_FREE, SONDE_INSN_EMULATED)};
static struct sonde_probe_site wrappers[] = {
	SITE(SONDE_ALLOC_NEW, SONDE_INSN_EMULATED),
	SITE(SONDE_ALLOC_DELETE_SIZED, SONDE_INSN_EMULATED),
	SITE(SONDE_ALLOC_DELETE_SIZED, SONDE_INSN_STEPPED), /* with an alignment */
};
/* Of another lens, slow too: its cookie means something else. */
static struct sonde_probe_site others[] = {SITE(SONDE_ALLOC_MALLOC, SONDE_INSN_STEPPED)};

static struct sonde_hook hooks[] = {
	{.name = "alloc.return", .lens = SONDE_LENS_ALLOC, .sites = returns, .n_sites = 2},
	{.name = "alloc.free", .lens = SONDE_LENS_ALLOC, .sites = frees, .n_sites = 1},
	{.name = "ask.exit", .lens = SONDE_LENS_ASK, .sites = others, .n_sites = 1},
	{.name = "alloc.wrapper", .lens = SONDE_LENS_ALLOC, .sites = wrappers, .n_sites = 3},
};

static struct sonde_plan_item items[] = {
	{.hook = &hooks[0], .kind = SONDE_LINK_UPROBE_SESSION},
	{.hook = &hooks[1], .kind = SONDE_LINK_UPROBE_MULTI},
	{.hook = &hooks[2], .kind = SONDE_LINK_UPROBE_MULTI},
	{.hook = &hooks[3], .kind = SONDE_LINK_UPROBE_MULTI},
};

static void test_malloc_and_free(void **state)
{
	struct sonde_plan plan = {.items = items, .n = 3};
	struct session_pairs p = session_pairs_of(&plan, &calibration);

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(hooks); i++)
		hooks[i].guarded = true;
	assert_true(p.malloc_ns == 1090 + 620 + 3 * RUN);
	assert_true(p.new_ns == 0);
}

/* operator new and delete of the C++ library call malloc and free. */
static void test_new_and_delete(void **state)
{
	struct sonde_plan plan = {.items = items, .n = 4};
	struct session_pairs p = session_pairs_of(&plan, &calibration);

	(void)state;
	assert_true(p.malloc_ns == 1090 + 620 + 3 * RUN);
	assert_true(p.new_ns == p.malloc_ns + 2 * 620 + 2 * RUN);
}

static void test_nothing_probed(void **state)
{
	struct sonde_plan plan = {0};
	struct session_pairs p = session_pairs_of(&plan, &calibration);

	(void)state;
	assert_true(p.malloc_ns == 0 && p.new_ns == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_malloc_and_free),
		cmocka_unit_test(test_new_and_delete),
		cmocka_unit_test(test_nothing_probed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
