// SPDX-License-Identifier: GPL-2.0-or-later
/* When the ask lens's probes are taken off and put on again; see ask_budget.h. */
#include "lens/ask_budget.h"

#define DISTURBED_NS 100000000ull /* of a window that lasted longer few calls were slowed */

/* xorshift64; any seed but 0. */
static uint64_t next_random(uint64_t *seed)
{
	uint64_t x = *seed ? *seed : 0x9e3779b97f4a7c15ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *seed = x;
}

void sonde_ask_budget_open(struct sonde_ask_budget *b, uint64_t now_ns, uint64_t cost_ns,
			   uint64_t busy_ns)
{
	b->begin_ns = now_ns;
	b->cost0_ns = cost_ns;
	b->busy0_ns = busy_ns;
	b->next_ns = 0;
}

bool sonde_ask_budget_over(struct sonde_ask_budget *b, uint64_t cost_ns, uint64_t busy_ns)
{
	double allowed = (double)SONDE_ASK_WINDOW_NS / (b->hot ? 2 : 1) +
			 SONDE_ASK_SHARE * (double)(busy_ns - b->busy0_ns);

	if ((double)(cost_ns - b->cost0_ns) <= allowed)
		return false;
	b->hot = true;
	return true;
}

/* What a window that was open for long cost within the share is not made up for. */
void sonde_ask_budget_pause(struct sonde_ask_budget *b, uint64_t now_ns, uint64_t cost_ns)
{
	uint64_t cost = cost_ns - b->cost0_ns, open = now_ns - b->begin_ns, most;
	double spread = 0.5 + (double)(next_random(&b->seed) >> 11) / (double)(1ull << 53);

	open = open < DISTURBED_NS ? open : DISTURBED_NS;
	cost = cost < 4 * DISTURBED_NS ? cost : 4 * DISTURBED_NS;
	most = cost > open ? cost : open;
	b->next_ns = now_ns + (uint64_t)((double)most / SONDE_ASK_SHARE * spread);
}

bool sonde_ask_budget_due(const struct sonde_ask_budget *b, uint64_t now_ns)
{
	return b->next_ns && now_ns >= b->next_ns;
}
