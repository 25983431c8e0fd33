/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An experiment as numbers, and its verdicts. Servers are observed over the same windows of time; a
 * pair is a treated server and its untouched reference under the same load; an arm is one
 * treatment, given to one pair or several; the control arm was only restarted. Whoever has
 * recordings fills a trial, sonde_trial_judge() turns it into rows. Method and literature:
 * docs/statistics.md.
 *
 * Invariants: values come in as sums and counts or as histograms, never as percentiles; resampling
 * draws the same windows for all servers; everything random follows from the seed in the result.
 */
#ifndef SONDE_JUDGE_TRIAL_H
#define SONDE_JUDGE_TRIAL_H

#include <stdint.h>

#include "judge/stats_decide.h"
#include "judge/stats_windows.h"

#define SONDE_TRIAL_NAME  64
#define SONDE_TRIAL_GROUP 160
/* Pairs an arm from which on how far restarts are apart is known, if not well. */
#define SONDE_RESTARTS_LEAST 3

enum sonde_trial_kind {
	SONDE_TRIAL_LEVEL, /* of each window the sum of readings and their number: RSS   */
	SONDE_TRIAL_RATIO, /* amount and what it is divided by: faults and queries       */
	SONDE_TRIAL_HIST,  /* a histogram: latency                                       */
};

/* What was measured of one server, by window; den 0: nothing was. */
struct sonde_trial_cell {
	double *num, *den; /* [n_windows]; of a histogram: its sums and counts           */
	struct sonde_windows hist;
};

struct sonde_trial_source {
	char name[SONDE_TRIAL_NAME]; /* "query.latency" */
	enum sonde_trial_kind kind;
	struct sonde_trial_cell *cell; /* [n_servers] */
};

enum sonde_trial_stat {
	SONDE_TRIAL_MEAN,     /* sum of num over sum of den        */
	SONDE_TRIAL_QUANTILE, /* of the merged histogram           */
	SONDE_TRIAL_GROWTH,   /* of a level, per day, after the change: levels only */
};

/* When is a row worth a line? JSON has all. */
enum sonde_trial_detail {
	SONDE_TRIAL_ALWAYS,
	SONDE_TRIAL_IF_DIFFERENT, /* one of many */
	SONDE_TRIAL_IF_ASKED,	  /* one of very many */
};

struct sonde_trial_metric {
	char name[SONDE_TRIAL_NAME]; /* "p95" */
	size_t source;
	enum sonde_trial_stat stat;
	double q;
	double margin; /* what does not matter: 0.05 for 5 %                                 */
	bool primary;  /* of the family fixed before the run; otherwise exploratory          */
	enum sonde_trial_detail detail;
	const char *unit;	       /* of its values: "ns", "bytes", "count"; NULL: not said */
	char group[SONDE_TRIAL_GROUP]; /* whose queries: "heaviest 5 %"; "": all of them     */
};

struct sonde_trial_pair {
	size_t treated, reference; /* servers */
};

struct sonde_trial_arm {
	char name[SONDE_TRIAL_NAME];
	bool control;
	struct sonde_trial_pair *pairs;
	size_t n_pairs, cap_pairs;
};

/* [from, to) of the windows */
struct sonde_trial_period {
	size_t from, to;
};

struct sonde_trial_options {
	double alpha;		/* 0: 0.05                                                      */
	unsigned int looks;	/* planned looks at the data, 0 or 1: one, at the end           */
	unsigned int look;	/* which of them this is, from 1                                */
	unsigned int resamples; /* 0: 2000                                                   */
	size_t block;		/* block length in windows for tests and reruns; 0: by the data */
	uint64_t seed;
};

struct sonde_trial {
	uint64_t start_ns, window_ns; /* UTC begin of window 0; the width of all             */
	size_t n_windows;
	struct sonde_trial_period before, after; /* before may be empty                      */
	char (*servers)[SONDE_TRIAL_NAME];
	size_t n_servers, cap_servers;
	struct sonde_trial_arm *arms;
	size_t n_arms, cap_arms;
	struct sonde_trial_source *sources;
	size_t n_sources, cap_sources;
	struct sonde_trial_metric *metrics;
	size_t n_metrics, cap_metrics;
	uint8_t *seen; /* [n_servers * n_windows]: was the server recorded then?             */
	struct sonde_trial_options options;
};

/* Width for windows of an observation this long: 10 min from 2 days on, else 1 min, which is what
 * recordings keep histograms by. */
uint64_t sonde_trial_window_ns(uint64_t duration_ns);

/*
 * Build in this order: servers, arms, sources, metrics, values. Each add returns an index or
 * -ENOMEM; sonde_trial_pair -EINVAL (logged) where a pair contradicts an earlier one.
 */
void sonde_trial_init(struct sonde_trial *t, uint64_t start_ns, uint64_t window_ns,
		      size_t n_windows);
void sonde_trial_fini(struct sonde_trial *t);
int sonde_trial_add_server(struct sonde_trial *t, const char *name); /* finds it, too */
int sonde_trial_add_pair(struct sonde_trial *t, const char *arm, bool control, size_t treated,
			 size_t reference);
int sonde_trial_add_source(struct sonde_trial *t, const char *name, enum sonde_trial_kind kind);
/* @margin 0: the default of such a metric. */
int sonde_trial_add_metric(struct sonde_trial *t, const struct sonde_trial_metric *metric);
double sonde_trial_default_margin(enum sonde_trial_kind kind, enum sonde_trial_stat stat);

/* A window in which nothing at all is known of a server is left out for all servers. */
void sonde_trial_see(struct sonde_trial *t, size_t server, size_t window);
/* Levels and ratios: added to what the window has. */
void sonde_trial_put(struct sonde_trial *t, size_t source, size_t server, size_t window, double num,
		     double den);
/* Histograms: add to this in ascending order of windows. */
struct sonde_windows *sonde_trial_hist(struct sonde_trial *t, size_t source, size_t server);

/*
 * Windows at the begin of `after` that are warm-up (MSER-5) of any restarted server by any of the
 * primary metrics: the same cut for all. At most a quarter of the period: then *settled is false.
 * Call it once everything was put; the caller moves after.from.
 */
size_t sonde_trial_warmup(const struct sonde_trial *t, bool *settled);

/* The treated server's share of what its pair answered in a period: 0.5 where load is balanced;
 * NAN: no latency was recorded. */
double sonde_trial_share(const struct sonde_trial *t, const struct sonde_trial_pair *pair,
			 const struct sonde_trial_period *period);

/* ---- the result ---- */

struct sonde_verdict_row {
	char metric[SONDE_TRIAL_NAME];
	char arm[SONDE_TRIAL_NAME];
	char against[SONDE_TRIAL_NAME]; /* the control's name, another arm's, "" for none    */
	bool between;			/* two treated arms                                  */
	bool primary;
	enum sonde_trial_detail detail;
	const char *unit;
	char group[SONDE_TRIAL_GROUP];
	/* The figure itself, of the arm's treated servers and of their references (the mean where
	 * there are several), before and after; NAN: none. */
	double plain[2][2];
	bool has_effect; /* false: why is in reason, and nothing below is known     */
	/* Logarithms of ratios; sonde_stats_percent() makes them readable. */
	double effect, low, high; /* with the interval of 1 - alpha                         */
	bool has_interval;	  /* false: why is in reason                                */
	bool resampled;		  /* by the block bootstrap; otherwise by batches          */
	double percentile_low, percentile_high;	  /* resampled: the percentile interval        */
	double percentile_low2, percentile_high2; /* and that of 1 - 2 alpha */
	bool forms_differ; /* an end is off by more than 20 % of the half width      */
	double se, df, p, p_adjusted;
	size_t restarts;  /* of the arm that has fewer                                           */
	bool by_restarts; /* se and df are of how far pairs are apart: that is more              */
	double alpha;
	size_t family; /* tests that p_adjusted allows for                                    */
	size_t batches_before, batches_after; /* not resampled                               */
	bool short_batches; /* shorter than 5 correlation times: may be too narrow          */
	size_t block;	    /* resampled: windows a block                  */
	double margin_asked, margin; /* the second at least the control's own spread          */
	double spread;		     /* 95th percentile of the control's placebo; NAN: none   */
	double placebo_over;	     /* share of placebo splits beyond the asked margin       */
	size_t placebo_splits;
	uint64_t fewest, needed;  /* queries in the poorest cell, and the floor          */
	double mde;		  /* least effect to be found with 80 %                       */
	double days_before, days; /* of the periods */
	double days_needed;	  /* after the change; INFINITY: no number of days */
	double restart_alarm;	  /* chance of a false alarm where restarts differ by 1 %     */
	enum sonde_verdict verdict;
	char reason[240];
};

struct sonde_trial_result {
	struct sonde_verdict_row *rows; /* contrasts with the control first, metrics in order */
	size_t n_rows, cap_rows;
	uint64_t seed;
	unsigned int resamples;
	double alpha; /* of one look                                                  */
	unsigned int look, looks;
	bool baseline; /* false: no period before, so what differs between servers stays in */
	bool control;
	size_t windows_before, windows_after; /* used                                        */
	size_t windows_dropped;		      /* in which some server was not recorded       */
};

/* 0, -EINVAL (logged: no treated arm, no period, nothing seen) or -ENOMEM. */
int sonde_trial_judge(const struct sonde_trial *t, struct sonde_trial_result *out);
void sonde_trial_result_fini(struct sonde_trial_result *r);

#endif
