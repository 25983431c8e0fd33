// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counters mode; see alloc_counters.h.
 *
 * The invariant: alloc.allocated is a count or an estimate, never a mere bound; where only a bound
 * is known it is absent with the reason, and the bound stands in alloc.at_most.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"
#include "lens/alloc_counters.h"
#include "lens/alloc_metrics.h"
#include "target/heap/heap.h"

/* Walks of free lists: 1 % of the time, as every dear reader here. About 20 ms may be waited for;
 * longer ones go on beside the session's loop, up to 10 s. */
#define WALK_SHARE	 0.01
#define NODES_NOW	 20000
#define NODES_BACKGROUND 10000000
#define RETRIES_LONGEST	 64 /* ticks between two tries to recognise an allocator */

struct heap_target {
	struct sonde_heap *heap; /* NULL: not open */
	char why[256];		 /* and why not */
	unsigned wait, step;	 /* ticks until it is tried again; 0: no more */
	bool told;		 /* the reason was said */
	bool noted;
	uint32_t pushed; /* mask of figures that had a value */
	uint64_t not_clean;
	uint64_t base_allocated, base_deallocated;
	bool based;
};

struct sonde_alloc_counters {
	struct heap_target *t;
	size_t n;
};

/* Figures that are one gauge each. */
static const struct {
	enum sonde_heap_figure figure;
	enum sonde_alloc_metric metric;
	const char *label;
} gauges[] = {
	{SONDE_HEAP_SYSTEM, M_HEAP, ""},
	{SONDE_HEAP_FREE_PAGES, M_FREE, "pages"},
	{SONDE_HEAP_FREE_CENTRAL, M_FREE, "lists"},
	{SONDE_HEAP_FREE_TRANSFER, M_FREE, "transfer"},
	{SONDE_HEAP_FREE_THREAD, M_FREE, "threads"},
	{SONDE_HEAP_UNMAPPED, M_UNMAPPED, ""},
	{SONDE_HEAP_METADATA, M_METADATA, ""},
};

/* What cannot be otherwise for this build is final; an allocator that is not there yet may come. */
static void open_heap(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c, size_t i)
{
	struct heap_target *t = &c->t[i];
	int err;

	if (ctx->opts->passive) {
		snprintf(t->why, sizeof(t->why), "--passive does not read the target's memory");
		t->step = 0;
		return;
	}
	err = sonde_heap_open(&t->heap, ctx->targets->t[i].pid, t->why, sizeof(t->why));
	t->based = false;
	if (!err)
		return;
	t->step = err == -EOPNOTSUPP ? 0 : t->step ? 2 * t->step : 1;
	if (t->step > RETRIES_LONGEST)
		t->step = RETRIES_LONGEST;
	t->wait = t->step;
}

static int grow(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c)
{
	size_t n = ctx->targets->n;
	struct heap_target *t;

	if (n <= c->n)
		return 0;
	t = reallocarray(c->t, n, sizeof(*t));
	if (!t)
		return -ENOMEM;
	memset(t + c->n, 0, (n - c->n) * sizeof(*t));
	c->t = t;
	for (; c->n < n; c->n++)
		if (!ctx->targets->t[c->n].gone)
			open_heap(ctx, c, c->n);
	return 0;
}

int sonde_alloc_counters_new(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters **out)
{
	struct sonde_alloc_counters *c = calloc(1, sizeof(*c));
	int err = c ? grow(ctx, c) : -ENOMEM;

	if (err)
		free(c);
	else
		*out = c;
	return err;
}

void sonde_alloc_counters_free(struct sonde_alloc_counters **ref)
{
	struct sonde_alloc_counters *c = *ref;

	*ref = NULL;
	for (size_t i = 0; c && i < c->n; i++)
		sonde_heap_close(&c->t[i].heap);
	if (c)
		free(c->t);
	free(c);
}

void sonde_alloc_counters_retarget(struct sonde_alloc_counters *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (!c->t[i].heap)
			c->t[i].wait = c->t[i].step = 1;
}

/* Once until there is a value again; with a word to who asked for counters by name. */
static int push_absence(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t,
			uint64_t ts_ns)
{
	int err;

	if (t->told || ctx->rehearsal)
		return 0;
	t->told = true;
	err = sonde_lens_push_absent(ctx, i, M_ALLOCATED, "", ts_ns, t->why);
	if (t->pushed)
		err = err ? err : sonde_lens_push_absent(ctx, i, M_AT_MOST, "", ts_ns, t->why);
	for (size_t k = 0; k < SONDE_ARRAY_SIZE(gauges) && !err; k++)
		if (t->pushed & 1u << gauges[k].figure)
			err = sonde_lens_push_absent(ctx, i, gauges[k].metric, gauges[k].label,
						     ts_ns, t->why);
	if (err || t->noted)
		return err;
	t->noted = true;
	return sonde_lens_note(ctx, ctx->opts->alloc_asked ? SONDE_NOTE_DEGRADED : SONDE_NOTE_INFO,
			       t->why, "--alloc-mode exact counts every call, at its price");
}

/* Totals since the process began become counters since attach. */
static int push_totals(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t,
		       const struct sonde_heap_reading *r, uint64_t ts_ns)
{
	const uint32_t both = 1u << SONDE_HEAP_ALLOCATED | 1u << SONDE_HEAP_DEALLOCATED;
	uint64_t in = r->bytes[SONDE_HEAP_ALLOCATED], out = r->bytes[SONDE_HEAP_DEALLOCATED];
	int err;

	if ((r->present & both) != both)
		return 0;
	if (!t->based) {
		t->base_allocated = in;
		t->base_deallocated = out;
		t->based = true;
	}
	err = sonde_lens_push(ctx, i, M_HANDED_OUT, "", ts_ns, (double)(in - t->base_allocated));
	return err ? err
		   : sonde_lens_push(ctx, i, M_GIVEN_BACK, "", ts_ns,
				     (double)(out - t->base_deallocated));
}

static int push_live(struct sonde_lens_ctx *ctx, uint32_t i, const struct sonde_heap_reading *r,
		     uint64_t ts_ns)
{
	double live = (double)r->bytes[SONDE_HEAP_LIVE];
	int err;

	if (!(r->present & 1u << SONDE_HEAP_LIVE))
		return 0;
	if (r->source == SONDE_HEAP_BOUND) {
		err = sonde_lens_push_absent(ctx, i, M_ALLOCATED, "", ts_ns,
					     "its free memory was not yet walked to the end; "
					     "alloc.at_most is an upper bound");
		return err ? err : sonde_lens_push(ctx, i, M_AT_MOST, "", ts_ns, live);
	}
	if (r->source == SONDE_HEAP_COMBINED)
		live += (double)r->bytes[SONDE_HEAP_FREE_CENTRAL];
	err = sonde_lens_push(ctx, i, M_AT_MOST, "", ts_ns, live);
	err = err ? err
		  : sonde_lens_push(ctx, i, M_ALLOCATED, "", ts_ns,
				    (double)r->bytes[SONDE_HEAP_LIVE]);
	return err ? err : sonde_lens_push(ctx, i, M_AGE, "", ts_ns, (double)r->age_ns);
}

static int push_reading(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t,
			const struct sonde_heap_reading *r, uint64_t ts_ns)
{
	int err = push_live(ctx, i, r, ts_ns);

	t->told = false;
	t->pushed |= r->present;
	t->not_clean += !r->clean;
	for (size_t k = 0; k < SONDE_ARRAY_SIZE(gauges) && !err; k++)
		if (r->present & 1u << gauges[k].figure)
			err = sonde_lens_push(ctx, i, gauges[k].metric, gauges[k].label, ts_ns,
					      (double)r->bytes[gauges[k].figure]);
	err = err ? err : push_totals(ctx, i, t, r, ts_ns);
	err = err ? err
		  : sonde_lens_push(ctx, i, M_READ_TIME, "", ts_ns,
				    (double)(r->source == SONDE_HEAP_COUNTED
						     ? r->cost_ns - r->walk_ns
						     : r->cost_ns));
	if (!err && r->walk_ns)
		err = sonde_lens_push(ctx, i, M_READ_TIME, "lists", ts_ns, (double)r->walk_ns);
	return err ? err : sonde_lens_push(ctx, i, M_NOT_CLEAN, "", ts_ns, (double)t->not_clean);
}

static int tick_target(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c, uint32_t i,
		       uint64_t ts_ns)
{
	const struct sonde_heap_budget budget = {
		.cheap_only = ctx->rehearsal,
		.share = WALK_SHARE,
		.max_nodes = NODES_NOW,
		.background_nodes = NODES_BACKGROUND,
	};
	struct heap_target *t = &c->t[i];
	struct sonde_heap_reading r;
	int err;

	if (!t->heap && t->step && !--t->wait)
		open_heap(ctx, c, i);
	if (!t->heap)
		return push_absence(ctx, i, t, ts_ns);
	err = sonde_heap_read(t->heap, &budget, &r, t->why, sizeof(t->why));
	if (!err)
		return push_reading(ctx, i, t, &r, ts_ns);
	if (err == -ESRCH)
		return 0; /* the session says that it is gone */
	if (err == -ESTALE) {
		sonde_heap_close(&t->heap);
		open_heap(ctx, c, i);
		return 0; /* read at the next tick, when it has begun */
	}
	return push_absence(ctx, i, t, ts_ns);
}

int sonde_alloc_counters_tick(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c,
			      uint64_t ts_ns)
{
	int err = grow(ctx, c);

	for (size_t i = 0; i < ctx->targets->n && !err; i++)
		if (!ctx->targets->t[i].gone)
			err = tick_target(ctx, c, (uint32_t)i, ts_ns);
	return err;
}
