// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Windows, from the session's side: when a lens says that one is due its links are made by a child,
 * which ends it by itself. The session only notices, and says how long the target was disturbed.
 */
#include <errno.h>

#include "attach/window.h"
#include "session/internal.h"

bool session_in_windows(const struct session *s, int lens)
{
	return s->opts->lens.alloc_windows && s->ctx[lens].lens && s->ctx[lens].lens->window_due;
}

static int end_window(struct session *s, int lens)
{
	struct sonde_lens_ctx *ctx = &s->ctx[lens];
	uint64_t begin = s->window_ns;

	s->window_ns = 0;
	return s->inited[lens] ? ctx->lens->window_over(ctx, begin, sonde_mono_ns()) : 0;
}

static int begin_window(struct session *s, int lens, const struct sonde_window_order *order)
{
	int err;

	s->window_ns = sonde_mono_ns() + order->delay_ns;
	err = sonde_engine_window_open(s->engine, &s->plan, lens, order);
	if (!err)
		return 0;
	end_window(s, lens);
	return err == -ESRCH ? session_check_targets(s) : err; /* its exit is no failure of ours */
}

int session_windows(struct session *s)
{
	int err = 0;

	for (int l = 0; l < SONDE_LENS__MAX && !err; l++) {
		struct sonde_lens_ctx *ctx = &s->ctx[l];
		struct sonde_window_order order;

		if (!s->inited[l] || !session_in_windows(s, l))
			continue;
		if (s->window_ns && sonde_engine_window_over(s->engine))
			err = end_window(s, l);
		else if (!s->window_ns && ctx->lens->window_due(ctx, sonde_mono_ns(), &order))
			err = begin_window(s, l, &order);
	}
	return err;
}

int session_windows_stop(struct session *s)
{
	int err = 0;

	if (!s->window_ns)
		return 0;
	sonde_engine_window_stop(s->engine);
	for (int l = 0; l < SONDE_LENS__MAX && !err; l++)
		if (session_in_windows(s, l))
			err = end_window(s, l);
	return err;
}
