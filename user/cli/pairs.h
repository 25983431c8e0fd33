/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What --pair, --control, --margin and --look say, taken apart. */
#ifndef SONDE_CLI_PAIRS_H
#define SONDE_CLI_PAIRS_H

#include "judge/trial.h"

/* "off=se03-2/se03" */
struct sonde_pair_text {
	char arm[SONDE_TRIAL_NAME], treated[SONDE_TRIAL_NAME], reference[SONDE_TRIAL_NAME];
};
/* 0 or -EINVAL: a part is missing, empty or too long. */
int sonde_pair_split(const char *text, struct sonde_pair_text *out);

/* "p95=5%" */
struct sonde_margin_text {
	char metric[SONDE_TRIAL_NAME];
	double margin;
};
/* 0 or -EINVAL: a part is missing, or it is not more than 0 and less than 100 %. */
int sonde_margin_split(const char *text, struct sonde_margin_text *out);

/* "2/4": the second of four; 0 of 0: not said. */
struct sonde_look_text {
	uint32_t look, looks;
};
/* 0 or -EINVAL: not two numbers, the first beyond the second, or more than 100 looks. */
int sonde_look_split(const char *text, struct sonde_look_text *out);

#endif
