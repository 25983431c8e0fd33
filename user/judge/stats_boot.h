/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The circular block bootstrap (Politis and Romano, 1992): blocks of neighbouring windows are drawn
 * from a period that is closed to a ring. A draw is a list of ranges, not of windows, since sums
 * over a range cost two reads of a prefix sum whatever its length.
 */
#ifndef SONDE_JUDGE_STATS_BOOT_H
#define SONDE_JUDGE_STATS_BOOT_H

#include <stddef.h>
#include <stdint.h>

#include "judge/stats_rng.h"

struct sonde_range {
	uint32_t from, to; /* [from, to) */
};

struct sonde_draw {
	struct sonde_range *ranges;
	size_t n, cap;
};

/* Room for a draw of @n windows in blocks of @block. 0 or -ENOMEM. */
int sonde_draw_init(struct sonde_draw *d, size_t n, size_t block);
void sonde_draw_fini(struct sonde_draw *d);
/*
 * @n windows out of [base, base + n), in blocks of @block >= 1 of which the last may be cut off.
 * One random number a block. @n and @block are those of sonde_draw_init.
 */
void sonde_draw_blocks(struct sonde_draw *d, struct sonde_rng *rng, size_t base, size_t n,
		       size_t block);

#endif
