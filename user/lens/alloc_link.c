// SPDX-License-Identifier: GPL-2.0-or-later
/* How an operation is attached; see alloc_link.h. */
#include <string.h>

#include "lens/alloc_link.h"
#include "sonde/alloc.h"

static void take_ret(struct sonde_alloc_link *op, const struct sonde_plan_item *item,
		     const struct sonde_probe_site *site)
{
	if (op->ret_hook == item->hook)
		return;
	op->ret_hook = item->hook;
	op->ret = item->kind;
	op->ret_insn = site->site.kind;
}

/* Where two functions share a name, the plan's last is the busy one; but what is seen at its return
 * is busier than what stands beside it. */
void sonde_alloc_link_take(struct sonde_alloc_link *op, const struct sonde_plan_item *item,
			   const struct sonde_probe_site *site)
{
	bool rets = !strcmp(item->program, "alloc_ret");
	bool returns_seen = !op->ret_hook &&
			    (op->entry == SONDE_LINK_UPROBE_SESSION || op->ret != SONDE_LINK_NONE);

	if (returns_seen && (rets || !strcmp(item->program, "alloc_take")))
		return;
	if (rets) {
		take_ret(op, item, site);
		return;
	}
	if (op->hook == item->hook)
		return;
	op->hook = item->hook;
	op->ret_hook = NULL;
	op->entry = item->kind;
	op->insn = op->ret_insn = site->site.kind;
	op->ret = !item->ret_program			 ? SONDE_LINK_NONE
		  : item->kind == SONDE_LINK_UPROBE_PERF ? SONDE_LINK_URETPROBE_PERF
							 : SONDE_LINK_URETPROBE_MULTI;
}
