/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What of a recording's facts is a setting: something that was chosen, and is not different in any
 * two runs. Kernel, host, huge pages, and of one target its program, allocator and files.
 */
#ifndef SONDE_JUDGE_SETTINGS_H
#define SONDE_JUDGE_SETTINGS_H

#include "model/meta.h"

/* The facts of one process: rows of a recording and the target's number in it, as text. */
struct sonde_settings {
	const struct sonde_meta *meta;
	char target[16];
};

/* A fact of the target, or NULL. */
const char *sonde_settings_target(const struct sonde_settings *s, const char *what);
/*
 * Calls @found with every setting that is not the same, in the order of @a, then what only @b has;
 * NULL: not known. Texts are owned by the metas. Stops at the first error of @found.
 */
int sonde_settings_compare(const struct sonde_settings *a, const struct sonde_settings *b,
			   int (*found)(void *ctx, const char *what, const char *x, const char *y),
			   void *ctx);

#endif
