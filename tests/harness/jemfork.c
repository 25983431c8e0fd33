// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program on jemalloc (preloaded) that allocates, forks, and allocates on both sides. Says what
 * went through both, each byte once: by jemalloc's own account of the thread, what the child began
 * with left out. Rests until its stdin ends.
 *
 *     ready ALLOCATED
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern int mallctl(const char *name, void *old, size_t *old_len, void *fresh, size_t len)
	__attribute__((weak));

static void *volatile kept[3][1000]; /* volatile: else no malloc would be left */

static uint64_t counted(void)
{
	size_t len = sizeof(uint64_t);
	uint64_t v = 0;

	if (mallctl("thread.allocated", &v, &len, NULL, 0))
		_exit(2);
	return v;
}

static void take(int who, size_t size)
{
	for (int i = 0; i < 1000; i++)
		kept[who][i] = malloc(size);
}

int main(void)
{
	uint64_t *child =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char line[64], c;
	uint64_t at_fork;
	int done[2], n;

	if (child == MAP_FAILED || pipe(done))
		return 1;
	take(0, 5000);
	at_fork = counted();
	if (!fork()) {
		take(1, 3000);
		*child = counted() - at_fork;
		if (write(done[1], "", 1) != 1)
			_exit(1);
		while (read(0, &c, 1) > 0)
			;
		_exit(0);
	}
	take(2, 7000);
	if (read(done[0], &c, 1) != 1)
		return 1;
	n = snprintf(line, sizeof(line), "ready %llu\n", (unsigned long long)(counted() + *child));
	if (write(1, line, (size_t)n) != n)
		return 1;
	while (read(0, &c, 1) > 0)
		;
	wait(NULL);
	return 0;
}
