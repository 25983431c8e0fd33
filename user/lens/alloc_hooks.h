/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the alloc lens probes: private to the lens. */
#ifndef SONDE_LENS_ALLOC_HOOKS_H
#define SONDE_LENS_ALLOC_HOOKS_H

#include "lens/lens.h"

/*
 * Add the hooks of every target whose allocator is known: functions whose return is seen, free, and
 * operator new and delete where they only pass calls on; or one hook of entries for an allocator
 * that can only be counted. 0 or -errno (logged).
 */
int sonde_alloc_hooks_add(const struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks);

#endif
