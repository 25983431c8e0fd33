// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The target of the allocation benchmark: a ring of 1024 live blocks of 16 to 1039 bytes, one free
 * and one malloc a turn, and nothing else. For each line "N" on stdin it does N turns and prints
 * the ns that one took, the least of 5 equal parts, so that another process's time slice does not
 * count.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define RING  1024
#define PARTS 5

static void *ring[RING];
static uint32_t seed = 1;

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double turns(unsigned long n)
{
	uint64_t begin = cpu_ns();

	for (unsigned long i = 0; i < n; i++) {
		void **slot = &ring[i % RING];

		seed = seed * 1664525u + 1013904223u;
		free(*slot);
		*slot = malloc(16 + (seed >> 22));
	}
	return (double)(cpu_ns() - begin) / (double)n;
}

int main(void)
{
	unsigned long n;

	printf("ready %d\n", getpid());
	fflush(stdout);
	turns(RING * 10);
	while (scanf("%lu", &n) == 1 && n >= PARTS) {
		double best = turns(n / PARTS);

		for (int i = 1; i < PARTS; i++) {
			double t = turns(n / PARTS);

			best = t < best ? t : best;
		}
		printf("%.1f\n", best);
		fflush(stdout);
	}
	return 0;
}
