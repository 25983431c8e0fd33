/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 2: where a query's time goes. A thread that runs a query has a clock that is charged to one
 * part at any moment; every event that concerns the thread charges the time since the event before
 * to the part that was current, and says what is current from there. So parts are disjoint, and
 * their sum is the time from the first event to the last, whatever was missed.
 *
 * The invariant: only the thread itself changes its clock, or, while it is off its CPU, the
 * scheduler's programs with its run queue locked.
 */
#ifndef SONDE_BPF_ANATOMY_H
#define SONDE_BPF_ANATOMY_H

#include "lib/books.bpf.h"
#include "lib/filter.bpf.h"
#include "sonde/anatomy.h"
#include "sonde/fault.h"

/* Shared with the fault lens, whose programs tell what faults do. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sonde_anatomy);
} anatomy SEC(".maps");

static __always_inline struct sonde_anatomy *anatomy_of(struct task_struct *task)
{
	return bpf_task_storage_get(&anatomy, task, 0, 0);
}

/* The current thread's, if it runs a query. */
static __always_inline struct sonde_anatomy *anatomy_current(void)
{
	struct sonde_anatomy *a;

	if (!cfg.anatomy)
		return NULL;
	a = anatomy_of(bpf_get_current_task_btf());
	return a && a->seq ? a : NULL;
}

/* The clocks of two CPUs may differ by some ns: then nothing is charged, and nothing is lost. */
static __always_inline void anatomy_charge(struct sonde_anatomy *a, __u64 now)
{
	__u32 part = a->current & (SONDE_ANATOMY_SLOTS - 1),
	      at = a->logged & (SONDE_ANATOMY_LOG - 1);
	__u64 last = a->last_ns;

	if ((__s64)(now - last) <= 0)
		return;
	a->ns[part] += now - last;
	a->log_ns[at] = last;
	a->log_part[at] = part;
	a->logged++;
	a->last_ns = now;
}

/* What a thread that is on a CPU does. */
static __always_inline void anatomy_resume(struct sonde_anatomy *a)
{
	a->current = a->memory ? a->memory : a->fault ? SONDE_ANATOMY_PENDING : a->base;
}

/*
 * Take back what was charged after @end: bytes left at the time that TCP noted, and the thread may
 * have lost its CPU before the tracepoint came. False: that was too long ago.
 */
static __always_inline bool anatomy_rewind(struct sonde_anatomy *a, __u64 end)
{
	for (int i = 0; i < SONDE_ANATOMY_LOG && a->last_ns > end; i++) {
		__u32 at = --a->logged & (SONDE_ANATOMY_LOG - 1);
		__u32 part = a->log_part[at] & (SONDE_ANATOMY_SLOTS - 1);
		__u64 begin = a->log_ns[at], cut = begin > end ? begin : end;
		__u64 back = a->last_ns - cut;

		if (a->last_ns < cut)
			return false;
		if (part == SONDE_ANATOMY_PENDING && !a->fault)
			part = a->fault_part & (SONDE_ANATOMY_SLOTS - 1);
		if (a->ns[part] < back)
			return false;
		a->ns[part] -= back;
		a->last_ns = cut;
	}
	return a->last_ns == end;
}

/* Bring the clock to @end exactly. */
static __always_inline bool anatomy_settle(struct sonde_anatomy *a, __u64 end)
{
	a->high_ns = a->last_ns;
	if (a->last_ns <= end) {
		anatomy_charge(a, end);
		return a->last_ns == end;
	}
	return anatomy_rewind(a, end);
}

/* ---- page faults ---- */

static __always_inline __u8 anatomy_fault_part(__u32 cls)
{
	if (cls >= SONDE_FAULT_MTHP_8K && cls <= SONDE_FAULT_MTHP_1M)
		return SONDE_PART_FAULT_MTHP;
	switch (cls) {
	case SONDE_FAULT_BASE:
		return SONDE_PART_FAULT_BASE;
	case SONDE_FAULT_PMD:
	case SONDE_FAULT_HUGETLB:
		return SONDE_PART_FAULT_PMD;
	case SONDE_FAULT_COW:
		return SONDE_PART_FAULT_COW;
	case SONDE_FAULT_FILE:
	case SONDE_FAULT_SHMEM:
		return SONDE_PART_FAULT_FILE;
	case SONDE_FAULT_SWAP:
		return SONDE_PART_FAULT_SWAP;
	}
	return SONDE_PART_FAULT_OTHER;
}

static __always_inline void anatomy_fault_close(struct sonde_anatomy *a, __u8 part)
{
	a->ns[part & (SONDE_ANATOMY_SLOTS - 1)] += a->ns[SONDE_ANATOMY_PENDING];
	a->ns[SONDE_ANATOMY_PENDING] = 0;
	a->fault_part = part;
	a->fault = 0;
}

/* The fault that seemed to be open has long ended, or was refused: what its time was cannot be
 * told. */
static __always_inline void anatomy_fault_lost(struct sonde_anatomy *a, __u64 now)
{
	anatomy_charge(a, now);
	anatomy_fault_close(a, SONDE_PART_UNATTRIBUTED);
	a->memory = 0;
}

/*
 * The thread runs, and nobody told that it got its CPU: the books know when it did. Where they do
 * not, the time since it left is nobody's.
 */
static __always_inline void anatomy_arrived_unseen(struct sonde_anatomy *a, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 at = 0, queued;

	if (a->offset && has_books(task))
		at = task->sched_info.last_arrival + a->offset;
	a->off = 0;
	if (at <= a->last_ns || at > now) {
		a->current = SONDE_PART_UNATTRIBUTED;
		anatomy_charge(a, now);
		anatomy_resume(a);
		return;
	}
	queued = task->sched_info.run_delay - a->delay;
	if (!a->woken && queued < at - a->last_ns) {
		anatomy_charge(a, at - queued);
		a->current = SONDE_PART_RUNQUEUE;
	}
	anatomy_charge(a, at);
	anatomy_resume(a);
}

/* Every event of a thread that runs begins with this. */
static __always_inline void anatomy_event(struct sonde_anatomy *a, __u64 now)
{
	if (a->off)
		anatomy_arrived_unseen(a, now);
	anatomy_charge(a, now);
}

/*
 * A fault's exception was entered before its first program ran, and will be left after its last one
 * has; no program sees that. @exception is what both take on this machine, calibrated: they are
 * counted with the fault, out of what the thread is known to have spent before it. An exception
 * that was quicker makes good for one that was slower.
 */
static __always_inline void anatomy_fault_begin(struct sonde_anatomy *a, __u64 now, __u64 exception)
{
	__u64 before = a->last_ns, most;
	__u32 part;

	if (a->off || a->fault)
		before = now;
	anatomy_event(a, now);
	if (a->fault)
		anatomy_fault_lost(a, now);
	a->owed += exception;
	if (a->owed > SONDE_ANATOMY_OWED * exception)
		a->owed = SONDE_ANATOMY_OWED * exception;
	part = a->current & (SONDE_ANATOMY_SLOTS - 1);
	most = a->last_ns > before ? a->last_ns - before : 0;
	if (most > a->owed)
		most = a->owed;
	if (a->ns[part] >= most) {
		a->ns[part] -= most;
		a->ns[SONDE_ANATOMY_PENDING] += most;
		a->owed -= most;
	}
	a->fault = 1;
	anatomy_resume(a);
}

/* The current thread's open fault is over and was of class @cls. */
static __always_inline void anatomy_fault_end(__u32 cls)
{
	struct sonde_anatomy *a = anatomy_current();
	__u8 part;

	if (!a || !a->fault)
		return;
	anatomy_event(a, bpf_ktime_get_ns());
	part = anatomy_fault_part(cls);
	a->faults[(part - SONDE_PART_FAULT_BASE) & (SONDE_ANATOMY_FAULTS - 1)]++;
	a->memory = 0;
	anatomy_fault_close(a, part);
	anatomy_resume(a);
}

#endif
