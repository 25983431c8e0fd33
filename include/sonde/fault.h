/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fault lens's two sides share: the series that a fault belongs to and the map records. A
 * series is (what the fault did, where the exception came from, minor or major).
 */
#ifndef SONDE_FAULT_H
#define SONDE_FAULT_H

#include "event.h"

/* clang-format off */
/*        id  symbol   name          what the fault did                              */
#define SONDE_FAULT_CLASSES(X)                                                         \
	X(0, BASE, "base")	     /* gave a new page of 4 KiB, all zero           */ \
	X(1, MTHP_8K, "mthp_8kB")    /* a new folio: MTHP_8K + order - 1             */ \
	X(2, MTHP_16K, "mthp_16kB")                                                    \
	X(3, MTHP_32K, "mthp_32kB")                                                    \
	X(4, MTHP_64K, "mthp_64kB")                                                    \
	X(5, MTHP_128K, "mthp_128kB")                                                  \
	X(6, MTHP_256K, "mthp_256kB")                                                  \
	X(7, MTHP_512K, "mthp_512kB")                                                  \
	X(8, MTHP_1M, "mthp_1024kB")                                                   \
	X(9, PMD, "pmd")	     /* 2 MiB                                        */ \
	X(10, ZERO, "zero")	     /* read: mapped the zero page, 4 KiB or 2 MiB   */ \
	X(11, COW, "cow")	     /* write: copied a page that is shared          */ \
	X(12, IN_PLACE, "in_place")  /* write: made a page writable, no copy         */ \
	X(13, SWAP, "swap")	     /* brought a page back from swap                */ \
	X(14, FILE, "file")	     /* mapped pages of a file's cache               */ \
	X(15, SHMEM, "shmem")	     /* mapped pages of tmpfs or shared anonymous    */ \
	X(16, HUGETLB, "hugetlb")    /* a page of the hugetlb pool                   */ \
	X(17, OTHER, "other")	     /* cannot be told                               */ \
	X(18, UNKNOWN, "unsized")    /* the end of faults cannot be seen here        */
/* clang-format on */

enum sonde_fault_class {
#define SONDE_FAULT_ENUM(id, sym, name) SONDE_FAULT_##sym = (id),
	SONDE_FAULT_CLASSES(SONDE_FAULT_ENUM)
#undef SONDE_FAULT_ENUM
		SONDE_FAULT__CLASSES
};

#define SONDE_FAULT_SERIES	 (SONDE_FAULT__CLASSES * 4)
#define SONDE_FAULT_SUM_ENTRIES	 4096  /* (process, series) pairs in use; a process has about 10  */
#define SONDE_FAULT_HIST_ENTRIES 32768 /* one a bucket in use; a series uses some hundreds */
#define SONDE_FAULT_BY_ENTRIES	 32768 /* threads, blocks of memory and places in code */

/* The first filter is an array by the low bits of the tgid: what is 0 there is no target. */
#define SONDE_FAULT_FILTER 4096

/*
 * Sampling, so that the plain faults cost less: those of which the first SONDE_FAULT_CERTAIN of a
 * series (on each CPU) have been timed are timed one in `every`. All others always are.
 */
#define SONDE_FAULT_CERTAIN 16
#define SONDE_FAULT_EVERY   16

/* What a fault can be charged to beside its series. */
#define SONDE_FAULT_BY(X)                                                                          \
	X(0, THREAD, "thread")                                                                     \
	X(1, MAPPING, "mapping")                                                                   \
	X(2, SITE, "site")                                                                         \
	X(3, STACK, "stack")

enum sonde_fault_by {
#define SONDE_FAULT_ENUM(id, sym, name) SONDE_FAULT_BY_##sym = (id),
	SONDE_FAULT_BY(SONDE_FAULT_ENUM)
#undef SONDE_FAULT_ENUM
		SONDE_FAULT_BY__MAX
};

#define SONDE_FAULT_BLOCK_SHIFT 16 /* 64 KiB */

/* In section .rodata.fault, set before load. */
struct sonde_fault_config {
	sonde_u32 count_only; /* the end of faults cannot be seen, so none may be opened */
	sonde_u32 every;      /* 1: time every fault                                      */
	sonde_u32 by;	      /* bits by enum sonde_fault_by                              */
	sonde_u32 cast;	      /* this kernel has bpf_rdonly_cast()                        */
	sonde_u32 targets;    /* of so many call stacks can be had                        */
};

static inline __attribute__((always_inline)) sonde_u16
sonde_fault_series(enum sonde_fault_class cls, sonde_u32 kernel, sonde_u32 major)
{
	return (sonde_u16)(cls * 4 + (kernel ? 2 : 0) + (major ? 1 : 0));
}

/* A thread's open fault, in its task storage. Having it is also its pass through the gate. */
struct sonde_fault_thread {
	sonde_u64 begin_ns; /* 0: none open */
	sonde_u64 address, ip, sp;
	sonde_u64 stall_ns; /* the stall that goes on began then; 0: none does */
	sonde_u64 reclaim_ns, compaction_ns;
	sonde_u64 typical_ns; /* of a plain fault, of late */
	sonde_u32 error, order;
	sonde_u32 turn; /* of the sampling */
	unsigned char seen, stalled;
	unsigned char exact; /* no sampling: the calibration's child */
	unsigned char pad;
	sonde_u32 swap_count; /* up to 6.1: the task's own count of swap entries at the begin */
	sonde_u32 min_flt, maj_flt; /* the kernel's own counts of this thread's faults at the begin */
	sonde_u32 pad2;
};

/* Key of the sums and of the histogram; bucket is 0 in the sums. */
struct sonde_fault_key {
	sonde_u32 tgid;
	sonde_u16 series;
	sonde_u16 bucket;
};

/*
 * count faults: count - plain of them were timed whatever the sampling, with ns in all; of the
 * plain ones `timed` were, with plain_ns in all, plain_sq the sum of the squares of plain_ns / 16.
 */
struct sonde_fault_sum {
	sonde_u64 count, ns;
	sonde_u64 plain, timed, plain_ns, plain_sq;
	sonde_u64 stalled, reclaim_ns, compaction_ns;
};

/*
 * id: thread, instruction or, of a mapping, a hash of what tells it from others that were at the
 * same addresses before or after it; up to 6.0, where mappings cannot be read by programs, the block
 * (address >> SONDE_FAULT_BLOCK_SHIFT).
 */
struct sonde_fault_by_key {
	sonde_u32 tgid;
	sonde_u32 by;
	sonde_u64 id;
};

struct sonde_fault_by_sum {
	sonde_u64 count, ns;
	sonde_u64 address, sp;	     /* BY_MAPPING: of the first one; sp 0: not in user code */
	char comm[SONDE_COMM_BYTES]; /* BY_THREAD: at the first one */
	/* BY_MAPPING, at the time of the fault; start 0: could not be read. */
	sonde_u64 start, end, inode;
	sonde_u32 dev;	   /* as the kernel has it: major << 20 | minor */
	sonde_u16 is_file; /* or shared memory                          */
	sonde_u16 own;	   /* the faulting thread's stack pointer was in it */
};

#endif
