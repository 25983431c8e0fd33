// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * operator new in all its forms, each from a function of its own (site_...), some of the blocks kept.
 * Between them calls that throw, at the same depth of the stack, deeper and less deep; and calls
 * whose handler allocates by operator new itself, up to three calls within each other, and by
 * throwing. What is live at the end is known for each function.
 *
 *     newwork ROUNDS THREADS    says "ready PID", waits for a line, works, says
 *                               "truth|FUNCTION|LIVE_CALLS|LIVE_BYTES" a function and "done",
 *                               waits for the end of its input
 */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#define SITE extern "C" __attribute__((noinline))
static const std::align_val_t LINE{64};
static const size_t NEVER = (size_t)3 << 45, LARGE = 96u << 20;
static char in_buffer[4096], out_buffer[4096];

struct kept {
	const char *name;
	std::atomic<uint64_t> calls{0}, bytes{0};
};
enum { NEW, ARRAY, NOTHROW, ARRAY_NOTHROW, ALIGNED, ARRAY_ALIGNED, ALIGNED_NOTHROW,
       ARRAY_ALIGNED_NOTHROW, MALLOC, REALLOC, THROWS, DEEP, HANDLED, HANDLER, FORMS };
static kept kept_by[FORMS] = {
	{"site_new"}, {"site_array"}, {"site_nothrow"}, {"site_array_nothrow"}, {"site_aligned"},
	{"site_array_aligned"}, {"site_aligned_nothrow"}, {"site_array_aligned_nothrow"},
	{"site_malloc"}, {"site_realloc"}, {"site_throws"}, {"site_deep"}, {"site_handled"},
	{"site_handler"},
};

static void *opaque(void *p)
{
	__asm__ volatile("" : "+r"(p)::"memory");
	return p;
}

SITE void *site_new(size_t n) { return opaque(::operator new(n)); }
SITE void *site_array(size_t n) { return opaque(::operator new[](n)); }
SITE void *site_nothrow(size_t n) { return opaque(::operator new(n, std::nothrow)); }
SITE void *site_array_nothrow(size_t n) { return opaque(::operator new[](n, std::nothrow)); }
SITE void *site_aligned(size_t n) { return opaque(::operator new(n, LINE)); }
SITE void *site_array_aligned(size_t n) { return opaque(::operator new[](n, LINE)); }
SITE void *site_aligned_nothrow(size_t n) { return opaque(::operator new(n, LINE, std::nothrow)); }
SITE void *site_array_aligned_nothrow(size_t n)
{
	return opaque(::operator new[](n, LINE, std::nothrow));
}
SITE void *site_malloc(size_t n) { return opaque(malloc(n)); }
SITE void *site_realloc(size_t n) { return opaque(realloc(malloc(n / 2), n)); }

SITE void site_throws(bool array)
{
	try {
		opaque(array ? ::operator new[](NEVER) : ::operator new(NEVER));
		abort();
	} catch (const std::bad_alloc &) {
	}
	if (opaque(::operator new(NEVER, std::nothrow)))
		abort();
}

/* A call that throws at every depth, and one that succeeds only at the deepest. */
SITE void *site_deep(int depth, size_t n)
{
	void *p;

	site_throws(depth & 1);
	p = depth ? site_deep(depth - 1, n) : ::operator new(n);
	return opaque(p);
}

static void drop(int form, void *p, size_t n)
{
	switch (form) {
	case NEW: ::operator delete(p); return;
	case ARRAY: ::operator delete[](p, n); return;
	case NOTHROW: ::operator delete(p, std::nothrow); return;
	case ARRAY_NOTHROW: ::operator delete[](p, std::nothrow); return;
	case ALIGNED: ::operator delete(p, n, LINE); return;
	case ARRAY_ALIGNED: ::operator delete[](p, LINE); return;
	case ALIGNED_NOTHROW: ::operator delete(p, LINE, std::nothrow); return;
	case ARRAY_ALIGNED_NOTHROW: ::operator delete[](p, LINE, std::nothrow); return;
	case MALLOC: case REALLOC: free(p); return;
	default: ::operator delete(p, n);
	}
}

static void keep(int form, size_t n)
{
	kept_by[form].calls++;
	kept_by[form].bytes += n;
}

/* Through thread caches, past them, and as mappings of their own. */
static size_t size_of(int i)
{
	return i % 40 == 39 ? 1 << 20 : i % 10 == 9 ? 20000 + i % 977 : 24 + i % 1009;
}

static void work(int rounds)
{
	static void *(*const make[])(size_t) = {
		site_new, site_array, site_nothrow, site_array_nothrow, site_aligned,
		site_array_aligned, site_aligned_nothrow, site_array_aligned_nothrow, site_malloc,
		site_realloc,
	};

	for (int i = 0; i < rounds; i++) {
		for (int form = NEW; form <= REALLOC; form++) {
			size_t n = size_of(i + form);
			void *p = make[form](n);

			if (i % 7 == form % 3)
				site_throws(form & 1);
			if ((i + form) % 3)
				drop(form, p, n);
			else
				keep(form, n);
		}
		if (i % 16 == 0) {
			site_deep(i % 24, 500);
			keep(DEEP, 500);
		}
	}
}

static rlimit was;
static int handling;
static bool gives_up;

static void limit(bool on)
{
	rlimit now = was;

	if (on)
		now.rlim_cur = 1 << 20; /* less than there is: nothing more */
	setrlimit(RLIMIT_AS, &now);
}

SITE void *site_handled(size_t n)
{
	return opaque(::operator new(n));
}

/* Without memory: twice another call that has none either, then there is some. */
SITE void site_handler()
{
	void *small = opaque(::operator new(100));

	keep(HANDLER, 100);
	if (gives_up)
		throw std::bad_alloc();
	if (++handling < 3) {
		site_handled(LARGE);
		keep(HANDLED, LARGE);
	} else {
		limit(false);
	}
	(void)small;
}

static void handled()
{
	getrlimit(RLIMIT_AS, &was);
	std::set_new_handler(site_handler);
	for (int i = 0; i < 4; i++) {
		/* What the handler takes is there already. */
		drop(NEW, site_new(100), 100);
		limit(true);
		handling = 0;
		gives_up = i & 1;
		try {
			site_handled(LARGE);
			keep(HANDLED, LARGE);
		} catch (const std::bad_alloc &) {
		}
		limit(false);
		keep(NEW, 300);
		site_new(300);
	}
	std::set_new_handler(nullptr);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100, n = argc > 2 ? atoi(argv[2]) : 2;
	std::vector<std::thread> threads;
	char line[64];

	setvbuf(stdin, in_buffer, _IOFBF, sizeof(in_buffer));
	setvbuf(stdout, out_buffer, _IOFBF, sizeof(out_buffer));
	printf("ready %d\n", getpid());
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (int i = 1; i < n; i++)
		threads.emplace_back(work, rounds);
	work(rounds);
	for (std::thread &t : threads)
		t.join();
	handled();
	for (const kept &k : kept_by)
		printf("truth|%s|%llu|%llu\n", k.name, (unsigned long long)k.calls,
		       (unsigned long long)k.bytes);
	puts("done");
	fflush(stdout);
	/* An exit would free more. */
	while (fgets(line, sizeof(line), stdin))
		;
	_exit(0);
}
