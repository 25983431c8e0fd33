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
#include <time.h>

#include "core/mem.h"
#include "lens/alloc_counters_impl.h"
#include "lens/alloc_metrics.h"

/* Walks of free lists: 1 % of the time, as every dear reader here. About 20 ms may be waited for;
 * longer ones go on beside the session's loop, up to 10 s. */
#define WALK_SHARE	 0.01
#define NODES_NOW	 20000
#define NODES_BACKGROUND 10000000
#define RETRIES_LONGEST	 64 /* ticks between two tries to recognise an allocator */

/* Figures that are one gauge each. */
static const struct {
	enum sonde_heap_figure figure;
	enum sonde_alloc_metric metric;
	const char *label;
} gauges[] = {
	{SONDE_HEAP_SYSTEM, M_HEAP, ""},
	{SONDE_HEAP_MMAPPED, M_HEAP_MAPPED, ""},
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
	int err = 0;

	if (n <= c->n)
		return 0;
	t = reallocarray(c->t, n, sizeof(*t));
	if (!t)
		return -ENOMEM;
	memset(t + c->n, 0, (n - c->n) * sizeof(*t));
	c->t = t;
	for (; c->n < n && !err; c->n++) {
		if (ctx->targets->t[c->n].gone)
			continue;
		open_heap(ctx, c, c->n);
		err = sonde_alloc_count_threads(ctx, c, c->n);
	}
	return err;
}

int sonde_alloc_counters_new(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters **out)
{
	struct sonde_alloc_counters *c = calloc(1, sizeof(*c));
	int err = c ? grow(ctx, c) : -ENOMEM;

	if (c)
		c->began_ns = sonde_mono_ns();
	if (!err && ctx->obj)
		err = sonde_alloc_threads_new(&c->threads, ctx->obj, c->why, sizeof(c->why));
	if (err && err != -EOPNOTSUPP)
		sonde_alloc_counters_free(&c);
	else
		*out = c;
	return *out ? 0 : err;
}

int sonde_alloc_counters_start(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c)
{
	int err = c->threads ? sonde_alloc_threads_test(c->threads) : 0;

	c->started = true;
	if (err) {
		snprintf(c->why, sizeof(c->why), "reading our own threads as a test failed");
		sonde_alloc_threads_free(&c->threads);
		err = 0;
	}
	for (size_t i = 0; i < c->n && !err; i++)
		err = sonde_alloc_count_threads(ctx, c, i);
	if (err || !c->threads || sonde_alloc_threads_reads_ends(c->threads))
		return err;
	return sonde_lens_note(ctx, SONDE_NOTE_DEGRADED,
			       "this kernel ends a thread's memory before it tells of its end, so "
			       "what a thread did after its last reading is missing",
			       "use kernel 6.16 or later, or a shorter interval");
}

void sonde_alloc_counters_free(struct sonde_alloc_counters **ref)
{
	struct sonde_alloc_counters *c = *ref;

	*ref = NULL;
	for (size_t i = 0; c && i < c->n; i++)
		sonde_heap_close(&c->t[i].heap);
	if (c)
		sonde_alloc_threads_free(&c->threads);
	if (c)
		free(c->t);
	free(c);
}

/* It runs another program than the one whose heap is open. */
static bool is_stale(struct heap_target *t)
{
	const struct sonde_heap_budget budget = {
		.cheap_only = true, .no_threads = true, .no_bound = true};
	struct sonde_heap_reading r;

	return t->heap && sonde_heap_read(t->heap, &budget, &r, t->why, sizeof(t->why)) == -ESTALE;
}

/* At once, not at the next tick: what its threads have done until then may be lost when they end.
 */
int sonde_alloc_counters_retarget(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c)
{
	int err = grow(ctx, c);

	for (size_t i = 0; i < c->n && !err; i++) {
		struct heap_target *t = &c->t[i];

		if (ctx->targets->t[i].gone || (t->heap && !is_stale(t)))
			continue;
		sonde_heap_close(&t->heap);
		t->step = 0;
		open_heap(ctx, c, i);
		if (!t->heap)
			t->wait = t->step = 1;
		err = sonde_alloc_count_threads(ctx, c, i);
	}
	return err;
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

/* Why what is live is not known, or no more than a bound of it. */
static const char *why_not_live(const struct heap_target *t, const struct sonde_heap_reading *r)
{
	if (r->broken[0])
		return r->broken;
	if (t->by_thread && t->begun)
		return "threads ended before its allocator was recognised and took their counters "
		       "along; alloc.at_most holds threads' caches too";
	if (t->by_thread)
		return "threads ended before attach and took their counters along; alloc.live is "
		       "the change since, alloc.at_most holds threads' caches too";
	if (t->threads_why[0])
		return t->threads_why;
	return "its free memory was not yet walked to the end; alloc.at_most is an upper bound";
}

static int push_live(struct sonde_lens_ctx *ctx, uint32_t i, const struct heap_target *t,
		     const struct sonde_heap_reading *r, uint64_t ts_ns)
{
	double live = (double)r->bytes[SONDE_HEAP_LIVE];
	bool known = r->present & 1u << SONDE_HEAP_LIVE;
	int err;

	if (!known || r->source == SONDE_HEAP_BOUND) {
		err = sonde_lens_push_absent(ctx, i, M_ALLOCATED, "", ts_ns, why_not_live(t, r));
		return err || !known ? err : sonde_lens_push(ctx, i, M_AT_MOST, "", ts_ns, live);
	}
	if (r->source == SONDE_HEAP_COMBINED)
		live += (double)r->bytes[SONDE_HEAP_FREE_CENTRAL];
	err = sonde_lens_push(ctx, i, M_AT_MOST, "", ts_ns, live);
	err = err ? err
		  : sonde_lens_push(ctx, i, M_ALLOCATED, "", ts_ns,
				    (double)r->bytes[SONDE_HEAP_LIVE]);
	return err ? err : sonde_lens_push(ctx, i, M_AGE, "", ts_ns, (double)r->age_ns);
}

/* Once a target. */
static int tell_broken(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t,
		       const struct sonde_heap_reading *r)
{
	char text[160];

	if (!r->broken[0] || t->broken_said || ctx->rehearsal)
		return 0;
	t->broken_said = true;
	snprintf(text, sizeof(text), "pid %d: %s", ctx->targets->t[i].pid, r->broken);
	return sonde_lens_note(ctx, SONDE_NOTE_DEGRADED, text,
			       r->present & 1u << SONDE_HEAP_LIVE
				       ? "what is live is known as an upper bound only; look for "
					 "the damage with AddressSanitizer or valgrind"
				       : "see which library serves malloc (sonde doctor -p PID); "
					 "--lens rss shows its memory from outside");
}

static int push_reading(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t,
			const struct sonde_heap_reading *r, uint64_t ts_ns)
{
	int err = push_live(ctx, i, t, r, ts_ns);

	t->told = false;
	t->pushed |= r->present;
	t->not_clean += !r->clean && !r->broken[0];
	err = err ? err : tell_broken(ctx, i, t, r);
	for (size_t k = 0; k < SONDE_ARRAY_SIZE(gauges) && !err; k++)
		if (r->present & 1u << gauges[k].figure)
			err = sonde_lens_push(ctx, i, gauges[k].metric, gauges[k].label, ts_ns,
					      (double)r->bytes[gauges[k].figure]);
	err = err ? err : sonde_alloc_push_totals(ctx, i, t, r, ts_ns);
	err = err ? err : sonde_alloc_push_threads(ctx, i, t, ts_ns);
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

	if (!t->heap && t->step && !--t->wait) {
		open_heap(ctx, c, i);
		err = sonde_alloc_count_threads(ctx, c, i);
		if (err)
			return err;
	}
	if (!t->heap)
		return push_absence(ctx, i, t, ts_ns);
	err = sonde_alloc_read_target(ctx, c, i, &budget, &r);
	if (!err)
		return push_reading(ctx, i, t, &r, ts_ns);
	if (err == -ESRCH)
		return 0; /* the session says that it is gone */
	if (err == -ESTALE) {
		sonde_heap_close(&t->heap);
		open_heap(ctx, c, i);
		return sonde_alloc_count_threads(ctx, c,
						 i); /* read at the next tick, when it has begun */
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
		else if (c->t[i].by_thread)
			sonde_alloc_forget_threads(ctx, c, i);
	return err;
}

/* ---- consumption ---- */

#define READ_SHARE 0.02 /* of the time of one CPU */

/* CPU time of this thread: on a busy machine most of a reading's wall time is others'. */
static uint64_t own_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SONDE_NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* Adds one target; out->bound becomes UINT64_MAX where only an upper bound is known, or a check
 * failed. 0 or -ENODATA.
 */
static int add_target(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c, size_t i,
		      const struct sonde_heap_budget *budget, struct sonde_consumption *out)
{
	struct sonde_heap_reading r;

	if (!c->t[i].heap || sonde_alloc_read_target(ctx, c, i, budget, &r) ||
	    !(r.present & 1u << SONDE_HEAP_LIVE))
		return -ENODATA;
	out->bytes += (int64_t)r.bytes[SONDE_HEAP_LIVE];
	if (r.source == SONDE_HEAP_BOUND || !r.clean || r.unsure)
		out->bound = UINT64_MAX;
	else if (r.source == SONDE_HEAP_COMBINED && out->bound != UINT64_MAX)
		out->bound += r.bytes[SONDE_HEAP_FREE_CENTRAL];
	return 0;
}

/* Of all targets that live: 0; -ENODATA where one cannot be read, or none lives. */
static int add_targets(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c, double share,
		       struct sonde_consumption *out)
{
	const struct sonde_heap_budget budget = {
		.share = share,
		.max_nodes = NODES_NOW,
	};
	bool any = false;
	int err = grow(ctx, c);

	for (size_t i = 0; i < ctx->targets->n && !err; i++) {
		if (ctx->targets->t[i].gone)
			continue;
		err = add_target(ctx, c, i, &budget, out);
		any = true;
	}
	return err || !any ? -ENODATA : 0;
}

int sonde_alloc_counters_consumption(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c,
				     uint64_t now_ns, struct sonde_consumption *out)
{
	struct sonde_consumption now = {.source = SONDE_CONSUMPTION_COUNTERS, .taken_ns = now_ns};
	uint64_t begin_ns = own_cpu_ns();

	if (now_ns < c->next_ns) {
		*out = c->shown;
		return 0;
	}
	if (add_targets(ctx, c, WALK_SHARE, &now))
		return -ENODATA;
	if (!c->next_ns) /* the first: there is nothing that it moved from */
		now.bound = UINT64_MAX;
	else if (now.bound != UINT64_MAX)
		now.bound += (uint64_t)llabs(now.bytes - c->shown.bytes);
	/* By the mean of the last ones: one that had to be read again leaves no long gap. */
	c->read_ns += ((double)(own_cpu_ns() - begin_ns) - c->read_ns) / (c->next_ns ? 8 : 1);
	c->next_ns = now_ns + (uint64_t)(c->read_ns / READ_SHARE);
	*out = c->shown = now;
	return 0;
}

int sonde_alloc_counters_whole(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c,
			       struct sonde_consumption *out)
{
	struct sonde_consumption now = {.source = SONDE_CONSUMPTION_COUNTERS,
					.taken_ns = sonde_mono_ns()};

	if (add_targets(ctx, c, 0, &now) || now.bound)
		return -ENODATA;
	*out = now;
	return 0;
}
