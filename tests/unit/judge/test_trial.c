// SPDX-License-Identifier: GPL-2.0-or-later
/* Trials with known effects: the statistic, the resampling and the verdicts, end to end. */
#include <errno.h>
#include <math.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/clock.h"
#include "core/log.h"
#include "core/mem.h"
#include "judge/trial.h"
#include "judge/trial_impl.h"
#include "trial_fixture.h"

#define near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))
#define MINUTE_NS	      (60 * SONDE_NS_PER_SEC)

static void put_hist(struct sonde_trial *t, size_t source, size_t server, size_t window,
		     const struct sonde_hist *h)
{
	assert_int_equal(sonde_windows_add(sonde_trial_hist(t, source, server), window, h), 0);
	sonde_trial_see(t, server, window);
}

static void seal(struct sonde_trial *t, size_t source)
{
	for (size_t s = 0; s < t->n_servers; s++)
		assert_int_equal(sonde_windows_seal(sonde_trial_hist(t, source, s)), 0);
}

static void add_metrics(struct sonde_trial *t, size_t source)
{
	static const struct sonde_trial_metric metrics[] = {
		{.name = "mean", .stat = SONDE_TRIAL_MEAN, .primary = true},
		{.name = "p50", .stat = SONDE_TRIAL_QUANTILE, .q = 0.5},
		{.name = "p95", .stat = SONDE_TRIAL_QUANTILE, .q = 0.95, .primary = true},
		{.name = "p99", .stat = SONDE_TRIAL_QUANTILE, .q = 0.99, .primary = true},
	};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(metrics); i++) {
		struct sonde_trial_metric m = metrics[i];

		m.source = source;
		assert_true(sonde_trial_add_metric(t, &m) >= 0);
	}
}

/* ---- the published experiment ---- */

#define E2E_WINDOWS 48
#define E2E_QUERIES 200

/* Four servers, 48 windows before and after, the treated one 10 % slower, restarts 2 % faster. */
static void e2e_window(struct sonde_hist *h, size_t server, size_t period, size_t window,
		       double shared)
{
	struct sonde_rng r = {1000003 * (server * 2 + period) + window};
	double effect = (server == 0 && period ? log(1.10) : 0) +
			(server % 2 == 0 && period ? log(0.98) : 0);

	sonde_hist_reset(h);
	for (int i = 0; i < E2E_QUERIES; i++)
		sonde_hist_add(h,
			       (uint64_t)(2e6 * exp(shared + 0.5 * fixture_normal(&r) + effect)));
}

static void make_e2e(struct sonde_trial *t)
{
	static const char *const servers[] = {"T", "U", "CT", "CU"};
	double shared[2][E2E_WINDOWS] = {{0}};
	struct sonde_hist h;

	sonde_trial_init(t, 0, MINUTE_NS, 2 * E2E_WINDOWS);
	t->before = (struct sonde_trial_period){0, E2E_WINDOWS};
	t->after = (struct sonde_trial_period){E2E_WINDOWS, 2 * E2E_WINDOWS};
	for (int i = 0; i < 4; i++)
		assert_int_equal(sonde_trial_add_server(t, servers[i]), i);
	assert_int_equal(sonde_trial_add_pair(t, "slow", false, 0, 1), 0);
	assert_int_equal(sonde_trial_add_pair(t, "restart", true, 2, 3), 0);
	assert_int_equal(sonde_trial_add_source(t, "latency", SONDE_TRIAL_HIST), 0);
	add_metrics(t, 0);
	for (size_t period = 0; period < 2; period++) {
		struct sonde_rng r = {777 + period};

		fixture_ar1(&r, shared[period], E2E_WINDOWS, 0.6, 0.05, 0);
	}
	assert_int_equal(sonde_hist_init(&h), 0);
	for (size_t s = 0; s < 4; s++) {
		for (size_t w = 0; w < 2 * E2E_WINDOWS; w++) {
			size_t p = w / E2E_WINDOWS, at = w % E2E_WINDOWS;

			e2e_window(&h, s, p, at, shared[p][at]);
			put_hist(t, 0, s, w, &h);
		}
	}
	sonde_hist_fini(&h);
	seal(t, 0);
	t->options = (struct sonde_trial_options){.resamples = 1000, .block = 4, .seed = 2024};
}

static void test_published_statistic(void **state)
{
	static const double cells[2][4] = {{2247603.8, 1978367.5, 4538367.5, 6143999.5},
					   {2428789.4, 2121727.5, 4898815.5, 6963199.5}};
	static const double effect[] = {0.087083327, 0.074211020, 0.098649215, 0.121722707};
	double first[] = {1, 0, 0, 0};
	struct sonde_trial_work k;
	struct sonde_trial t;

	(void)state;
	make_e2e(&t);
	assert_int_equal(sonde_work_init(&k, &t), 0);
	assert_int_equal(k.n_contrasts, 1);
	for (int m = 0; m < 4; m++) {
		struct sonde_range r[2] = {sonde_work_period(&k, SONDE_BEFORE),
					   sonde_work_period(&k, SONDE_AFTER)};
		double d = 0;

		for (int p = 0; p < 2; p++) {
			near(exp(sonde_work_weighted(&k, &t.metrics[m], first, r[p])), cells[p][m],
			     0.05);
			d += (p ? 1 : -1) *
			     sonde_work_weighted(&k, &t.metrics[m], k.contrasts[0].weight, r[p]);
		}
		near(d, effect[m], 1e-6);
	}
	sonde_work_fini(&k);
	sonde_trial_fini(&t);
}

static void test_published_resamples(void **state)
{
	static const double se[] = {0.013028164, 0.016110654, 0.028028540, 0.045118004};
	static const double percent[][2] = {
		{6.400, 11.818}, {4.565, 11.252}, {4.329, 16.838}, {5.244, 24.417}};
	struct sonde_effect e[4];
	struct sonde_trial_work k;
	struct sonde_trial t;

	(void)state;
	make_e2e(&t);
	assert_int_equal(sonde_work_init(&k, &t), 0);
	assert_int_equal(sonde_effect_resample(&k, e), 0);
	for (int m = 0; m < 4; m++) {
		near(e[m].e.se, se[m], 1e-6);
		near(sonde_stats_percent(e[m].low), percent[m][0], 5e-4);
		near(sonde_stats_percent(e[m].high), percent[m][1], 5e-4);
		/* 48 windows in blocks of 4: 11 degrees of freedom in either period, some 20 in
		 * all. */
		assert_true(e[m].e.df > 11 && e[m].e.df <= 22 + 1e-9);
		assert_int_equal(e[m].block, 4);
		/* The periods are drawn independently: their variances add up. */
		near((e[m].variance[0] + e[m].variance[1]) / (se[m] * se[m]), 1, 0.1);
	}
	sonde_work_fini(&k);
	sonde_trial_fini(&t);
}

static void test_published_verdict(void **state)
{
	struct sonde_trial_result r, again;
	struct sonde_trial t;

	(void)state;
	make_e2e(&t);
	assert_int_equal(sonde_trial_judge(&t, &r), 0);
	assert_int_equal(r.n_rows, 4);
	assert_true(r.baseline && r.control && r.seed == 2024 && r.resamples == 1000);
	assert_int_equal(r.windows_before, E2E_WINDOWS);
	for (size_t i = 0; i < r.n_rows; i++) {
		assert_string_equal(r.rows[i].arm, "slow");
		assert_string_equal(r.rows[i].against, "restart");
		assert_true(r.rows[i].has_interval && r.rows[i].low < log(1.10) &&
			    r.rows[i].high > log(1.10));
		assert_int_equal(r.rows[i].family, i == 1 ? 1 : 3);
		assert_true(r.rows[i].p_adjusted >= r.rows[i].p);
	}
	assert_false(r.rows[0].resampled);
	assert_true(r.rows[0].batches_after >= 7 && r.rows[0].batches_after <= 14);
	assert_true(r.rows[3].resampled);
	assert_int_equal(r.rows[3].fewest, E2E_WINDOWS * E2E_QUERIES);
	assert_int_equal(r.rows[3].needed, 368);
	/* The same seed, the same figures; another, others. */
	assert_int_equal(sonde_trial_judge(&t, &again), 0);
	assert_true(again.rows[2].se == r.rows[2].se);
	sonde_trial_result_fini(&again);
	t.options.seed++;
	assert_int_equal(sonde_trial_judge(&t, &again), 0);
	assert_true(again.rows[2].se != r.rows[2].se);
	assert_true(again.rows[0].se == r.rows[0].se); /* batches know of no chance */
	sonde_trial_result_fini(&again);
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

/* ---- three pairs, two weeks ---- */

static const struct fixture_arm arms[] = {{"off", -0.105, -0.056, 0}, {"on", 0.207, -0.052, 0}};

/* A week before and two after, in windows of an hour. */
static const struct fixture_trial three_pairs = {
	.before = 7 * 24,
	.after = 14 * 24,
	.window_ns = 60 * MINUTE_NS,
	.queries = 400,
	.rho = 0.5,
	.noise = 0.02,
	.load = 0.2,
	.restart = -0.03,
	.arms = arms,
	.n_arms = 2,
	.seed = 20,
};

static void judge_fixture(const struct fixture_trial *f, struct sonde_trial *t,
			  struct sonde_trial_result *r)
{
	fixture_trial_make(t, f);
	t->options = (struct sonde_trial_options){.seed = 1, .resamples = 500};
	assert_int_equal(sonde_trial_judge(t, r), 0);
}

static const struct sonde_verdict_row *
row_of(const struct sonde_trial_result *r, const char *metric, const char *arm, const char *against)
{
	for (size_t i = 0; i < r->n_rows; i++)
		if (!strcmp(r->rows[i].metric, metric) && !strcmp(r->rows[i].arm, arm) &&
		    !strcmp(r->rows[i].against, against))
			return &r->rows[i];
	fail_msg("no row %s of %s against %s", metric, arm, against);
	return NULL;
}

static void test_three_pairs(void **state)
{
	static const struct {
		const char *metric, *arm, *against;
		double effect;
	} v[] = {
		{"mean", "off", "restart", -0.105}, {"RSS", "off", "restart", -0.056},
		{"mean", "on", "restart", 0.207},   {"p95", "on", "restart", 0.207},
		{"p99", "on", "restart", 0.207},    {"RSS", "on", "restart", -0.052},
		{"mean", "off", "on", -0.312},	    {"p95", "off", "on", -0.312},
	};
	struct sonde_trial_result r;
	struct sonde_trial t;

	(void)state;
	judge_fixture(&three_pairs, &t, &r);
	assert_int_equal(r.n_rows, 21);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(v); i++) {
		const struct sonde_verdict_row *row =
			row_of(&r, v[i].metric, v[i].arm, v[i].against);

		assert_int_equal(row->verdict, SONDE_VERDICT_DIFFERENT);
		assert_true(row->low <= v[i].effect && v[i].effect <= row->high);
		assert_int_equal(row->between, !strcmp(v[i].against, "on"));
		assert_int_equal(row->family, row->between ? 4 : 8);
	}
	/* The restart is in no effect, and RSS is the same with huge pages on and off. */
	assert_int_equal(row_of(&r, "RSS", "off", "on")->verdict, SONDE_VERDICT_EQUIVALENT);
	assert_int_equal(row_of(&r, "p50", "off", "restart")->family, 9);
	assert_int_equal(r.windows_dropped, 0);
	/* Whole days: 7 before, 14 after. */
	assert_int_equal(row_of(&r, "RSS", "on", "restart")->batches_before, 7);
	assert_int_equal(row_of(&r, "RSS", "on", "restart")->batches_after, 14);
	near(row_of(&r, "mean", "on", "restart")->days, 14, 1e-9);
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

/* What cannot be told is not told: too few queries, too few windows. */
static void test_refusals(void **state)
{
	struct fixture_trial f = three_pairs;
	const struct sonde_verdict_row *row;
	struct sonde_trial_result r;
	struct sonde_trial t;

	(void)state;
	f.queries = 2; /* 336 before, 672 after */
	judge_fixture(&f, &t, &r);
	row = row_of(&r, "p99", "off", "restart");
	assert_false(row->has_effect);
	assert_int_equal(row->verdict, SONDE_VERDICT_INCONCLUSIVE);
	assert_true(isnan(row->effect) && isnan(row->low) && isnan(row->p_adjusted));
	assert_string_equal(row->reason, "p99 needs 368 queries of each server in each period; "
					 "se00-2 has 336 before the change");
	assert_true(row_of(&r, "p95", "off", "restart")->has_effect);
	/* What has no p-value is no test of the family. */
	assert_int_equal(row_of(&r, "mean", "off", "restart")->family, 6);
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);

	f = three_pairs;
	f.before = 5;
	judge_fixture(&f, &t, &r);
	row = row_of(&r, "mean", "on", "restart");
	assert_true(row->has_effect && !row->has_interval && isnan(row->low));
	assert_int_equal(row->verdict, SONDE_VERDICT_INCONCLUSIVE);
	assert_string_equal(row->reason, "too few windows in a period for an interval");
	assert_false(row_of(&r, "p95", "on", "restart")->has_interval);
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

/* No period before: an effect is what differs after, servers and all. No control: nothing is taken
 * off. */
static void test_without(void **state)
{
	struct fixture_trial f = three_pairs;
	const struct sonde_verdict_row *row;
	struct sonde_trial_result r;
	struct sonde_trial t;

	(void)state;
	f.before = 0;
	judge_fixture(&f, &t, &r);
	assert_true(!r.baseline && r.control);
	row = row_of(&r, "mean", "on", "restart");
	/* Each server is 5 % slower than the one before it: in pairs that is the same for all. */
	near(row->effect, 0.207, 3 * row->se);
	assert_int_equal(row->batches_before, 0);
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);

	f = three_pairs;
	f.no_control = true;
	judge_fixture(&f, &t, &r);
	assert_true(r.baseline && !r.control);
	row = row_of(&r, "mean", "on", "");
	/* The restart's 3 % are in it now. */
	near(row->effect, 0.177, 3 * row->se);
	assert_true(isnan(row->spread) && isnan(row->placebo_over) && !row->placebo_splits);
	assert_int_equal(row->verdict, SONDE_VERDICT_DIFFERENT);
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

/* A window that one server lacks is missing for all: what it holds of the others changes nothing.
 */
static void test_gaps(void **state)
{
	struct sonde_trial_result r, again;
	const struct sonde_verdict_row *a, *b;
	struct sonde_trial t;

	(void)state;
	fixture_trial_make(&t, &three_pairs);
	t.options = (struct sonde_trial_options){.seed = 1, .resamples = 200};
	for (size_t w = 200; w < 260; w++)
		t.seen[3 * t.n_windows + w] = 0;
	assert_int_equal(sonde_trial_judge(&t, &r), 0);
	assert_int_equal(r.windows_dropped, 60);
	assert_int_equal(r.windows_after, 14 * 24 - 60);
	/* Absurd figures in the gap. */
	for (size_t w = 200; w < 260; w++)
		sonde_trial_put(&t, 1, 0, w, 1e15, 1);
	assert_int_equal(sonde_trial_judge(&t, &again), 0);
	a = row_of(&r, "RSS", "off", "restart");
	b = row_of(&again, "RSS", "off", "restart");
	assert_true(a->effect == b->effect && a->se == b->se);
	/* Three days are less than half there, and are no batches. */
	assert_true(a->batches_after == 11 && a->verdict == SONDE_VERDICT_DIFFERENT);
	sonde_trial_result_fini(&again);
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

static void test_unstable(void **state)
{
	struct fixture_trial f = three_pairs;
	const struct sonde_verdict_row *row;
	struct sonde_trial_result r;
	struct sonde_trial t;

	(void)state;
	f.control_noise = 0.6;
	f.rho = 0.9;
	judge_fixture(&f, &t, &r);
	row = row_of(&r, "mean", "off", "restart");
	assert_int_equal(row->verdict, SONDE_VERDICT_UNSTABLE);
	assert_true(row->spread > row->margin_asked && row->margin == row->spread);
	assert_true(strstr(row->reason, "the control differs from itself by more than 2.0 %"));
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

/* Two pairs of one arm are one effect, better known. */
static void test_pairs_of_an_arm(void **state)
{
	static const struct fixture_arm same[] = {{"off", -0.1, -0.05, 0}, {"off", -0.1, -0.05, 0}};
	struct fixture_trial f = three_pairs;
	struct sonde_trial_result r;
	struct sonde_trial t;

	(void)state;
	f.arms = same;
	judge_fixture(&f, &t, &r);
	assert_int_equal(t.n_arms, 2);
	assert_int_equal(t.arms[0].n_pairs, 2);
	assert_int_equal(r.n_rows, 7);
	assert_true(r.rows[0].low <= -0.1 && -0.1 <= r.rows[0].high);
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

/* Looking twice costs: each look has half of the 5 %. */
static void test_looks(void **state)
{
	struct sonde_trial_result once, twice;
	struct sonde_trial t;

	(void)state;
	fixture_trial_make(&t, &three_pairs);
	t.options = (struct sonde_trial_options){.seed = 1, .resamples = 200};
	assert_int_equal(sonde_trial_judge(&t, &once), 0);
	t.options.looks = 2;
	assert_int_equal(sonde_trial_judge(&t, &twice), 0);
	near(twice.alpha, 0.025, 1e-12);
	assert_true(twice.rows[0].se == once.rows[0].se);
	assert_true(twice.rows[0].high > once.rows[0].high);
	assert_true(twice.rows[2].needed > once.rows[2].needed);
	sonde_trial_result_fini(&once);
	sonde_trial_result_fini(&twice);
	sonde_trial_fini(&t);
}

/* More days narrow what was seen after the change, not what was seen before. */
static void test_days_needed(void **state)
{
	static const struct fixture_arm small[] = {{"off", 0.012, 0, 0}};
	struct fixture_trial f = three_pairs;
	const struct sonde_verdict_row *row;
	struct sonde_trial_result r;
	struct sonde_trial t;

	(void)state;
	f.arms = small;
	f.n_arms = 1;
	f.noise = 0.12;
	judge_fixture(&f, &t, &r);
	row = row_of(&r, "mean", "off", "restart");
	near(row->mde, 2.801585 * row->se, 1e-6 * row->se);
	assert_true(row->days_needed > row->days);
	/* Never less than if both periods grew. */
	assert_true(row->days_needed >=
		    sonde_stats_length_needed(row->days, row->mde, row->margin));
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

/* A leak of 1 % a day is found, with its rate; what does not leak is found not to. */
static void test_growth(void **state)
{
	static const struct fixture_arm leaks[] = {{"leak", 0, -0.05, 0.01}, {"none", 0, 0, 0}};
	struct fixture_trial f = three_pairs;
	const struct sonde_verdict_row *row;
	struct sonde_trial_result r;
	struct sonde_trial t;

	(void)state;
	f.arms = leaks;
	judge_fixture(&f, &t, &r);
	row = row_of(&r, "growth", "leak", "restart");
	assert_int_equal(row->verdict, SONDE_VERDICT_DIFFERENT);
	assert_true(row->low <= 0.01 && 0.01 <= row->high && row->high - row->low < 0.002);
	assert_false(row->primary);
	assert_int_equal(row_of(&r, "growth", "none", "restart")->verdict,
			 SONDE_VERDICT_EQUIVALENT);
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);

	f.after = 6;
	judge_fixture(&f, &t, &r);
	row = row_of(&r, "growth", "leak", "restart");
	assert_false(row->has_effect);
	assert_string_equal(row->reason, "too few windows after the change");
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

static void test_warmup(void **state)
{
	struct fixture_trial f = three_pairs;
	struct sonde_trial t;
	bool settled;
	size_t cut;

	(void)state;
	f.noise = 0.002;
	f.load = 0;
	fixture_trial_make(&t, &f);
	/* The control's memory grows for 30 hours after its restart. */
	for (size_t w = 0; w < 30; w++)
		sonde_trial_put(&t, 1, 4, f.before + w, -3e10 * (double)(30 - w) / 30, 0);
	cut = sonde_trial_warmup(&t, &settled);
	assert_true(settled && cut >= 25 && cut <= 40);
	/* And now to the end. */
	for (size_t w = 0; w < f.after; w++)
		sonde_trial_put(&t, 1, 4, f.before + w, 1e9 * (double)w, 0);
	cut = sonde_trial_warmup(&t, &settled);
	assert_true(!settled && cut == f.after / 4);
	sonde_trial_fini(&t);
}

static void test_contradictions(void **state)
{
	struct sonde_trial_result r;
	struct sonde_trial t;

	(void)state;
	sonde_log_set_level(SONDE_LOG_NONE);
	sonde_trial_init(&t, 0, MINUTE_NS, 10);
	for (int i = 0; i < 4; i++) {
		char name[] = {'a' + (char)i, 0};

		assert_int_equal(sonde_trial_add_server(&t, name), i);
	}
	assert_int_equal(sonde_trial_add_server(&t, "c"), 2);
	t.after = (struct sonde_trial_period){0, 10};
	assert_int_equal(sonde_trial_judge(&t, &r), -EINVAL); /* no arm */
	assert_int_equal(sonde_trial_add_pair(&t, "x", false, 0, 0), -EINVAL);
	assert_int_equal(sonde_trial_add_pair(&t, "x", false, 0, 1), 0);
	assert_int_equal(sonde_trial_add_pair(&t, "y", false, 0, 2), -EINVAL); /* treated twice */
	assert_int_equal(sonde_trial_add_pair(&t, "y", false, 1, 2), -EINVAL); /* a reference */
	assert_int_equal(sonde_trial_add_pair(&t, "y", true, 2, 0), -EINVAL);  /* treated */
	assert_int_equal(sonde_trial_add_pair(&t, "x", true, 2, 3), -EINVAL);  /* both */
	assert_int_equal(sonde_trial_add_pair(&t, "y", true, 2, 1), 0);	       /* may serve two */
	assert_int_equal(sonde_trial_judge(&t, &r), -EINVAL);		       /* nothing seen */
	t.before = (struct sonde_trial_period){5, 8};
	assert_int_equal(sonde_trial_judge(&t, &r), -EINVAL); /* periods overlap */
	sonde_trial_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published_statistic),
		cmocka_unit_test(test_published_resamples),
		cmocka_unit_test(test_published_verdict),
		cmocka_unit_test(test_three_pairs),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_without),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_unstable),
		cmocka_unit_test(test_pairs_of_an_arm),
		cmocka_unit_test(test_looks),
		cmocka_unit_test(test_days_needed),
		cmocka_unit_test(test_warmup),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_contradictions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
