// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A heap that was damaged: of 2000 chunks each second is free, in one list or several, and the
 * headers or links of these are overwritten. It then only sleeps.
 *
 *     heapbroken none|cycle|links|size|zero|arena
 *
 * Says "ready PID LIVE": LIVE is what the allocator said before the damage.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNKS 2000

static uint64_t *chunk[CHUNKS];

static void damage_chunk(const char *how, uint64_t *q)
{
	if (!strcmp(how, "cycle"))
		q[0] = q[1] = (uint64_t)q - 16;
	else if (!strcmp(how, "links"))
		memcpy(q, "\xef\xbe\xad\xde\xfe\xca\x00\x40\x41\x41\x41\x41\x41\x41\x41\x41", 16);
	else if (!strcmp(how, "size"))
		q[-1] = ~0xeull;
	else if (!strcmp(how, "zero"))
		q[0] = q[1] = 0;
}

/* A free chunk at the end of its list links to the arena, which is part of the C library. */
static void damage_arena(void)
{
	for (int i = 0; i < CHUNKS; i += 2) {
		uint64_t *bin = (uint64_t *)chunk[i][0];

		if (chunk[i][0] >> 40 != 0x7f)
			continue;
		for (int k = 2; k < 62; k++)
			bin[k] = 0x1111111111111111ull * (uint64_t)(k & 15);
		return;
	}
	exit(1);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "none";
	char said[64];
	size_t live;
	int n;

	for (int i = 0; i < CHUNKS; i++)
		chunk[i] = malloc(1100 + (size_t)(i % 7) * 16);
	for (int i = 0; i < CHUNKS; i += 2)
		free(chunk[i]);
	chunk[1] = realloc(chunk[1], 100000); /* sorts what is free */
	live = mallinfo2().uordblks;
	for (int i = 20; i < CHUNKS; i += 2)
		damage_chunk(how, chunk[i]);
	if (!strcmp(how, "arena"))
		damage_arena();
	n = snprintf(said, sizeof(said), "ready %d %zu\n", getpid(), live);
	if (write(STDOUT_FILENO, said, (size_t)n) != n)
		return 1;
	for (;;)
		pause();
}
