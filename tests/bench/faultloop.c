// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Touches new pages of 4 KiB over and over.
 *
 *   faultloop PAGES PASSES
 *
 * Prints "ready PID". For every line on stdin makes PASSES passes over PAGES pages on one CPU and
 * prints "TOUCH CYCLE": ns a fault, and ns a page with making and giving back its mapping, each the
 * middle of the passes.
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul

static size_t pages, passes;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void pass(double *touch, double *cycle)
{
	double begin = now_ns(), from, to;
	char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	if (p == MAP_FAILED) {
		perror("faultloop: mmap");
		exit(1);
	}
	madvise(p, pages * PAGE, MADV_NOHUGEPAGE);
	from = now_ns();
	for (size_t i = 0; i < pages; i++)
		((volatile char *)p)[i * PAGE] = 1;
	to = now_ns();
	munmap(p, pages * PAGE);
	*touch = (to - from) / (double)pages;
	*cycle = (now_ns() - begin) / (double)pages;
}

static void measure(double *touch, double *cycle)
{
	for (size_t i = 0; i < passes; i++)
		pass(&touch[i], &cycle[i]);
	qsort(touch, passes, sizeof(*touch), compare);
	qsort(cycle, passes, sizeof(*cycle), compare);
	printf("%.1f %.1f\n", touch[passes / 2], cycle[passes / 2]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	cpu_set_t one;
	char line[16];
	double *v;

	pages = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
	passes = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	v = calloc(passes ? 2 * passes : 1, sizeof(*v));
	if (!pages || !passes || !v) {
		fprintf(stderr, "usage: faultloop PAGES PASSES\n");
		return 2;
	}
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		measure(v, v + passes);
	free(v);
	return 0;
}
