// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Faults by call stack (lens/stack_sites.h): calls are faults, bytes their nanoseconds, with the
 * same estimate for a fault that was not timed as in the other things faults are charged to. The
 * invariant: over all stacks, the one for what found no room and the children of whose code nothing
 * was known yet, they add up to the lens's faults.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/err.h"
#include "lens/fault_priv.h"
#include "lens/stack_sites.h"

#define SPARE_TARGETS 32 /* that may join while recording */

struct fault_stacks {
	struct sonde_stack_sites at;
	int unread_fd;
	bool last, cost_said;
};

bool fault_stacks_asked(const struct sonde_lens_ctx *ctx)
{
	return ctx->opts->fault_by & 1u << SONDE_FAULT_BY_STACK;
}

uint32_t fault_stacks_room(const struct sonde_lens_ctx *ctx)
{
	size_t n = ctx->targets->n + SPARE_TARGETS;

	return n < SONDE_MAX_TARGETS ? (uint32_t)n : SONDE_MAX_TARGETS;
}

int fault_stacks_configure(const struct sonde_lens_ctx *ctx, struct bpf_object *obj)
{
	return sonde_stacks_configure(obj, fault_stacks_room(ctx));
}

int fault_stacks_new(struct fault_stacks **out, const struct sonde_lens_ctx *ctx)
{
	struct bpf_map *processes = bpf_object__find_map_by_name(ctx->obj, "unwind_processes");
	struct fault_stacks *st = calloc(1, sizeof(*st));
	int err;

	if (!st || !processes) {
		free(st);
		return sonde_err(ENOMEM, "fault: no memory for call stacks");
	}
	st->unread_fd = bpf_object__find_map_fd_by_name(ctx->obj, "fault_unread");
	err = sonde_stack_sites_init(&st->at, ctx, bpf_map__max_entries(processes), true);
	if (err)
		fault_stacks_free(&st, ctx);
	*out = st;
	return err;
}

static int note_cost(struct fault_stacks *st, const struct sonde_lens_ctx *ctx)
{
	if (st->cost_said || !st->at.n)
		return 0;
	st->cost_said = true;
	return sonde_lens_note(ctx, SONDE_NOTE_CAUTION,
			       "the cost shown is that of counting faults; walking the call stacks "
			       "comes on top, 0.1 to 0.2 us a frame of each fault",
			       "");
}

/* Of no target that is known: once, with the first. */
static int push_unread(const struct fault_stacks *st, const struct sonde_lens_ctx *ctx,
		       size_t metric, uint64_t ts_ns)
{
	const uint32_t zero = 0;
	uint64_t n = 0;

	if (!ctx->targets->n || bpf_map_lookup_elem(st->unread_fd, &zero, &n) || !n)
		return 0;
	return sonde_lens_push(ctx, 0, metric, "unread", ts_ns, (double)n);
}

int fault_stacks_tick(struct fault_stacks *st, const struct sonde_lens_ctx *ctx, size_t metric,
		      uint64_t ts_ns)
{
	int err = sonde_stack_sites_read(&st->at, ctx);

	if (err || ctx->rehearsal)
		return err;
	err = note_cost(st, ctx);
	if (!err && (st->last || sonde_stack_sites_due(&st->at, ts_ns)))
		err = sonde_stack_sites_push(&st->at, ctx, NULL, NULL, ts_ns);
	err = err ? err : sonde_stack_sites_push_ends(&st->at, ctx, metric, ts_ns);
	err = err ? err : push_unread(st, ctx, metric, ts_ns);
	return err ? err : sonde_stack_sites_name(&st->at, ctx);
}

int fault_stacks_retarget(struct fault_stacks *st, const struct sonde_lens_ctx *ctx)
{
	return sonde_stacks_refresh(st->at.stacks, ctx);
}

void fault_stacks_finish(struct fault_stacks *st)
{
	st->last = true;
}

void fault_stacks_free(struct fault_stacks **ref, const struct sonde_lens_ctx *ctx)
{
	struct fault_stacks *st = *ref;

	*ref = NULL;
	if (!st)
		return;
	sonde_stack_sites_fini(&st->at, ctx);
	free(st);
}
