// SPDX-License-Identifier: GPL-2.0-or-later
/* Draws of blocks; see stats_boot.h. */
#include <errno.h>
#include <stdlib.h>

#include "judge/stats_boot.h"

int sonde_draw_init(struct sonde_draw *d, size_t n, size_t block)
{
	size_t cap = 2 * ((n + block - 1) / block); /* a block over the seam is two ranges */
	struct sonde_range *ranges = calloc(cap ? cap : 1, sizeof(*ranges));

	if (!ranges)
		return -ENOMEM;
	*d = (struct sonde_draw){.ranges = ranges, .cap = cap};
	return 0;
}

void sonde_draw_fini(struct sonde_draw *d)
{
	free(d->ranges);
	*d = (struct sonde_draw){0};
}

static void add_range(struct sonde_draw *d, size_t from, size_t to)
{
	d->ranges[d->n++] = (struct sonde_range){(uint32_t)from, (uint32_t)to};
}

void sonde_draw_blocks(struct sonde_draw *d, struct sonde_rng *rng, size_t base, size_t n,
		       size_t block)
{
	d->n = 0;
	for (size_t left = n; left;) {
		size_t start = (size_t)sonde_rng_below(rng, n);
		size_t length = block < left ? block : left;

		left -= length;
		for (; start + length > n; start = 0) {
			add_range(d, base + start, base + n);
			length -= n - start;
		}
		add_range(d, base + start, base + start + length);
	}
}
