/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trial's figures from recordings: which metrics are judged, and how a recording's values become
 * sums, counts and histograms of windows. Times of a recording are put into windows by UTC, so
 * hosts align.
 */
#ifndef SONDE_JUDGE_TRIAL_FILL_H
#define SONDE_JUDGE_TRIAL_FILL_H

#include "judge/trial_queries.h"
#include "record/reader.h"

/*
 * The sources and metrics that recordings can have: RSS, latency (mean, p50, p95, p99, p99.9), CPU,
 * faults and stalls per query. After servers and arms. 0 or -ENOMEM.
 */
int sonde_trial_fill_begin(struct sonde_trial *t);
/* Margin of one of these metrics by name: 0, or -ENOENT: no such metric. */
int sonde_trial_fill_margin(struct sonde_trial *t, const char *metric, double margin);
/* "RSS, mean, p95, ..." into @buf, returned. */
const char *sonde_trial_fill_names(const struct sonde_trial *t, char *buf, size_t size);
/*
 * Add what the recording has of the trial's time to @server. Recordings of one server come in the
 * order of their time and must not overlap: otherwise -EINVAL (logged). @also gets what it takes,
 * too; @q and @also may be NULL. 0 or -errno (logged).
 */
int sonde_trial_fill_from(struct sonde_trial *t, size_t server, struct sonde_reader *r,
			  struct sonde_trial_queries *q, const struct sonde_visitor *also);
/* All are in. Metrics that no recording has are taken out. 0 or -errno. */
int sonde_trial_fill_end(struct sonde_trial *t);

#endif
