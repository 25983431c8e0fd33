/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The alloc lens's values, in the order of its table. */
#ifndef SONDE_LENS_ALLOC_METRICS_H
#define SONDE_LENS_ALLOC_METRICS_H

#include "model/metric.h"

enum sonde_alloc_metric {
	/* Exact mode: counted call by call. */
	M_CALLS,
	M_REQUESTED,
	M_FAILED,
	M_HANDED_OUT,
	M_GIVEN_BACK,
	M_LIVE,
	/* Counters mode: what the allocator keeps for itself. */
	M_ALLOCATED,
	M_AT_MOST,
	M_AGE,
	M_HEAP,
	M_HEAP_MAPPED,
	M_FREE,
	M_UNMAPPED,
	M_METADATA,
	M_THREADS,
	M_ENDS_LOST,
	M_LATE,
	M_READ_TIME,
	M_NOT_CLEAN,
	/* Exact mode, by call stack. */
	M_STACKS,
	/* Windows mode: ratios. */
	M_CALLS_PER_QUERY,
	M_BYTES_PER_QUERY,
	M_MEAN_SIZE,
	M_SHARE,
	M_RATE,
	M_SLOWDOWN,
	M_WINDOWS,
	M_DISTURBED,
	M_TRAP_SHARE,
	M_LONGEST,
	M__MAX
};

extern const struct sonde_metric_desc sonde_alloc_metrics[M__MAX];

#endif
