/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Distributions of a part of a recording: the file keeps histograms by the UTC minute, so beside
 * counts of --since they would be of another time. Where the traces of all queries are there, their
 * latency is computed from them; else the minutes' histograms stand apart, with their own time.
 */
#ifndef SONDE_SHOW_REPORT_WINDOW_H
#define SONDE_SHOW_REPORT_WINDOW_H

#include <stdio.h>

#include "model/snapshot.h"
#include "show/summary.h"

/* Only its hists are filled; query.latency, by command too, query.wait and query.service. */
int sonde_window_add(struct sonde_snapshot *spans, const struct sonde_span *s);
/* Every histogram whose name begins with @prefix, under a line that says their time. @title says a
 * label in words; NULL: as it is. */
void sonde_window_print(FILE *out, const struct sonde_snapshot *s, const char *prefix,
			sonde_summary_title *title, const char *period);

#endif
