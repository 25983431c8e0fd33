// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory that is easily taken for what it is not. With `untouched`: 40,000 blocks of 1000 bytes are
 * written, seven of eight given back, and then 100 MiB are allocated that nobody touches, so that
 * live is more than resident and yet the heap keeps 33 MiB that are free. With `mapped`: 32 MiB
 * that the program mapped itself, in huge pages where there are any, all in use, beside a heap of
 * next to nothing.
 *
 * Says "ready FREE USED MAPPED", what mallinfo2() has of each, and ends when its standard input
 * does.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCKS 40000
#define MIB    (1u << 20)

static char *block[BLOCKS], *volatile untouched;

static void allocate(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		block[i] = malloc(1000);
		if (!block[i])
			abort();
		memset(block[i], 1, 1000);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (i % 8)
			free(block[i]);
	untouched = malloc(100 * MIB);
}

static void map(void)
{
	char *p = mmap(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	madvise(p, 32 * MIB, MADV_HUGEPAGE);
	memset(p, 1, 32 * MIB);
}

int main(int argc, char **argv)
{
	struct mallinfo2 m;
	char c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "untouched")) {
		allocate();
	} else if (argc == 2 && !strcmp(argv[1], "mapped")) {
		map();
	} else {
		fprintf(stderr, "usage: wastework untouched|mapped\n");
		return 2;
	}
	m = mallinfo2();
	printf("ready %zu %zu %zu\n", m.fordblks, m.uordblks, m.hblkhd);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}
