// SPDX-License-Identifier: GPL-2.0-or-later
/* --abort-if: what is a condition, and when one holds. */
#include "unit/unit.h"

#include <string.h>

#include "core/mem.h"
#include "session/abort.h"

#define S 1000000000ull

static void test_conditions(void **state)
{
	static const struct {
		const char *text;
		enum sonde_abort_figure figure;
		bool below, relative;
		double bound;
	} rows[] = {
		{"p99>+10%", SONDE_ABORT_P99, false, true, 0.1},
		{"p99.9>+2.5%", SONDE_ABORT_P999, false, true, 0.025},
		{"mean>5ms", SONDE_ABORT_MEAN, false, false, 5e6},
		{"p50>250us", SONDE_ABORT_P50, false, false, 250e3},
		{"rate<-20%", SONDE_ABORT_RATE, true, true, -0.2},
		{"rate<100", SONDE_ABORT_RATE, true, false, 100},
		{"p95<1ms", SONDE_ABORT_P95, true, false, 1e6},
	};
	struct sonde_abort_rules got;
	struct sonde_str why sonde_autostr = {0};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		assert_int_equal(sonde_abort_parse(rows[i].text, &got, &why), 0);
		assert_int_equal(got.n, 1);
		assert_int_equal(got.rules[0].figure, rows[i].figure);
		assert_int_equal(got.rules[0].below, rows[i].below);
		assert_int_equal(got.rules[0].relative, rows[i].relative);
		assert_float_equal(got.rules[0].bound, rows[i].bound, 1e-6);
	}
	assert_int_equal(sonde_abort_parse("p99>+10%,rate<100", &got, &why), 0);
	assert_int_equal(got.n, 2);
}

static void test_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"p99",
		"p99>",
		"p98>1ms",
		"p99>10%",
		"p99=1ms",
		"p99>+%",
		"p99>-100%",
		"p99>+10%,",
		",p99>1ms",
		"rate<5ms",
		"p99>1msx",
		"mean>+nan%",
		"p99>>1ms",
		"p50>1s,p50>1s,p50>1s,p50>1s,p50>1s,p50>1s,p50>1s,p50>1s,p50>1s"};
	struct sonde_abort_rules got = {.n = 77};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(texts); i++) {
		struct sonde_str why sonde_autostr = {0};

		if (sonde_abort_parse(texts[i], &got, &why) != -EINVAL || !why.len)
			fail_msg("'%s' was not refused", texts[i]);
		assert_int_equal(got.n, 77);
	}
}

/* @n queries of @ns each. */
static void fill(struct sonde_hist *h, uint64_t n, uint64_t ns)
{
	sonde_hist_reset(h);
	sonde_hist_add_bucket(h, sonde_hist_index(ns), n);
}

struct fixture {
	struct sonde_abort_rules rules;
	struct sonde_abort a;
	struct sonde_hist h;
	double is, was;
};

static void begin(struct fixture *f, const char *text)
{
	struct sonde_str why sonde_autostr = {0};

	*f = (struct fixture){0};
	assert_int_equal(sonde_abort_parse(text, &f->rules, &why), 0);
	assert_int_equal(sonde_abort_init(&f->a, &f->rules), 0);
	assert_int_equal(sonde_hist_init(&f->h), 0);
}

static void end(struct fixture *f)
{
	sonde_abort_fini(&f->a);
	sonde_hist_fini(&f->h);
}

static void test_relative(void **state)
{
	struct fixture f;
	const char *figure = NULL;

	(void)state;
	begin(&f, "p99>+10%");
	assert_false(sonde_abort_has_baseline(&f.a, &figure));
	assert_string_equal(figure, "p99");
	fill(&f.h, 999, 1000000);
	sonde_abort_baseline(&f.a, &f.h, 2 * S);
	assert_false(sonde_abort_has_baseline(&f.a, &figure));
	fill(&f.h, 1000, 1000000);
	sonde_abort_baseline(&f.a, &f.h, 2 * S);
	assert_true(sonde_abort_has_baseline(&f.a, &figure));
	/* 9 % more, then 12 % more: each over 2 s. */
	fill(&f.h, 600, 1090000);
	assert_null(sonde_abort_update(&f.a, &f.h, S, &f.is, &f.was));
	assert_null(sonde_abort_update(&f.a, &f.h, S, &f.is, &f.was));
	fill(&f.h, 600, 1120000);
	assert_null(sonde_abort_update(&f.a, &f.h, S, &f.is, &f.was));
	assert_ptr_equal(sonde_abort_update(&f.a, &f.h, S, &f.is, &f.was), &f.rules.rules[0]);
	assert_float_equal(f.is, 1120000, 5000);
	assert_float_equal(f.was, 1000000, 5000);
	end(&f);
}

/* A p99 of few queries ends nothing; they are gathered until they are enough. */
static void test_few_queries(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "p99>5ms");
	fill(&f.h, 100, 9000000);
	for (int i = 0; i < 9; i++)
		assert_null(sonde_abort_update(&f.a, &f.h, S, &f.is, &f.was));
	assert_non_null(sonde_abort_update(&f.a, &f.h, S, &f.is, &f.was));
	assert_float_equal(f.was, 0, 0);
	end(&f);
}

/* No query at all is a rate, too. */
static void test_rate(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "rate<-50%");
	fill(&f.h, 200, 1000);
	sonde_abort_baseline(&f.a, &f.h, 2 * S);
	fill(&f.h, 60, 1000);
	assert_null(sonde_abort_update(&f.a, &f.h, S, &f.is, &f.was));
	assert_null(sonde_abort_update(&f.a, &f.h, S, &f.is, &f.was));
	assert_null(sonde_abort_update(&f.a, NULL, S, &f.is, &f.was));
	assert_non_null(sonde_abort_update(&f.a, NULL, S, &f.is, &f.was));
	assert_float_equal(f.is, 0, 0);
	assert_float_equal(f.was, 100, 0.01);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conditions), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_relative),   cmocka_unit_test(test_few_queries),
		cmocka_unit_test(test_rate),
	};

	return cmocka_run_group_tests_name("session/abort", tests, NULL, NULL);
}
