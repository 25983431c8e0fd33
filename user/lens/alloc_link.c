// SPDX-License-Identifier: GPL-2.0-or-later
/* How an operation is attached; see alloc_link.h. */
#include <string.h>

#include "lens/alloc_link.h"
#include "sonde/alloc.h"

void sonde_alloc_link_take(struct sonde_alloc_link *op, const struct sonde_plan_item *item,
			   const struct sonde_probe_site *site)
{
	if (op->hook == item->hook)
		return;
	op->hook = item->hook;
	op->entry = item->kind;
	op->insn = site->site.kind;
	/* Where two functions share a name, the plan's last is the busy one. */
	op->ret = !item->ret_program			 ? SONDE_LINK_NONE
		  : item->kind == SONDE_LINK_UPROBE_PERF ? SONDE_LINK_URETPROBE_PERF
							 : SONDE_LINK_URETPROBE_MULTI;
	op->blind = !strcmp(item->program, "alloc_take") || !strcmp(item->program, "alloc_count");
}
