/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory section of stat and report: the ledger whose rows add up to RSS, what lies beside RSS, and
 * what may be concluded. stat shows the last reading and how it changed, report the first and the last.
 */
#ifndef SONDE_SHOW_LEDGER_H
#define SONDE_SHOW_LEDGER_H

#include <stdio.h>

#include "model/snapshot.h"

enum sonde_ledger_columns { SONDE_LEDGER_NOW, SONDE_LEDGER_FIRST_LAST };

void sonde_show_memory(FILE *out, const struct sonde_snapshot *s, enum sonde_ledger_columns cols);

#endif
