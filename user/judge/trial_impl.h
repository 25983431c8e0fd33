/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of a trial share: contrasts, usable windows, and the two kinds of interval. */
#ifndef SONDE_JUDGE_TRIAL_IMPL_H
#define SONDE_JUDGE_TRIAL_IMPL_H

#include "judge/trial.h"

enum { SONDE_BEFORE, SONDE_AFTER, SONDE_PERIODS };

/* A difference of logarithms as weights of servers: +1 the treated, -1 its reference, and the other
 * way round what is subtracted. Of an arm of several pairs each has its share. */
struct sonde_contrast {
	const struct sonde_trial_arm *arm, *against; /* against NULL: nothing               */
	bool between;
	double *weight; /* [n_servers] */
};

struct sonde_trial_work {
	const struct sonde_trial *t;
	/* Windows in which every server was recorded: those before, then those after. */
	uint32_t *order;
	size_t n[SONDE_PERIODS];
	size_t dropped;
	struct sonde_contrast *contrasts;
	size_t n_contrasts, cap_contrasts;
	double *control; /* [n_servers] weights of the control arm alone; NULL: there is none */
	struct sonde_view *views; /* [n_sources * n_servers], histograms only                */
	double alpha;
	unsigned int resamples;
};

int sonde_work_init(struct sonde_trial_work *k, const struct sonde_trial *t);
void sonde_work_fini(struct sonde_trial_work *k);

struct sonde_view *sonde_work_view(const struct sonde_trial_work *k, size_t source, size_t server);
/* All usable windows of a period as one range of `order`. */
struct sonde_range sonde_work_period(const struct sonde_trial_work *k, int period);
/* Metric @m of @server over one range of `order`; NAN: nothing there. Of a level only windows count
 * in which every server of weight has one. */
double sonde_work_value(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			const double *weight, size_t server, struct sonde_range range);
/* Sum of weights times its logarithm; servers of weight 0 do not count. NAN: of one there is
 * nothing, or 0. */
double sonde_work_weighted(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			   const double *weight, struct sonde_range range);
/* The contrast of each window of a period in steps of time, NAN where a window is not usable or has
 * nothing. [to - from] values, or NULL. */
double *sonde_work_series(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			  const double *weight, int period);

/* An effect by either kind of interval. */
struct sonde_effect {
	struct sonde_estimate e; /* value: of the statistic, not of the batches or resamples */
	double variance[SONDE_PERIODS]; /* its two parts: only the second can still shrink    */
	/* batches */
	size_t batches[SONDE_PERIODS];
	bool short_batches;
	/* resamples */
	size_t block;
	double low, high, low2, high2; /* percentile; NAN: none                              */
};

/* How a series of a contrast is cut into batches: by days, or by how long it remembers. */
struct sonde_batching sonde_work_batching(const struct sonde_trial_work *k, const double *x,
					  size_t n);

/* trial_batch.c. 0, -ENODATA (too few windows) or -ENOMEM. */
int sonde_effect_batches(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			 const double *weight, struct sonde_effect *out);

/* trial_growth.c: e.value is the growth itself. As above. */
int sonde_effect_growth(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			const double *weight, struct sonde_effect *out);

/*
 * trial_boot.c: every metric of a histogram and every contrast, from the same draws. Effects are
 * [n_metrics * n_contrasts]; e.df 0: this one could not be had. 0, -ENODATA (too few windows) or
 * -ENOMEM.
 */
int sonde_effect_resample(const struct sonde_trial_work *k, struct sonde_effect *out);

/*
 * trial_restart.c: the error of an effect by how far the pairs of its arms are apart. -ENODATA: an
 * arm has fewer than SONDE_RESTARTS_LEAST, or it cannot be had.
 */
int sonde_effect_restarts(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			  const struct sonde_contrast *c, struct sonde_estimate *out);

/* Windows a block that the data ask for, 1 h at least, in a period. */
size_t sonde_boot_block(const struct sonde_trial_work *k, int period);

/* trial_placebo.c: the control against itself, cut where nothing was done. */
struct sonde_placebo {
	size_t splits; /* 0: none could be made */
	double spread; /* 95th percentile of |effect|                                        */
	double over;   /* share beyond ln(1 + margin)                                        */
};
void sonde_placebo_make(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			struct sonde_placebo *out);

/* Fewest values of any server of weight in any period, and the name of that server. */
uint64_t sonde_work_fewest(const struct sonde_trial_work *k, const struct sonde_trial_metric *m,
			   const double *weight, const char **server, int *period);

#endif
