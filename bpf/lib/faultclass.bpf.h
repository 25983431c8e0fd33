/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 2: what a page fault did. In this order, each exact where it answers: a zeroed page was
 * allocated (only new anonymous pages are asked for with __GFP_ZERO; tests/bpf/fault.bats counts
 * each kind); a swap entry went; a large folio of anonymous memory was allocated; the page was
 * there and the access a write: a copy if a page was allocated, else none. What is left depends on
 * the mapping, which is looked up then only, for it takes longer than all the rest. What cannot be
 * told is of class "other".
 */
#ifndef SONDE_BPF_FAULTCLASS_H
#define SONDE_BPF_FAULTCLASS_H

#include "lib/base.bpf.h"
#include "sonde/fault.h"

/* gfp bits, unchanged since 5.0; 6.10 and later have them in BTF as ___GFP_*_BIT. */
#define GFP_HIGHMEM    (1u << 1)
#define GFP_MOVABLE    (1u << 3)
#define GFP_ZERO       (1u << 8)
#define GFP_WRITE      (1u << 12)
#define GFP_NOMEMALLOC (1u << 19)
#define GFP_ANON       (GFP_HIGHMEM | GFP_MOVABLE)
#define GFP_ANON_LARGE (GFP_ANON | GFP_NOMEMALLOC)

#define PMD_ORDER 9 /* 2 MiB */

/* The exception's error code (Intel's manual, "Page-Fault Exception"): bits 0 to 15. */
#define ERROR_PROTECTION (1u << 0) /* the page was there, the access was not allowed */
#define ERROR_WRITE	 (1u << 1)
/* Ours, beside it: from kernel code (copy_to_user and the like). */
#define FROM_KERNEL (1u << 31)

#define MM_SWAPENTS   2		 /* enum of include/linux/mm_types_task.h, since 4.5 */
#define MAP_SHARED_VM 0x8ul	 /* VM_SHARED  */
#define MAP_HUGETLB   0x400000ul /* VM_HUGETLB */
#define TMPFS_MAGIC   0x01021994ul

enum fault_seen {
	SEEN_ZEROED = 1, /* a page was allocated, all zero      */
	SEEN_PAGE = 2,	 /* a page was allocated, to be filled  */
	SEEN_SWAP = 4,	 /* the process has a swap entry less   */
};

/* Set by the lens before load. */
const volatile struct sonde_fault_config fault_cfg SEC(".rodata.fault") = {};

/* ---- up to 6.1: a task's own counts (SPLIT_RSS_COUNTING) ---- */

#define SPLIT_THRESHOLD 64 /* TASK_RSS_EVENTS_THRESH of mm/memory.c */

static __always_inline bool has_split_counts(void)
{
	return bpf_core_field_exists(((struct task_struct___v6_1 *)0)->rss_stat);
}

static __always_inline __u32 split_swap_count(struct task_struct *task)
{
	return BPF_CORE_READ((struct task_struct___v6_1 *)task, rss_stat.count[MM_SWAPENTS]);
}

static __always_inline bool split_is_due(struct task_struct *task)
{
	return BPF_CORE_READ((struct task_struct___v6_1 *)task, rss_stat.events) > SPLIT_THRESHOLD;
}

static __always_inline bool is_swap_in(struct task_struct *task, const struct sonde_fault_thread *f)
{
	if (has_split_counts())
		return split_swap_count(task) != f->swap_count;
	return f->seen & SEEN_SWAP;
}

/* ---- what the mapping is ---- */

enum fault_mapping {
	MAPPING_OTHER,
	MAPPING_ANON,
	MAPPING_FILE,
	MAPPING_SHMEM,
	MAPPING_HUGETLB,
	MAPPING_IS_SHARED = 8, /* beside one of these: MAP_SHARED */
};

/* ---- the mapping of an address ---- */

/* A maple tree's nodes: the number's low bits carry the type (lib/maple_tree.c). */
#define MAPLE_MASK    0xfful
#define MAPLE_TYPE(e) ((__u32)((e) >> 3) & 0xf)
#define MAPLE_DEPTH   8
enum { MAPLE_LEAF = 1, MAPLE_RANGE, MAPLE_ARANGE };

/*
 * A typed view of kernel memory that may be anything: a load that faults gives 0. Since 6.2
 * (a35b9af4ec2c); before it each field is a call of bpf_probe_read_kernel(), and a search costs
 * 0.35 us instead of 0.07.
 */
extern void *bpf_rdonly_cast(void *obj, __u32 btf_id) __ksym __weak;
#define PEEK(ptr, type, field)                                                                     \
	(fault_cfg.cast ? ((struct type *)bpf_rdonly_cast((void *)(ptr),                           \
							  bpf_core_type_id_kernel(struct type)))   \
				  ->field                                                          \
			: BPF_CORE_READ((struct type *)(ptr), field))

/*
 * The slot of a node whose range holds @address. Slot i is for addresses up to pivot i; a pivot of
 * 0 is past the end, as the kernel's own search has it. Constant indexes only: a typed view has no
 * others.
 */
#define MAPLE_SEARCH(name, type, pivots)                                                           \
	static __always_inline __u64 name(__u64 node, __u64 address)                               \
	{                                                                                          \
		_Pragma("unroll") for (int i = 0; i < pivots; i++)                                 \
		{                                                                                  \
			__u64 pivot = PEEK(node, type, pivot[i]);                                  \
                                                                                                   \
			if (address <= pivot || (i && !pivot))                                     \
				return (__u64)PEEK(node, type, slot[i]);                           \
		}                                                                                  \
		return (__u64)PEEK(node, type, slot[pivots]);                                      \
	}
MAPLE_SEARCH(maple_search, maple_range_64, 15)
MAPLE_SEARCH(maple_search_gaps, maple_arange_64, 9)

/*
 * The mapping that holds @address, or NULL. Read without a lock: the mapping of a fault is kept in
 * place by the fault itself, the tree's nodes are freed by RCU, and the answer is checked.
 * bpf_find_vma() would take mmap_lock, and on 6.18 costs 13 us here: interrupts are off, so it has
 * to ask for one of its own to give the lock back.
 */
static __always_inline struct vm_area_struct *find_mapping(struct mm_struct *mm, __u64 address)
{
	__u64 entry = (__u64)mm->mm_mt.ma_root;
	struct vm_area_struct *vma;

	for (int depth = 0; depth < MAPLE_DEPTH; depth++) {
		__u32 type = MAPLE_TYPE(entry);
		__u64 node = entry & ~MAPLE_MASK;

		if (!node || type < MAPLE_LEAF || type > MAPLE_ARANGE)
			return NULL;
		entry = type == MAPLE_ARANGE ? maple_search_gaps(node, address)
					     : maple_search(node, address);
		if (type == MAPLE_LEAF)
			break;
	}
	vma = (struct vm_area_struct *)entry;
	if (!vma || PEEK(vma, vm_area_struct, vm_mm) != mm ||
	    address < PEEK(vma, vm_area_struct, vm_start) ||
	    address >= PEEK(vma, vm_area_struct, vm_end))
		return NULL;
	return vma;
}

static __always_inline __u64 magic_of(struct file *file)
{
	struct inode *inode = PEEK(file, file, f_inode);
	struct super_block *sb = PEEK(inode, inode, i_sb);

	return PEEK(sb, super_block, s_magic);
}

static __noinline __u32 mapping_of(struct mm_struct *mm, __u64 address)
{
	struct vm_area_struct *vma = find_mapping(mm, address);
	struct file *file;
	__u64 flags;
	__u32 shared;

	if (!vma)
		return MAPPING_OTHER;
	flags = PEEK(vma, vm_area_struct, vm_flags);
	file = PEEK(vma, vm_area_struct, vm_file);
	shared = flags & MAP_SHARED_VM ? MAPPING_IS_SHARED : 0;
	if (flags & MAP_HUGETLB)
		return MAPPING_HUGETLB | shared;
	if (file)
		return (magic_of(file) == TMPFS_MAGIC ? MAPPING_SHMEM : MAPPING_FILE) | shared;
	/* The kernel's own driver mappings ([vvar] and the like) have operations but no file. */
	return PEEK(vma, vm_area_struct, vm_ops) ? MAPPING_OTHER : MAPPING_ANON;
}

static __always_inline __u32 fault_mapping(struct task_struct *task, __u64 address)
{
	if (!bpf_core_field_exists(task->mm->mm_mt) || !task->mm)
		return MAPPING_OTHER;
	return mapping_of(task->mm, address);
}

/* The mapping of @address as it is now, for whom it is charged to. */
static __noinline int mapping_read(struct mm_struct *mm, __u64 address,
				   struct sonde_fault_by_sum *to)
{
	struct vm_area_struct *vma = find_mapping(mm, address);
	struct super_block *sb;
	struct inode *inode;
	struct file *file;

	if (!vma || !to)
		return 0;
	to->start = PEEK(vma, vm_area_struct, vm_start);
	to->end = PEEK(vma, vm_area_struct, vm_end);
	to->own = to->sp >= to->start && to->sp < to->end;
	file = PEEK(vma, vm_area_struct, vm_file);
	if (!file)
		return 0;
	inode = PEEK(file, file, f_inode);
	to->is_file = 1;
	to->inode = PEEK(inode, inode, i_ino);
	sb = PEEK(inode, inode, i_sb);
	to->dev = PEEK(sb, super_block, s_dev);
	return 0;
}

static __always_inline enum sonde_fault_class fault_by_mapping(struct task_struct *task,
							       const struct sonde_fault_thread *f)
{
	__u32 mapping = fault_mapping(task, f->address);
	bool write = f->error & ERROR_WRITE;

	switch (mapping & ~MAPPING_IS_SHARED) {
	case MAPPING_HUGETLB:
		return SONDE_FAULT_HUGETLB;
	case MAPPING_SHMEM:
	case MAPPING_FILE:
		if (write && !(mapping & MAPPING_IS_SHARED))
			return SONDE_FAULT_COW;
		return (mapping & ~MAPPING_IS_SHARED) == MAPPING_SHMEM ? SONDE_FAULT_SHMEM
								       : SONDE_FAULT_FILE;
	case MAPPING_ANON:
		/* Filled from elsewhere, and there was no swap at attach. */
		if (f->seen & SEEN_PAGE)
			return SONDE_FAULT_SWAP;
		return write ? SONDE_FAULT_OTHER : SONDE_FAULT_ZERO;
	}
	return SONDE_FAULT_OTHER;
}

/* A large folio is anonymous memory's unless the mapping says that it is tmpfs's. */
static __always_inline enum sonde_fault_class fault_by_order(struct task_struct *task,
							     const struct sonde_fault_thread *f)
{
	if ((fault_mapping(task, f->address) & ~MAPPING_IS_SHARED) == MAPPING_SHMEM)
		return SONDE_FAULT_SHMEM;
	return f->order < PMD_ORDER ? SONDE_FAULT_MTHP_8K + f->order - 1 : SONDE_FAULT_PMD;
}

static __always_inline enum sonde_fault_class fault_class(struct task_struct *task,
							  const struct sonde_fault_thread *f)
{
	if (!f->order && f->seen & SEEN_ZEROED)
		return SONDE_FAULT_BASE;
	if (is_swap_in(task, f))
		return SONDE_FAULT_SWAP;
	if (f->order)
		return fault_by_order(task, f);
	if (f->error & ERROR_PROTECTION) {
		if (!(f->error & ERROR_WRITE))
			return SONDE_FAULT_OTHER;
		return f->seen & SEEN_PAGE ? SONDE_FAULT_COW : SONDE_FAULT_IN_PLACE;
	}
	return fault_by_mapping(task, f);
}

#endif
