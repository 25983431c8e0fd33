/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts that a query's wall time (arrival to last byte) is divided into. They are disjoint and
 * their sum is the duration, to the ns: what no rule explains is `unattributed`, which is computed
 * and never measured. The table names everything that shows them: columns, lanes, reports. Append
 * only.
 */
#ifndef SONDE_PART_H
#define SONDE_PART_H

/* X(number, SYMBOL, name, help). Faults are in one row, from FAULT_BASE to FAULT_OTHER.
 */
#define SONDE_PARTS(X)                                                                             \
	X(0, QUEUED, queued, "had arrived, and no thread of the server had read it")               \
	X(1, USER, user, "the server's own code, on a CPU")                                        \
	X(2, FAULT_BASE, fault_base, "faults that gave one base page")                             \
	X(3, FAULT_MTHP, fault_mthp, "faults that gave a folio between the two sizes")             \
	X(4, FAULT_PMD, fault_pmd, "faults that gave a huge page (PMD)")                           \
	X(5, FAULT_COW, fault_cow, "faults that copied a page on write")                           \
	X(6, FAULT_FILE, fault_file, "faults of files and shared memory")                          \
	X(7, FAULT_SWAP, fault_swap, "faults that read a page from swap")                          \
	X(8, FAULT_OTHER, fault_other, "faults of other kinds")                                    \
	X(9, RECLAIM, reclaim, "freeing memory before its own request was served")                 \
	X(10, COMPACTION, compaction, "moving pages to make room for a large one")                 \
	X(11, SYS_MADVISE, sys_madvise, "madvise, on a CPU")                                       \
	X(12, SYS_MUNMAP, sys_munmap, "munmap, on a CPU")                                          \
	X(13, SYS_MMAP, sys_mmap, "mmap, mremap and mprotect, on a CPU")                           \
	X(14, SYS_BRK, sys_brk, "brk, on a CPU")                                                   \
	X(15, SYS_OTHER, sys_other, "other kernel code, on a CPU")                                 \
	X(16, RUNQUEUE, runqueue, "ready to run, and no CPU was free")                             \
	X(17, OFF_MMAP_LOCK, off_mmap_lock, "waited for the process's mmap_lock")                  \
	X(18, OFF_ALLOC_LOCK, off_alloc_lock, "waited for a lock of the allocator")                \
	X(19, OFF_LOCK, off_lock, "waited for another lock (futex)")                               \
	X(20, OFF_IO, off_io, "waited for a file or a disk")                                       \
	X(21, OFF_SOCKET, off_socket, "waited for a socket, or in poll")                           \
	X(22, OFF_SLEEP, off_sleep, "slept because it asked to")                                   \
	X(23, OFF_OTHER, off_other, "waited for something else")                                   \
	X(24, UNATTRIBUTED, unattributed, "not explained by any of these")

enum sonde_part {
#define SYMBOL(id, sym, name, help) SONDE_PART_##sym = id,
	SONDE_PARTS(SYMBOL)
#undef SYMBOL
		SONDE_PART__MAX
};

/* The classes of faults among the parts; each has a count besides its time. */
#define SONDE_PART_FAULTS (SONDE_PART_FAULT_OTHER - SONDE_PART_FAULT_BASE + 1)

#endif
