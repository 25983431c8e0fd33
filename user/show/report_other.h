/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Metrics and distributions that no section of the report prints, for report.c. */
#ifndef SONDE_SHOW_REPORT_OTHER_H
#define SONDE_SHOW_REPORT_OTHER_H

#include <stdio.h>

#include "model/snapshot.h"

/* @period: the time that the distributions hold, where it is not the report's; else "". */
void sonde_report_other(FILE *out, const struct sonde_snapshot *s, const char *period);

#endif
