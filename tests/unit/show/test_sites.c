// SPDX-License-Identifier: GPL-2.0-or-later
/* The tables of call sites and of growth, over histories of known shape. */
#include "unit/unit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/log.h"
#include "show/sites.h"

#define READINGS 60

/* Live bytes at reading @i of a site. */
typedef double (*history)(int i);

static double steady(int i)
{
	(void)i;
	return 50000;
}

static double leaks(int i)
{
	return 1000 + 300.0 * i;
}

static double leaks_slowly(int i)
{
	return 1000 + 20.0 * i + i % 3;
}

static double fills_up(int i)
{
	return i < 35 ? 2000.0 * i : 70000;
}

static double sawtooth(int i)
{
	return 500.0 * (i % 17);
}

static double burst(int i)
{
	return i > 40 ? 900000 : 0;
}

static double falls(int i)
{
	return 1e6 - 5000.0 * i;
}

static const struct {
	const char *name;
	history live;
} sites[] = {{"steady", steady},     {"leaks", leaks}, {"leaks_slowly", leaks_slowly},
	     {"fills_up", fills_up}, {"burst", burst}, {"sawtooth", sawtooth},
	     {"falls", falls}};
#define N_SITES (sizeof(sites) / sizeof(sites[0]))

static void push(struct sonde_stack_table *t, uint64_t id, uint32_t target, int i, double live,
		 bool has_live)
{
	struct sonde_stack_count c = {.ts_ns = (uint64_t)(i + 1) * SONDE_NS_PER_SEC,
				      .lens = SONDE_LENS_ALLOC,
				      .stack = id,
				      .target = target,
				      .calls = (uint64_t)i + 1,
				      .bytes = 1000 * ((uint64_t)i + 1) + id,
				      .has_live = has_live,
				      .live_calls = 1,
				      .live_bytes = (uint64_t)live};

	assert_int_equal(sonde_visit(&t->visitor, stack_count, &c), 0);
}

static void push_faults(struct sonde_stack_table *t, uint64_t id, uint64_t faults, uint64_t ns)
{
	struct sonde_stack_count c = {.ts_ns = SONDE_NS_PER_SEC,
				      .lens = SONDE_LENS_FAULT,
				      .stack = id,
				      .calls = faults,
				      .bytes = ns};

	assert_int_equal(sonde_visit(&t->visitor, stack_count, &c), 0);
}

static void name(struct sonde_stack_table *t, uint64_t id, const char *function)
{
	const struct sonde_frame frames[] = {
		{function, "/bin/x", "x.c", 3, 0x1000 + id % 100, false},
		{"main", "/bin/x", "", 0, 0x2000, false}};
	struct sonde_stack s = {.id = id, .frames = frames, .n = 2};

	assert_int_equal(sonde_visit(&t->visitor, stack, &s), 0);
}

static void fill(struct sonde_stack_table *t, int readings, bool has_live)
{
	sonde_stack_table_init(t);
	for (uint64_t s = 0; s < N_SITES; s++)
		name(t, s + 100, sites[s].name);
	for (int i = 0; i < readings; i++)
		for (uint64_t s = 0; s < N_SITES; s++)
			push(t, s + 100, 0, i, sites[s].live(i), has_live);
}

static char *text_of(int (*print)(FILE *, const struct sonde_stack_table *, size_t),
		     const struct sonde_stack_table *t, size_t rows, int want)
{
	enum sonde_log_level level = sonde_log_get_level();
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	sonde_log_set_level(SONDE_LOG_NONE);
	assert_int_equal(print(f, t, rows), want);
	sonde_log_set_level(level);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* Exactly those that leak, steepest first, with their slopes. */
static void growth(void **state)
{
	struct sonde_stack_table t;
	char *text, *first, *second;

	(void)state;
	fill(&t, READINGS, true);
	text = text_of(sonde_growth_print, &t, 20, 0);
	assert_non_null(strstr(text, "2 of 7 call sites"));
	first = strstr(text, "leaks (x.c:3)");
	second = strstr(text, "leaks_slowly (x.c:3)");
	assert_non_null(first);
	assert_non_null(second);
	assert_true(first < second);
	assert_non_null(strstr(text, "300 B/s +-"));
	assert_non_null(strstr(text, "20 B/s +-"));
	free(text);
	sonde_stack_table_fini(&t);
}

/* Under a heading of their own, by time; beside allocations, and alone. */
static void faults(void **state)
{
	struct sonde_stack_table t;
	char *text, *at;

	(void)state;
	fill(&t, READINGS, true);
	name(&t, 500, "few_but_slow");
	name(&t, 501, "many");
	push_faults(&t, 500, 10, 3 * SONDE_NS_PER_MS);
	push_faults(&t, 501, 990, SONDE_NS_PER_MS);
	text = text_of(sonde_sites_print, &t, 1, 0);
	assert_non_null(strstr(text, "Call sites: 7 different stacks"));
	at = strstr(text,
		    "Page faults: 2 different stacks took 1,000 faults of 4.00 ms in all; 100 % of "
		    "the faults have their whole stack");
	assert_non_null(at);
	assert_non_null(strstr(at, "75.00 %           10   1.00 %"));
	assert_non_null(strstr(at, "few_but_slow (x.c:3)"));
	assert_null(strstr(at, "many"));
	assert_non_null(strstr(at, "1 more; --sites=2 shows them"));
	free(text);
	sonde_stack_table_fini(&t);

	sonde_stack_table_init(&t);
	push_faults(&t, 500, 10, 3 * SONDE_NS_PER_MS);
	text = text_of(sonde_sites_print, &t, 5, 0);
	assert_ptr_equal(strstr(text, "Page faults: 1 different stacks"), text);
	free(text);
	text = text_of(sonde_growth_print, &t, 5, -ENODATA);
	free(text);
	sonde_stack_table_fini(&t);
}

static void growth_refused(void **state)
{
	struct sonde_stack_table t;

	(void)state;
	fill(&t, READINGS, false); /* frees not followed */
	free(text_of(sonde_growth_print, &t, 20, -ENODATA));
	sonde_stack_table_fini(&t);
	fill(&t, 11, true); /* too short */
	free(text_of(sonde_growth_print, &t, 20, -ENODATA));
	sonde_stack_table_fini(&t);
	sonde_stack_table_init(&t); /* nothing at all */
	free(text_of(sonde_growth_print, &t, 20, -ENODATA));
	free(text_of(sonde_sites_print, &t, 20, -ENODATA));
	sonde_stack_table_fini(&t);
}

/* Two processes at the same place are one site. */
static void one_site(void **state)
{
	struct sonde_stack_table t;
	struct sonde_site_group *g;
	size_t n;

	(void)state;
	sonde_stack_table_init(&t);
	name(&t, 100, "f");
	name(&t, 200, "f"); /* the same offsets: 100 % 100 == 200 % 100 */
	push(&t, 100, 0, 0, 10, true);
	push(&t, 200, 1, 0, 20, true);
	push(&t, 100, 0, 1, 30, true); /* the other did not change: it still holds 20 */
	assert_int_equal(sonde_site_groups(&t, SONDE_LENS_ALLOC, true, &g, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(g[0].calls, 2 + 1);
	assert_int_equal(g[0].live_bytes, 50);
	assert_float_equal(g[0].live[0], 30, 0);
	assert_float_equal(g[0].live[1], 50, 0);
	sonde_site_groups_fini(g, n);
	assert_int_equal(sonde_site_groups(&t, SONDE_LENS_FAULT, false, &g, &n), 0);
	assert_int_equal(n, 0);
	sonde_site_groups_fini(g, n);
	sonde_stack_table_fini(&t);
}

static void table_says_what_is_missing(void **state)
{
	struct sonde_stack cut = {.id = 101, .end = SONDE_STACK_HARD};
	struct sonde_stack_table t;
	char *text;

	(void)state;
	fill(&t, 4, true);
	assert_int_equal(sonde_visit(&t.visitor, stack, &cut), 0);
	text = text_of(sonde_sites_print, &t, 3, 0);
	assert_non_null(strstr(text, "85.71 % of the calls have their whole stack"));
	assert_non_null(strstr(text, "14.29 %: the unwind rule is an expression"));
	assert_non_null(strstr(text, "4 more; --sites=7 shows them"));
	assert_null(strstr(text, "steady"));
	assert_non_null(strstr(text, "falls (x.c:3)\n    < main in x\n"));
	free(text);
	sonde_stack_table_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(growth),
		cmocka_unit_test(faults),
		cmocka_unit_test(growth_refused),
		cmocka_unit_test(one_site),
		cmocka_unit_test(table_says_what_is_missing),
	};

	return cmocka_run_group_tests_name("show/sites", tests, NULL, NULL);
}
