/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What `sonde stat` prints: a line per interval, a summary at the end, or one JSON object. Reads
 * the snapshot only, so it cannot show what a recording would not hold.
 */
#ifndef SONDE_SHOW_STAT_H
#define SONDE_SHOW_STAT_H

#include <stdio.h>

#include "model/snapshot.h"

struct sonde_stat_view {
	FILE *out;
	uint64_t lines; /* printed since the heading: a new one comes every 20 */
	uint32_t shown; /* columns that it names, a bit each                   */
	bool any;	/* a line was printed                                  */
};

/* One line for the interval that just ended. 0 or -errno of the stream. */
int sonde_stat_line(struct sonde_stat_view *v, const struct sonde_snapshot *snap);

/* How it ended, for the summary. Strings borrowed. */
struct sonde_stat_end {
	const char *ended; /* "duration", "signal", "target exited", "harm"...                 */
	const char *next;  /* a command to type next, or NULL                                  */
	bool instant;	   /* one reading: there is no time for rates                      */
	bool all;	   /* lists are not cut                                           */
	uint64_t observed_ns;
	uint64_t attach_ns, detach_ns;
};

/* The summary: memory first, then queries, faults, allocation, notes, drops and cost. */
int sonde_stat_summary(FILE *out, const struct sonde_snapshot *snap,
		       const struct sonde_stat_end *end);
/* The same figures as one JSON object and a newline. */
int sonde_stat_json(FILE *out, const struct sonde_snapshot *snap, const struct sonde_stat_end *end);
/* One JSON object for the interval (for --json with intervals: JSON lines). */
int sonde_stat_json_line(FILE *out, const struct sonde_snapshot *snap);

#endif
