// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Page faults by size, with their latency and without kprobes. x86 has a tracepoint where a fault
 * begins but none where it ends; the kernel's own fault accounting is the end: mm_account_fault()
 * fires the software event PAGE_FAULTS_MIN or _MAJ as handle_mm_fault() returns, once per completed
 * fault (bce617edecad, "mm: do page fault accounting in handle_mm_fault", 5.9). Between the two,
 * the same thread's mm_page_alloc tells the size.
 *
 * The invariant: a thread has at most one open fault, and only its own programs touch it.
 */
#include "lib/span.bpf.h"
#include "sonde/fault.h"

/* gfp bits, unchanged since 5.0; 6.10 and later have them in BTF as ___GFP_*_BIT. */
#define GFP_HIGHMEM    (1u << 1)
#define GFP_MOVABLE    (1u << 3)
#define GFP_WRITE      (1u << 12)
#define GFP_NOMEMALLOC (1u << 19)
#define GFP_ANON_LARGE (GFP_HIGHMEM | GFP_MOVABLE | GFP_NOMEMALLOC)

#define PMD_ORDER	 9   /* 2 MiB */
#define ERROR_PROTECTION 1ul /* X86_PF_PROT: the page was there, the access was not allowed */

/* Set by the lens before load: the end of faults cannot be seen, so none may be opened. */
const volatile __u32 fault_count_only SEC(".rodata.fault") = 0;

struct fault_open {
	__u64 begin_ns; /* 0: none open */
	__u64 address;
	__u32 order;
	__u32 kernel; /* the exception came from kernel code (copy_to_user and the like) */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct fault_open);
} fault_open SEC(".maps");

/* Preallocated: the programs that fill them run inside perf events. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, SONDE_MAX_TARGETS *SONDE_FAULT_SERIES);
	__type(key, struct sonde_fault_key);
	__type(value, struct sonde_fault_sum);
} fault_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_FAULT_HIST_ENTRIES);
	__type(key, struct sonde_fault_key);
	__type(value, __u64);
} fault_hist SEC(".maps");

static __always_inline int fault_begin(__u64 address, __u64 error, __u32 kernel)
{
	struct task_struct *task;
	struct fault_open *f;
	__u64 id;

	if (fault_count_only || !gate_current(&id))
		return 0;
	task = bpf_get_current_task_btf();
	f = bpf_task_storage_get(&fault_open, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!f) {
		count_drop(SONDE_LENS_FAULT, SONDE_DROP_MAP_FULL);
		return 0;
	}
	if (f->begin_ns) {
		/*
		 * A fault that a signal interrupted returns to user space and is taken again: one
		 * fault, its clock runs on. A refused access at the same place is not that: the
		 * program's SIGSEGV handler ran in between.
		 */
		if (f->address == address && !(error & ERROR_PROTECTION))
			return 0;
		count_drop(SONDE_LENS_FAULT, SONDE_DROP_NO_END);
	}
	f->address = address;
	f->order = 0;
	f->kernel = kernel;
	f->begin_ns = bpf_ktime_get_ns();
	return 0;
}

/*
 * With page faults disabled (probe reads, stack walks in an NMI) the handler gives up at once: such
 * an exception is no fault and must not disturb the open one. Neither are faults on kernel
 * addresses.
 */
static __always_inline int fault_begin_kernel(__u64 address, __u64 error)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if ((__s64)address < 0 || task->pagefault_disabled)
		return 0;
	return fault_begin(address, error, 1);
}

static __always_inline struct fault_open *fault_current(__u64 *id)
{
	struct fault_open *f;

	if (!gate_current(id))
		return NULL;
	f = bpf_task_storage_get(&fault_open, bpf_get_current_task_btf(), 0, 0);
	return f && f->begin_ns ? f : NULL;
}

/*
 * Keep the largest order. Not every large allocation inside a fault is the page: page-cache folios
 * have
 * __GFP_WRITE or lack __GFP_NOMEMALLOC, slabs are not movable; and a failed attempt has no page.
 */
static __always_inline int fault_alloc(void *page, __u32 order, __u32 gfp)
{
	struct fault_open *f;
	__u64 id;

	if (!order || !page || (gfp & GFP_ANON_LARGE) != GFP_ANON_LARGE || (gfp & GFP_WRITE))
		return 0;
	f = fault_current(&id);
	if (f && order > f->order)
		f->order = order;
	return 0;
}

/* The huge page was allocated and given back in the same fault (the memory cgroup refused the
 * charge): what follows is a smaller page. */
static __always_inline int fault_free(__u32 order)
{
	struct fault_open *f;
	__u64 id;

	if (!order)
		return 0;
	f = fault_current(&id);
	if (f && order == f->order)
		f->order = 0;
	return 0;
}

static __always_inline void add_sum(struct sonde_fault_key *key, __u64 ns)
{
	struct sonde_fault_sum *sum = bpf_map_lookup_elem(&fault_sums, key), none = {};

	if (!sum) {
		bpf_map_update_elem(&fault_sums, key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&fault_sums, key);
	}
	if (!sum) {
		count_drop(SONDE_LENS_FAULT, SONDE_DROP_MAP_FULL);
		return;
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->ns, ns);
}

static __always_inline void add_bucket(struct sonde_fault_key *key, __u64 ns)
{
	__u64 *n, none = 0;

	key->bucket = sonde_hist_index(ns);
	n = bpf_map_lookup_elem(&fault_hist, key);
	if (!n) {
		bpf_map_update_elem(&fault_hist, key, &none, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&fault_hist, key);
	}
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		count_drop(SONDE_LENS_FAULT, SONDE_DROP_MAP_FULL);
}

static __always_inline void charge_span(__u64 ns)
{
	struct task_span *s = span_current();

	if (!s)
		return;
	s->faults++;
	s->fault_ns += ns;
}

static __always_inline enum sonde_fault_size size_of(__u32 order)
{
	if (!order)
		return SONDE_FAULT_BASE;
	return order < PMD_ORDER ? SONDE_FAULT_MTHP : SONDE_FAULT_PMD;
}

static __always_inline int fault_end(bool major)
{
	struct sonde_fault_key key = {};
	struct fault_open *f;
	__u64 id, ns;

	if (!gate_current(&id))
		return 0;
	f = bpf_task_storage_get(&fault_open, bpf_get_current_task_btf(), 0, 0);
	if (!f)
		return 0; /* this thread's first: it began before sonde was attached */
	if (!f->begin_ns) {
		count_drop(SONDE_LENS_FAULT, SONDE_DROP_NO_ENTRY);
		return 0;
	}
	ns = bpf_ktime_get_ns() - f->begin_ns;
	f->begin_ns = 0;
	key.tgid = id >> 32;
	key.series = sonde_fault_series(size_of(f->order), f->kernel, major);
	add_sum(&key, ns);
	add_bucket(&key, ns);
	charge_span(ns);
	return 0;
}

/* Where the end cannot be seen: beginnings only. */
static __always_inline int fault_count(__u64 address, __u32 kernel)
{
	struct sonde_fault_key key = {};
	__u64 id;

	if ((__s64)address < 0 || !gate_current(&id))
		return 0;
	key.tgid = id >> 32;
	key.series = sonde_fault_series(SONDE_FAULT_UNKNOWN, kernel, false);
	add_sum(&key, 0);
	return 0;
}

/* The programs, once for typed and once for plain raw tracepoints. */
SEC("?tp_btf/page_fault_user")
int BPF_PROG(fault_user, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	return fault_begin(address, error, 0);
}

SEC("?raw_tp/page_fault_user")
int fault_user_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return fault_begin(ctx->args[0], ctx->args[2], 0);
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

SEC("?tp_btf/mm_page_free")
int BPF_PROG(fault_page_free, struct page *page, unsigned int order)
{
	return fault_free(order);
}

SEC("?raw_tp/mm_page_free")
int fault_page_free_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return fault_free(ctx->args[1]);
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
	return fault_count(address, 0);
}

SEC("?raw_tp/page_fault_user")
int fault_count_user_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return fault_count(ctx->args[0], 0);
}
