/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions by which programs ask their allocator for statistics, and where they are in a
 * target. Inside lens/ only.
 */
#ifndef SONDE_LENS_ASK_HOOKS_H
#define SONDE_LENS_ASK_HOOKS_H

#include "lens/lens.h"

struct sonde_ask_func {
	const char *symbol; /* as the file has it, without an allocator's prefix              */
	const char *shown;  /* as people write it                                             */
	/* A C function that neither throws nor switches stacks nor calls back into the program: its
	 * return may be probed. The others are probed where they leave, or only counted. */
	bool plain;
	bool prefixed; /* a build may put je_ in front */
	bool wrapper;  /* only passes the call on to another of the table */
};

extern const struct sonde_ask_func sonde_ask_funcs[];
extern const size_t sonde_ask_func_count;

/* Hooks for every function found in the targets; none is no error. 0 or -errno (logged). */
int sonde_ask_hooks_add(const struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks);

#endif
