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

#define LATE_MIN_NS (1500 * SONDE_NS_PER_MS) /* attaching itself takes a while */

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

/* Has it forked a process that is counted, too? That one has the counters of before. */
static bool has_forked(const struct sonde_target_list *l, size_t i)
{
	for (size_t k = i + 1; k < l->n; k++)
		if (l->t[k].is_child)
			return true;
	return false;
}

/*
 * What a thread counts covers its whole life. So where the program began under observation all
 * counts: from nothing, or from what a forked process's counters began with; only threads that
 * ended before they could be read are missing.
 */
static void choose_base(struct sonde_lens_ctx *ctx, const struct sonde_alloc_counters *c, size_t i)
{
	const struct sonde_target *target = &ctx->targets->t[i];
	struct heap_target *t = &c->t[i];
	struct sonde_tls_bytes first = {0};
	bool whole = target->begun_ns && !has_forked(ctx->targets, i);
	uint64_t since = target->begun_ns ? target->begun_ns : c->began_ns;

	if (t->sum.flags & SONDE_TLS_F_FORKED && target->begun_ns)
		whole |= sonde_alloc_threads_forked(c->threads, target->pid, &first);
	if (!whole)
		first = t->sum.bytes;
	set_base(t, first.allocated, first.freed);
	t->begun = target->begun_ns;
	t->late_ns = sonde_mono_ns() - since;
	if ((whole && !(t->sum.flags & SONDE_TLS_F_EARLIER)) ||
	    (!target->begun_ns && t->late_ns < LATE_MIN_NS))
		t->late_ns = 0;
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
	choose_base(ctx, c, i);
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

/* Counting began when the process was observed for a while: said once. */
static int push_late(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t, uint64_t ts_ns)
{
	int err = sonde_lens_push(ctx, i, M_LATE, "", ts_ns, (double)t->late_ns);
	char what[256];

	if (err || !t->late_ns || t->late_said || ctx->rehearsal)
		return err;
	t->late_said = true;
	snprintf(what, sizeof(what),
		 "pid %d: bytes handed out and given back are counted from +%.2f s: %s",
		 (int)ctx->targets->t[i].pid, (double)t->late_ns / (double)SONDE_NS_PER_SEC,
		 t->sum.flags & SONDE_TLS_F_EARLIER && ctx->targets->t[i].begun_ns
			 ? "threads that ended by then took their counters along"
			 : "its allocator was recognised then");
	return sonde_lens_note(ctx, SONDE_NOTE_INFO, what, "");
}

int sonde_alloc_push_threads(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t,
			     uint64_t ts_ns)
{
	int err;

	if (!t->by_thread)
		return 0;
	err = sonde_lens_push(ctx, i, M_THREADS, "", ts_ns, (double)t->sum.threads);
	err = err ? err : push_late(ctx, i, t, ts_ns);
	err = err ? err : push_lost(ctx, i, t, ts_ns);
	if (err || !(t->sum.flags & SONDE_TLS_F_FORKED) || t->forked_said || ctx->rehearsal)
		return err;
	t->forked_said = true;
	return sonde_lens_note(ctx, SONDE_NOTE_INFO,
			       "the process was forked: what other threads of its parent had "
			       "allocated before is in no counter of its own",
			       "");
}
