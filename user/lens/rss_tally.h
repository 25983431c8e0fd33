/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bytes by name, of which the biggest become series. A name that was one stays one, so that a
 * series does not end because others grew; what has none is in "other". The sum of all that is
 * shown is the sum of all that was added.
 */
#ifndef SONDE_LENS_RSS_TALLY_H
#define SONDE_LENS_RSS_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rss_tally_row {
	char *name;
	uint64_t bytes;
};

struct rss_tally {
	struct rss_tally_row *rows; /* of this reading                            */
	size_t n, cap;
	char **kept; /* names that are series, in order of appearance */
	size_t n_kept, cap_kept;
	bool other; /* so is what has none                        */
};

/* 0 or -ENOMEM. */
int rss_tally_add(struct rss_tally *t, const char *name, uint64_t bytes);
/*
 * The reading is complete: its @top biggest become series while there are fewer than @max, and
 * @push is called with every series, 0 bytes included, then with "other" if some names are none.
 * The tally is then empty but for its series. 0, -ENOMEM or the first error of @push.
 */
int rss_tally_push(struct rss_tally *t, size_t top, size_t max,
		   int (*push)(void *ctx, const char *name, uint64_t bytes), void *ctx);
void rss_tally_fini(struct rss_tally *t);

#endif
