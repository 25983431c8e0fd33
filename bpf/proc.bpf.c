// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Life of the targets: fork, exec and exit of a thread group become ring records, and with
 * --children a forked child becomes a target before it can do anything.
 */
#include "lib/emit.bpf.h"

static __always_inline void send_proc(__u32 what, __u64 id, __u32 child)
{
	struct sonde_ev_proc ev = {.what = what, .child = child};

	fill_header(&ev.h, SONDE_EV_PROC, SONDE_LENS_PROC, sizeof(ev), id, bpf_ktime_get_ns());
	bpf_get_current_comm(ev.comm, sizeof(ev.comm));
	emit(SONDE_LENS_PROC, &ev, sizeof(ev));
}

static __always_inline bool ours(__u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid) != NULL;
}

SEC("?tp_btf/sched_process_fork")
int BPF_PROG(proc_fork, struct task_struct *parent, struct task_struct *child)
{
	struct sonde_control *c = gate_control();
	struct sonde_target_slot slot = {.index = ~0u};
	__u32 tgid = child->tgid;

	if (!c || child->pid != child->tgid || !ours(parent->tgid))
		return 0;
	if (c->follow_children && bpf_map_update_elem(&targets, &tgid, &slot, BPF_NOEXIST))
		count_drop(SONDE_LENS_PROC, SONDE_DROP_MAP_FULL);
	send_proc(SONDE_PROC_FORK, (__u64)parent->tgid << 32 | (__u32)parent->pid, tgid);
	return 0;
}

SEC("?tp_btf/sched_process_exec")
int BPF_PROG(proc_exec, struct task_struct *task)
{
	if (ours(task->tgid))
		send_proc(SONDE_PROC_EXEC, (__u64)task->tgid << 32 | (__u32)task->pid, 0);
	return 0;
}

/* Exits come before the files are closed, and the probes with them. */
static __always_inline void mark_lost(__u32 tgid)
{
	for (__u32 lens = 0; lens < SONDE_LENS__MAX; lens++) {
		__u32 key = lens;
		struct sonde_guard_slot *g = bpf_map_lookup_elem(&guards, &key);

		if (g && g->tgid == tgid && !g->lost_ns)
			g->lost_ns = bpf_ktime_get_ns();
	}
}

/* The leader's exit stands for the group's: `group_dead` is an argument only since 6.16. */
SEC("?tp_btf/sched_process_exit")
int BPF_PROG(proc_exit, struct task_struct *task)
{
	if (task->pid != task->tgid)
		return 0;
	mark_lost(task->tgid);
	if (ours(task->tgid))
		send_proc(SONDE_PROC_EXIT, (__u64)task->tgid << 32 | (__u32)task->pid, 0);
	return 0;
}
