// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The alloc lens's programs with nothing in them: what is left when they run on the same sites by
 * the same kind of link is the price of the trap, the floor that the real programs are measured
 * against.
 */
#include "lib/base.bpf.h"

SEC("?uprobe")
int alloc_session(struct pt_regs *ctx)
{
	return 0;
}

SEC("?uprobe")
int alloc_entry(struct pt_regs *ctx)
{
	return 0;
}

SEC("?uprobe")
int alloc_return(struct pt_regs *ctx)
{
	return 0;
}

SEC("?uprobe")
int alloc_free(struct pt_regs *ctx)
{
	return 0;
}

SEC("?uprobe")
int alloc_wrapper(struct pt_regs *ctx)
{
	return 0;
}

SEC("?uprobe")
int alloc_take(struct pt_regs *ctx)
{
	return 0;
}

SEC("?uprobe")
int alloc_give(struct pt_regs *ctx)
{
	return 0;
}

SEC("?uprobe")
int alloc_count(struct pt_regs *ctx)
{
	return 0;
}
