/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 3, of the fault lens: faults and their time by call stack.
 *
 * The invariant: every fault that the lens counts is counted here in one place: its stack, its
 * target's sum of those that found no room, or those of processes that are no target yet.
 */
#ifndef SONDE_BPF_FAULTSTACK_H
#define SONDE_BPF_FAULTSTACK_H

#define STACK_LENS SONDE_LENS_FAULT
#include "lib/stack.bpf.h"
#include "sonde/fault.h"

/* Those of processes of whose code user space has told nothing: children, in their first moments,
 * and those that are too many. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} fault_unread SEC(".maps");

static __always_inline void charge_unread(void)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&fault_unread, &zero);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/*
 * By call stack: from where the thread left user space, which is the instruction that faulted or
 * the system call that did. After the fault's end was timed, so that the walk is no part of it; and
 * nothing is lost to a walk, since it takes no lock and its own reads of user memory raise no
 * fault.
 */
static __always_inline void charge_stack(const struct sonde_fault_thread *f, __u32 tgid, __u64 ns)
{
	struct sonde_target_slot *slot = bpf_map_lookup_elem(&targets, &tgid);
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct sonde_stack_value *v;
	__u64 key;

	if (!slot || slot->index >= fault_cfg.targets || !regs) {
		if (!f->exact)
			charge_unread();
		return;
	}
	v = stack_of(regs, 0, slot->index, &key);
	if (!v) {
		count_drop(SONDE_LENS_FAULT, SONDE_DROP_MAP_FULL);
		return;
	}
	__sync_fetch_and_add(&v->calls, 1);
	__sync_fetch_and_add(&v->bytes, ns);
}

#endif
