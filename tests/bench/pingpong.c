// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a context switch costs: two processes on one CPU hand a byte to and fro over pipes.
 *
 *   pingpong TURNS [CPU]     for each line on stdin: TURNS turns, then the ns of one switch
 *
 * A turn is two switches, each with one write, the wake of the other, and one read. The least of 16
 * parts is told: what else the CPU did in the meantime is in the others.
 */
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PARTS 16

static int there[2], back[2];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void put(int fd)
{
	if (write(fd, "x", 1) != 1)
		die("write");
}

static void take(int fd)
{
	char c;

	if (read(fd, &c, 1) != 1)
		die("read");
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static double measure(unsigned turns)
{
	uint64_t begin = now_ns();

	for (unsigned i = 0; i < turns; i++) {
		put(there[1]);
		take(back[0]);
	}
	return (double)(now_ns() - begin) / turns / 2;
}

static void echo(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		take(there[0]);
		put(back[1]);
	}
}

int main(int argc, char **argv)
{
	unsigned turns = argc > 1 ? (unsigned)atoi(argv[1]) / PARTS : 0;
	char line[16];
	cpu_set_t one;

	if (!turns)
		return 2;
	CPU_ZERO(&one);
	CPU_SET(argc > 2 ? atoi(argv[2]) : 0, &one);
	if (sched_setaffinity(0, sizeof(one), &one) || pipe(there) || pipe(back))
		die("pingpong");
	if (!fork())
		echo();
	printf("ready %d\n", getpid());
	for (fflush(stdout); fgets(line, sizeof(line), stdin); fflush(stdout)) {
		double best = 1e18;

		for (int i = 0; i < PARTS; i++) {
			double ns = measure(turns);

			best = ns < best ? ns : best;
		}
		printf("%.1f\n", best);
	}
	return 0;
}
