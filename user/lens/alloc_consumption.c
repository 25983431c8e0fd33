// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Consumption from exact mode's rows; see alloc_consumption.h. The lanes are read one after the
 * other while the program goes on, so they are read twice: what changed in between is how far off
 * the sum may be.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/err.h"
#include "core/mem.h"
#include "lens/alloc_consumption.h"
#include "lens/alloc_metrics.h"

#define ESTIMATE_MAX 0.05 /* of live: how far off what was there at attach may be */

const void *sonde_alloc_map_view(struct bpf_object *obj, const char *name, size_t *bytes)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, name);
	long page = sysconf(_SC_PAGESIZE);
	size_t size;
	void *p;

	if (!map)
		return NULL;
	size = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);
	size = (size + (size_t)page - 1) / (size_t)page * (size_t)page;
	p = mmap(NULL, size, PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);
	if (p == MAP_FAILED) {
		sonde_err(errno, "alloc: cannot map %s: %s", name, strerror(errno));
		return NULL;
	}
	*bytes = size;
	return p;
}

struct sonde_alloc_row sonde_alloc_sum_row(const struct sonde_alloc_view *v, uint32_t target,
					   uint32_t op)
{
	struct sonde_alloc_row sum = {0};

	for (uint32_t lane = 0; lane < v->lanes; lane++) {
		const struct sonde_alloc_row *r =
			&v->rows[sonde_alloc_row_index(lane, v->n_targets, target, op)];

		sum.calls += __atomic_load_n(&r->calls, __ATOMIC_RELAXED);
		sum.bytes += __atomic_load_n(&r->bytes, __ATOMIC_RELAXED);
		sum.failed += __atomic_load_n(&r->failed, __ATOMIC_RELAXED);
		sum.inner += __atomic_load_n(&r->inner, __ATOMIC_RELAXED);
		sum.unseen += __atomic_load_n(&r->unseen, __ATOMIC_RELAXED);
		sum.chunk_in += __atomic_load_n(&r->chunk_in, __ATOMIC_RELAXED);
		sum.chunk_out += __atomic_load_n(&r->chunk_out, __ATOMIC_RELAXED);
	}
	return sum;
}

struct held {
	uint64_t in, out;
};

static struct held sum_all(const struct sonde_alloc_view *v, size_t n_targets)
{
	struct held h = {0};

	for (uint32_t t = 0; t < n_targets && t < v->n_targets; t++)
		for (uint32_t op = 1; op < SONDE_ALLOC__MAX; op++) {
			struct sonde_alloc_row row = sonde_alloc_sum_row(v, t, op);

			h.in += row.chunk_in;
			h.out += row.chunk_out;
		}
	return h;
}

static uint64_t between(const struct held *before, const struct held *after)
{
	return after->in - before->in + after->out - before->out;
}

/* Once, when first asked: what the allocator says less what was counted until then. */
static void find_base(struct sonde_lens_ctx *ctx, const struct sonde_alloc_view *v,
		      struct sonde_alloc_base *base)
{
	struct sonde_alloc_counters *counters = NULL;
	struct sonde_consumption c;
	struct held before, after;

	base->tried = true;
	if (sonde_alloc_counters_new(ctx, &counters))
		return;
	before = sum_all(v, ctx->targets->n);
	if (!sonde_alloc_counters_whole(ctx, counters, &c)) {
		after = sum_all(v, ctx->targets->n);
		base->bytes = c.bytes - (int64_t)(after.in - after.out);
		base->bound = between(&before, &after);
		base->known = true;
	}
	sonde_alloc_counters_free(&counters);
}

int sonde_alloc_consumption(struct sonde_lens_ctx *ctx, const struct sonde_alloc_view *v,
			    struct sonde_alloc_base *base, uint64_t now_ns,
			    struct sonde_consumption *out)
{
	struct held first, h;

	if (!base->tried)
		find_base(ctx, v, base);
	first = sum_all(v, ctx->targets->n);
	h = sum_all(v, ctx->targets->n);
	*out = (struct sonde_consumption){
		.bytes = (int64_t)(h.in - h.out) + base->bytes,
		.bound = between(&first, &h) + base->bound,
		.taken_ns = now_ns,
		.source = base->known ? SONDE_CONSUMPTION_EXACT : SONDE_CONSUMPTION_CHANGE,
	};
	if (ctx->lost_ns) { /* nobody knows what has happened since */
		out->taken_ns = ctx->lost_ns;
		out->bound = UINT64_MAX;
	}
	return 0;
}

void sonde_alloc_base_prepare(struct sonde_lens_ctx *ctx)
{
	struct sonde_alloc_counters *counters = NULL;

	/* The layout that this derives is kept by build-id. */
	if (!sonde_alloc_counters_new(ctx, &counters))
		sonde_alloc_counters_free(&counters);
}

int sonde_alloc_push_whole(struct sonde_lens_ctx *ctx, const struct sonde_alloc_view *v,
			   struct sonde_alloc_base *base, bool blind, uint64_t ts_ns)
{
	struct sonde_consumption c;
	const char *why = NULL;

	if (ctx->targets->n > 1)
		why = "of several processes exact mode tells the change alone";
	else if (blind)
		why = "the sizes of its blocks are not known";
	else if (sonde_alloc_consumption(ctx, v, base, ts_ns, &c) ||
		 c.source != SONDE_CONSUMPTION_EXACT)
		why = "exact mode counts the change; what was live at attach could not be read "
		      "from "
		      "the allocator's counters";
	else if (c.bytes < 0 || (double)c.bound > ESTIMATE_MAX * (double)c.bytes)
		why = "exact mode counts the change; what was live at attach changed too much "
		      "while "
		      "it was read";
	if (!why) {
		int err = sonde_lens_push(ctx, 0, M_ALLOCATED, "", ts_ns, (double)c.bytes);

		return err ? err
			   : sonde_lens_push(ctx, 0, M_AT_MOST, "", ts_ns,
					     (double)c.bytes + (double)c.bound);
	}
	for (uint32_t t = 0; t < ctx->targets->n; t++) {
		int err = ctx->targets->t[t].gone
				  ? 0
				  : sonde_lens_push_absent(ctx, t, M_ALLOCATED, "", ts_ns, why);

		if (err)
			return err;
	}
	return 0;
}
