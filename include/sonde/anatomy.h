/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clock of a thread that runs a query: value of map `anatomy`, see bpf/lib/anatomy.bpf.h. */
#ifndef SONDE_ANATOMY_H
#define SONDE_ANATOMY_H

#include "event.h"

#define SONDE_ANATOMY_PENDING SONDE_PART__MAX /* a page fault whose class is not known yet */
#define SONDE_ANATOMY_SLOTS   32	      /* a power of two, PENDING included           */
#define SONDE_ANATOMY_LOG     8		      /* charges that can be taken back             */
#define SONDE_ANATOMY_OWED    4		      /* exceptions' time, at most                  */
#define SONDE_ANATOMY_FAULTS  8		      /* a power of two, of SONDE_PART_FAULTS       */

struct sonde_anatomy {
	sonde_u64 conn, seq; /* the query; seq 0: none, and nothing is charged */
	sonde_u64 start_ns;  /* of the query: a number may be given again */
	sonde_u64 last_ns;   /* up to here all is charged */
	sonde_u64 high_ns;   /* the last event's time, where some of it was taken back */
	sonde_u64 ns[SONDE_ANATOMY_SLOTS];
	sonde_u64 log_ns[SONDE_ANATOMY_LOG]; /* when each of the last charges began, and of which
						part it is */
	unsigned char log_part[SONDE_ANATOMY_LOG];
	sonde_u32 logged;
	sonde_u32 faults[SONDE_ANATOMY_FAULTS];
	sonde_u64 owed;	       /* of exceptions, not yet counted with their faults */
	sonde_u64 lock;	       /* the kernel lock that the thread waits for; 0: none */
	sonde_u64 delay;       /* what it had waited for CPUs when it left, by the kernel */
	sonde_s64 offset;      /* of our clock to the run queue's; 0: not known */
	unsigned char current; /* part that is charged now, or PENDING */
	unsigned char
		base; /* what it does beneath faults and waits: USER, or a system call's part */
	unsigned char memory;	  /* RECLAIM or COMPACTION while that goes on, else 0 */
	unsigned char fault;	  /* in a page fault */
	unsigned char off;	  /* not on a CPU */
	unsigned char woken;	  /* and runnable */
	unsigned char lock_kind;  /* enum sonde_stall_cause */
	unsigned char follows;	  /* woken by a thread that ran the query: may be who answers it */
	unsigned char fault_part; /* of the last fault */
	unsigned char pad[3];
	sonde_u32 nr; /* the system call that it is in */
};

#endif
