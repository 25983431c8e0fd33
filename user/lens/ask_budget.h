/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long the probes of the ask lens may stay on. Asking is rare in a healthy program and then
 * they stay; where it is not, they are on for short windows, as far apart as the budget wants. Pure
 * functions of times and costs; inside lens/ only.
 */
#ifndef SONDE_LENS_ASK_BUDGET_H
#define SONDE_LENS_ASK_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define SONDE_ASK_SHARE 0.01 /* of the target's time: CPU of the traps, and time disturbed  */
#define SONDE_ASK_WINDOW_NS                                                                        \
	20000000ull /* of trap cost: what the first window may take beside that    */

struct sonde_ask_budget {
	bool hot; /* the budget was exceeded once: windows from now on                       */
	uint64_t begin_ns; /* the present window: when it began, */
	uint64_t cost0_ns; /* what traps had cost until then, */
	uint64_t busy0_ns; /* and how busy the target had been */
	uint64_t next_ns;  /* when the next window may begin; 0: one is open  */
	uint64_t seed;
};

/* A window begins. @cost_ns: what traps have cost so far; @busy_ns: the target's time so far, on
 * all its CPUs, at least the time that went by. */
void sonde_ask_budget_open(struct sonde_ask_budget *b, uint64_t now_ns, uint64_t cost_ns,
			   uint64_t busy_ns);
/* Must the window end? Until the first must, a window may cost more, for rare calls are to be seen.
 */
bool sonde_ask_budget_over(struct sonde_ask_budget *b, uint64_t cost_ns, uint64_t busy_ns);
/* It has ended and its probes are off. How long until the next is random by half around what keeps
 * the share, so that no period of the target's is met again and again. */
void sonde_ask_budget_pause(struct sonde_ask_budget *b, uint64_t now_ns, uint64_t cost_ns);
/* May the next begin? */
bool sonde_ask_budget_due(const struct sonde_ask_budget *b, uint64_t now_ns);

#endif
