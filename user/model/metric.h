/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A metric is a named number with a unit. Its description is one row in its lens's table, from which
 * the schema, the exporters and the docs derive. A value that could not be had is absent with a
 * reason; it is never 0.
 */
#ifndef SONDE_MODEL_METRIC_H
#define SONDE_MODEL_METRIC_H

#include <stdint.h>
#include <stdbool.h>

enum sonde_metric_kind {
	SONDE_COUNTER = 1, /* cumulative since attach, never falls        */
	SONDE_GAUGE = 2,   /* a level at an instant                       */
};

struct sonde_metric_desc {
	const char *name; /* "rss.anon": lens, dot, noun                 */
	const char *unit; /* "bytes", "count", "ns", "ratio"              */
	enum sonde_metric_kind kind;
	const char *help;
};

/* One value. Strings are borrowed for the duration of the call that passes it. */
struct sonde_metric {
	const struct sonde_metric_desc *desc;
	const char *label;  /* tells series of one metric apart ("malloc"), or ""                     */
	uint64_t ts_ns;	    /* CLOCK_MONOTONIC                            */
	uint32_t target;    /* index in the session's target list         */
	double value;	    /* integers up to 2^53 are exact              */
	const char *absent; /* non-NULL: no value, and why                */
};

#endif
