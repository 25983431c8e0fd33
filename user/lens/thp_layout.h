/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which program fits the arguments that a tracepoint has in this kernel. Each layout is a row: what
 * must be true of the types of some arguments, and the program that reads them that way.
 */
#ifndef SONDE_LENS_THP_LAYOUT_H
#define SONDE_LENS_THP_LAYOUT_H

#include "attach/hook.h"
#include "lens/lens.h"

struct sonde_thp_layout {
	struct sonde_hook hook; /* one alternative: alt                                        */
	struct sonde_alternative alt;
	struct {
		int param;
		const char *type; /* NULL: no more. "int" is also unsigned                     */
	} is[3];
	bool newer; /* older kernels lack the event, and with it what it tells of              */
	const char *unknown; /* the purpose to show when no row fits */
};

/* Type of argument @i of @event as sonde_btf_tracepoint_param() tells it, for tests to replace. */
typedef int sonde_thp_param_fn(const char *event, int i, char *buf, size_t size);

/* The first row of hook @name that fits, or NULL. */
const struct sonde_thp_layout *sonde_thp_layout_find(const char *name, sonde_thp_param_fn *param);
/* Append a hook for each event. One whose arguments fit no row gets a hook without an alternative,
 * which the plan reports; one that the kernel lacks is left out where only newer ones have it. */
int sonde_thp_layout_hooks(struct sonde_hook_list *list, sonde_thp_param_fn *param);
/* Learn the targets' address spaces, once: their number is small and they are there already. 0 or
 * -errno (logged). */
int sonde_thp_seed(struct sonde_lens_ctx *ctx);
/* Everything the lens attaches: struct sonde_lens.hooks. */
int sonde_thp_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks);

#endif
