/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the THP lens's two sides share: what is counted, for whom, and the records of its two maps.
 * A count is kept for (process, what, argument); process 0 is the whole system.
 */
#ifndef SONDE_THP_H
#define SONDE_THP_H

#include "event.h"

enum sonde_thp_what {
	SONDE_THP_SCAN,	     /* arg: see SONDE_THP_RESULT                                      */
	SONDE_THP_COLLAPSE,  /* likewise; amount: bytes that were not resident before          */
	SONDE_THP_PURGE,     /* arg: enum sonde_thp_purge; amount: bytes                       */
	SONDE_THP_MAY_SPLIT, /* arg: enum sonde_thp_purge                                      */
	SONDE_THP_STALL,     /* arg: a stall series; amount: ns                                */
	SONDE_THP_MIGRATE,   /* arg: enum migrate_reason; count: pages moved, amount: not moved */
	SONDE_THP_ALLOC_FAILED, /* an order-9 allocation found no memory                          */
	SONDE_THP__MAX
};

/* Who collapses, and what: part of an argument beside the kernel's `enum scan_result`. */
enum sonde_thp_by { SONDE_THP_KHUGEPAGED = 0, SONDE_THP_SELF = 1, SONDE_THP_OTHER = 2 };
enum sonde_thp_kind { SONDE_THP_ANON = 0, SONDE_THP_FILE = 1, SONDE_THP_SHMEM = 2 };

#define SONDE_THP_RESULT(result, by, kind)                                                         \
	(((sonde_u32)(result)&0xfff) | (sonde_u32)(by) << 12 | (sonde_u32)(kind) << 14)
#define SONDE_THP_RESULT_OF(arg) ((arg)&0xfff)
#define SONDE_THP_BY_OF(arg)	 (((arg) >> 12) & 3)
#define SONDE_THP_KIND_OF(arg)	 (((arg) >> 14) & 3)
#define SONDE_THP_SUCCEED	 1 /* SCAN_SUCCEED, in every kernel so far */

/*        id  symbol    name */
#define SONDE_THP_PURGES(X)                                                                        \
	X(0, DONTNEED, "dontneed")                                                                 \
	X(1, FREE, "free")                                                                         \
	X(2, MUNMAP, "munmap")                                                                     \
	X(3, MREMAP, "mremap")                                                                     \
	X(4, BRK, "brk")

enum sonde_thp_purge {
#define SONDE_THP_ENUM(id, sym, name) SONDE_THP_##sym = (id),
	SONDE_THP_PURGES(SONDE_THP_ENUM)
#undef SONDE_THP_ENUM
		SONDE_THP__PURGES
};

/* A stall series is a kind, twice: for an ordinary and for a huge page. */
#define SONDE_THP_STALLS(X)                                                                        \
	X(0, RECLAIM, "reclaim")	     /* no free memory in the machine      */              \
	X(1, MEMCG_RECLAIM, "memcg_reclaim") /* no free memory in the cgroup       */              \
	X(2, COMPACTION, "compaction")	     /* no free memory in one piece        */

enum sonde_thp_stall {
#define SONDE_THP_ENUM(id, sym, name) SONDE_THP_##sym = (id),
	SONDE_THP_STALLS(SONDE_THP_ENUM)
#undef SONDE_THP_ENUM
		SONDE_THP__STALLS
};

#define SONDE_THP_STALL_SERIES (SONDE_THP__STALLS * 2)
#define SONDE_THP_SUMS	       4096
#define SONDE_THP_HIST_ENTRIES 16384

static inline __attribute__((always_inline)) sonde_u16
sonde_thp_stall_series(enum sonde_thp_stall kind, sonde_u32 huge)
{
	return (sonde_u16)(kind * 2 + (huge ? 1 : 0));
}

/* Key of the sums (what, arg) and of the histograms of stalls (series, bucket). */
struct sonde_thp_key {
	sonde_u32 tgid;
	sonde_u16 what;
	sonde_u16 arg;
};

struct sonde_thp_sum {
	sonde_u64 count, amount;
};

#endif
