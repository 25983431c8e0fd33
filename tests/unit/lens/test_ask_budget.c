// SPDX-License-Identifier: GPL-2.0-or-later
/* When the ask lens takes its probes off and puts them on again: simulated over minutes. */
#include <stdbool.h>

#include "unit/unit.h"
/* cmocka first */
#include "lens/ask_budget.h"

#define MS 1000000ull
#define S  (1000 * MS)

/* Trap cost a ms while attached, for a target on one CPU; how it went. */
struct load {
	uint64_t cost_per_ms, detach_ms;
	uint64_t now, cost, attached, windows;
};

/* The session's loop: a pulse every 10 ms. */
static void play(struct load *l, struct sonde_ask_budget *b, uint64_t until)
{
	bool attached = true;

	sonde_ask_budget_open(b, l->now, l->cost, l->now);
	while (l->now < until) {
		l->now += 10 * MS;
		if (attached) {
			l->cost += 10 * l->cost_per_ms;
			l->attached += 10 * MS;
			if (!sonde_ask_budget_over(b, l->cost, l->now))
				continue;
			l->cost += l->detach_ms * l->cost_per_ms;
			l->attached += l->detach_ms * MS;
			l->now += l->detach_ms * MS;
			sonde_ask_budget_pause(b, l->now, l->cost);
			attached = false;
			l->windows++;
		} else if (sonde_ask_budget_due(b, l->now)) {
			sonde_ask_budget_open(b, l->now, l->cost, l->now);
			attached = true;
		}
	}
}

static void test_rare_stays_on(void **state)
{
	/* 500 calls a second at 14 us: 0.7 % of a CPU */
	struct load l = {.cost_per_ms = 7000, .detach_ms = 50, .now = S};
	struct sonde_ask_budget b = {.seed = 1};

	(void)state;
	play(&l, &b, 600 * S);
	assert_int_equal(l.windows, 0);
	assert_false(b.hot);
}

/* However frequent the calls and however slow the kernel is at taking probes off. */
static void test_hot_keeps_the_share(void **state)
{
	static const struct load loads[] = {
		{.cost_per_ms = 20000, .detach_ms = 50, .now = S},
		{.cost_per_ms = 100000, .detach_ms = 50, .now = S},
		{.cost_per_ms = MS, .detach_ms = 50, .now = S},
		{.cost_per_ms = MS, .detach_ms = 300, .now = S},
		{.cost_per_ms = 2 * MS, .detach_ms = 10, .now = S},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(loads) / sizeof(*loads); i++) {
		struct sonde_ask_budget b = {.seed = i + 1};
		struct load l = loads[i];

		play(&l, &b, 1200 * S);
		assert_true(b.hot);
		assert_true(l.windows >= 8);
		/* The first window is beside the share; pauses are random. */
		assert_in_range(l.cost, 1, 1200 * S / 70);
	}
}

static void test_pauses_differ(void **state)
{
	struct sonde_ask_budget b = {.hot = true, .seed = 7};
	uint64_t least = UINT64_MAX, most = 0;

	(void)state;
	for (int i = 0; i < 200; i++) {
		sonde_ask_budget_open(&b, 0, 0, 0);
		sonde_ask_budget_pause(&b, 20 * MS, 10 * MS);
		least = b.next_ns < least ? b.next_ns : least;
		most = b.next_ns > most ? b.next_ns : most;
		assert_false(sonde_ask_budget_due(&b, b.next_ns - 1));
		assert_true(sonde_ask_budget_due(&b, b.next_ns));
	}
	assert_in_range(least, S, 1300 * MS);
	assert_in_range(most, 2700 * MS, 3100 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rare_stays_on),
		cmocka_unit_test(test_hot_keeps_the_share),
		cmocka_unit_test(test_pauses_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
