/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The figures of a diagnosis from what a session or a recording yielded. */
#ifndef SONDE_JUDGE_FIGURES_H
#define SONDE_JUDGE_FIGURES_H

#include "judge/diagnose.h"
#include "model/snapshot.h"

/* Figures, and the strings that they point to. */
struct sonde_figures {
	struct sonde_memory_figures memory;
	char file_parts[96], target[32], asking[512], live_why[256];
};

void sonde_figures_of(const struct sonde_snapshot *s, struct sonde_figures *out);

/* Did this target exit while others went on? */
bool sonde_figure_is_gone(const struct sonde_snapshot *s, uint32_t target);
/* Why live memory is not known; what to do about it where something can be done. */
const char *sonde_figure_why_not_live(const struct sonde_snapshot *s);
/* Sum over targets that did not of the last (or first) value of a series; NAN where no target has
 * it. */
double sonde_figure_last(const struct sonde_snapshot *s, const char *name, const char *label);
double sonde_figure_first(const struct sonde_snapshot *s, const char *name, const char *label);

#endif
