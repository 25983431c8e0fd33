// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Three call sites that leak among two hundred that do not, though their live memory moves: caches
 * that fill up and stay, queues that grow and are emptied, buffers that come and go. Goes round
 * every two milliseconds until a line comes; leak_fast leaks 900, leak_middle 500, leak_slow 200
 * bytes a round.
 *
 *     leakwork: prints "ready PID"; at the end "done", and waits for a line
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SITES 200
#define SLOTS 64

static void *held[SITES][SLOTS];
static unsigned n_held[SITES];
static char in_buffer[4096], out_buffer[4096];

static void *opaque(void *p)
{
	__asm__ volatile("" : "+r"(p)::"memory");
	return p;
}

static void drop(unsigned site, unsigned keep)
{
	while (n_held[site] > keep)
		free(held[site][--n_held[site]]);
}

static void hold(unsigned site, void *p)
{
	if (n_held[site] == SLOTS)
		drop(site, SLOTS - 1);
	held[site][n_held[site]++] = p;
}

/* One function a site: ten to a row, twenty rows. */
#define SITE(n)                                                                                    \
	static __attribute__((noinline)) void site_##n(unsigned site, size_t size)                 \
	{                                                                                          \
		hold(site, opaque(malloc(size)));                                                  \
	}
#define TEN(X, t) X(t##0) X(t##1) X(t##2) X(t##3) X(t##4) X(t##5) X(t##6) X(t##7) X(t##8) X(t##9)
#define ALL(X)                                                                                     \
	TEN(X, 10)                                                                                 \
	TEN(X, 11) TEN(X, 12) TEN(X, 13) TEN(X, 14) TEN(X, 15) TEN(X, 16) TEN(X, 17) TEN(X, 18)    \
		TEN(X, 19) TEN(X, 20) TEN(X, 21) TEN(X, 22) TEN(X, 23) TEN(X, 24) TEN(X, 25)       \
			TEN(X, 26) TEN(X, 27) TEN(X, 28) TEN(X, 29)
ALL(SITE)

static void (*const sites[SITES])(unsigned site, size_t size) = {
#define POINTER(n) site_##n,
	ALL(POINTER)};

static __attribute__((noinline)) void leak_fast(void)
{
	opaque(malloc(900));
}

static __attribute__((noinline)) void leak_middle(void)
{
	opaque(malloc(500));
}

static __attribute__((noinline)) void leak_slow(void)
{
	opaque(malloc(200));
}

/* A third each: fills and stays; grows and is emptied; one for one. */
static void go_round(unsigned round)
{
	for (unsigned s = round % 4; s < SITES; s += 4) {
		if (s % 3 == 1 && round / 4 % (20 + s % 37) == 0)
			drop(s, 0);
		if (s % 3 == 2)
			drop(s, 0);
		sites[s](s, 100 + s * 7);
	}
	leak_fast();
	leak_middle();
	leak_slow();
}

static int line_came(int ms)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[64];

	return poll(&in, 1, ms) == 1 && (!fgets(line, sizeof(line), stdin) || 1);
}

int main(void)
{
	setvbuf(stdin, in_buffer, _IONBF, 0);
	setvbuf(stdout, out_buffer, _IOFBF, sizeof(out_buffer));
	printf("ready %d\n", getpid());
	fflush(stdout);
	for (unsigned round = 0; !line_came(2); round++)
		go_round(round);
	printf("done\n");
	fflush(stdout);
	line_came(-1);
	return 0;
}
