/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A window: the short time for which probes that are hit often are attached. One page, mapped by
 * sonde, by the child that holds the links, and by BPF programs. Whoever sees first that the window
 * should end closes it, and nobody opens it again: phases only go up within a window.
 */
#ifndef SONDE_WINDOW_H
#define SONDE_WINDOW_H

#include "config.h"

enum sonde_window_phase {
	SONDE_WINDOW_NONE = 0,
	SONDE_WINDOW_OPEN,   /* everything counts, and queries that begin are followed           */
	SONDE_WINDOW_FINISH, /* only what those queries still do, to their end                   */
	SONDE_WINDOW_CLOSED, /* nothing counts; traps are still paid for until the links are gone */
};

struct sonde_window {
	/* Of the present window, or the last one. */
	sonde_u32 phase;
	sonde_u32 id;	     /* from 1; 0: there was none                                         */
	sonde_u32 disturbed; /* 1 from before the first link is made until the last has gone      */
	sonde_u16 cut;	     /* 1: it ended since its allowance was used up                       */
	sonde_u16 stopped;   /* 1: sonde ended it: what it followed is not whole                  */
	sonde_u64 end_ns;    /* when the last disturbance ended                                   */
	sonde_u64 open_ns, finish_ns, closed_ns; /* when it went into those phases                */
	sonde_u64 cost_ns;   /* of its traps so far                                               */
	sonde_u64 early_ns;  /* of that before it opened: while links were made                   */
	sonde_u64 finish_at_ns, allowance_ns; /* costs at which the phases change                 */
	sonde_u64 trap_ns[2]; /* of one hit, by enum sonde_insn_kind: stepped, emulated           */
	sonde_u64 cpu_ns;    /* of the targets while it was open, and of that traps               */
	sonde_u64 cpu_cost_ns;
	sonde_u64 spent_ns;  /* in that time                                                      */
	sonde_u64 join_most; /* queries after which it takes in no more; 0: no such limit         */
	sonde_u64 joined;    /* queries that began in it, and of them                             */
	sonde_u64 left;	     /* those that ended, in whatever way                                 */
	/* Of all windows. */
	sonde_u64 hits[2];   /* by kind of instruction                                            */
	sonde_u64 queries, calls, bytes; /* of queries seen from begin to end                     */
	sonde_u64 hopped;    /* queries that another thread answered than read them               */
	sonde_u64 ended_open;	 /* queries that ended while a window was open                    */
	sonde_u64 ended_outside; /* while nothing was disturbed                                   */
};

#endif
