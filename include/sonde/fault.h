/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fault lens's two sides share: the series that a fault belongs to and the map records. A
 * series is (size of the page, where the exception came from, minor or major).
 */
#ifndef SONDE_FAULT_H
#define SONDE_FAULT_H

#include "event.h"

/*        id  symbol   name       pages */
#define SONDE_FAULT_SIZES(X)                                                                       \
	X(0, BASE, "base") /* 4 KiB: allocated, or found in the page cache, or the zero page */    \
	X(1, MTHP, "mthp") /* 8 KiB to 1 MiB                                             */        \
	X(2, PMD, "pmd")   /* 2 MiB                                                      */        \
	X(3, UNKNOWN, "unsized") /* the end of faults cannot be seen on this kernel            */

enum sonde_fault_size {
#define SONDE_FAULT_ENUM(id, sym, name) SONDE_FAULT_##sym = (id),
	SONDE_FAULT_SIZES(SONDE_FAULT_ENUM)
#undef SONDE_FAULT_ENUM
		SONDE_FAULT__SIZES
};

#define SONDE_FAULT_SERIES	 (SONDE_FAULT__SIZES * 4)
#define SONDE_FAULT_HIST_ENTRIES 32768 /* one a bucket in use; a series uses some hundreds */

static inline __attribute__((always_inline)) sonde_u16
sonde_fault_series(enum sonde_fault_size size, sonde_u32 kernel, sonde_u32 major)
{
	return (sonde_u16)(size * 4 + (kernel ? 2 : 0) + (major ? 1 : 0));
}

/* Key of both maps; bucket is 0 in the sums. */
struct sonde_fault_key {
	sonde_u32 tgid;
	sonde_u16 series;
	sonde_u16 bucket;
};

struct sonde_fault_sum {
	sonde_u64 count, ns;
};

#endif
