/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A comparison as text or JSON: what was not the same, what weakens it, what differs most, then
 * each group of figures. It ends with what it is not: a verdict.
 */
#ifndef SONDE_SHOW_COMPARE_H
#define SONDE_SHOW_COMPARE_H

#include <stdio.h>

#include "judge/compare.h"

/* @c was made of @a and @b. 0, or -errno not logged where @out could not be written. */
int sonde_compare_print(FILE *out, const struct sonde_arm *a, const struct sonde_arm *b,
			const struct sonde_compare *c);
int sonde_compare_json(FILE *out, const struct sonde_arm *a, const struct sonde_arm *b,
		       const struct sonde_compare *c);

#endif
