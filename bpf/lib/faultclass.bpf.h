/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 2: a thread's open page fault, and what it did. In this order, each exact where it answers:
 * a large folio of anonymous memory was allocated; a zeroed page was (only new anonymous pages are
 * asked for with __GFP_ZERO; tests/bpf/fault.bats counts each kind); the page was there and the
 * access a write: a copy if a page was allocated, else none; a swap entry went. What is left
 * depends on the mapping, which is looked up then only, since that takes mmap_lock for a moment;
 * when a writer has it, the fault is of class "other".
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

/* The exception's error code (Intel's manual, "Page-Fault Exception"); bits 0 to 15 are taken. */
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

struct fault_thread {
	__u64 begin_ns; /* 0: none open */
	__u64 address, ip, sp;
	__u64 stall_ns; /* the stall that goes on began then; 0: none does */
	__u64 reclaim_ns, compaction_ns;
	__u64 typical_ns; /* of a plain fault, of late */
	__u32 error, order;
	__u32 turn;
	__u8 seen, stalled;
	__u8 pad[2];
};

enum fault_mapping { MAPPING_OTHER, MAPPING_ANON, MAPPING_FILE, MAPPING_SHMEM, MAPPING_HUGETLB };

struct fault_vma {
	__u32 mapping, shared;
};

/* The kernel's own driver mappings ([vvar] and the like) have operations but no file. */
static long fault_vma(struct task_struct *task, struct vm_area_struct *vma, struct fault_vma *out)
{
	struct file *file = vma->vm_file;

	out->shared = !!(vma->vm_flags & MAP_SHARED_VM);
	if (vma->vm_flags & MAP_HUGETLB)
		out->mapping = MAPPING_HUGETLB;
	else if (file)
		out->mapping =
			file->f_inode->i_sb->s_magic == TMPFS_MAGIC ? MAPPING_SHMEM : MAPPING_FILE;
	else
		out->mapping = vma->vm_ops ? MAPPING_OTHER : MAPPING_ANON;
	return 0;
}

static __always_inline enum sonde_fault_class fault_by_mapping(struct task_struct *task,
							       const struct fault_thread *f)
{
	struct fault_vma v = {};
	bool write = f->error & ERROR_WRITE;

	bpf_find_vma(task, f->address, fault_vma, &v, 0);
	switch (v.mapping) {
	case MAPPING_HUGETLB:
		return SONDE_FAULT_HUGETLB;
	case MAPPING_SHMEM:
	case MAPPING_FILE:
		if (write && !v.shared)
			return SONDE_FAULT_COW;
		return v.mapping == MAPPING_SHMEM ? SONDE_FAULT_SHMEM : SONDE_FAULT_FILE;
	case MAPPING_ANON:
		/* A page that is filled from elsewhere: before 6.2 rss_stat does not tell of each.
		 */
		if (f->seen & SEEN_PAGE)
			return SONDE_FAULT_SWAP;
		return write ? SONDE_FAULT_OTHER : SONDE_FAULT_ZERO;
	}
	return SONDE_FAULT_OTHER;
}

/* A large folio is anonymous memory's unless the mapping says that it is tmpfs's. */
static __always_inline enum sonde_fault_class fault_by_order(struct task_struct *task,
							     const struct fault_thread *f, bool ask)
{
	struct fault_vma v = {};

	if (ask && !bpf_find_vma(task, f->address, fault_vma, &v, 0) && v.mapping == MAPPING_SHMEM)
		return SONDE_FAULT_SHMEM;
	return f->order < PMD_ORDER ? SONDE_FAULT_MTHP_8K + f->order - 1 : SONDE_FAULT_PMD;
}

static __always_inline enum sonde_fault_class fault_class(struct task_struct *task,
							  const struct fault_thread *f, bool ask)
{
	if (f->seen & SEEN_SWAP)
		return SONDE_FAULT_SWAP;
	if (f->order)
		return fault_by_order(task, f, ask);
	if (f->seen & SEEN_ZEROED)
		return SONDE_FAULT_BASE;
	if (f->error & ERROR_PROTECTION) {
		if (!(f->error & ERROR_WRITE))
			return SONDE_FAULT_OTHER;
		return f->seen & SEEN_PAGE ? SONDE_FAULT_COW : SONDE_FAULT_IN_PLACE;
	}
	return ask ? fault_by_mapping(task, f) : SONDE_FAULT_OTHER;
}

#endif
