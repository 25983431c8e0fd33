/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Links for a short time. The child that makes them opens the gate (sonde/window.h), sees to it
 * that it closes, and exits, which takes the probes out: nothing depends on sonde being given the
 * CPU meanwhile, and a timer kills the child should it hang.
 */
#ifndef SONDE_ATTACH_WINDOW_H
#define SONDE_ATTACH_WINDOW_H

#include "attach/engine.h"
#include "sonde/window.h"

/* Costs are of traps: what a hit takes by itself, by enum sonde_insn_kind, and how much of that it
 * may be until queries are no longer followed, and until it is over. */
struct sonde_window_order {
	uint64_t delay_ns;  /* before the first link is made                      */
	uint64_t length_ns; /* how long queries that begin are followed, at most  */
	uint64_t finish_ns; /* and how much longer they are given to end          */
	uint64_t queries;   /* that it takes in, 0: any number                    */
	uint64_t finish_at_ns, allowance_ns;
	uint64_t trap_ns[2];
};

/* The page, mapped; NULL (logged) if it cannot be. It lives as long as the engine. */
struct sonde_window *sonde_engine_window(struct sonde_engine *e);
/*
 * Make the uprobe links of @lens for one window, by one child. Waits until they exist. 0 or -errno
 * (logged); -ESRCH: the target is gone.
 */
int sonde_engine_window_open(struct sonde_engine *e, const struct sonde_plan *plan, int lens,
			     const struct sonde_window_order *order);
/* Are the links gone? Waits a few milliseconds when they are about to. */
bool sonde_engine_window_over(struct sonde_engine *e);
/* Have it end now, and wait for that. */
void sonde_engine_window_stop(struct sonde_engine *e);

#endif
