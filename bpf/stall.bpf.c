// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Time that the target's threads do not run, by cause, and time in the system calls that change the
 * address space. The scheduler's tracepoints fire for the whole machine with a run queue locked:
 * what is not ours leaves after one look-up a thread, and nothing here allocates memory. That is
 * why threads are kept in a preallocated map by tid and not in task storage, whose creation may
 * wake kswapd on kernels before 6.4 and so take the lock that is held.
 *
 * The invariant: off_ns is set exactly while the thread is off its CPU, and its switch count at
 * that moment is beside it; an arrival with another count is not the end of that absence.
 */
#include "lib/filter.bpf.h"
#include "lib/offcpu.bpf.h"
#include "lib/series.bpf.h"

#define PF_EXITING 0x00000004

struct stall_thread {
	__u64 off_ns;  /* left the CPU; 0: is on one                       */
	__u64 wake_ns; /* made runnable since then; 0: blocked             */
	__u64 lock;    /* the kernel lock it waits for; 0: none            */
	__u64 lock_ns;
	__u64 call_ns; /* entered one of the system calls; 0: in none      */
	__u64 call_bytes;
	__u64 delay; /* what it had waited for CPUs when it left, by the kernel */
	__u32 switches;
	__u8 cause;	/* of the present absence                           */
	__u8 lock_kind; /* a cause as well: MMAP_LOCK or KERNEL_LOCK        */
	__u8 pad[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_STALL_THREADS);
	__type(key, __u32); /* tid */
	__type(value, struct stall_thread);
} stall_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, SONDE_MAX_TARGETS *SONDE_STALL_SERIES);
	__type(key, struct sonde_series_key);
	__type(value, struct sonde_series_sum);
} stall_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_STALL_HIST_ENTRIES);
	__type(key, struct sonde_series_key);
	__type(value, __u64);
} stall_hist SEC(".maps");

/* Not 0: a target may have such a tgid. User space fills it, and new processes are added here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SONDE_STALL_FILTER);
	__type(key, __u32);
	__type(value, __u32);
} stall_filter SEC(".maps");

static __always_inline void stall_add(__u32 tgid, __u16 series, __u64 ns, __u64 bytes)
{
	struct sonde_series_key key = {.tgid = tgid, .series = series};

	series_sum(&stall_sums, SONDE_LENS_STALL, &key, ns, bytes);
	series_bucket(&stall_hist, SONDE_LENS_STALL, &key, ns);
}

static __always_inline struct stall_thread *thread_find(__u32 tid)
{
	return bpf_map_lookup_elem(&stall_threads, &tid);
}

static __always_inline struct stall_thread *thread_get(__u32 tid)
{
	struct stall_thread *t = thread_find(tid), blank = {};

	if (t)
		return t;
	if (bpf_map_update_elem(&stall_threads, &tid, &blank, BPF_NOEXIST)) {
		count_drop(SONDE_LENS_STALL, SONDE_DROP_MAP_FULL);
		return NULL;
	}
	return thread_find(tid);
}

/* An array's look-up is a few instructions of the program itself; a hash map's is two calls. */
static __always_inline bool maybe_ours(struct task_struct *task)
{
	__u32 slot = (__u32)task->tgid % SONDE_STALL_FILTER;
	__u32 *ours = bpf_map_lookup_elem(&stall_filter, &slot);

	return ours && *ours;
}

/* The gate for a task that need not be the current one. */
static __always_inline bool gate_task(const struct sonde_control *c, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	if (!bpf_map_lookup_elem(&targets, &tgid))
		return false;
	if (c->only_tid && c->only_tid != (__u32)task->pid)
		return false;
	for (int i = 0; c->only_comm && i < SONDE_COMM_BYTES; i++) {
		if (task->comm[i] != c->comm[i])
			return false;
		if (!c->comm[i])
			break;
	}
	return true;
}

/* Both counts only grow, and the kernel raises one before it tells of the switch. */
static __always_inline __u32 switches_of(struct task_struct *task)
{
	return (__u32)(task->nvcsw + task->nivcsw);
}

/* ---- the scheduler ---- */

/*
 * The one place where an absence is known whole: it ended at @end, after the thread was runnable
 * for @queued, which counts only where the wake was missed. What a query's own anatomy needs is
 * here as well: @task's span is in its task storage (lib/span.bpf.h), which may be read for a task
 * that is not the current one.
 */
static __always_inline void stall_end(struct task_struct *task, struct stall_thread *t, __u64 end,
				      __u64 queued)
{
	__u64 off = t->off_ns, wake = t->wake_ns;
	__u32 tgid = task->tgid;

	t->off_ns = 0;
	if (end < off)
		end = off;
	if (!wake)
		wake = end - off > queued ? end - queued : off;
	if (wake > end)
		wake = end;
	if (t->cause != SONDE_STALL_RUNQUEUE)
		stall_add(tgid, t->cause, wake - off, 0);
	stall_add(tgid, SONDE_STALL_RUNQUEUE, end - wake, 0);
}

/* @task leaves, and the end of its absence before was not told. */
static __always_inline void stall_end_late(struct task_struct *task, struct stall_thread *t,
					   __u32 switches, __u64 now)
{
	if (switches - t->switches != 1 || !has_books(task)) {
		count_drop(SONDE_LENS_STALL, SONDE_DROP_NO_END);
		return;
	}
	stall_end(task, t, now - since(task, task->sched_info.last_arrival),
		  task->sched_info.run_delay - t->delay);
}

static __always_inline void stall_leave(const struct sonde_control *c, struct task_struct *task,
					bool preempted)
{
	struct stall_thread *t;
	__u32 switches;
	__u64 now;

	if (!gate_task(c, task) || task->flags & PF_EXITING)
		return;
	t = thread_get(task->pid);
	if (!t)
		return;
	now = bpf_ktime_get_ns();
	switches = switches_of(task);
	if (t->off_ns)
		stall_end_late(task, t, switches, now);
	else if (t->switches && switches - t->switches > 1)
		count_drop(SONDE_LENS_STALL, SONDE_DROP_NO_ENTRY);
	t->switches = switches;
	t->delay = delay_of(task);
	if (preempted || !is_blocked(task)) {
		t->cause = SONDE_STALL_RUNQUEUE;
		t->wake_ns = now;
	} else {
		t->cause = t->lock ? t->lock_kind : cause_of(task);
		t->wake_ns = 0;
	}
	t->off_ns = now;
}

static __always_inline void stall_arrive(struct task_struct *task)
{
	struct stall_thread *t = thread_find(task->pid);
	__u64 queued = 0;

	if (!t || !t->off_ns)
		return;
	if (t->switches != switches_of(task)) {
		t->off_ns = 0;
		count_drop(SONDE_LENS_STALL, SONDE_DROP_NO_END);
		return;
	}
	/* A queue that it moved away from is in run_delay, the present one is not yet. */
	if (!t->wake_ns && has_books(task))
		queued = task->sched_info.run_delay - t->delay +
			 since(task, task->sched_info.last_queued);
	else if (!t->wake_ns) /* all is charged to the cause */
		count_drop(SONDE_LENS_STALL, SONDE_DROP_NO_ENTRY);
	stall_end(task, t, bpf_ktime_get_ns(), queued);
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(stall_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	bool leaves = maybe_ours(prev), arrives = maybe_ours(next);
	struct sonde_control *c;

	if (!leaves && !arrives)
		return 0;
	c = gate_control();
	if (!c || !c->ready)
		return 0;
	if (leaves)
		stall_leave(c, prev, preempt);
	if (arrives)
		stall_arrive(next);
	return 0;
}

SEC("?tp_btf/sched_wakeup")
int BPF_PROG(stall_wakeup, struct task_struct *task)
{
	struct stall_thread *t = maybe_ours(task) ? thread_find(task->pid) : NULL;

	if (t && t->off_ns && !t->wake_ns)
		t->wake_ns = bpf_ktime_get_ns();
	return 0;
}

/* A new thread's first wait for a CPU. */
SEC("?tp_btf/sched_wakeup_new")
int BPF_PROG(stall_wakeup_new, struct task_struct *task)
{
	__u32 slot = (__u32)task->tgid % SONDE_STALL_FILTER, yes = 1;
	struct sonde_control *c = gate_control();
	struct stall_thread *t;

	if (!c || !c->ready || !gate_task(c, task))
		return 0;
	if (!maybe_ours(task)) /* a child that was made a target a moment ago */
		bpf_map_update_elem(&stall_filter, &slot, &yes, BPF_ANY);
	t = thread_get(task->pid);
	if (!t)
		return 0;
	t->switches = switches_of(task);
	t->delay = delay_of(task);
	t->cause = SONDE_STALL_RUNQUEUE;
	t->off_ns = t->wake_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?tp_btf/sched_process_exit")
int BPF_PROG(stall_exit, struct task_struct *task)
{
	__u32 tid = task->pid;
	struct stall_thread *t = thread_find(tid);

	if (!t)
		return 0;
	/* It runs, so if it seems to be off its CPU, then its arrival was not told. */
	if (t->off_ns && t->wake_ns && t->switches == switches_of(task) && has_books(task))
		stall_end(task, t, t->wake_ns + delay_of(task) - t->delay, 0);
	else if (t->off_ns)
		count_drop(SONDE_LENS_STALL, SONDE_DROP_NO_END);
	bpf_map_delete_elem(&stall_threads, &tid);
	return 0;
}

/* ---- the kernel's sleeping locks ---- */

SEC("?tp_btf/contention_begin")
int BPF_PROG(stall_lock_begin, void *lock, unsigned int flags)
{
	struct task_struct *task;
	struct stall_thread *t;
	__u64 id;

	if (!is_sleeping_lock(flags) || !gate_current(&id))
		return 0;
	task = bpf_get_current_task_btf();
	t = thread_get((__u32)id);
	if (!t || !task->mm)
		return 0;
	if (t->lock != (__u64)lock)
		t->lock_ns = bpf_ktime_get_ns();
	t->lock = (__u64)lock;
	t->lock_kind = lock_cause(task, lock);
	return 0;
}

SEC("?tp_btf/contention_end")
int BPF_PROG(stall_lock_end, void *lock, int ret)
{
	struct stall_thread *t;
	__u16 series;
	__u64 id;

	if (!gate_current(&id))
		return 0;
	t = thread_find((__u32)id);
	if (!t || t->lock != (__u64)lock)
		return 0;
	series = t->lock_kind == SONDE_STALL_MMAP_LOCK ? SONDE_STALL_WAIT_MMAP
						       : SONDE_STALL_WAIT_KERNEL;
	t->lock = 0;
	stall_add(id >> 32, series, bpf_ktime_get_ns() - t->lock_ns, 0);
	return 0;
}

/* ---- system calls on the address space ---- */

static __always_inline void call_begin(__u64 bytes)
{
	struct stall_thread *t;
	__u64 id;

	if (!gate_current(&id))
		return;
	t = thread_get((__u32)id);
	if (!t)
		return;
	t->call_bytes = bytes;
	t->call_ns = bpf_ktime_get_ns();
}

/* mmap, munmap, mremap, madvise: all have their length second. */
SEC("?tracepoint/syscalls/sys_enter_munmap")
int stall_call_length(struct trace_event_raw_sys_enter *ctx)
{
	call_begin(ctx->args[1]);
	return 0;
}

/* brk has one argument, and a program may not read beyond a tracepoint's own. */
SEC("?tracepoint/syscalls/sys_enter_brk")
int stall_call_plain(struct trace_event_raw_sys_enter *ctx)
{
	call_begin(0);
	return 0;
}

/* 0, which is a cause, for a system call that is none of these. */
static __always_inline __u16 call_series(long nr)
{
	switch (nr) {
#define STALL_CASE(sym, name, number)                                                              \
	case number:                                                                               \
		return SONDE_STALL_CALL_FIRST + SONDE_STALL_CALL_##sym;
		SONDE_STALL_CALLS(STALL_CASE)
#undef STALL_CASE
	}
	return 0;
}

SEC("?tracepoint/syscalls/sys_exit_munmap")
int stall_call_end(struct trace_event_raw_sys_exit *ctx)
{
	struct stall_thread *t;
	__u64 id, ns;
	__u16 series;

	if (!gate_current(&id))
		return 0;
	t = thread_find((__u32)id);
	if (!t || !t->call_ns)
		return 0; /* it began before sonde was attached */
	ns = bpf_ktime_get_ns() - t->call_ns;
	t->call_ns = 0;
	series = call_series(ctx->id);
	if (series)
		stall_add(id >> 32, series, ns, t->call_bytes);
	return 0;
}
