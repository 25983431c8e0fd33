// SPDX-License-Identifier: GPL-2.0-or-later
/* Forms of queries: their classes by cost are those of the time before, and mixes are told apart.
 */
#include <math.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/clock.h"
#include "core/mem.h"
#include "judge/trial_figures.h"
#include "judge/trial_forms.h"

#define MS SONDE_NS_PER_MS

static struct sonde_trial trial;
static struct sonde_forms forms;

static void begin(void)
{
	sonde_trial_init(&trial, SONDE_NS_PER_SEC, 60 * SONDE_NS_PER_SEC, 4);
	trial.before = (struct sonde_trial_period){0, 2};
	trial.after = (struct sonde_trial_period){2, 4};
	assert_int_equal(sonde_trial_add_server(&trial, "a"), 0);
	assert_int_equal(sonde_trial_add_server(&trial, "b"), 1);
	assert_int_equal(sonde_figures_begin(&trial), 0);
	sonde_forms_init(&forms, 2);
}

static void end(void)
{
	sonde_forms_fini(&forms);
	sonde_trial_fini(&trial);
}

static struct sonde_span span(uint64_t id, uint64_t ms)
{
	return (struct sonde_span){.fingerprint_id = id,
				   .fingerprint = id == 1   ? "light"
						  : id == 2 ? "middle"
							    : "heavy",
				   .command = "query",
				   .arrival_ns = 1000 * MS,
				   .last_ns = (1000 + ms) * MS};
}

static void count(size_t server, int period, uint64_t id, uint64_t ms, int n)
{
	struct sonde_span s = span(id, ms);

	for (int i = 0; i < n; i++)
		assert_int_equal(sonde_forms_count(&forms, server, period, &s), 0);
}

static const struct sonde_form *form(uint64_t id)
{
	for (size_t i = 0; i < forms.n; i++)
		if (forms.form[i].id == id)
			return &forms.form[i];
	fail();
	return NULL;
}

/* The heavy form gets light after the change: it stays in its class. */
static void test_classes(void **state)
{
	struct sonde_span s = span(3, 1);

	(void)state;
	begin();
	count(0, 0, 1, 1, 60);
	count(0, 0, 2, 5, 36);
	count(1, 0, 3, 40, 4);
	count(0, 1, 3, 1, 50);
	assert_int_equal(sonde_forms_choose(&forms, &trial, 2), 0);
	assert_int_equal(form(3)->class, 0);
	assert_int_equal(form(2)->class, 1);
	assert_int_equal(form(1)->class, 2);
	assert_true(fabs(forms.class_share[0] - 0.04) < 1e-12);
	/* Of most time, before and after: 180 of the middle, 210 of the heavy, 60 of the light. */
	assert_true(form(2)->own >= 0 && form(3)->own >= 0 && form(1)->own < 0);
	assert_int_equal(sonde_forms_put(&forms, &trial, 1, 3, &s), 0);
	for (size_t i = 0; i < trial.n_sources; i++)
		if (trial.sources[i].kind == SONDE_TRIAL_HIST)
			assert_int_equal(sonde_windows_seal(sonde_trial_hist(&trial, i, 1)), 0);
	assert_true(sonde_trial_hist(&trial, (size_t)forms.class_source[0], 1)->count[3] == 1);
	assert_true(sonde_trial_hist(&trial, (size_t)form(3)->own, 1)->count[3] == 1);
	end();
}

/* The costliest form is heavy, however much there is of it; one class alone is no class. */
static void test_lumps(void **state)
{
	(void)state;
	begin();
	count(0, 0, 1, 9, 90);
	count(0, 0, 2, 5, 10);
	assert_int_equal(sonde_forms_choose(&forms, &trial, 5), 0);
	assert_true(form(1)->class == 0 && form(2)->class == 2);
	assert_true(forms.class_source[0] >= 0 && forms.class_source[1] < 0);
	end();
	begin();
	count(0, 0, 1, 9, 90);
	assert_int_equal(sonde_forms_choose(&forms, &trial, 5), 0);
	assert_true(forms.class_source[0] < 0 && form(1)->own < 0);
	end();
}

/* Without a time before nothing can be fixed by it. */
static void test_no_before(void **state)
{
	(void)state;
	begin();
	count(0, 1, 1, 1, 10);
	count(0, 1, 2, 5, 10);
	assert_int_equal(sonde_forms_choose(&forms, &trial, 5), 0);
	for (int c = 0; c < SONDE_CLASSES; c++)
		assert_true(forms.class_source[c] < 0);
	assert_true(form(1)->own >= 0);
	end();
}

static void test_apart(void **state)
{
	(void)state;
	begin();
	count(0, 0, 1, 1, 50);
	count(0, 0, 2, 1, 50);
	count(1, 0, 1, 1, 150);
	count(1, 0, 2, 1, 50);
	count(0, 1, 1, 1, 5);
	assert_true(fabs(sonde_forms_apart(&forms, 0, 1, 0) - 0.25) < 1e-12);
	assert_true(isnan(sonde_forms_apart(&forms, 0, 1, 1)));
	assert_int_equal(sonde_forms_count_label(&forms, 1, 1, "ping", 15, 1), 0);
	assert_true(fabs(sonde_forms_apart(&forms, 0, 1, 1) - 1) < 1e-12);
	end();
}

/* What has no latency, or a disturbed one, is in no figure. */
static void test_counts(void **state)
{
	struct sonde_span s = span(1, 1);

	(void)state;
	assert_true(sonde_forms_counts(&s));
	s.status = SONDE_SPAN_UNFINISHED;
	assert_false(sonde_forms_counts(&s));
	s.status = SONDE_SPAN_OK;
	s.flags = SONDE_SPAN_F_DISTURBED;
	assert_false(sonde_forms_counts(&s));
	s.flags = 0;
	s.last_ns = 0;
	assert_false(sonde_forms_counts(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_classes),	  cmocka_unit_test(test_lumps),
		cmocka_unit_test(test_no_before), cmocka_unit_test(test_apart),
		cmocka_unit_test(test_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
