/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 1: the gate. The first lines of every program: is sonde recording, and is this ours? What
 * is not ours costs one array and one hash look-up.
 */
#ifndef SONDE_BPF_FILTER_H
#define SONDE_BPF_FILTER_H

#include "lib/base.bpf.h"

static __always_inline struct sonde_control *gate_control(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

static __always_inline bool same_comm(const char *want)
{
	char comm[SONDE_COMM_BYTES];

	if (bpf_get_current_comm(comm, sizeof(comm)))
		return false;
	for (int i = 0; i < SONDE_COMM_BYTES; i++) {
		if (comm[i] != want[i])
			return false;
		if (!comm[i])
			break;
	}
	return true;
}

/*
 * The target that the current task belongs to, or NULL when it is none of ours or its thread was
 * not asked for. Its tgid and tid go to *id as pid_tgid.
 */
static __always_inline struct sonde_target_slot *gate_target(__u64 *id)
{
	struct sonde_control *c = gate_control();
	struct sonde_target_slot *slot;
	__u32 tgid;

	if (!c || !c->ready)
		return NULL;
	*id = bpf_get_current_pid_tgid();
	tgid = *id >> 32;
	slot = bpf_map_lookup_elem(&targets, &tgid);
	if (!slot)
		return NULL;
	if (c->only_tid && c->only_tid != (__u32)*id)
		return NULL;
	return !c->only_comm || same_comm(c->comm) ? slot : NULL;
}

/* Is the current task a thread that the user asked for? */
static __always_inline bool gate_current(__u64 *id)
{
	return gate_target(id) != NULL;
}

/*
 * Is the current process target number @index? A return program that is linked through perf must
 * ask: up to 6.12 the kernel runs it for every process that has a return probe on that function,
 * whatever pid its link was made for (tests/vm/checks/25-attach.sh; entries are filtered
 * everywhere). Let the cookie carry the index.
 */
static __always_inline bool gate_is_target(__u32 index)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct sonde_target_slot *slot = bpf_map_lookup_elem(&targets, &tgid);

	return slot && slot->index == index;
}

/* Are all links of @lens there that a guard holds? */
static __always_inline bool gate_held(__u32 lens)
{
	struct sonde_guard_slot *g = bpf_map_lookup_elem(&guards, &lens);

	return g && !g->lost_ns;
}

/* For programs that run in any context (softirq): only whether sonde is recording. */
static __always_inline bool gate_ready(void)
{
	struct sonde_control *c = gate_control();

	return c && c->ready;
}

#endif
