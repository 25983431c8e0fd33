/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the alloc lens probes: private to the lens. */
#ifndef SONDE_LENS_ALLOC_HOOKS_H
#define SONDE_LENS_ALLOC_HOOKS_H

#include "lens/lens.h"

/*
 * Add the hooks of every target whose allocator is known: functions whose return is seen, those
 * whose entry says enough, free, and operator new and delete where they only pass calls on; or one
 * hook of entries for an allocator whose tables were not found. 0 or -errno (logged).
 */
int sonde_alloc_hooks_add(const struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks);

/* How many domains the sites of the plan refer to. */
struct sonde_plan;
uint32_t sonde_alloc_domain_count(const struct sonde_plan *plan);
/* Learn and fill each, by the first site that refers to it. 0 or -errno (logged). */
int sonde_alloc_domains_fill(struct sonde_lens_ctx *ctx);

#endif
