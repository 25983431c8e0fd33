/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The alloc lens in counters mode: no allocation probe; what each target's allocator says of its
 * heap is read from outside, each tick. Inside lens/ only.
 */
#ifndef SONDE_LENS_ALLOC_COUNTERS_H
#define SONDE_LENS_ALLOC_COUNTERS_H

#include "lens/lens.h"

struct sonde_alloc_counters;

/* What its reading needs attached: nothing, unless an allocator counts by thread. 0 or -ENOMEM. */
int sonde_alloc_counters_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks);
/* Opens the heap of each target; a refusal is that target's reason for having no values. 0 or
 * -ENOMEM. */
int sonde_alloc_counters_new(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters **out);
void sonde_alloc_counters_free(struct sonde_alloc_counters **c);
/* All is attached. 0, or the visitor's -errno. */
int sonde_alloc_counters_start(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c);
/* Targets changed: what was refused is tried again. 0 or -errno. */
int sonde_alloc_counters_retarget(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c);
/* One reading of each target that lives. 0 or the visitor's -errno. */
int sonde_alloc_counters_tick(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c,
			      uint64_t ts_ns);
/*
 * What all targets have allocated, from a reading as fresh as 2 % of a CPU allows. Its
 * bound is how far the figure moved from the reading before, and what lists were not walked again
 * may hold. 0; -ENODATA where one target cannot be read.
 */
int sonde_alloc_counters_consumption(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c,
				     uint64_t now_ns, struct sonde_consumption *out);
/* The same, all read now and nothing estimated; else -ENODATA. */
int sonde_alloc_counters_whole(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c,
			       struct sonde_consumption *out);

#endif
