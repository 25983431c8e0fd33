/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the ask lens share: ask.c (figures), ask_window.c (when calls are counted, and
 * what that costs). Nobody else includes this.
 */
#ifndef SONDE_LENS_ASK_IMPL_H
#define SONDE_LENS_ASK_IMPL_H

#include "lens/ask_budget.h"
#include "lens/lens.h"
#include "sonde/ask.h"

struct ask_caller {
	struct sonde_ask_key key;
	struct sonde_ask_sum sum;
	char *label;
};

/* How a function is probed and what that costs. */
struct ask_cost {
	enum sonde_link_kind entry, exit; /* NONE: not probed                                   */
	enum sonde_insn_kind insn;
	bool ret; /* its end is a return probe                                          */
	double entry_ns, exit_ns;
	double within_ns; /* what of both lies between the two looks at the clock               */
};

/* One target's CPU time in the windows that ended, and at the begin of the present one. */
struct ask_time {
	uint64_t cpu_ns, begin_ns;
	uint64_t first_ns, last_ns; /* in windows or not */
};

struct ask_state {
	bool attached; /* some function of some target */
	int callers_fd, hits_fd, counting_fd, n_cpus;
	struct sonde_ask_hits *percpu, hits;
	struct ask_cost cost[SONDE_ASK_FUNCS];
	double inner_ns[2]; /* a hit within a call, by enum sonde_insn_kind */
	struct ask_caller *callers;
	size_t n_callers, cap_callers;
	struct ask_time *times;
	size_t n_times;
	double shown_cpu_ns; /* ask.target_cpu as last told: a counter */

	struct sonde_ask_budget budget;
	bool open, told_hot;
	uint32_t windows;
	uint64_t began_ns;	     /* the first window */
	uint64_t pulse_ns;	     /* when it was last known that the probes are there */
	uint64_t open_ns, window_ns; /* begin of the present one; length of those that ended */
	double open_cost_ns, window_cost_ns; /* of traps: likewise */
};

/* Which function costs what, from the plan that was executed. */
void ask_learn_costs(struct sonde_lens_ctx *ctx);
/* Open and close a window; closing twice does nothing. 0 or -errno (logged). */
int ask_window_open(struct sonde_lens_ctx *ctx, uint64_t now_ns);
int ask_window_close(struct sonde_lens_ctx *ctx, uint64_t now_ns);
bool ask_pulse(struct sonde_lens_ctx *ctx, uint64_t now_ns, bool attached);

/* In windows, the present one included up to now: length, CPU time of all targets, cost of traps.
 */
struct ask_seen {
	double wall_ns, cpu_ns, trap_ns;
	double outside_wall_ns, outside_cpu_ns; /* between windows */
};
void ask_seen(struct sonde_lens_ctx *ctx, uint64_t now_ns, struct ask_seen *out);

#endif
