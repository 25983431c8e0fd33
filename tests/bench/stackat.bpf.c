// SPDX-License-Identifier: GPL-2.0-or-later
/* The stack of a thread that is interrupted anywhere, counted; see stackat.c. */
#define STACK_LENS SONDE_LENS_ALLOC /* whose drops are counted */

#include "lib/stack.bpf.h"

SEC("uprobe")
int at(struct pt_regs *ctx)
{
	struct sonde_stack_value *v;
	__u64 key;

	v = stack_of(ctx, 0, 0, &key);
	if (v)
		__sync_fetch_and_add(&v->calls, 1);
	return 0;
}
