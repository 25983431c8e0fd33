/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server that asks its allocator for statistics at each request: the shape of askwork.c and
 * asktc.cpp. A request is a fixed amount of work and one ask, three of four from NAME_report() and
 * the fourth from NAME_limit(). It waits for a line, serves, and says what it did: calls, and by
 * its own CPU clock the time in them and in all.
 */
#ifndef TESTS_ASKWORK_H
#define TESTS_ASKWORK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef __cplusplus
#define ASK_C extern "C"
#else
#define ASK_C
#endif

struct ask {
	const char *name;
	void (*report)(void), (*limit)(void);
};

static volatile uint64_t sink;

/* Not cloned: the test knows them by name. The barrier keeps the call from being a jump. */
#define ASK_CALLER(fn, body)                                                                       \
	ASK_C __attribute__((noinline, noclone)) void fn(void);                                    \
	ASK_C __attribute__((noinline, noclone)) void fn(void)                                     \
	{                                                                                          \
		body;                                                                              \
		__asm__ volatile("" ::: "memory");                                                 \
	}
#define ASK_CALLERS(nm, body)                                                                      \
	ASK_CALLER(nm##_report, body)                                                              \
	ASK_CALLER(nm##_limit, body)

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void work(uint64_t turns)
{
	uint64_t x = sink | 1;

	for (uint64_t i = 0; i < turns; i++)
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	sink = x;
}

/* Allocations that make asking take its time: every second is given back, the rest is kept. */
static void fragment(unsigned n)
{
	void **p = (void **)calloc(n + 1, sizeof(*p));

	for (unsigned i = 0; p && i < n; i++)
		p[i] = malloc(1100 + 16 * (i % 8));
	for (unsigned i = 0; p && i < n; i += 2)
		free(p[i]);
}

/* ARGUMENTS: requests, turns of work in each, blocks to fragment. */
static int serve(int argc, char **argv, const struct ask *ask)
{
	uint64_t requests, turns, asked_ns = 0, begin_ns;
	char line[16];

	if (argc < 3)
		return 2;
	requests = strtoull(argv[0], NULL, 10);
	turns = strtoull(argv[1], NULL, 10);
	fragment((unsigned)strtoul(argv[2], NULL, 10));
	printf("ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	begin_ns = cpu_ns();
	for (uint64_t i = 0; i < requests; i++) {
		uint64_t before_ns;

		work(turns);
		before_ns = cpu_ns();
		if (i % 4 == 3)
			ask->limit();
		else
			ask->report();
		asked_ns += cpu_ns() - before_ns;
	}
	printf("done calls=%llu asked_ns=%llu cpu_ns=%llu\n", (unsigned long long)requests,
	       (unsigned long long)asked_ns, (unsigned long long)(cpu_ns() - begin_ns));
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) ? 0 : 0; /* stays for as long as it is looked at */
}

#endif
