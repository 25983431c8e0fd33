// SPDX-License-Identifier: GPL-2.0-or-later
/* When windows begin and what they may take; see window_budget.h. */
#include <math.h>

#include "lens/window_budget.h"

/* Before the first: making the links, closing them, and the window between, on a slow machine. */
#define FIRST_NS      40000000.0
#define FIRST_LATE_NS 5000000.0

#define LONGEST 6.0 /* of the exponential, in its means */

/* xorshift64*; any seed but 0. Uniform in (0, 1). */
static double draw(struct sonde_window_budget *b)
{
	uint64_t x = b->seed ? b->seed : 0x9e3779b97f4a7c15ull;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	b->seed = x;
	return ((double)((x * 0x2545f4914f6cdd1dull) >> 11) + 0.5) / (double)(1ull << 53);
}

void sonde_window_budget_init(struct sonde_window_budget *b, double cpu_share, double time_share,
			      uint64_t now_ns, uint64_t seed)
{
	*b = (struct sonde_window_budget){
		.cpu_share = cpu_share,
		.time_share = time_share,
		.began_ns = now_ns,
		.expect_ns = FIRST_NS,
		.expect_late_ns = FIRST_LATE_NS,
		.seed = seed,
	};
}

static double cpu_left(const struct sonde_window_budget *b, double cpu_ns)
{
	return b->cpu_share * cpu_ns - b->cost_ns - b->expect_late_ns;
}

static bool allowed(const struct sonde_window_budget *b, uint64_t now_ns, double cpu_ns)
{
	return b->disturbed_ns + b->expect_ns <= b->time_share * (double)(now_ns - b->began_ns) &&
	       cpu_left(b, cpu_ns) >= SONDE_WINDOW_COST_LEAST_NS;
}

double sonde_window_budget_gap(const struct sonde_window_budget *b, uint64_t now_ns, double cpu_ns)
{
	double by_time = b->expect_ns / b->time_share, by_cpu = 0;

	if (cpu_ns > 0)
		by_cpu = b->expect_cost_ns / b->cpu_share / cpu_ns * (double)(now_ns - b->began_ns);
	return by_cpu > by_time ? by_cpu : by_time;
}

bool sonde_window_budget_due(struct sonde_window_budget *b, uint64_t now_ns, double cpu_ns)
{
	double wait;

	if (!allowed(b, now_ns, cpu_ns))
		return false;
	if (!b->next_ns) {
		wait = -log(draw(b));
		wait = (wait < LONGEST ? wait : LONGEST) *
		       sonde_window_budget_gap(b, now_ns, cpu_ns);
		b->next_ns = now_ns + (uint64_t)(b->cost_ns > 0 ? wait : wait / 4);
	}
	return now_ns >= b->next_ns;
}

uint64_t sonde_window_budget_delay(struct sonde_window_budget *b)
{
	return (uint64_t)(draw(b) * 1e7);
}

uint64_t sonde_window_budget_length(struct sonde_window_budget *b)
{
	return (uint64_t)((0.5 + draw(b)) * (double)SONDE_WINDOW_LENGTH_NS);
}

double sonde_window_budget_allowance(const struct sonde_window_budget *b, double cpu_ns)
{
	double left = cpu_left(b, cpu_ns);

	return left < SONDE_WINDOW_COST_MOST_NS ? left : SONDE_WINDOW_COST_MOST_NS;
}

/* The worst, forgotten slowly. */
static double worst(double was, double is)
{
	return is > was ? is : (was + is) / 2;
}

void sonde_window_budget_spent(struct sonde_window_budget *b, double disturbed_ns,
			       double open_cost_ns, double cost_ns)
{
	b->disturbed_ns += disturbed_ns;
	b->cost_ns += cost_ns;
	b->expect_ns = worst(b->expect_ns, disturbed_ns);
	b->expect_late_ns = worst(b->expect_late_ns, cost_ns - open_cost_ns);
	b->expect_cost_ns = worst(b->expect_cost_ns, cost_ns);
	b->next_ns = 0;
}
