/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the targets have allocated, from exact mode's rows: the change since attach, and where the
 * allocator's own counters could be read once at the beginning, all of it. Inside lens/ only.
 */
#ifndef SONDE_LENS_ALLOC_CONSUMPTION_H
#define SONDE_LENS_ALLOC_CONSUMPTION_H

#include "lens/alloc_counters.h"
#include "lens/lens.h"
#include "sonde/alloc.h"

/* The memory-mapped rows of all lanes. */
struct sonde_alloc_view {
	const struct sonde_alloc_row *rows;
	uint32_t lanes, n_targets;
};

/* A map of @obj as it stands in the kernel; *bytes for munmap(). NULL: logged. */
const void *sonde_alloc_map_view(struct bpf_object *obj, const char *name, size_t *bytes);
/* One row, over all lanes. */
struct sonde_alloc_row sonde_alloc_sum_row(const struct sonde_alloc_view *v, uint32_t target,
					   uint32_t op);

/* What was there when counting began; all 0 at first. */
struct sonde_alloc_base {
	bool tried, known;
	int64_t bytes;
	uint64_t bound; /* how far off that may be: calls while it was read */
};

/* Over targets [0, n_targets). 0 or -ENODATA. */
int sonde_alloc_consumption(struct sonde_lens_ctx *ctx, const struct sonde_alloc_view *v,
			    struct sonde_alloc_base *base, uint64_t now_ns,
			    struct sonde_consumption *out);
/* Find out beforehand what takes long about it, so that nobody waits while probes are there. */
void sonde_alloc_base_prepare(struct sonde_lens_ctx *ctx);
/* alloc.allocated of exact mode: what was there at attach and the change since, or why it is not
 * known. @blind: the change is not known. 0 or the visitor's -errno. */
int sonde_alloc_push_whole(struct sonde_lens_ctx *ctx, const struct sonde_alloc_view *v,
			   struct sonde_alloc_base *base, bool blind, uint64_t ts_ns);

#endif
