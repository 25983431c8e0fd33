/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A visitor that remembers: the last value of every metric, the difference over the last interval, and
 * every histogram merged over the interval and over the whole run. What the terminal shows is read
 * from here.
 */
#ifndef SONDE_MODEL_SNAPSHOT_H
#define SONDE_MODEL_SNAPSHOT_H

#include "model/visitor.h"

struct sonde_snap_metric {
	const struct sonde_metric_desc *desc;
	char *label;
	uint32_t target;
	bool present;	/* a value was seen                            */
	double first, last, prev; /* prev: when the interval before was shown */
	double min, max;
	uint64_t first_ns, last_ns;
	char *absent;	/* reason of the latest absence, or NULL       */
};

struct sonde_snap_hist {
	const struct sonde_hist_desc *desc;
	char *label;
	uint32_t target;
	struct sonde_hist total, interval, pending;
};

struct sonde_snap_note {
	struct sonde_note note; /* strings owned here */
};

struct sonde_snapshot {
	struct sonde_meta meta;
	struct sonde_snap_metric *metrics;
	size_t n_metrics, cap_metrics;
	struct sonde_snap_hist *hists;
	size_t n_hists, cap_hists;
	struct sonde_snap_note *notes;
	size_t n_notes, cap_notes;
	uint64_t drops[SONDE_LENS__MAX][SONDE_DROP__MAX];
	uint64_t prev_drops;	 /* what was lost, when the interval before was shown */
	uint64_t spans;		 /* seen */
	uint64_t first_tick_ns, last_tick_ns, prev_tick_ns, ticks;
	bool partial; /* the interval that ended last was cut off by the end of the session */
	bool started; /* first_tick_ns is when the first interval began, not when it ended */
	struct sonde_visitor visitor; /* feed this */
};

void sonde_snapshot_init(struct sonde_snapshot *s);
void sonde_snapshot_fini(struct sonde_snapshot *s);
/* Mean length of an interval; 0 where it cannot be told. */
uint64_t sonde_snapshot_interval_ns(const struct sonde_snapshot *s);
/* The interval was shown: differences count from here (histograms turn over at the tick). */
void sonde_snapshot_mark(struct sonde_snapshot *s);
/* NULL if never seen. @label "" for the plain series. Target: index, or UINT32_MAX for any. */
const struct sonde_snap_metric *sonde_snapshot_find_metric(const struct sonde_snapshot *s,
							   const char *name, const char *label,
							   uint32_t target);
const struct sonde_snap_hist *sonde_snapshot_find_hist(const struct sonde_snapshot *s,
						       const char *name, const char *label,
						       uint32_t target);
/* Sum over targets and labels of the last value of a counter (or gauge) by name; *present false if none. */
double sonde_snapshot_sum(const struct sonde_snapshot *s, const char *name, bool *present);
/* Sum of the differences over the last interval. */
double sonde_snapshot_delta(const struct sonde_snapshot *s, const char *name, bool *present);
/* Histogram of one name and label merged over all targets into @out (initialised by the caller), over
 * the last interval or the whole run. 0, or -ENOENT when it holds nothing. */
int sonde_snapshot_hist_total(const struct sonde_snapshot *s, const char *name, const char *label,
			      bool interval, struct sonde_hist *out);
/* Sum of what was lost: of the drops that make figures too low. */
uint64_t sonde_snapshot_drops(const struct sonde_snapshot *s);

#endif
