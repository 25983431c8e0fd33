/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What bpf/ask.bpf.c and user/lens/ask.c agree on: calls of the functions by which a program asks
 * its allocator for statistics, summed by (process, function, caller). A function is a row of the
 * lens's table; its number lives in cookies and keys only while the session runs.
 */
#ifndef SONDE_ASK_H
#define SONDE_ASK_H

#include "event.h"

#define SONDE_ASK_FUNCS	  32   /* rows of the table, at most; a power of two                 */
#define SONDE_ASK_CALLERS 4096 /* (process, function, caller) kept at once                   */

struct sonde_ask_key {
	sonde_u32 target; /* number in the session                                           */
	sonde_u32 func;
	sonde_u64 caller; /* return address at the function's entry                          */
};

struct sonde_ask_sum {
	sonde_u64 calls;
	sonde_u64 timed;    /* of calls: those whose end was seen                              */
	sonde_u64 ns;	    /* from entry to end, of the timed                                 */
	sonde_u64 cpu_ns;   /* of that on a CPU                                                */
	sonde_u64 inner[2]; /* sonde's own hits within that, by enum sonde_insn_kind           */
};

/* How often programs ran, by function and side, which is what a run costs by. One element, per CPU.
 */
struct sonde_ask_hits {
	sonde_u64 entry[SONDE_ASK_FUNCS], exit[SONDE_ASK_FUNCS];
};

/*
 * Cookie of a site: the function, flags, how far the stack pointer is below the return address, and
 * the target's number.
 */
#define SONDE_ASK_COOKIE_FUNC(c)   ((sonde_u32)(c)&0xff)
#define SONDE_ASK_COOKIE_SP(c)	   ((sonde_u32)((c) >> 16) & 0xffff)
#define SONDE_ASK_COOKIE_TARGET(c) ((sonde_u32)((c) >> 32))
#define SONDE_ASK_UNTIMED	   (1u << 8) /* its end cannot be seen: the call is only counted  */
#define SONDE_ASK_RETURN                                                                           \
	(1u << 9)		      /* its end is a return probe, which hides the return         \
				       * address on the stack while the call is open       */
#define SONDE_ASK_EMULATED (1u << 10) /* the kernel emulates the probed instruction       */
#define SONDE_ASK_COOKIE(func, flags, sp_delta, target)                                            \
	((sonde_u64)(func) | (flags) | (sonde_u64)((sp_delta)&0xffff) << 16 |                      \
	 (sonde_u64)(target) << 32)

#endif
