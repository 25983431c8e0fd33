/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The alloc lens's values, in the order of its table in alloc.c. */
#ifndef SONDE_LENS_ALLOC_METRICS_H
#define SONDE_LENS_ALLOC_METRICS_H

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
};

#endif
