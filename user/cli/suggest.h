/* SPDX-License-Identifier: GPL-2.0-or-later */
/* "Did you mean": the nearest of some names to what was typed. */
#ifndef SONDE_CLI_SUGGEST_H
#define SONDE_CLI_SUGGEST_H

#include <stddef.h>

struct sonde_suggest {
	const char *typed;
	size_t typed_len;
	const char *best; /* NULL while nothing is near enough */
	size_t best_distance;
};

void sonde_suggest_init(struct sonde_suggest *s, const char *typed, size_t typed_len);
void sonde_suggest_offer(struct sonde_suggest *s, const char *name);

#endif
