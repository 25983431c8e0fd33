// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The judgement that sonde harms its target. Pure: time and figures come in, the answer goes out.
 * What matters is an unbroken stretch, so one good interval starts the clock anew.
 */
#include "attach/budget.h"

#define DEFAULT_LIMIT	3.0
#define DEFAULT_HOLD_NS 2000000000ull

void sonde_harm_init(struct sonde_harm *h, double limit, uint64_t hold_ns)
{
	*h = (struct sonde_harm){
		.limit = limit > 0 ? limit : DEFAULT_LIMIT,
		.hold_ns = hold_ns ? hold_ns : DEFAULT_HOLD_NS,
	};
}

bool sonde_harm_baseline(struct sonde_harm *h, double p50_ns, uint64_t queries)
{
	if (queries < SONDE_HARM_MIN_QUERIES || p50_ns <= 0)
		return false;
	h->baseline_p50_ns = p50_ns;
	h->over_since_ns = 0;
	return true;
}

bool sonde_harm_update(struct sonde_harm *h, uint64_t now_ns, double p50_ns, uint64_t queries)
{
	if (h->baseline_p50_ns <= 0 || queries < SONDE_HARM_MIN_INTERVAL)
		return false;
	if (p50_ns <= h->limit * h->baseline_p50_ns) {
		h->over_since_ns = 0;
		return false;
	}
	if (!h->over_since_ns)
		h->over_since_ns = now_ns;
	return now_ns - h->over_since_ns >= h->hold_ns;
}
