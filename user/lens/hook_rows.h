/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows of the tables in which a lens says what it attaches: a hook, and the alternatives that several
 * lenses have alike. `needs` are the features without which an alternative is passed over.
 */
#ifndef SONDE_LENS_HOOK_ROWS_H
#define SONDE_LENS_HOOK_ROWS_H

#include "attach/hook.h"
#include "core/mem.h"

/* clang-format off */
#define SONDE_HOOK(of, nm, al, req, what)                                                          \
	{                                                                                          \
		.name = nm, .lens = of, .required = req, .alts = al,                               \
		.n_alts = SONDE_ARRAY_SIZE(al), .purpose = what                                    \
	}

/* A tracepoint whose arguments are known by type (BTF). */
#define SONDE_ALTS_TYPED(prog, ev, need, also)                                                     \
	{{                                                                                         \
		.kind = SONDE_LINK_TP_BTF, .program = prog, .event = ev,                           \
		.needs = {SONDE_FEAT_TP_BTF, need, also}                                           \
	}}

/* A tracepoint whose arguments are not looked at, or are read by hand. */
#define SONDE_ALTS_RAW(prog, ev, need)                                                             \
	{{                                                                                         \
		.kind = SONDE_LINK_RAW_TP, .program = prog, .event = ev,                           \
		.needs = {need, SONDE_FEAT_NONE, SONDE_FEAT_NONE}                                  \
	}}

/* Places in the target's code: all in one link, else one link a place. */
#define SONDE_ALTS_ENTRY(prog)                                                                     \
	{                                                                                          \
		{.kind = SONDE_LINK_UPROBE_MULTI, .program = prog,                                 \
		 .needs = {SONDE_FEAT_UPROBE_MULTI, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},    \
		{.kind = SONDE_LINK_UPROBE_PERF, .program = prog,                                  \
		 .needs = {SONDE_FEAT_PERF_UPROBE, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},     \
	}
/* clang-format on */

#endif
