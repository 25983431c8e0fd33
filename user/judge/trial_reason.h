/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A verdict in words: what led to it, and what would resolve it. */
#ifndef SONDE_JUDGE_TRIAL_REASON_H
#define SONDE_JUDGE_TRIAL_REASON_H

#include "judge/trial.h"

/* Fills row->reason from the rest of the row, unless it says already why there is no effect. */
void sonde_verdict_reason(struct sonde_verdict_row *row);

#endif
