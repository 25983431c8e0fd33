// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The end of the observation: a query that is still being answered is told as such, for of a daemon
 * that hangs or died it is the one that matters. Sockets are walked by the kernel, which sends what
 * it finds through the ring; connections known by descriptor are walked here.
 *
 * The invariant: the gate is closed, so what was told here is not told again.
 */
#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "lens/query_impl.h"
#include "sonde/handler.h"

/* An exit closes no descriptor by a system call: its connections are still in the map. */
static bool is_gone(const struct sonde_target_list *targets, uint32_t tgid)
{
	for (size_t i = targets->n; i-- > 0;)
		if ((uint32_t)targets->t[i].pid == tgid)
			return targets->t[i].gone;
	return false;
}

static int tell(struct sonde_lens_ctx *ctx, uint32_t tgid, struct sonde_ev_span *ev)
{
	struct query_state *st = ctx->priv;
	uint64_t age = sonde_mono_ns() - ev->start_ns;

	ev->last_ns = 0;
	ev->status = is_gone(ctx->targets, tgid) ? SONDE_SPAN_ABORTED : SONDE_SPAN_UNFINISHED;
	if (ev->status == SONDE_SPAN_ABORTED) {
		st->swept[SONDE_QUERY_SPANS]++;
		st->swept[SONDE_QUERY_ABORTED]++;
	} else {
		st->swept[SONDE_QUERY_UNFINISHED]++;
	}
	if (age < ctx->opts->slower_than_ns)
		return 0;
	ev->h.kind = SONDE_EV_SPAN;
	ev->h.tgid = tgid;
	ev->flags |= SONDE_SPAN_F_HOPPED; /* what its thread did was not collected */
	return query_decode(ctx, &ev->h, sizeof(*ev));
}

/* Answered, as far as was seen, but no next request showed it. It is in no histogram. */
static int tell_answered(struct sonde_lens_ctx *ctx, struct sonde_ev_span *ev)
{
	struct query_state *st = ctx->priv;

	st->swept[SONDE_QUERY_SPANS]++;
	if (ev->flags & SONDE_SPAN_F_BY_HANDLER)
		st->swept[SONDE_QUERY_BY_HANDLER]++;
	if (ev->last_ns - ev->start_ns < ctx->opts->slower_than_ns)
		return 0;
	ev->h.kind = SONDE_EV_SPAN;
	ev->flags |= SONDE_SPAN_F_END_GUESSED;
	return query_decode(ctx, &ev->h, sizeof(*ev));
}

/* As conn_unfinished() has it in the kernel: what the next request would have shown to be over. */
static int tell_open(struct sonde_lens_ctx *ctx, uint32_t tgid, struct sonde_conn *c)
{
	if (c->tx != SONDE_TX_LOST || !c->span.first_ns)
		return tell(ctx, tgid, &c->span);
	c->span.h.tgid = tgid;
	c->span.flags |= SONDE_SPAN_F_HOPPED;
	return tell_answered(ctx, &c->span);
}

static int sweep_descriptors(struct sonde_lens_ctx *ctx)
{
	int fd = bpf_object__find_map_fd_by_name(ctx->obj, "conn_fds"), err = 0;
	sonde_autofree struct sonde_conn *c = malloc(sizeof(*c));
	uint64_t key, *at = NULL;

	if (!c)
		return sonde_err(ENOMEM, "query: no memory to look at the open connections");
	for (; !err && !bpf_map_get_next_key(fd, at, &key); at = &key)
		if (!bpf_map_lookup_elem(fd, &key, c) && c->open)
			err = tell_open(ctx, (uint32_t)(key >> 32), c);
	return err;
}

/* Calls of handlers whose socket nobody walked: without one, gone, or known by descriptor. */
static int sweep_handlers(struct sonde_lens_ctx *ctx)
{
	int fd = bpf_object__find_map_fd_by_name(ctx->obj, "handled"), err = 0;
	sonde_autofree struct sonde_handled *hc = malloc(sizeof(*hc));
	uint64_t key, *at = NULL;

	if (!hc)
		return sonde_err(ENOMEM, "query: no memory to look at the open calls");
	for (; !err && !bpf_map_get_next_key(fd, at, &key); at = &key)
		if (!bpf_map_lookup_elem(fd, &key, hc) && hc->c.open)
			err = hc->c.span.first_ns && !hc->by_return
				      ? tell_answered(ctx, &hc->c.span)
				      : tell(ctx, hc->c.span.h.tgid, &hc->c.span);
	return err;
}

int query_finish(struct sonde_lens_ctx *ctx)
{
	struct query_state *st = ctx->priv;
	int err = 0;

	st->finished = !query_sweep_sockets(ctx);
	if (!st->finished)
		err = sonde_lens_note(
			ctx, SONDE_NOTE_DEGRADED,
			"queries that were open at the end are not told: the targets' sockets "
			"cannot be walked",
			"");
	err = err ? err : sweep_descriptors(ctx);
	return err ? err : sweep_handlers(ctx);
}
