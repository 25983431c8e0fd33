// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What huge pages do to a process: khugepaged's work on it, purges that split huge pages, and the
 * stalls that requests for huge pages cause. Where a tracepoint's arguments changed over time there
 * is one program a layout, and user space takes the one that fits this kernel's types: one program
 * that picks an argument by a variable index is refused by the verifier ("dereference of modified
 * ctx ptr").
 *
 * The invariant: work that khugepaged does is charged to the owner of the address space; what runs
 * in a thread of a target is charged to that target.
 */
#include "lib/filter.bpf.h"
#include "sonde/thp.h"

/* gfp bits, unchanged since 5.0; 6.10 and later have them in BTF as ___GFP_*_BIT. */
#define GFP_WRITE      (1u << 12)
#define GFP_NOMEMALLOC (1u << 19)

#define PMD_ORDER     9
#define PMD_BYTES     (2ul << 20)
#define PAGE_BYTES    4096ul
#define KTHREAD	      0x00200000u  /* PF_KTHREAD */
#define NO_HUGE_PAGES 0x40000000ul /* VM_NOHUGEPAGE */

#define MADV_DONTNEED	     4
#define MADV_FREE	     8
#define MADV_DONTNEED_LOCKED 24
#define ERR_NO_ENTRY	     2

/* Set by the lens before load: this kernel's mm_struct does not say who owns it. */
const volatile __u32 thp_no_owner SEC(".rodata.thp") = 0;

/* Per-CPU and preallocated: khugepaged and the targets' threads fill it in any context. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, SONDE_THP_SUMS);
	__type(key, struct sonde_thp_key);
	__type(value, struct sonde_thp_sum);
} thp_sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_THP_HIST_ENTRIES);
	__type(key, struct sonde_thp_key);
	__type(value, __u64);
} thp_hist SEC(".maps");

/* Address spaces of targets: whose is it, and which has it? Learned, for kernels without owners. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_MAX_TARGETS);
	__type(key, __u64);
	__type(value, __u32);
} thp_spaces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_MAX_TARGETS);
	__type(key, __u32);
	__type(value, __u64);
} thp_space_of SEC(".maps");

/*
 * What a thread is in the middle of, by thread and kind (a stall, or a collapse). Preallocated, for
 * this is memory pressure; LRU, for compaction has no last event after which to delete.
 */
struct thp_open {
	__u64 ns; /* a stall's begin; a collapse's empty pages */
	__u32 huge;
	__u32 pad;
};

#define OPEN_COLLAPSE SONDE_THP__STALLS

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, struct thp_open);
} thp_open SEC(".maps");

static __always_inline __u64 open_key(__u32 kind)
{
	return (__u64)kind << 32 | (__u32)bpf_get_current_pid_tgid();
}

static __always_inline void add(__u32 tgid, __u32 what, __u32 arg, __u64 count, __u64 amount)
{
	struct sonde_thp_key key = {tgid, what, arg};
	struct sonde_thp_sum *sum = bpf_map_lookup_elem(&thp_sums, &key), none = {};

	if (!sum) {
		bpf_map_update_elem(&thp_sums, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&thp_sums, &key);
	}
	if (!sum) {
		count_drop(SONDE_LENS_THP, SONDE_DROP_MAP_FULL);
		return;
	}
	__sync_fetch_and_add(&sum->count, count);
	__sync_fetch_and_add(&sum->amount, amount);
}

static __always_inline void add_bucket(__u32 tgid, __u32 series, __u64 ns)
{
	struct sonde_thp_key key = {tgid, series, sonde_hist_index(ns)};
	__u64 *n = bpf_map_lookup_elem(&thp_hist, &key), none = 0;

	if (!n) {
		bpf_map_update_elem(&thp_hist, &key, &none, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&thp_hist, &key);
	}
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		count_drop(SONDE_LENS_THP, SONDE_DROP_MAP_FULL);
}

/* ---- whose address space is it ---- */

static __always_inline bool is_target(__u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid) != NULL;
}

static __always_inline void space_forget(__u32 tgid)
{
	__u64 *mm = bpf_map_lookup_elem(&thp_space_of, &tgid), key;

	if (!mm)
		return;
	key = *mm;
	bpf_map_delete_elem(&thp_spaces, &key);
	bpf_map_delete_elem(&thp_space_of, &tgid);
}

static __always_inline void space_learn(__u32 tgid, __u64 mm)
{
	space_forget(tgid);
	if (!mm)
		return;
	if (bpf_map_update_elem(&thp_spaces, &mm, &tgid, BPF_ANY) ||
	    bpf_map_update_elem(&thp_space_of, &tgid, &mm, BPF_ANY))
		count_drop(SONDE_LENS_THP, SONDE_DROP_MAP_FULL);
}

/* The target that owns @mm, or 0. */
static __always_inline __u32 space_owner(struct mm_struct *mm)
{
	__u64 key = (__u64)mm;
	__u32 *known, tgid;

	if (!gate_ready())
		return 0;
	known = bpf_map_lookup_elem(&thp_spaces, &key);
	tgid = known ? *known : 0;
	if (!known && !thp_no_owner && bpf_core_field_exists(mm->owner))
		tgid = BPF_CORE_READ(mm, owner, tgid);
	return tgid && is_target(tgid) ? tgid : 0;
}

/* ---- khugepaged, and MADV_COLLAPSE ---- */

static __always_inline __u32 by_whom(__u32 owner)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	if (bpf_get_current_pid_tgid() >> 32 == owner)
		return SONDE_THP_SELF;
	return BPF_CORE_READ(task, flags) & KTHREAD ? SONDE_THP_KHUGEPAGED : SONDE_THP_OTHER;
}

static __always_inline int scanned(__u64 mm, __u64 result, __u32 kind)
{
	__u32 tgid = space_owner((struct mm_struct *)mm);

	if (tgid)
		add(tgid, SONDE_THP_SCAN, SONDE_THP_RESULT(result, by_whom(tgid), kind), 1, 0);
	return 0;
}

static __always_inline int collapsed(__u64 mm, __u64 result, __u32 kind, __u64 empty)
{
	__u32 tgid = space_owner((struct mm_struct *)mm);

	if (tgid)
		add(tgid, SONDE_THP_COLLAPSE, SONDE_THP_RESULT(result, by_whom(tgid), kind), 1,
		    (__u32)result == SONDE_THP_SUCCEED ? empty * PAGE_BYTES : 0);
	return 0;
}

/* mm, page, writable, referenced, none_or_zero, status, unmapped: up to 6.17 */
SEC("?raw_tp/mm_khugepaged_scan_pmd")
int thp_scan_7(struct bpf_raw_tracepoint_args *ctx)
{
	return scanned(ctx->args[0], ctx->args[5], SONDE_THP_ANON);
}

/* mm, folio or pfn, referenced, none_or_zero, status, unmapped */
SEC("?raw_tp/mm_khugepaged_scan_pmd")
int thp_scan_6(struct bpf_raw_tracepoint_args *ctx)
{
	return scanned(ctx->args[0], ctx->args[4], SONDE_THP_ANON);
}

/* mm, page or folio or pfn, file, present, swap, result */
SEC("?raw_tp/mm_khugepaged_scan_file")
int thp_scan_file(struct bpf_raw_tracepoint_args *ctx)
{
	return scanned(ctx->args[0], ctx->args[5], SONDE_THP_FILE);
}

/*
 * How many of the 512 pages are empty, counted under the locks of the collapse that follows in this
 * thread: page or folio or pfn, none_or_zero, ... The scan's own number is older.
 */
SEC("?raw_tp/mm_collapse_huge_page_isolate")
int thp_isolate(struct bpf_raw_tracepoint_args *ctx)
{
	struct thp_open open = {.ns = (__u32)ctx->args[1]};
	__u64 key = open_key(OPEN_COLLAPSE);

	if (gate_ready())
		bpf_map_update_elem(&thp_open, &key, &open, BPF_ANY);
	return 0;
}

/* mm, isolated, status[, order] */
SEC("?raw_tp/mm_collapse_huge_page")
int thp_collapse(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 key = open_key(OPEN_COLLAPSE);
	struct thp_open *open = bpf_map_lookup_elem(&thp_open, &key);

	collapsed(ctx->args[0], ctx->args[2], SONDE_THP_ANON, open ? open->ns : 0);
	bpf_map_delete_elem(&thp_open, &key);
	return 0;
}

static __always_inline int collapsed_file(__u64 mm, bool shmem, __u64 result)
{
	return collapsed(mm, result, shmem ? SONDE_THP_SHMEM : SONDE_THP_FILE, 0);
}

/* mm, page, index, is_shmem, addr, file, nr, result */
SEC("?raw_tp/mm_khugepaged_collapse_file")
int thp_collapse_file_3(struct bpf_raw_tracepoint_args *ctx)
{
	return collapsed_file(ctx->args[0], ctx->args[3] & 1, ctx->args[7]);
}

/* mm, folio, index, addr, is_shmem, file, nr, result */
SEC("?raw_tp/mm_khugepaged_collapse_file")
int thp_collapse_file_4(struct bpf_raw_tracepoint_args *ctx)
{
	return collapsed_file(ctx->args[0], ctx->args[4] & 1, ctx->args[7]);
}

/* ---- purges ---- */

struct purge_edge {
	__u64 from;
	bool whole; /* 2 MiB around the edge are one mapping that may have huge pages */
};

static long purge_vma(struct task_struct *task, struct vm_area_struct *vma, struct purge_edge *e)
{
	e->whole = vma->vm_start <= e->from && vma->vm_end >= e->from + PMD_BYTES &&
		   !(vma->vm_flags & NO_HUGE_PAGES);
	return 0;
}

/*
 * Can the cut at @addr go through a huge page? What cannot be asked (the address space is locked by
 * another thread just now) may.
 */
static __always_inline bool cuts(__u64 addr, bool ask)
{
	struct purge_edge e = {.from = addr & ~(PMD_BYTES - 1)};
	long err;

	if (addr == e.from)
		return false;
	if (!ask)
		return true;
	err = bpf_find_vma(bpf_get_current_task_btf(), addr, purge_vma, &e, 0);
	return e.whole || (err && err != -ERR_NO_ENTRY);
}

static __always_inline void purged(__u32 tgid, __u32 how, __u64 start, __u64 len, bool ask)
{
	__u64 end = (start + len + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);

	if (!len || end <= start)
		return;
	add(tgid, SONDE_THP_PURGE, how, 1, end - start);
	if (cuts(start, ask) || cuts(end, ask))
		add(tgid, SONDE_THP_MAY_SPLIT, how, 1, 0);
}

static __always_inline int madvised(struct trace_event_raw_sys_enter *ctx, bool ask)
{
	__u64 id;

	switch ((__u32)ctx->args[2]) {
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
		if (gate_current(&id))
			purged(id >> 32, SONDE_THP_DONTNEED, ctx->args[0], ctx->args[1], ask);
		return 0;
	case MADV_FREE:
		if (gate_current(&id))
			purged(id >> 32, SONDE_THP_FREE, ctx->args[0], ctx->args[1], ask);
		return 0;
	}
	return 0;
}

static __always_inline int unmapped(struct trace_event_raw_sys_enter *ctx, bool ask)
{
	__u64 id;

	if (gate_current(&id))
		purged(id >> 32, SONDE_THP_MUNMAP, ctx->args[0], ctx->args[1], ask);
	return 0;
}

/* Address, old length, new length: only what shrinks gives memory back. */
static __always_inline int remapped(struct trace_event_raw_sys_enter *ctx, bool ask)
{
	__u64 was = ctx->args[1], now = ctx->args[2], id;

	now = (now + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	if (now && now < was && gate_current(&id))
		purged(id >> 32, SONDE_THP_MREMAP, ctx->args[0] + now, was - now, ask);
	return 0;
}

static __always_inline int moved_brk(struct trace_event_raw_sys_enter *ctx, bool ask)
{
	__u64 to = (ctx->args[0] + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1), id, brk;
	struct mm_struct *mm;

	if (!ctx->args[0] || !gate_current(&id))
		return 0;
	mm = bpf_get_current_task_btf()->mm;
	if (!mm || to < mm->start_brk)
		return 0;
	brk = mm->brk;
	if (to < brk)
		purged(id >> 32, SONDE_THP_BRK, to, brk - to, ask);
	return 0;
}

/* Twice: with and without bpf_find_vma(). A fixed `ask` lets the compiler take the call out. */
#define PURGE(name, call, fn)                                                                      \
	SEC("?tracepoint/syscalls/sys_enter_" #call)                                               \
	int thp_##name(struct trace_event_raw_sys_enter *ctx)                                      \
	{                                                                                          \
		return fn(ctx, true);                                                              \
	}                                                                                          \
	SEC("?tracepoint/syscalls/sys_enter_" #call)                                               \
	int thp_##name##_plain(struct trace_event_raw_sys_enter *ctx)                              \
	{                                                                                          \
		return fn(ctx, false);                                                             \
	}
PURGE(madvise, madvise, madvised)
PURGE(munmap, munmap, unmapped)
PURGE(mremap, mremap, remapped)
PURGE(brk, brk, moved_brk)
#undef PURGE

/* ---- stalls ---- */

static __always_inline int stall_begin(__u32 kind, __u32 order, bool large)
{
	struct thp_open open = {.huge = large || order >= PMD_ORDER};
	__u64 key, id;

	if (!gate_current(&id))
		return 0;
	key = open_key(kind);
	open.ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&thp_open, &key, &open, BPF_ANY))
		count_drop(SONDE_LENS_THP, SONDE_DROP_MAP_FULL);
	return 0;
}

static __always_inline int stall_end(__u32 kind)
{
	struct thp_open *open;
	__u64 key, id, ns;
	__u32 series;

	if (!gate_current(&id))
		return 0;
	key = open_key(kind);
	open = bpf_map_lookup_elem(&thp_open, &key);
	if (!open) {
		count_drop(SONDE_LENS_THP, SONDE_DROP_NO_ENTRY);
		return 0;
	}
	ns = bpf_ktime_get_ns() - open->ns;
	series = sonde_thp_stall_series(kind, open->huge);
	bpf_map_delete_elem(&thp_open, &key);
	add(id >> 32, SONDE_THP_STALL, series, 1, ns);
	add_bucket(id >> 32, series, ns);
	return 0;
}

/* order, gfp */
SEC("?raw_tp/mm_vmscan_direct_reclaim_begin")
int thp_reclaim_order(struct bpf_raw_tracepoint_args *ctx)
{
	return stall_begin(SONDE_THP_RECLAIM, ctx->args[0], false);
}

/* gfp, order */
SEC("?raw_tp/mm_vmscan_direct_reclaim_begin")
int thp_reclaim_gfp(struct bpf_raw_tracepoint_args *ctx)
{
	return stall_begin(SONDE_THP_RECLAIM, ctx->args[1], false);
}

SEC("?raw_tp/mm_vmscan_direct_reclaim_end")
int thp_reclaim_end(void *ctx)
{
	return stall_end(SONDE_THP_RECLAIM);
}

/*
 * Reclaim for a cgroup's limit has order 0 whatever page is to be charged, but keeps the page's
 * gfp:
 * __GFP_NOMEMALLOC says that it is a large one (GFP_TRANSHUGE_LIGHT has it, GFP_HIGHUSER not).
 */
SEC("?raw_tp/mm_vmscan_memcg_reclaim_begin")
int thp_memcg_order(struct bpf_raw_tracepoint_args *ctx)
{
	return stall_begin(SONDE_THP_MEMCG_RECLAIM, ctx->args[0], ctx->args[1] & GFP_NOMEMALLOC);
}

SEC("?raw_tp/mm_vmscan_memcg_reclaim_begin")
int thp_memcg_gfp(struct bpf_raw_tracepoint_args *ctx)
{
	return stall_begin(SONDE_THP_MEMCG_RECLAIM, ctx->args[1], ctx->args[0] & GFP_NOMEMALLOC);
}

SEC("?raw_tp/mm_vmscan_memcg_reclaim_end")
int thp_memcg_end(void *ctx)
{
	return stall_end(SONDE_THP_MEMCG_RECLAIM);
}

/*
 * Direct compaction: the order comes once, then each zone begins and ends. A zone without an order
 * before it (somebody wrote to vm/compact_memory) is none of ours.
 */
SEC("?raw_tp/mm_compaction_try_to_compact_pages")
int thp_compact(struct bpf_raw_tracepoint_args *ctx)
{
	return stall_begin(SONDE_THP_COMPACTION, ctx->args[0], false);
}

SEC("?raw_tp/mm_compaction_begin")
int thp_compact_begin(void *ctx)
{
	struct thp_open *open;
	__u64 key, id;

	if (!gate_current(&id))
		return 0;
	key = open_key(SONDE_THP_COMPACTION);
	open = bpf_map_lookup_elem(&thp_open, &key);
	if (open)
		open->ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?raw_tp/mm_compaction_end")
int thp_compact_end(void *ctx)
{
	struct thp_open *open;
	__u64 key, id, ns;
	__u32 series;

	if (!gate_current(&id))
		return 0;
	key = open_key(SONDE_THP_COMPACTION);
	open = bpf_map_lookup_elem(&thp_open, &key);
	if (!open)
		return 0;
	ns = bpf_ktime_get_ns() - open->ns;
	series = sonde_thp_stall_series(SONDE_THP_COMPACTION, open->huge);
	add(id >> 32, SONDE_THP_STALL, series, 1, ns);
	add_bucket(id >> 32, series, ns);
	return 0;
}

/* ---- migrations and fall-backs ---- */

/* Pages that a target's thread moved, whosever they are; kcompactd's for the system as a whole. */
static __always_inline int migrated(__u64 moved, __u64 failed, __u64 reason)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u64 id;

	if (gate_current(&id))
		add(id >> 32, SONDE_THP_MIGRATE, reason, moved, failed);
	else if (gate_ready() && BPF_CORE_READ(task, flags) & KTHREAD)
		add(0, SONDE_THP_MIGRATE, reason, moved, failed);
	return 0;
}

/* moved, failed, ..., mode, reason: five or six numbers before the mode */
SEC("?raw_tp/mm_migrate_pages")
int thp_migrate_6(struct bpf_raw_tracepoint_args *ctx)
{
	return migrated(ctx->args[0], ctx->args[1], (__u32)ctx->args[6]);
}

SEC("?raw_tp/mm_migrate_pages")
int thp_migrate_7(struct bpf_raw_tracepoint_args *ctx)
{
	return migrated(ctx->args[0], ctx->args[1], (__u32)ctx->args[7]);
}

/* Anonymous memory only: page-cache folios of order 9 are asked for with __GFP_WRITE or without
 * __GFP_NOMEMALLOC. */
static __always_inline int allocated(__u64 page, __u32 order, __u32 gfp)
{
	__u64 id;

	if (order != PMD_ORDER || page || !(gfp & GFP_NOMEMALLOC) || gfp & GFP_WRITE)
		return 0;
	if (gate_current(&id))
		add(id >> 32, SONDE_THP_ALLOC_FAILED, 0, 1, 0);
	return 0;
}

SEC("?tp_btf/mm_page_alloc")
int BPF_PROG(thp_page_alloc, struct page *page, unsigned int order, gfp_t gfp)
{
	return allocated((__u64)page, order, gfp);
}

SEC("?raw_tp/mm_page_alloc")
int thp_page_alloc_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return allocated(ctx->args[0], ctx->args[1], ctx->args[2]);
}

/* ---- which address space a target has ---- */

SEC("?iter/task")
int thp_seed(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task && task->mm && is_target(task->tgid))
		space_learn(task->tgid, (__u64)task->mm);
	return 0;
}

SEC("?raw_tp/sched_process_exec")
int thp_exec(void *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (is_target(tgid))
		space_learn(tgid, (__u64)BPF_CORE_READ(task, mm));
	return 0;
}

/* The last thread: what follows may get the same address for another process. */
SEC("?raw_tp/sched_process_exit")
int thp_exit(void *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();

	if (!BPF_CORE_READ(task, signal, live.counter))
		space_forget(bpf_get_current_pid_tgid() >> 32);
	return 0;
}
