/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Windows of the alloc lens (docs/windows.md): private to it. */
#ifndef SONDE_LENS_ALLOC_WINDOWS_H
#define SONDE_LENS_ALLOC_WINDOWS_H

#include "attach/window.h"
#include "lens/lens.h"

struct sonde_alloc_windows;

/* What all functions of all targets asked for so far; kept by the caller. */
struct sonde_alloc_totals {
	uint64_t calls, bytes;
};

/* After load. 0 or -errno (logged). */
int sonde_alloc_windows_new(struct sonde_alloc_windows **out, const struct sonde_lens_ctx *ctx);
void sonde_alloc_windows_free(struct sonde_alloc_windows **w);
/* Recording begins. */
int sonde_alloc_windows_start(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx);
/* As the lens's own window_due and window_over. */
bool sonde_alloc_windows_due(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
			     uint64_t now_ns, struct sonde_window_order *order);
int sonde_alloc_windows_over(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
			     const struct sonde_alloc_totals *totals, uint64_t begin_ns,
			     uint64_t end_ns);
/* What windows say of all targets together. 0 or -errno. */
int sonde_alloc_windows_tick(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
			     uint64_t ts_ns);
/* Runs so far, by what they cost: one row for each kind of instruction. */
size_t sonde_alloc_windows_hits(const struct sonde_alloc_windows *w, struct sonde_lens_hits *out,
				size_t max);
/* Recording is over: a note if no window fitted in. */
int sonde_alloc_windows_finish(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx);

#endif
