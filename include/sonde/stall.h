/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the stall lens's two sides share. Causes are disjoint: a thread off its CPU is charged to
 * exactly one of them at any moment, so they add up to the time it did not run. Lock waits and
 * system calls are measured beside that and overlap it.
 */
#ifndef SONDE_STALL_H
#define SONDE_STALL_H

#include "series.h"

/*        id  symbol       name           what the thread waits for                            */
#define SONDE_STALL_CAUSES(X)                                                                      \
	X(0, OTHER, "other")		 /* a child, a signal, a pipe's peer unknown, stopped   */ \
	X(1, RUNQUEUE, "runqueue")	 /* runnable, and others have the CPUs                  */ \
	X(2, MMAP_LOCK, "mmap_lock")	 /* the lock of its own address space                   */ \
	X(3, KERNEL_LOCK, "kernel_lock") /* any other sleeping lock of the kernel               */ \
	X(4, FUTEX, "futex")		 /* a lock or condition of the program                  */ \
	X(5, ALLOC_LOCK, "alloc_lock")	 /* a futex that lies in the allocator's own data       */ \
	X(6, SOCKET, "socket")		 /* a peer: recv, send, accept, poll, epoll             */ \
	X(7, PIPE, "pipe")		 /* read or write of a pipe                             */ \
	X(8, SLEEP, "sleep")		 /* nothing: it asked to sleep                          */ \
	X(9, IO, "io")			 /* a file or disk, major faults included               */

enum sonde_stall_cause {
#define SONDE_STALL_ENUM(id, sym, name) SONDE_STALL_##sym = (id),
	SONDE_STALL_CAUSES(SONDE_STALL_ENUM)
#undef SONDE_STALL_ENUM
		SONDE_STALL__CAUSES
};

/* x86-64 numbers. */
/*        symbol    name       number                                                             */
#define SONDE_STALL_CALLS(X)                                                                       \
	X(MMAP, "mmap", 9)                                                                         \
	X(MUNMAP, "munmap", 11)                                                                    \
	X(BRK, "brk", 12)                                                                          \
	X(MREMAP, "mremap", 25)                                                                    \
	X(MADVISE, "madvise", 28)

enum sonde_stall_call {
#define SONDE_STALL_ENUM(sym, name, nr) SONDE_STALL_CALL_##sym,
	SONDE_STALL_CALLS(SONDE_STALL_ENUM)
#undef SONDE_STALL_ENUM
		SONDE_STALL__CALLS
};

/* Series: the causes, then waits for a lock from begin to end, then the system calls. */
#define SONDE_STALL_WAIT_MMAP	SONDE_STALL__CAUSES
#define SONDE_STALL_WAIT_KERNEL (SONDE_STALL__CAUSES + 1)
#define SONDE_STALL_CALL_FIRST	(SONDE_STALL__CAUSES + 2)
#define SONDE_STALL_SERIES	(SONDE_STALL_CALL_FIRST + SONDE_STALL__CALLS)

#define SONDE_STALL_HIST_ENTRIES 32768 /* one a bucket in use; a series uses some hundreds */
#define SONDE_STALL_THREADS	 16384 /* threads of all targets at once                   */

/* The first filter is an array by the low bits of the tgid: what is 0 there is no target. */
#define SONDE_STALL_FILTER 4096

/* Where a target's allocator keeps its locks: a futex in there is one of them. */
struct sonde_stall_range {
	sonde_u64 from, to; /* its module's writable data */
	sonde_u64 align;    /* 0, or a power of two: arenas begin at its multiples */
};
#define SONDE_STALL_ARENA_HEAD 256 /* bytes from an arena's begin in which its lock lies */

#endif
