/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trials with known effects for tests, simulation and benchmark: pairs of servers that share their
 * load and have noise of their own, both autocorrelated, so that neighbouring windows resemble each
 * other.
 */
#ifndef SONDE_TESTS_TRIAL_FIXTURE_H
#define SONDE_TESTS_TRIAL_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/mem.h"
#include "judge/trial.h"
#include "stats_fixture.h"

#define FIXTURE_TABLE 4096

struct fixture_arm {
	const char *name;
	double latency, rss; /* planted: logarithms of ratios */
	double growth;	     /* of RSS, per day after the change */
};

struct fixture_trial {
	size_t before, after; /* windows */
	uint64_t window_ns;
	unsigned int queries; /* a window and server */
	double rho;	      /* of the noise of each server */
	double noise;	      /* its standard deviation */
	double load, restart; /* standard deviation of what all share; effect of a restart */
	const struct fixture_arm *arms;
	size_t n_arms; /* beside the control, which is made too unless no_control */
	bool no_control;
	double control_noise; /* more noise in the control, 0: none */
	uint64_t seed;
};

/* A table of log-normal latencies around 2 ms: a draw of it costs one random number. */
static inline const double *fixture_latencies(void)
{
	static double table[FIXTURE_TABLE];

	for (int i = 0; i < FIXTURE_TABLE && !table[FIXTURE_TABLE - 1]; i++)
		table[i] = 2e6 * exp(0.5 * sonde_stats_normal_quantile((i + 0.5) / FIXTURE_TABLE));
	return table;
}

static inline void fixture_add_server(struct sonde_trial *t, const struct fixture_trial *f,
				      size_t server, const double *load,
				      const struct fixture_arm *effect, double noise)
{
	size_t n = f->before + f->after;
	double day = (double)f->window_ns / (86400.0 * (double)SONDE_NS_PER_SEC);
	struct sonde_rng r = {f->seed * 1000003 + server};
	double *own = calloc(n, sizeof(*own)), *level = calloc(n, sizeof(*level));
	double sd = noise * sqrt(1 - f->rho * f->rho);
	const double *table = fixture_latencies();
	struct sonde_hist h;

	if (!own || !level || sonde_hist_init(&h))
		abort();
	fixture_ar1(&r, own, n, f->rho, sd, 1);
	fixture_ar1(&r, level, n, f->rho, sd / 4, 1);
	for (size_t w = 0; w < n; w++) {
		bool after = w >= f->before;
		double scale = exp(own[w] + load[w] + (after ? effect->latency : 0) +
				   0.05 * (double)server);
		double days = after ? (double)(w - f->before) * day : 0;

		sonde_hist_reset(&h);
		for (unsigned int i = 0; i < f->queries; i++)
			sonde_hist_add(
				&h, (uint64_t)(table[sonde_rng_next(&r) % FIXTURE_TABLE] * scale));
		if (sonde_windows_add(sonde_trial_hist(t, 0, server), w, &h))
			abort();
		sonde_trial_put(
			t, 1, server, w,
			6e10 * exp(level[w] + (after ? effect->rss : 0) + days * effect->growth),
			1);
		sonde_trial_see(t, server, w);
	}
	if (sonde_windows_seal(sonde_trial_hist(t, 0, server)))
		abort();
	sonde_hist_fini(&h);
	free(own);
	free(level);
}

static inline void fixture_add_pairs(struct sonde_trial *t, const struct fixture_trial *f)
{
	for (size_t a = 0; a < f->n_arms + !f->no_control; a++) {
		bool control = a == f->n_arms;
		char treated[SONDE_TRIAL_NAME], reference[SONDE_TRIAL_NAME];

		snprintf(treated, sizeof(treated), "se%02zu-2", a);
		snprintf(reference, sizeof(reference), "se%02zu", a);
		if (sonde_trial_add_server(t, treated) != (int)(2 * a) ||
		    sonde_trial_add_server(t, reference) != (int)(2 * a + 1) ||
		    sonde_trial_add_pair(t, control ? "restart" : f->arms[a].name, control, 2 * a,
					 2 * a + 1))
			abort();
	}
}

/* Metrics: mean, p95, p99, RSS, all primary; p50, p99.9, growth of RSS. */
static inline void fixture_trial_make(struct sonde_trial *t, const struct fixture_trial *f)
{
#define METRIC(n, s, st, quantile, p)                                                               \
	{.name = n, .source = s, .stat = SONDE_TRIAL_##st, .q = quantile, .primary = p}
	static const struct sonde_trial_metric metrics[] = {
		METRIC("mean", 0, MEAN, 0, true),
		METRIC("p95", 0, QUANTILE, 0.95, true),
		METRIC("p99", 0, QUANTILE, 0.99, true),
		METRIC("RSS", 1, MEAN, 0, true),
		METRIC("p50", 0, QUANTILE, 0.5, false),
		METRIC("p99.9", 0, QUANTILE, 0.999, false),
		METRIC("growth", 1, GROWTH, 0, false),
	};
#undef METRIC
	size_t n = f->before + f->after;
	double *load = calloc(n, sizeof(*load));
	struct sonde_rng r = {f->seed};

	if (!load)
		abort();
	sonde_trial_init(t, 0, f->window_ns, n);
	t->before = (struct sonde_trial_period){0, f->before};
	t->after = (struct sonde_trial_period){f->before, n};
	fixture_add_pairs(t, f);
	if (sonde_trial_add_source(t, "query.latency", SONDE_TRIAL_HIST) != 0 ||
	    sonde_trial_add_source(t, "rss.total", SONDE_TRIAL_LEVEL) != 1)
		abort();
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(metrics); i++)
		if (sonde_trial_add_metric(t, &metrics[i]) < 0)
			abort();
	fixture_ar1(&r, load, n, 0.9, f->load * sqrt(1 - 0.81), 1);
	for (size_t s = 0; s < t->n_servers; s++) {
		bool control = s / 2 == f->n_arms, treated = s % 2 == 0;
		struct fixture_arm effect = {.name = ""};

		if (treated && !control)
			effect = f->arms[s / 2];
		effect.latency += treated ? f->restart : 0;
		effect.rss += treated ? f->restart : 0;
		fixture_add_server(t, f, s, load, &effect,
				   control && f->control_noise ? f->control_noise : f->noise);
	}
	free(load);
}

#endif
