/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 1: what the scheduler itself knows of a thread, for where its tracepoints are silent.
 */
#ifndef SONDE_BPF_BOOKS_H
#define SONDE_BPF_BOOKS_H

#include "lib/base.bpf.h"

/*
 * No tracepoint fires in the context of a thread that the kernel hides from tracing (seen of the
 * agent of a cloud machine, on 6.18): where it hands its CPU to our thread the arrival is missing,
 * and what an interrupt wakes on top of it lacks its wake. The scheduler's own books tell both
 * later: what a task waited for CPUs in all, since when it is queued, since when it runs
 * (CONFIG_SCHED_INFO).
 */
static __always_inline bool has_books(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) &&
	       bpf_core_field_exists(task->se.cfs_rq) && bpf_core_field_exists(task->se.cfs_rq->rq);
}

/* Since @when on the clock of the run queue, which is locked: @task leaves it or gets its CPU. */
static __always_inline __u64 since(struct task_struct *task, __u64 when)
{
	__u64 clock = task->se.cfs_rq->rq->clock;

	return when && clock > when ? clock - when : 0;
}

static __always_inline __u64 delay_of(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

/*
 * Not running by its own will? The argument prev_state of 5.18 tells the same: the run queue is
 * locked, so nobody can have made the task running again in between; a waker on another CPU can at
 * most have marked it as waking, which is not 0 either.
 */
static __always_inline bool is_blocked(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state != 0;
	return BPF_CORE_READ((struct task_struct___v5_11 *)task, state) != 0;
}

#endif
