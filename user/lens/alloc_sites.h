/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call stacks of the alloc lens: private to it. */
#ifndef SONDE_LENS_ALLOC_SITES_H
#define SONDE_LENS_ALLOC_SITES_H

#include "lens/lens.h"

struct sonde_alloc_sites;

/* Before load: size the maps. 0 or -errno (logged). */
int sonde_alloc_sites_configure(const struct sonde_lens_ctx *ctx, struct bpf_object *obj,
				size_t n_targets);
/* After load. 0 or -errno (logged). */
int sonde_alloc_sites_new(struct sonde_alloc_sites **out, const struct sonde_lens_ctx *ctx,
			  size_t n_targets);
/*
 * Read every stack's counts and push those that changed, with their names as far as time allows.
 * @follows: for each target, are blocks followed to their free? @metric: the lens's of calls by how
 * their stack ended. 0 or -errno (logged).
 */
int sonde_alloc_sites_tick(struct sonde_alloc_sites *s, const struct sonde_lens_ctx *ctx,
			   const bool *follows, size_t metric, uint64_t ts_ns);
/* The next tick is the last: it pushes everything. */
void sonde_alloc_sites_finish(struct sonde_alloc_sites *s);
/* Name what has no names yet, and free. */
void sonde_alloc_sites_free(struct sonde_alloc_sites **s, const struct sonde_lens_ctx *ctx);

#endif
