/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 4, of the query lens: the events that a query's clock is charged by. They fire for the
 * whole machine, those of the scheduler with a run queue locked: what is no process with queries
 * leaves after a look into an array, and what runs none now after its task storage. Storage is made
 * in system calls only, where memory may be had (docs/lens-stall.md).
 */
#ifndef SONDE_BPF_ANATOMY_HOOKS_H
#define SONDE_BPF_ANATOMY_HOOKS_H

#include "lib/anatomy_query.bpf.h"

#define PF_EXITING	  0x00000004
#define FUTEX_COMMAND	  127
#define FUTEX_WAIT	  0
#define FUTEX_WAIT_BITSET 9
#define MUTEX_CONTENDED	  2 /* what glibc's mutexes wait for */

static __always_inline bool anatomy_maybe(struct task_struct *task)
{
	__u32 slot = (__u32)task->tgid % SONDE_STALL_FILTER;
	__u32 *known = bpf_map_lookup_elem(&anatomy_filter, &slot);

	return known && *known;
}

static __always_inline struct sonde_anatomy *anatomy_running(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sonde_anatomy *a = anatomy_maybe(task) ? anatomy_of(task) : NULL;

	return a && a->seq ? a : NULL;
}

/* ---- system calls ---- */

enum {
	NR_MMAP = 9,
	NR_MPROTECT = 10,
	NR_MUNMAP = 11,
	NR_BRK = 12,
	NR_MREMAP = 25,
	NR_MADVISE = 28
};

static __always_inline __u8 call_part(long nr)
{
	switch (nr) {
	case NR_MADVISE:
		return SONDE_PART_SYS_MADVISE;
	case NR_MUNMAP:
		return SONDE_PART_SYS_MUNMAP;
	case NR_MMAP:
	case NR_MPROTECT:
	case NR_MREMAP:
		return SONDE_PART_SYS_MMAP;
	case NR_BRK:
		return SONDE_PART_SYS_BRK;
	}
	return SONDE_PART_SYS_OTHER;
}

/* A thread without storage gets it, so that a query can be handed to it. */
static __always_inline void anatomy_prepare(struct task_struct *task)
{
	__u64 id;

	if (gate_current(&id))
		bpf_task_storage_get(&anatomy, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

static __always_inline void anatomy_cross(struct sonde_anatomy *a, __u8 base, __u32 nr)
{
	__u64 now = bpf_ktime_get_ns();

	anatomy_event(a, now);
	if (a->fault)
		anatomy_fault_lost(a, now);
	a->base = base;
	a->nr = nr;
	a->lock = 0; /* nothing of that goes on across the border, whatever was missed */
	a->memory = 0;
	anatomy_resume(a);
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(anatomy_sys_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sonde_anatomy *a;

	if (!anatomy_maybe(task))
		return 0;
	a = anatomy_of(task);
	if (!a)
		anatomy_prepare(task);
	else if (a->seq)
		anatomy_cross(a, call_part(nr), nr);
	return 0;
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(anatomy_sys_exit, struct pt_regs *regs, long ret)
{
	struct sonde_anatomy *a = anatomy_running();

	if (a)
		anatomy_cross(a, SONDE_PART_USER, -1);
	return 0;
}

/* ---- the scheduler ---- */

static __always_inline __u8 cause_part(__u8 cause)
{
	switch (cause) {
	case SONDE_STALL_MMAP_LOCK:
		return SONDE_PART_OFF_MMAP_LOCK;
	case SONDE_STALL_ALLOC_LOCK:
		return SONDE_PART_OFF_ALLOC_LOCK;
	case SONDE_STALL_FUTEX:
	case SONDE_STALL_KERNEL_LOCK:
		return SONDE_PART_OFF_LOCK;
	case SONDE_STALL_IO:
		return SONDE_PART_OFF_IO;
	case SONDE_STALL_SOCKET:
		return SONDE_PART_OFF_SOCKET;
	case SONDE_STALL_SLEEP:
		return SONDE_PART_OFF_SLEEP;
	}
	return SONDE_PART_OFF_OTHER;
}

static __always_inline void anatomy_leave(struct sonde_anatomy *a, struct task_struct *task,
					  bool preempted)
{
	__u64 now = bpf_ktime_get_ns();

	if (task->flags & PF_EXITING)
		return;
	anatomy_event(a, now);
	a->off = 1;
	a->delay = delay_of(task);
	if (has_books(task))
		a->offset = now - task->se.cfs_rq->rq->clock;
	a->woken = preempted || !is_blocked(task);
	if (a->woken)
		a->current = SONDE_PART_RUNQUEUE;
	else
		a->current = cause_part(a->lock ? a->lock_kind : cause_of(task));
}

static __always_inline void anatomy_arrive(struct sonde_anatomy *a, struct task_struct *task)
{
	__u64 now = bpf_ktime_get_ns(), queued;

	if (!a->off) /* it left unseen */
		a->current = SONDE_PART_UNATTRIBUTED;
	else if (!a->woken && has_books(task)) {
		queued = task->sched_info.run_delay - a->delay +
			 since(task, task->sched_info.last_queued);
		if (queued < now - a->last_ns) {
			anatomy_charge(a, now - queued);
			a->current = SONDE_PART_RUNQUEUE;
		}
	}
	anatomy_charge(a, now);
	a->off = 0;
	anatomy_resume(a);
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(anatomy_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct sonde_anatomy *a;

	if (anatomy_maybe(prev)) {
		a = anatomy_of(prev);
		if (a && a->seq)
			anatomy_leave(a, prev, preempt);
	}
	if (anatomy_maybe(next)) {
		a = anatomy_of(next);
		if (a && a->seq)
			anatomy_arrive(a, next);
	}
	return 0;
}

/* ---- a query is handed to another thread ---- */

/*
 * Does @task wait for something to do, as the waker's system call @nr could give it? A condition
 * variable or semaphore, or an event behind a descriptor; a mutex is no work: with that a thread
 * would be taken for another query's that only let go of it.
 */
static __always_inline bool waits_for_work(struct task_struct *task, __u32 nr)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	long waits = regs->orig_ax;
	__u32 command = regs->si & FUTEX_COMMAND;

	if (waits < 0 || waits >= STALL_NR_MAX || nr >= STALL_NR_MAX)
		return false;
	switch (stall_calls[waits]) {
	case CALL_FUTEX:
		return stall_calls[nr] == CALL_FUTEX &&
		       (command == FUTEX_WAIT_BITSET ||
			(command == FUTEX_WAIT && (__u32)regs->dx != MUTEX_CONTENDED));
	case CALL_BY_FD:
	case CALL_POLL:
	case CALL_SELECT:
	case CALL_SOCKET:
		return stall_calls[nr] == CALL_BY_FD || stall_calls[nr] == CALL_SOCKET;
	}
	return false;
}

/* The current thread, which runs a query, wakes @task of the same process: a copy of its clock goes
 * on there, and counts if that thread sends the answer. */
static __always_inline void anatomy_hand_over(struct sonde_anatomy *to, struct task_struct *task)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct sonde_anatomy *from;

	if ((to->seq && !to->follows) || me->tgid != task->tgid || me->pid == task->pid)
		return;
	from = anatomy_of(me);
	if (!from || !from->seq || from->off || (from->conn == to->conn && from->seq == to->seq) ||
	    !waits_for_work(task, from->nr))
		return;
	__builtin_memcpy(to, from, sizeof(*to));
	anatomy_charge(to, bpf_ktime_get_ns());
	to->follows = 1;
	to->off = to->woken = 1;
	to->current = SONDE_PART_RUNQUEUE;
	to->base = SONDE_PART_SYS_OTHER;
	to->memory = to->fault = 0;
	to->lock = 0;
	to->delay = delay_of(task);
}

SEC("?tp_btf/sched_wakeup")
int BPF_PROG(anatomy_wakeup, struct task_struct *task)
{
	struct sonde_anatomy *a = anatomy_maybe(task) ? anatomy_of(task) : NULL;

	if (!a)
		return 0;
	if (a->seq && a->off && !a->woken) {
		anatomy_charge(a, bpf_ktime_get_ns());
		a->current = SONDE_PART_RUNQUEUE;
		a->woken = 1;
	}
	anatomy_hand_over(a, task);
	return 0;
}

/* ---- the kernel's sleeping locks ---- */

SEC("?tp_btf/contention_begin")
int BPF_PROG(anatomy_lock, void *lock, unsigned int flags)
{
	struct sonde_anatomy *a = is_sleeping_lock(flags) ? anatomy_running() : NULL;
	struct task_struct *task = bpf_get_current_task_btf();

	if (!a || !task->mm)
		return 0;
	a->lock = (__u64)lock;
	a->lock_kind = lock_cause(task, lock);
	return 0;
}

SEC("?tp_btf/contention_end")
int BPF_PROG(anatomy_unlock, void *lock, int ret)
{
	struct sonde_anatomy *a = anatomy_running();

	if (a && a->lock == (__u64)lock)
		a->lock = 0;
	return 0;
}

/* ---- reclaim and compaction, in faults and elsewhere ---- */

static __always_inline int anatomy_memory(__u8 part)
{
	struct sonde_anatomy *a = anatomy_running();

	if (!a)
		return 0;
	anatomy_event(a, bpf_ktime_get_ns());
	a->memory = part;
	anatomy_resume(a);
	return 0;
}

SEC("?raw_tp/mm_vmscan_direct_reclaim_begin")
int anatomy_reclaim(void *ctx)
{
	return anatomy_memory(SONDE_PART_RECLAIM);
}

SEC("?raw_tp/mm_compaction_begin")
int anatomy_compact(void *ctx)
{
	return anatomy_memory(SONDE_PART_COMPACTION);
}

SEC("?raw_tp/mm_compaction_end")
int anatomy_memory_end(void *ctx)
{
	return anatomy_memory(0);
}

#endif
