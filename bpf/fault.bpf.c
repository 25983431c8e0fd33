// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Page faults by what they did, with their latency and without kprobes. x86 has a tracepoint where
 * a fault begins but none where it ends; the kernel's own fault accounting is the end:
 * mm_account_fault() fires the software event PAGE_FAULTS_MIN or _MAJ as handle_mm_fault() returns,
 * once per completed fault (bce617edecad, "mm: do page fault accounting in handle_mm_fault", 5.9).
 * What the same thread allocates in between, the exception's error code and, where those do not
 * decide, the mapping tell what it did (bpf/lib/faultclass.bpf.h).
 *
 * The invariant: a thread has at most one open fault, and only its own programs touch it.
 */
#include "lib/anatomy.bpf.h"
#include "lib/span.bpf.h"
#include "lib/faultby.bpf.h"
#ifdef SONDE_FAULT_STACKS
#include "lib/faultstack.bpf.h"
#endif

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sonde_fault_thread);
} fault_threads SEC(".maps");

/* Not 0: a target may have such a tgid. User space fills it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SONDE_FAULT_FILTER);
	__type(key, __u32);
	__type(value, __u32);
} fault_filter SEC(".maps");

/* Preallocated, as all that follow: the programs that fill them run inside perf events. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, SONDE_FAULT_SUM_ENTRIES);
	__type(key, struct sonde_fault_key);
	__type(value, struct sonde_fault_sum);
} fault_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_FAULT_HIST_ENTRIES);
	__type(key, struct sonde_fault_key);
	__type(value, __u64);
} fault_hist SEC(".maps");

/* What a fault takes beside its programs' readings of the clock, calibrated: ns; 0: not known. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} fault_exception SEC(".maps");

/* ---- whose is it ---- */

/*
 * These tracepoints fire for the whole machine. An array's look-up is a few instructions of the
 * program itself, a hash map's is two calls; children that the kernel side made targets a moment
 * ago are not in the array yet.
 */
static __always_inline bool maybe_ours(struct task_struct *task)
{
	__u32 slot = (__u32)task->tgid % SONDE_FAULT_FILTER;
	__u32 *ours = bpf_map_lookup_elem(&fault_filter, &slot);
	struct sonde_control *c;

	if (ours && *ours)
		return true;
	c = gate_control();
	return c && c->follow_children;
}

/* Only threads that were let through the gate have storage, so having it is the gate from then on.
 */
static __always_inline struct sonde_fault_thread *thread_find(struct task_struct *task)
{
	return bpf_task_storage_get(&fault_threads, task, 0, 0);
}

static __always_inline struct sonde_fault_thread *thread_get(struct task_struct *task)
{
	struct sonde_control *c = gate_control();
	struct sonde_fault_thread *f;
	__u64 id;

	if (!c || !c->ready || !maybe_ours(task))
		return NULL;
	f = thread_find(task);
	if (f && !c->only_comm)
		return f;
	if (!gate_current(&id))
		return NULL;
	if (f)
		return f;
	f = bpf_task_storage_get(&fault_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!f) {
		count_drop(SONDE_LENS_FAULT, SONDE_DROP_MAP_FULL);
		return NULL;
	}
	f->turn = bpf_get_prandom_u32();
	return f;
}

/* The thread's open fault, or NULL. */
static __always_inline struct sonde_fault_thread *fault_current(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sonde_fault_thread *f = maybe_ours(task) ? thread_find(task) : NULL;

	return f && f->begin_ns ? f : NULL;
}

/* ---- in between ---- */

/*
 * Anonymous memory's folios only, and the last one is the page: a folio that the memory cgroup
 * refuses to charge is given back before a smaller one is taken. Not every large allocation inside
 * a fault is for it: page-cache folios have __GFP_WRITE or lack __GFP_NOMEMALLOC, slabs and page
 * tables are not movable; and a failed attempt has no page.
 */
static __always_inline int fault_alloc(void *page, __u32 order, __u32 gfp)
{
	__u32 want = order ? GFP_ANON_LARGE : GFP_ANON;
	struct sonde_fault_thread *f;

	if (!page || (gfp & (want | GFP_WRITE)) != want)
		return 0;
	f = fault_current();
	if (!f)
		return 0;
	f->order = order;
	if (!order)
		f->seen |= gfp & GFP_ZERO ? SEEN_ZEROED : SEEN_PAGE;
	return 0;
}

/*
 * A swap entry went, if it was not this very fault that put others out: attached only where there
 * is swap. Same two arguments since 5.5. Up to 6.1 it tells of no single fault, but, before the
 * fault is handled, of all that the task had kept to itself, which then begins at 0 again.
 */
SEC("?raw_tp/rss_stat")
int fault_rss_stat(struct bpf_raw_tracepoint_args *ctx)
{
	struct sonde_fault_thread *f = (__u32)ctx->args[1] == MM_SWAPENTS ? fault_current() : NULL;

	if (!f || f->stall_ns)
		return 0;
	if (!has_split_counts())
		f->seen |= SEEN_SWAP;
	else if (split_is_due(bpf_get_current_task_btf()))
		f->swap_count = 0;
	return 0;
}

/* Reclaim and compaction do not nest in each other. */
SEC("?raw_tp/mm_compaction_begin")
int fault_stall_begin(void *ctx)
{
	struct sonde_fault_thread *f = fault_current();

	if (!f)
		return 0;
	f->stalled = 1;
	f->stall_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline __u64 stall_took(struct sonde_fault_thread *f)
{
	__u64 begin = f->stall_ns;

	f->stall_ns = 0;
	return begin ? bpf_ktime_get_ns() - begin : 0;
}

SEC("?raw_tp/mm_vmscan_direct_reclaim_end")
int fault_reclaim_end(void *ctx)
{
	struct sonde_fault_thread *f = fault_current();

	if (f)
		f->reclaim_ns += stall_took(f);
	return 0;
}

SEC("?raw_tp/mm_compaction_end")
int fault_compaction_end(void *ctx)
{
	struct sonde_fault_thread *f = fault_current();

	if (f)
		f->compaction_ns += stall_took(f);
	return 0;
}

/* ---- the end ---- */

static __always_inline struct sonde_fault_sum *sum_of(const struct sonde_fault_key *key)
{
	struct sonde_fault_sum *sum = bpf_map_lookup_elem(&fault_sums, key), none = {};

	if (!sum) {
		bpf_map_update_elem(&fault_sums, key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&fault_sums, key);
	}
	if (!sum)
		count_drop(SONDE_LENS_FAULT, SONDE_DROP_MAP_FULL);
	return sum;
}

/* A sampled fault stands for those that were not timed, so that percentiles are of all. */
static __always_inline void add_bucket(struct sonde_fault_key *key, __u64 ns, __u64 weight)
{
	__u64 *n, none = 0;

	key->bucket = sonde_hist_index(ns);
	n = bpf_map_lookup_elem(&fault_hist, key);
	if (!n) {
		bpf_map_update_elem(&fault_hist, key, &none, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&fault_hist, key);
	}
	if (n)
		__sync_fetch_and_add(n, weight);
	else
		count_drop(SONDE_LENS_FAULT, SONDE_DROP_MAP_FULL);
}

/* Classes of which there are many, all much alike. */
#define PLAIN                                                                                      \
	(1u << SONDE_FAULT_BASE | 1u << SONDE_FAULT_ZERO | 1u << SONDE_FAULT_COW |                 \
	 1u << SONDE_FAULT_IN_PLACE | 1u << SONDE_FAULT_FILE | 1u << SONDE_FAULT_SHMEM)

/* Is this one of those that are timed one in many? */
static __always_inline bool is_plain(const struct sonde_fault_thread *f,
				     const struct sonde_fault_sum *sum, __u32 cls, bool major)
{
	return fault_cfg.every > 1 && !f->exact && !major && !f->stalled && f->typical_ns &&
	       PLAIN & 1u << (cls & 31) && sum->count >= SONDE_FAULT_CERTAIN;
}

/*
 * Count the fault and time it if it is to be timed. Returns its time, or what this thread's faults
 * took of late where it was not. Per-CPU sums are shared with whatever preempts: atomic adds.
 */
static __always_inline __u64 fault_account(struct sonde_fault_thread *f,
					   struct sonde_fault_key *key, struct sonde_fault_sum *sum,
					   __u32 cls, bool major)
{
	bool plain = is_plain(f, sum, cls, major);
	__u64 ns;

	__sync_fetch_and_add(&sum->count, 1);
	if (!f->begin_ns) {
		__sync_fetch_and_add(&sum->plain, 1);
		return f->typical_ns;
	}
	if (plain) {
		__sync_fetch_and_add(&sum->plain, 1);
		if (++f->turn % fault_cfg.every)
			return f->typical_ns;
	}
	ns = bpf_ktime_get_ns() - f->begin_ns;
	if (plain) {
		__sync_fetch_and_add(&sum->timed, 1);
		__sync_fetch_and_add(&sum->plain_ns, ns);
		__sync_fetch_and_add(&sum->plain_sq, (ns >> 4) * (ns >> 4));
	} else {
		__sync_fetch_and_add(&sum->ns, ns);
	}
	if (f->stalled) {
		__sync_fetch_and_add(&sum->stalled, 1);
		__sync_fetch_and_add(&sum->reclaim_ns, f->reclaim_ns);
		__sync_fetch_and_add(&sum->compaction_ns, f->compaction_ns);
	} else if (!major && PLAIN & 1u << (cls & 31)) {
		f->typical_ns = f->typical_ns ? f->typical_ns - f->typical_ns / 8 + ns / 8 : ns;
	}
	add_bucket(key, ns, plain ? fault_cfg.every : 1);
	return ns;
}

static __always_inline void charge_span(__u64 ns)
{
	struct task_span *s = span_current();

	if (!s)
		return;
	s->faults++;
	s->fault_ns += ns;
}

#ifndef SONDE_FAULT_STACKS
static __always_inline void charge_stack(const struct sonde_fault_thread *f, __u32 tgid, __u64 ns)
{
}
#endif

/* A site is the instruction that faulted: what it stands for is user space's affair
 * (user/lens/fault_where.c). */
static __always_inline void charge_all(const struct sonde_fault_thread *f, __u64 id, __u64 ns)
{
	charge_by(f, id >> 32, SONDE_FAULT_BY_THREAD, (__u32)id, ns);
	charge_mapping(f, id >> 32, ns);
	charge_by(f, id >> 32, SONDE_FAULT_BY_SITE, f->ip, ns);
	charge_stack(f, id >> 32, ns);
}

/* Not inlined: at both ends, and at a begin that finds one missed. */
static __noinline int fault_done(struct sonde_fault_thread *f, __u32 cls, bool major)
{
	__u64 id = bpf_get_current_pid_tgid(), ns;
	struct sonde_fault_key key = {.tgid = id >> 32};
	struct sonde_fault_sum *sum;

	key.series = sonde_fault_series(cls, f->error & FROM_KERNEL, major);
	sum = sum_of(&key);
	if (sum) {
		ns = fault_account(f, &key, sum, cls, major);
		charge_span(ns);
		if (fault_cfg.by)
			charge_all(f, id, ns);
	}
	f->begin_ns = 0;
	return 0;
}

static __always_inline int fault_end(bool major)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sonde_fault_thread *f = thread_find(task);
	__u32 cls = SONDE_FAULT_OTHER;

	if (!f)
		return 0; /* none of ours, or it began before sonde was attached */
	if (!f->begin_ns && !gate_ready())
		return 0;
	/* The kernel skips a program that a task it preempted is in: counted, but no more is known.
	 */
	if (f->begin_ns)
		cls = fault_class(task, f);
	fault_done(f, cls, major);
	anatomy_fault_end(cls);
	return 0;
}

/* ---- the begin ---- */

/*
 * A begin while a fault is open. The kernel's own counts of this thread's faults, raised where the
 * end is (mm_account_fault()), tell what became of it. Raised: it is over, but the kernel skipped
 * the program at its end (as another one, or a map's update, was under way on that CPU), so it is
 * counted here. Else it never ended: refused (SIGSEGV, EFAULT), or put off for a signal whose
 * handler touched something else first; it is counted when it is taken again. False: this is the
 * same fault, taken again; its clock runs on. A refused access at the same place is not that: the
 * program's SIGSEGV handler ran in between.
 */
static __always_inline bool fault_supersede(struct sonde_fault_thread *f, struct task_struct *task,
					    __u64 address, __u32 error)
{
	bool major = f->maj_flt != (__u32)task->maj_flt;

	if (major || f->min_flt != (__u32)task->min_flt) {
		f->begin_ns = 0;
		fault_done(f, SONDE_FAULT_OTHER, major);
		return true;
	}
	if (f->address == address && !(error & ERROR_PROTECTION))
		return false;
	count_drop(SONDE_LENS_FAULT, SONDE_DROP_UNFINISHED);
	return true;
}

static __always_inline void fault_to_query(struct sonde_anatomy *query, __u64 now)
{
	__u32 zero = 0;
	__u64 *exception = bpf_map_lookup_elem(&fault_exception, &zero);

	if (query)
		anatomy_fault_begin(query, now, exception ? *exception : 0);
}

static __always_inline int fault_begin(__u64 address, __u32 error, __u64 ip, __u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sonde_anatomy *query = NULL;
	struct sonde_fault_thread *f;
	__u64 now = 0;

	if (fault_cfg.count_only)
		return 0;
	if (cfg.anatomy && maybe_ours(task))
		query = anatomy_current();
	if (query)
		now = bpf_ktime_get_ns();
	f = thread_get(task);
	if (!f)
		return 0;
	if (f->begin_ns && !fault_supersede(f, task, address, error))
		return 0;
	f->min_flt = task->min_flt;
	f->maj_flt = task->maj_flt;
	f->address = address;
	f->error = error;
	f->order = 0;
	f->seen = 0;
	if (f->stalled) {
		f->stalled = 0;
		f->stall_ns = f->reclaim_ns = f->compaction_ns = 0;
	}
	if (has_split_counts())
		f->swap_count = split_swap_count(task);
	if (fault_cfg.by) {
		f->ip = ip;
		f->sp = sp;
	}
	f->begin_ns = bpf_ktime_get_ns();
	fault_to_query(query, now);
	return 0;
}

static __always_inline int fault_begin_user(__u64 address, struct pt_regs *regs, __u32 error)
{
	if (!fault_cfg.by)
		return fault_begin(address, error & ~FROM_KERNEL, 0, 0);
	return fault_begin(address, error & ~FROM_KERNEL, PT_REGS_IP_CORE(regs),
			   PT_REGS_SP_CORE(regs));
}

/*
 * With page faults disabled (probe reads, stack walks in an NMI) the handler gives up at once: such
 * an exception is no fault and must not disturb the open one. Neither are faults on kernel
 * addresses.
 */
static __always_inline int fault_begin_kernel(__u64 address, __u32 error)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if ((__s64)address < 0 || task->pagefault_disabled)
		return 0;
	return fault_begin(address, error | FROM_KERNEL, 0, 0);
}

/* Where the end cannot be seen: beginnings only. */
static __always_inline int fault_count(__u64 address)
{
	struct sonde_fault_key key = {};
	struct sonde_fault_sum *sum;
	__u64 id;

	if ((__s64)address < 0 || !gate_current(&id))
		return 0;
	key.tgid = id >> 32;
	key.series = sonde_fault_series(SONDE_FAULT_UNKNOWN, 0, false);
	sum = sum_of(&key);
	if (sum)
		__sync_fetch_and_add(&sum->count, 1);
	return 0;
}

/* The programs, once for typed and once for plain raw tracepoints. */
SEC("?tp_btf/page_fault_user")
int BPF_PROG(fault_user, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	return fault_begin_user(address, regs, error);
}

SEC("?raw_tp/page_fault_user")
int fault_user_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return fault_begin_user(ctx->args[0], (struct pt_regs *)ctx->args[1], ctx->args[2]);
}

SEC("?tp_btf/page_fault_kernel")
int BPF_PROG(fault_kernel, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	return fault_begin_kernel(address, error);
}

SEC("?raw_tp/page_fault_kernel")
int fault_kernel_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return fault_begin_kernel(ctx->args[0], ctx->args[2]);
}

SEC("?tp_btf/mm_page_alloc")
int BPF_PROG(fault_page_alloc, struct page *page, unsigned int order, gfp_t gfp, int migratetype)
{
	return fault_alloc(page, order, gfp);
}

SEC("?raw_tp/mm_page_alloc")
int fault_page_alloc_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return fault_alloc((void *)ctx->args[0], ctx->args[1], ctx->args[2]);
}

SEC("?perf_event")
int fault_end_minor(void *ctx)
{
	return fault_end(false);
}

SEC("?perf_event")
int fault_end_major(void *ctx)
{
	return fault_end(true);
}

SEC("?tp_btf/page_fault_user")
int BPF_PROG(fault_count_user, unsigned long address)
{
	return fault_count(address);
}

SEC("?raw_tp/page_fault_user")
int fault_count_user_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return fault_count(ctx->args[0]);
}
