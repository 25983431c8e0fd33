/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How an operation of a target is attached, for the account of hits. Hits are counted by operation and
 * not by site, so one site's price stands for all: of the sites of a hook that of the first, since a
 * lens lists the busiest first (delete of a size has variants that nearly nobody calls).
 */
#ifndef SONDE_LENS_ALLOC_LINK_H
#define SONDE_LENS_ALLOC_LINK_H

#include "attach/plan.h"

struct sonde_alloc_link {
	const struct sonde_hook *hook;
	enum sonde_link_kind entry, ret; /* NONE: not attached */
	enum sonde_insn_kind insn, ret_insn;
};

/* Called for every site of the operation, in the plan's order. */
void sonde_alloc_link_take(struct sonde_alloc_link *op, const struct sonde_plan_item *item,
			   const struct sonde_probe_site *site);

#endif
