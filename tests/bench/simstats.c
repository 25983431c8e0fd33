// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How often is the verdict wrong? Simulation of series and of whole trials in which nothing happens
 * (false alarms, nominal 5 %), and of trials with a planted effect (found, covered by the
 * interval).
 *
 *   simstats series RUNS    methods on one autocorrelated series, as a table
 *   simstats trial RUNS     sonde_trial_judge() on two pairs
 *   simstats power RUNS     the same with an effect of 3 %
 *   simstats speed WINDOWS  four servers over so many windows (2016: two weeks of 10 minutes):
 *                           seconds of processor and peak memory of one verdict
 */
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "core/log.h"
#include "core/num.h"
#include "trial_fixture.h"

#define N 336 /* windows: 2 weeks of hours, or 2 days of 10 minutes */

/* ---- one series ---- */

enum method { T_TEST, RANKS, NEWEY_WEST, BOOT, BOOT_T, FOURTEEN, SEVEN, AUTOMATIC, METHODS };

static int excludes_zero(const double *x, size_t length)
{
	struct sonde_estimate e;

	if (sonde_stats_batch_mean(x, N / length * length, length, &e))
		return 0;
	return fabs(e.value) > sonde_stats_t_quantile(0.975, e.df) * e.se;
}

static void one_series(double rho, uint64_t seed, unsigned int *alarms)
{
	double x[N], y[N], mean, sd = sqrt(1 - rho * rho);
	struct sonde_rng r = {seed};
	struct sonde_block_length b;
	struct fixture_interval i;
	double length;

	fixture_ar1(&r, x, N, rho, sd, 1);
	fixture_ar1(&r, y, N, rho, sd, 1);
	mean = fabs(sonde_stats_mean(x, N));
	alarms[T_TEST] += mean > 1.96 * sqrt(sonde_stats_variance(x, N) / N);
	alarms[RANKS] += fixture_mann_whitney(x, N, y, N).p < 0.05;
	alarms[NEWEY_WEST] +=
		mean >
		1.96 * sqrt(fmax(fixture_newey_west(x, N, fixture_newey_west_lag(N)), 0) / N);
	if (sonde_stats_block_length(x, N, &b))
		return;
	length = fmax(1, ceil(b.circular));
	i = fixture_boot_mean(x, N, (size_t)length, 400, seed ^ 0x5eed);
	alarms[BOOT] += i.low > 0 || i.high < 0;
	alarms[BOOT_T] += mean > sonde_stats_t_quantile(0.975, fmax(2, N / length - 1)) * i.se;
	alarms[FOURTEEN] += excludes_zero(x, N / 14);
	alarms[SEVEN] += excludes_zero(x, N / 7);
	alarms[AUTOMATIC] += excludes_zero(x, sonde_stats_batching(N, 0, b.correlation).length);
}

static void series(unsigned int runs)
{
	static const double rho[] = {0, 0.3, 0.5, 0.8, 0.95};

	printf("| rho | t-test | Mann-Whitney | Newey-West | bootstrap, percentile | bootstrap, t "
	       "| "
	       "14 batches | 7 batches | batches as chosen |\n");
	for (size_t k = 0; k < SONDE_ARRAY_SIZE(rho); k++) {
		unsigned int alarms[METHODS] = {0};

		for (unsigned int i = 0; i < runs; i++)
			one_series(rho[k], 1 + i + 1000000 * k, alarms);
		printf("| %.2f |", rho[k]);
		for (int m = 0; m < METHODS; m++)
			printf(" %.1f |", 100.0 * alarms[m] / runs);
		printf("\n");
	}
}

/* ---- whole trials ---- */

struct tally {
	unsigned int alarms, covered, verdicts[4];
	double se, effect, squares, mde;
};

static void one_trial(const struct fixture_trial *f, double planted, struct tally *tally)
{
	struct sonde_trial_result r;
	struct sonde_trial t;

	fixture_trial_make(&t, f);
	t.options = (struct sonde_trial_options){.seed = f->seed, .resamples = 400};
	if (sonde_trial_judge(&t, &r))
		abort();
	for (size_t i = 0; i < r.n_rows; i++) {
		const struct sonde_verdict_row *row = &r.rows[i];

		tally[i].alarms += row->p < 0.05;
		tally[i].covered += row->low <= planted && planted <= row->high;
		tally[i].verdicts[row->verdict]++;
		tally[i].se += row->se;
		tally[i].mde += row->mde;
		tally[i].effect += row->effect;
		tally[i].squares += row->effect * row->effect;
	}
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

static void print_tally(double rho, const struct tally *tally, unsigned int runs)
{
	static const char *const metric[] = {"mean", "p95", "p99", "RSS", "p50", "p99.9", "growth"};
	double n = runs;

	for (size_t m = 0; m < SONDE_ARRAY_SIZE(metric); m++) {
		double mean = tally[m].effect / n;

		printf("| %.2f | %s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.2f | %.2f |\n",
		       rho, metric[m], 100 * tally[m].alarms / n, 100 * tally[m].covered / n,
		       100 * tally[m].verdicts[SONDE_VERDICT_DIFFERENT] / n,
		       100 * tally[m].verdicts[SONDE_VERDICT_EQUIVALENT] / n,
		       100 * tally[m].verdicts[SONDE_VERDICT_INCONCLUSIVE] / n,
		       100 * tally[m].verdicts[SONDE_VERDICT_UNSTABLE] / n, 100 * tally[m].se / n,
		       100 * sqrt(tally[m].squares / n - mean * mean));
	}
}

static void trials(unsigned int runs, double planted)
{
	static const double rho[] = {0, 0.5, 0.8};

	printf("| rho | metric | p < 5 %% | covered | different | equivalent | inconclusive | "
	       "unstable | error said, %% | error, %% |\n");
	for (size_t k = 0; k < SONDE_ARRAY_SIZE(rho); k++) {
		struct fixture_arm arm = {"same", planted, planted, planted};
		struct tally tally[7] = {{0}};
		struct fixture_trial f = {
			.before = N,
			.after = N,
			.window_ns = 600 * SONDE_NS_PER_SEC,
			.queries = 100,
			.rho = rho[k],
			.noise = 0.05,
			.load = 0.2,
			.restart = -0.02,
			.arms = &arm,
			.n_arms = 1,
		};

		for (unsigned int i = 0; i < runs; i++) {
			f.seed = 1 + i + 100000 * k;
			one_trial(&f, planted, tally);
		}
		print_tally(rho[k], tally, runs);
	}
}

static long peak_kib(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

static void speed(size_t windows)
{
	struct fixture_arm arm = {"slow", 0.05, 0.05, 0};
	struct fixture_trial f = {
		.before = windows / 2,
		.after = windows - windows / 2,
		.window_ns = 14 * 86400ull * SONDE_NS_PER_SEC / windows,
		.queries = 3000,
		.rho = 0.8,
		.noise = 0.1,
		.load = 0.3,
		.arms = &arm,
		.n_arms = 1,
		.seed = 1,
	};
	struct sonde_trial_result r;
	struct sonde_trial t;
	clock_t begin;
	long before;

	fixture_trial_make(&t, &f);
	t.options.seed = 1;
	before = peak_kib();
	begin = clock();
	if (sonde_trial_judge(&t, &r))
		abort();
	printf("%zu windows, 4 servers, %u resamples, %zu rows: %.2f s, peak %.0f MiB of which the "
	       "verdict %.0f MiB\n",
	       windows, r.resamples, r.n_rows, (double)(clock() - begin) / CLOCKS_PER_SEC,
	       (double)peak_kib() / 1024, (double)(peak_kib() - before) / 1024);
	sonde_trial_result_fini(&r);
	sonde_trial_fini(&t);
}

int main(int argc, char **argv)
{
	uint64_t runs;

	if (argc != 3 || sonde_parse_u64(argv[2], &runs) || !runs || runs > 100000) {
		fprintf(stderr, "usage: simstats series|trial|power|speed N\n");
		return 2;
	}
	if (!strcmp(argv[1], "series"))
		series((unsigned int)runs);
	else if (!strcmp(argv[1], "speed"))
		speed((size_t)runs);
	else
		trials((unsigned int)runs, strcmp(argv[1], "power") ? 0 : 0.03);
	return 0;
}
