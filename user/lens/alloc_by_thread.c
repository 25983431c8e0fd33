// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counters mode where the allocator counts by thread: the kernel's programs read what each has
 * counted, the sum is what went through the allocator.
 *
 * The invariant: the sum of those that live is never taken for that of all.
 */
#include <errno.h>
#include <stdio.h>

#include "attach/plan.h"
#include "lens/alloc_counters_impl.h"
#include "lens/alloc_metrics.h"

int sonde_alloc_counters_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks)
{
	for (size_t i = 0; !ctx->opts->passive && i < ctx->targets->n; i++)
		if (sonde_alloc_threads_wanted(&ctx->targets->t[i]))
			return sonde_alloc_threads_hooks(hooks);
	return 0;
}

/* Why the kernel's programs are not there to read what threads count. */
static void explain(struct sonde_lens_ctx *ctx, const struct sonde_alloc_counters *c,
		    struct heap_target *t)
{
	const char *why = c->why[0] ? c->why : "its allocator was not known when sonde attached";

	for (size_t i = 0; ctx->plan && i < ctx->plan->n; i++) {
		const struct sonde_plan_item *item = &ctx->plan->items[i];

		if (item->alt < 0 && !strcmp(item->hook->name, SONDE_ALLOC_THREADS_HOOK))
			why = item->reason;
	}
	snprintf(t->threads_why, sizeof(t->threads_why), "its threads' counters cannot be read: %s",
		 why);
}

/* Totals since the process began become counters since attach. After an exec the allocator's begin
 * anew, and ours go on. */
static void set_base(struct heap_target *t, uint64_t allocated, uint64_t deallocated)
{
	t->base_allocated = allocated - t->pushed_allocated;
	t->base_deallocated = deallocated - t->pushed_deallocated;
	t->based = true;
}

int sonde_alloc_count_threads(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c, size_t i)
{
	struct heap_target *t = &c->t[i];
	pid_t pid = ctx->targets->t[i].pid;
	struct sonde_tls_place place;
	int64_t at[2];
	int err;

	t->by_thread = false;
	if (!c->started || !t->heap || !sonde_heap_places(t->heap, at))
		return 0;
	if (!c->threads) {
		explain(ctx, c, t);
		return 0;
	}
	place = (struct sonde_tls_place){.allocated = at[0], .freed = at[1]};
	err = sonde_alloc_threads_add(c->threads, pid, &place);
	err = err ? err : sonde_alloc_threads_read(c->threads, pid, &t->sum);
	if (err)
		return err == -ESRCH ? 0 : err;
	set_base(t, t->sum.bytes.allocated, t->sum.bytes.freed);
	t->by_thread = true;
	return 0;
}

void sonde_alloc_forget_threads(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c,
				size_t i)
{
	sonde_alloc_threads_del(c->threads, ctx->targets->t[i].pid);
	c->t[i].by_thread = false;
}

/*
 * Handed out less given back is what is live, if every thread that ever was is in both: a thread
 * that ended before attach took its counters along.
 */
static void take_threads(const struct sonde_tls_sum *sum, struct sonde_heap_reading *r)
{
	r->bytes[SONDE_HEAP_ALLOCATED] = sum->bytes.allocated;
	r->bytes[SONDE_HEAP_DEALLOCATED] = sum->bytes.freed;
	r->present |= 1u << SONDE_HEAP_ALLOCATED | 1u << SONDE_HEAP_DEALLOCATED;
	r->threads = sum->threads;
	r->clean &= !sum->unread && sonde_alloc_threads_in_one_go(sum);
	if (sum->flags & SONDE_TLS_F_EARLIER || sum->bytes.allocated < sum->bytes.freed)
		return;
	r->bytes[SONDE_HEAP_LIVE] = sum->bytes.allocated - sum->bytes.freed;
	r->present |= 1u << SONDE_HEAP_LIVE;
	r->source = SONDE_HEAP_COUNTED;
}

int sonde_alloc_read_target(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c, size_t i,
			    const struct sonde_heap_budget *budget, struct sonde_heap_reading *r)
{
	struct heap_target *t = &c->t[i];
	struct sonde_heap_budget rest = *budget;
	int err;

	/* What threads counted is all there is to know, unless some of it went before. */
	rest.no_threads = t->by_thread;
	rest.no_bound = t->by_thread && !(t->sum.flags & SONDE_TLS_F_EARLIER);
	err = sonde_heap_read(t->heap, &rest, r, t->why, sizeof(t->why));
	if (!t->by_thread)
		return err;
	/* Two words a thread are read of a target that is swapped out in part as well. */
	if (err == -EAGAIN)
		*r = (struct sonde_heap_reading){.at_ns = sonde_mono_ns(), .clean = true};
	else if (err)
		return err;
	err = sonde_alloc_threads_read(c->threads, ctx->targets->t[i].pid, &t->sum);
	if (err)
		return err;
	take_threads(&t->sum, r);
	r->cost_ns = sonde_mono_ns() - r->at_ns;
	return 0;
}

int sonde_alloc_push_totals(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t,
			    const struct sonde_heap_reading *r, uint64_t ts_ns)
{
	const uint32_t both = 1u << SONDE_HEAP_ALLOCATED | 1u << SONDE_HEAP_DEALLOCATED;
	uint64_t in = r->bytes[SONDE_HEAP_ALLOCATED], out = r->bytes[SONDE_HEAP_DEALLOCATED];
	int err;

	/* The sum of those that live falls when one ends. */
	if ((r->present & both) != both || !t->by_thread)
		return 0;
	if (!t->based)
		set_base(t, in, out);
	t->pushed_allocated = in - t->base_allocated;
	t->pushed_deallocated = out - t->base_deallocated;
	err = sonde_lens_push(ctx, i, M_HANDED_OUT, "", ts_ns, (double)t->pushed_allocated);
	err = err ? err
		  : sonde_lens_push(ctx, i, M_GIVEN_BACK, "", ts_ns, (double)t->pushed_deallocated);
	return err ? err
		   : sonde_lens_push(ctx, i, M_LIVE, "", ts_ns,
				     (double)t->pushed_allocated - (double)t->pushed_deallocated);
}

/* Threads whose end was not read: said once, counted ever. */
static int push_lost(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t, uint64_t ts_ns)
{
	int err = sonde_lens_push(ctx, i, M_ENDS_LOST, "", ts_ns, (double)t->sum.lost);

	if (err || !t->sum.lost || t->lost_said || ctx->rehearsal)
		return err;
	t->lost_said = true;
	return sonde_lens_note(ctx, SONDE_NOTE_DEGRADED,
			       "threads ended unread: what each did since its last reading is "
			       "missing from what was allocated and freed",
			       "alloc.ends_lost counts them; a shorter interval loses less");
}

int sonde_alloc_push_threads(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t,
			     uint64_t ts_ns)
{
	int err;

	if (!t->by_thread)
		return 0;
	err = sonde_lens_push(ctx, i, M_THREADS, "", ts_ns, (double)t->sum.threads);
	err = err ? err : push_lost(ctx, i, t, ts_ns);
	if (err || !(t->sum.flags & SONDE_TLS_F_FORKED) || t->forked_said || ctx->rehearsal)
		return err;
	t->forked_said = true;
	return sonde_lens_note(ctx, SONDE_NOTE_INFO,
			       "the process was forked: what other threads of its parent had "
			       "allocated before is in no counter of its own",
			       "");
}
