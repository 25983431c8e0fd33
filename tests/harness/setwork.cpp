// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every way that C and C++ have to allocate and to free, each a different number of times, several
 * blocks live at once, so that pointers fall on page boundaries and off them. One operation is one
 * allocation or one free, however many functions of the allocator it runs through.
 *
 *     setwork      says "ready", waits for a line, works, says
 *                  "allocations N" and "frees N", waits for the end of its input
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <malloc.h>
#include <unistd.h>

static const size_t LIVE = 50;
static uint64_t allocations, frees;
static char in_buffer[4096], out_buffer[4096];

/* Large ones are page-aligned in every allocator, small ones seldom. */
static size_t size_of(size_t i)
{
	return i % 10 == 9 ? 20000 : 24 + i * 3;
}

template <class Make, class Drop> static void turn(size_t rounds, Make make, Drop drop)
{
	void *volatile p[LIVE];

	for (size_t r = 0; r < rounds; r++) {
		for (size_t i = 0; i < LIVE; i++)
			p[i] = make(size_of(i));
		for (size_t i = 0; i < LIVE; i++)
			drop(p[i], size_of(i));
	}
	allocations += rounds * LIVE;
	frees += rounds * LIVE;
}

static void c_part()
{
	auto release = [](void *p, size_t) { free(p); };

	turn(11, [](size_t n) { return malloc(n); }, release);
	turn(12, [](size_t n) { return calloc(1, n); }, release);
	turn(13, [](size_t n) { return aligned_alloc(64, n); }, release);
	turn(14, [](size_t n) { return memalign(32, n); }, release);
	turn(15, [](size_t n) { return valloc(n); }, release);
	turn(16, [](size_t n) {
		void *p;
		return posix_memalign(&p, 128, n) ? nullptr : p;
	}, release);
	/* A block made longer is one more allocation, that of realloc. */
	turn(17, [](size_t n) { return realloc(malloc(8), n); }, release);
	allocations += 17 * LIVE;
}

static void cxx_part()
{
	const std::align_val_t line{64};

	turn(19, [](size_t n) { return ::operator new(n); },
	     [](void *p, size_t) { ::operator delete(p); });
	turn(20, [](size_t n) { return ::operator new(n); },
	     [](void *p, size_t n) { ::operator delete(p, n); });
	turn(21, [](size_t n) { return ::operator new[](n); },
	     [](void *p, size_t) { ::operator delete[](p); });
	turn(22, [](size_t n) { return ::operator new[](n); },
	     [](void *p, size_t n) { ::operator delete[](p, n); });
	turn(23, [](size_t n) { return ::operator new(n, std::nothrow); },
	     [](void *p, size_t) { ::operator delete(p, std::nothrow); });
	turn(24, [](size_t n) { return ::operator new[](n, std::nothrow); },
	     [](void *p, size_t) { ::operator delete[](p, std::nothrow); });
	turn(25, [=](size_t n) { return ::operator new(n, line); },
	     [=](void *p, size_t) { ::operator delete(p, line); });
	turn(26, [=](size_t n) { return ::operator new(n, line); },
	     [=](void *p, size_t n) { ::operator delete(p, n, line); });
	turn(27, [=](size_t n) { return ::operator new[](n, line); },
	     [=](void *p, size_t) { ::operator delete[](p, line); });
	turn(28, [=](size_t n) { return ::operator new[](n, line, std::nothrow); },
	     [=](void *p, size_t n) { ::operator delete[](p, n, line); });
}

int main()
{
	char line[64];

	setvbuf(stdin, in_buffer, _IOFBF, sizeof(in_buffer));
	setvbuf(stdout, out_buffer, _IOFBF, sizeof(out_buffer));
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	c_part();
	cxx_part();
	printf("allocations %llu\nfrees %llu\ndone\n", (unsigned long long)allocations,
	       (unsigned long long)frees);
	fflush(stdout);
	/* An exit would free more. */
	while (fgets(line, sizeof(line), stdin))
		;
	_exit(0);
}
