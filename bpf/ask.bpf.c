// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Calls by which a program asks its allocator for statistics: how often, how long, and from where.
 * A call is opened at the entry of the outermost function and closed where that function leaves;
 * what runs inside (malloc_stats runs GetStats, a C wrapper runs the virtual function) belongs to
 * it.
 *
 * The invariant: a thread has at most one call open, known by the address where its return address
 * lies. An entry at or below that address is inside; one above it means that the open call left in
 * a way that was not seen (an exception), and is forgotten.
 */
#include "lib/filter.bpf.h"
#include "sonde/ask.h"

extern bool bpf_session_is_return(void) __ksym __weak;

struct ask_thread {
	__u64 sp; /* where the return address of the open call lies; 0: none is open */
	__u64 caller;
	__u64 start_ns;
	__u64 off_clock; /* grows by the time off the CPU */
	__u64 inner[2];	 /* hits of sonde's own within the call */
	__u32 func, flags;
	__u32 window; /* the value of `counting` when it was opened */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ask_thread);
} ask_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_ASK_CALLERS);
	__type(key, struct sonde_ask_key);
	__type(value, struct sonde_ask_sum);
} ask_callers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sonde_ask_hits);
} ask_hits SEC(".maps");

/*
 * Not 0 while calls are to be counted: everything is attached. Another number each time, since a
 * call that was open when the probes were taken off has an end that nobody saw.
 */
volatile __u32 counting;

/* A link is bound to one process and its cookie says which: the table of targets need not be asked.
 */
static __always_inline bool ours(void)
{
	struct sonde_control *c = gate_control();

	if (!c || !c->ready || !counting || !gate_held(SONDE_LENS_ASK))
		return false;
	if (c->only_tid && c->only_tid != (__u32)bpf_get_current_pid_tgid())
		return false;
	return !c->only_comm || same_comm(c->comm);
}

static __always_inline void hit(__u64 cookie, bool entry)
{
	__u32 func = SONDE_ASK_COOKIE_FUNC(cookie) & (SONDE_ASK_FUNCS - 1), zero = 0;
	struct sonde_ask_hits *h = bpf_map_lookup_elem(&ask_hits, &zero);

	if (h)
		__sync_fetch_and_add(entry ? &h->entry[func] : &h->exit[func], 1);
}

/*
 * The scheduler adds up a thread's CPU time now and then, and notes when it last did (exec_start,
 * which is also set when the thread gets a CPU). While it runs both grow alike; what exec_start
 * gains beyond the sum is the time off the CPU, exact at any moment. Its clock stands still while a
 * hypervisor has taken the CPU away, differently on each CPU: what it lags behind the run queue's
 * other clock is added.
 */
static __always_inline __u64 off_cpu_clock(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 off = BPF_CORE_READ(task, se.exec_start) - BPF_CORE_READ(task, se.sum_exec_runtime);
	struct rq *rq;

	if (!bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(task->se.cfs_rq->rq))
		return off;
	rq = BPF_CORE_READ(task, se.cfs_rq, rq);
	return off + BPF_CORE_READ(rq, clock) - BPF_CORE_READ(rq, clock_task);
}

static __always_inline __u64 cpu_of(const struct ask_thread *t, __u64 ns)
{
	__u64 off = off_cpu_clock() - t->off_clock;

	return off < ns ? ns - off : 0;
}

static __always_inline struct sonde_ask_sum *sum_of(__u64 cookie, __u32 func, __u64 caller)
{
	struct sonde_ask_key key = {
		.target = SONDE_ASK_COOKIE_TARGET(cookie),
		.func = func,
		.caller = caller,
	};
	struct sonde_ask_sum *sum = bpf_map_lookup_elem(&ask_callers, &key), none = {};

	if (!sum) {
		bpf_map_update_elem(&ask_callers, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&ask_callers, &key);
	}
	if (!sum)
		count_drop(SONDE_LENS_ASK, SONDE_DROP_MAP_FULL);
	return sum;
}

/* A call whose end is not seen. */
static __always_inline void add_untimed(__u64 cookie, __u32 func, __u64 caller)
{
	struct sonde_ask_sum *sum = sum_of(cookie, func, caller);

	if (sum)
		__sync_fetch_and_add(&sum->calls, 1);
}

static __always_inline void add_timed(__u64 cookie, const struct ask_thread *t, __u64 ns)
{
	struct sonde_ask_sum *sum = sum_of(cookie, t->func, t->caller);

	if (!sum)
		return;
	__sync_fetch_and_add(&sum->calls, 1);
	__sync_fetch_and_add(&sum->timed, 1);
	__sync_fetch_and_add(&sum->ns, ns);
	__sync_fetch_and_add(&sum->cpu_ns, cpu_of(t, ns));
	if (t->inner[0])
		__sync_fetch_and_add(&sum->inner[0], t->inner[0]);
	if (t->inner[1])
		__sync_fetch_and_add(&sum->inner[1], t->inner[1]);
}

/* Is an entry with its return address at @sp part of the call that is open? */
static __always_inline bool is_inside(const struct ask_thread *t, __u64 sp)
{
	__u64 word;

	if (!t->sp || sp > t->sp)
		return false;
	if (t->flags & SONDE_ASK_RETURN)
		return true;
	/* A frame that was left without a trace has most likely been overwritten. */
	return !bpf_probe_read_user(&word, sizeof(word), (void *)t->sp) && word == t->caller;
}

/* True: a call was opened, so its end is wanted. */
static __always_inline bool begin(struct pt_regs *ctx, __u64 cookie)
{
	__u64 sp = PT_REGS_SP(ctx) + SONDE_ASK_COOKIE_SP(cookie), caller = 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct ask_thread *t;

	hit(cookie, true);
	if (!ours())
		return false;
	t = bpf_task_storage_get(&ask_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		count_drop(SONDE_LENS_ASK, SONDE_DROP_MAP_FULL);
		return false;
	}
	if (t->window != counting)
		t->sp = 0;
	if (is_inside(t, sp)) {
		t->inner[!!(cookie & SONDE_ASK_EMULATED)]++;
		return false;
	}
	if (t->sp) /* left unseen: it was a call all the same */
		add_untimed(cookie, t->func, t->caller);
	t->sp = 0;
	if (bpf_probe_read_user(&caller, sizeof(caller), (void *)sp))
		count_drop(SONDE_LENS_ASK, SONDE_DROP_COPY_FAULT);
	if (cookie & SONDE_ASK_UNTIMED) {
		add_untimed(cookie, SONDE_ASK_COOKIE_FUNC(cookie), caller);
		return false;
	}
	t->caller = caller;
	t->func = SONDE_ASK_COOKIE_FUNC(cookie);
	t->flags = (__u32)cookie & (SONDE_ASK_UNTIMED | SONDE_ASK_RETURN);
	t->off_clock = off_cpu_clock();
	t->inner[0] = t->inner[1] = 0;
	t->window = counting;
	t->sp = sp;
	t->start_ns = bpf_ktime_get_ns();
	return true;
}

/* A function leaves whose return address lies, or lay, at @sp. */
static __always_inline void end(__u64 cookie, __u64 sp)
{
	__u64 now = bpf_ktime_get_ns();
	struct ask_thread *t = bpf_task_storage_get(&ask_threads, bpf_get_current_task_btf(), 0, 0);

	hit(cookie, false);
	if (!t || !t->sp)
		return; /* began before attach */
	if (t->sp != sp) {
		t->inner[!!(cookie & SONDE_ASK_EMULATED)]++;
		return;
	}
	t->sp = 0;
	if (ours() && t->window == counting)
		add_timed(cookie, t, now - t->start_ns);
}

/* Functions that neither throw nor switch stacks: entry and return in one, where the kernel has it.
 */
SEC("?uprobe")
int ask_session(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	if (!bpf_session_is_return())
		return !begin(ctx, cookie); /* 1: let it return unseen, for half the price */
	end(cookie, PT_REGS_SP(ctx) - sizeof(__u64));
	return 0;
}

SEC("?uprobe")
int ask_entry(struct pt_regs *ctx)
{
	begin(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

SEC("?uprobe")
int ask_return(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	if (gate_is_target(SONDE_ASK_COOKIE_TARGET(cookie)))
		end(cookie, PT_REGS_SP(ctx) - sizeof(__u64));
	return 0;
}

/* At a `ret`: the return address is where the stack pointer is. */
SEC("?uprobe")
int ask_exit(struct pt_regs *ctx)
{
	end(bpf_get_attach_cookie(ctx), PT_REGS_SP(ctx));
	return 0;
}
