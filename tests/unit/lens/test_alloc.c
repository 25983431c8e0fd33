// SPDX-License-Identifier: GPL-2.0-or-later
/* What bpf/alloc.bpf.c and the lens agree on, and what the lens says when it may not attach. */
#include "unit/unit.h"

#include <unistd.h>

#include <stdio.h>

#include "core/mem.h"
#include "lens/lens.h"
#include "sonde/alloc.h"
#include "target/allocator.h"

extern const struct sonde_lens sonde_lens_alloc;

/* Every lane, target and operation has a row of its own, and they fill the map without a gap. */
static void test_rows_are_distinct(void **state)
{
	enum { LANES = 4, TARGETS = 9 };
	static unsigned char used[LANES * TARGETS * SONDE_ALLOC_ROWS];

	(void)state;
	for (sonde_u32 lane = 0; lane < LANES; lane++)
		for (sonde_u32 t = 0; t < TARGETS; t++)
			for (sonde_u32 op = 0; op < SONDE_ALLOC_ROWS; op++) {
				sonde_u32 i = sonde_alloc_row_index(lane, TARGETS, t, op);

				assert_true(i < sizeof(used));
				assert_int_equal(used[i]++, 0);
			}
	assert_true(SONDE_ALLOC__MAX <= SONDE_ALLOC_ROWS);
	assert_int_equal(sizeof(struct sonde_alloc_row), 64);
}

static void test_buckets_of_targets_do_not_touch(void **state)
{
	(void)state;
	assert_int_equal(sonde_alloc_bucket_index(0, 3, 0, SONDE_HIST_BUCKETS - 1) + 1,
			 sonde_alloc_bucket_index(0, 3, 1, 0));
	assert_int_equal(sonde_alloc_bucket_index(0, 3, 2, SONDE_HIST_BUCKETS - 1) + 1,
			 sonde_alloc_bucket_index(1, 3, 0, 0));
}

static void test_cookie_keeps_its_parts(void **state)
{
	sonde_u64 c = SONDE_ALLOC_COOKIE(SONDE_ALLOC_NEW, SONDE_ALLOC_COOKIE_ALIGNED, 0x1238, 255) |
		      SONDE_ALLOC_COOKIE_BLOCK(SONDE_BLOCK_PAGEMAP, 0xfffe);

	(void)state;
	assert_int_equal(SONDE_ALLOC_COOKIE_OP(c), SONDE_ALLOC_NEW);
	assert_int_equal(SONDE_ALLOC_COOKIE_SP(c), 0x1238);
	assert_int_equal(SONDE_ALLOC_COOKIE_TARGET(c), 255);
	assert_true(c & SONDE_ALLOC_COOKIE_ALIGNED);
	assert_false(c & SONDE_ALLOC_COOKIE_SIZE);
	assert_int_equal(SONDE_ALLOC_COOKIE_RULE(c), SONDE_BLOCK_PAGEMAP);
	assert_int_equal(SONDE_ALLOC_COOKIE_DOMAIN(c), 0xfffe);
	c = SONDE_ALLOC_COOKIE(SONDE_ALLOC_REALLOCARRAY, 0, 0, 0);
	assert_int_equal(c, SONDE_ALLOC_REALLOCARRAY);
}

struct heard {
	unsigned values, absent;
	char reason[128];
};

static int on_metric(void *ctx, const struct sonde_metric *m)
{
	struct heard *h = ctx;

	h->values += !m->absent;
	h->absent += !!m->absent;
	if (m->absent)
		snprintf(h->reason, sizeof(h->reason), "%s", m->absent);
	return 0;
}

/* Without probes there is no value, and a reason; no hook is asked for. */
static struct heard tick_without_probes(const struct sonde_lens_opts *opts, struct sonde_target *t)
{
	struct sonde_target_list targets = {.t = t, .n = 1};
	struct sonde_hook_list hooks = {0};
	struct heard heard = {0};
	struct sonde_visitor out = {.ctx = &heard, .metric = on_metric};
	struct sonde_lens_ctx ctx = {
		.lens = &sonde_lens_alloc, .opts = opts, .targets = &targets, .out = &out};

	assert_int_equal(sonde_lens_alloc.hooks(&ctx, &hooks), 0);
	assert_int_equal(hooks.n, 0);
	assert_int_equal(sonde_lens_alloc.init(&ctx), 0);
	assert_int_equal(sonde_lens_alloc.start(&ctx), 0);
	assert_int_equal(sonde_lens_alloc.tick(&ctx, 1), 0);
	sonde_lens_alloc.fini(&ctx);
	assert_null(ctx.priv);
	return heard;
}

static void test_off_is_absent_with_the_option(void **state)
{
	struct sonde_lens_opts opts = {0};
	struct sonde_target t = {.pid = 1};
	struct heard h = tick_without_probes(&opts, &t);

	(void)state;
	assert_int_equal(h.values, 0);
	assert_true(h.absent > 0);
	assert_non_null(strstr(h.reason, "--alloc-mode exact"));
}

static void test_passive_attaches_nothing(void **state)
{
	struct sonde_lens_opts opts = {.alloc_exact = true, .passive = true};
	struct sonde_target t = {.pid = 1};
	struct heard h = tick_without_probes(&opts, &t);

	(void)state;
	assert_int_equal(h.values, 0);
	assert_non_null(strstr(h.reason, "--passive"));
}

static void test_unknown_allocator_is_named(void **state)
{
	struct sonde_lens_opts opts = {.alloc_exact = true};
	struct sonde_target t = {.pid = 1};
	struct heard h = tick_without_probes(&opts, &t);

	(void)state;
	assert_int_equal(h.values, 0);
	assert_non_null(strstr(h.reason, "not recognised"));
}

/* Counters need no probe, but the target's memory. */
static void test_counters_of_our_own_heap(void **state)
{
	struct sonde_lens_opts opts = {.alloc_counters = true};
	struct sonde_target t = {.pid = getpid()};
	struct heard h;

	(void)state;
	/* One that keeps its counters by thread would have programs read them. */
	for (size_t i = 0; i < sonde_allocator_count; i++)
		if (!strcmp(sonde_allocators[i]->name, "glibc"))
			t.allocator = sonde_allocators[i];
	assert_non_null(t.allocator);
#ifndef __SANITIZE_ADDRESS__ /* which brings an allocator of its own */
	h = tick_without_probes(&opts, &t);
	assert_true(h.values > 5);
	assert_int_equal(h.absent, 0);
#endif
	opts.passive = true;
	h = tick_without_probes(&opts, &t);
	assert_int_equal(h.values, 0);
	assert_int_equal(h.absent, 1);
	assert_non_null(strstr(h.reason, "--passive"));
}

static void test_gone_target_says_nothing(void **state)
{
	struct sonde_lens_opts opts = {.alloc_exact = true};
	struct sonde_target t = {.pid = 1, .gone = true};
	struct heard h = tick_without_probes(&opts, &t);

	(void)state;
	assert_int_equal(h.values + h.absent, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_distinct),
		cmocka_unit_test(test_buckets_of_targets_do_not_touch),
		cmocka_unit_test(test_cookie_keeps_its_parts),
		cmocka_unit_test(test_off_is_absent_with_the_option),
		cmocka_unit_test(test_passive_attaches_nothing),
		cmocka_unit_test(test_unknown_allocator_is_named),
		cmocka_unit_test(test_counters_of_our_own_heap),
		cmocka_unit_test(test_gone_target_says_nothing),
	};

	return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
