/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading a lens's counters and histograms by (process, series); see sonde/series.h. A tick reads
 * both maps whole: the sums as they stand, the histograms as differences to the tick before.
 * Nothing is deleted while it may still be counted into, so nothing is lost between two reads.
 */
#ifndef SONDE_LENS_SERIES_H
#define SONDE_LENS_SERIES_H

#include "lens/lens.h"
#include "sonde/series.h"

struct sonde_series;

/*
 * For the maps named @sums and @hist of ctx->obj. Their @n_series are dense from 0. 0 or -errno
 * (logged).
 */
int sonde_series_new(struct sonde_series **out, const struct sonde_lens_ctx *ctx, const char *sums,
		     const char *hist, size_t n_series);
void sonde_series_free(struct sonde_series **s);

/* Read both maps, and rows for targets that joined. 0 or -errno (logged). */
int sonde_series_read(struct sonde_series *s, const struct sonde_lens_ctx *ctx);
/* Of target number @target; all 0 if nothing was counted. */
const struct sonde_series_sum *sonde_series_get(const struct sonde_series *s, size_t target,
						size_t series);
size_t sonde_series_targets(const struct sonde_series *s);

/* Which histogram a series is, and its label; @desc NULL: it has none. */
struct sonde_series_name {
	const struct sonde_hist_desc *desc;
	const char *label;
};
/*
 * Push what the histograms gained since the last push; @names has one row a series. 0 or the
 * visitor's -errno.
 */
int sonde_series_push(struct sonde_series *s, const struct sonde_lens_ctx *ctx,
		      const struct sonde_series_name *names, uint64_t ts_ns);
/*
 * Make room for processes to come: those that went can no longer count. Returns true if counts went
 * that belonged to no target (a child that ended before it could be made one).
 */
bool sonde_series_forget(struct sonde_series *s, const struct sonde_lens_ctx *ctx);

#endif
