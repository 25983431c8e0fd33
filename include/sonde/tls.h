/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Byte counters that an allocator keeps for each thread in thread-local storage: where they lie,
 * and what a reading of one thread says. Both counters only ever grow, and they begin with the
 * thread.
 */
#ifndef SONDE_TLS_H
#define SONDE_TLS_H

#include "event.h"

/* Value of map `tls_places`, keyed by tgid: distances from the thread pointer, the same for every
 * thread of the process. A process without an entry has none. */
struct sonde_tls_place {
	sonde_s64 allocated, freed;
};

struct sonde_tls_bytes {
	sonde_u64 allocated, freed;
};

enum sonde_tls_state {
	SONDE_TLS_READ = 0,
	SONDE_TLS_UNREAD = 1, /* the memory could not be read, or is none of a thread's */
};

enum sonde_tls_flag {
	/* A thread of this process has ended before: the kernel has run time of it in its account.
	 */
	SONDE_TLS_F_EARLIER = 1 << 0,
	SONDE_TLS_F_FORKED = 1 << 1, /* the process is a copy of another, no exec since */
};

/* One thread: its key (a number may be reused, but not within a nanosecond), and what it counted.
 */
struct sonde_tls_key {
	sonde_u64 started_ns; /* since boot */
	sonde_u32 tid;
	sonde_u32 tgid;
};

struct sonde_tls_thread {
	struct sonde_tls_key key;
	sonde_u32 state;	      /* enum sonde_tls_state */
	sonde_u32 flags;	      /* enum sonde_tls_flag  */
	struct sonde_tls_bytes bytes; /* valid unless UNREAD */
	sonde_u64 at_ns;	      /* of the reading, CLOCK_MONOTONIC */
};

#define SONDE_TLS_ENDED	 8192 /* threads that may end between two readings */
#define SONDE_TLS_FORKED 1024 /* processes that were forked of late        */

#endif
