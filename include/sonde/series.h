/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counters and histograms by (process, series) in two maps that a lens's two sides share. What a
 * series means is the lens's affair; both maps have the same key, so one sparse histogram is the
 * entries of one (process, series) in bucket order.
 */
#ifndef SONDE_SERIES_H
#define SONDE_SERIES_H

#include "event.h"

/* bucket is 0 in the sums. */
struct sonde_series_key {
	sonde_u32 tgid;
	sonde_u16 series;
	sonde_u16 bucket;
};

struct sonde_series_sum {
	sonde_u64 count, ns, bytes;
};

#endif
