// SPDX-License-Identifier: GPL-2.0-or-later
/* How an operation is attached; see alloc_link.h. */
#include <string.h>

#include "lens/alloc_link.h"
#include "sonde/alloc.h"

/*
 * A function's own ret instructions stand for its return where none is seen otherwise. Where some forms
 * of an operation have their returns seen, these are the busy ones.
 */
void sonde_alloc_link_take(struct sonde_alloc_link *op, const struct sonde_plan_item *item,
			   const struct sonde_probe_site *site)
{
	bool rets = !strcmp(item->program, "alloc_ret");
	bool returns_seen = op->entry == SONDE_LINK_UPROBE_SESSION || op->ret != SONDE_LINK_NONE;

	if (op->hook == item->hook ||
	    (returns_seen && (rets || !strcmp(item->program, "alloc_take"))))
		return;
	if (rets) {
		op->ret = item->kind;
		op->ret_insn = site->site.kind;
		return;
	}
	op->hook = item->hook;
	op->entry = item->kind;
	op->insn = op->ret_insn = site->site.kind;
	/* Where two functions share a name, the plan's last is the busy one. */
	op->ret = !item->ret_program			 ? SONDE_LINK_NONE
		  : item->kind == SONDE_LINK_UPROBE_PERF ? SONDE_LINK_URETPROBE_PERF
							 : SONDE_LINK_URETPROBE_MULTI;
}
