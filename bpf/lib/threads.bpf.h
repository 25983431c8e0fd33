/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 2, of the alloc lens: reading the byte counters of every thread of a process without a
 * probe in it: an iterator that may sleep reads the living, a tracepoint those that end, in their
 * own context.
 *
 * The invariant: a thread is told by its key, and counters only grow; so whoever adds them up may
 * see a thread twice, in either order, and takes the larger.
 */
#ifndef SONDE_BPF_THREADS_H
#define SONDE_BPF_THREADS_H

#include "lib/tls.bpf.h"

#define PF_IO_WORKER  0x10 /* io_uring's: in the thread group, with its maker's thread pointer */
#define PF_FORKNOEXEC 0x40
#define PF_KTHREAD    0x200000

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_TLS_ENDED);
	__type(key, struct sonde_tls_key);
	__type(value, struct sonde_tls_thread);
} tls_ended SEC(".maps");

/* By pid of a process that was forked: what its first thread's counters held when they were copied
 * from its parent's. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SONDE_TLS_FORKED);
	__type(key, __u32);
	__type(value, struct sonde_tls_bytes);
} tls_forked SEC(".maps");

static __always_inline void thread_describe(struct sonde_tls_thread *t, struct task_struct *task)
{
	__u32 flags = BPF_CORE_READ(task, group_leader, flags);

	t->key.tgid = task->tgid;
	t->key.tid = task->pid;
	t->key.started_ns = task->start_boottime;
	t->at_ns = bpf_ktime_get_ns();
	/* __exit_signal() adds the time of each thread that ends, its leader aside. */
	if (BPF_CORE_READ(task, signal, sum_sched_runtime))
		t->flags |= SONDE_TLS_F_EARLIER;
	if (flags & PF_FORKNOEXEC)
		t->flags |= SONDE_TLS_F_FORKED;
}

static __always_inline bool thread_has_none(struct task_struct *task)
{
	return task->flags & (PF_IO_WORKER | PF_KTHREAD);
}

/* Both counters of another thread. The first word at a thread pointer is its own address. */
static __always_inline bool thread_read(struct sonde_tls_thread *t, struct task_struct *task,
					const struct sonde_tls_place *place)
{
	__u64 at = tls_pointer(task), self = 0;

	if (!at || bpf_copy_from_user_task(&self, sizeof(self), (void *)at, task, 0) || self != at)
		return false;
	return !bpf_copy_from_user_task(&t->bytes.allocated, sizeof(t->bytes.allocated),
					(void *)(at + place->allocated), task, 0) &&
	       !bpf_copy_from_user_task(&t->bytes.freed, sizeof(t->bytes.freed),
					(void *)(at + place->freed), task, 0);
}

/* Writes a struct sonde_tls_thread for each thread of each process that has a place. */
SEC("?iter.s/task")
int alloc_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct sonde_tls_thread t = {};
	struct sonde_tls_place *place;
	__u32 tgid;

	if (!task)
		return 0;
	tgid = task->tgid;
	place = bpf_map_lookup_elem(&tls_places, &tgid);
	if (!place || thread_has_none(task))
		return 0;
	thread_describe(&t, task);
	t.state = thread_read(&t, task, place) ? SONDE_TLS_READ : SONDE_TLS_UNREAD;
	bpf_seq_write(ctx->meta->seq, &t, sizeof(t));
	return 0;
}

/* A thread ends; its memory is still there since 6.16 ("exit: move and extend sched_process_exit()
 * tracepoint"). */
SEC("?tp_btf/sched_process_exit")
int BPF_PROG(alloc_thread_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct sonde_tls_place *place = bpf_map_lookup_elem(&tls_places, &tgid);
	struct sonde_tls_thread t = {};

	if (!place || thread_has_none(task))
		return 0;
	thread_describe(&t, task);
	t.state = tls_read(place, &t.bytes) ? SONDE_TLS_READ : SONDE_TLS_UNREAD;
	if (bpf_map_update_elem(&tls_ended, &t.key, &t, BPF_ANY))
		count_drop(SONDE_LENS_ALLOC, SONDE_DROP_MAP_FULL);
	return 0;
}

/* In the parent's context, before the child runs. */
SEC("?tp_btf/sched_process_fork")
int BPF_PROG(alloc_fork, struct task_struct *parent, struct task_struct *child)
{
	struct sonde_tls_bytes bytes = {};
	__u32 tgid = child->tgid;

	if (child->pid == child->tgid && tls_now(&bytes))
		bpf_map_update_elem(&tls_forked, &tgid, &bytes, BPF_ANY);
	return 0;
}

/* Another program: its places are others. User space finds them, or that it has none; until then
 * nothing is read. */
SEC("?tp_btf/sched_process_exec")
int BPF_PROG(alloc_exec, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	bpf_map_delete_elem(&tls_places, &tgid);
	return 0;
}

#endif
