// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program that allocates and says exactly what it did. Phases wait for a line on stdin, so that an
 * observer can attach before; between "ready" and "done" nothing is allocated but what is told.
 *
 *     allocwork calls N       N calls of each function, sizes known:  truth|NAME|CALLS|BYTES|FAILED
 *                             (ALLOCWORK_NO_PVALLOC=1: without pvalloc, which jemalloc leaves to glibc)
 *     allocwork throw N       N calls of operator new that fail with bad_alloc, N that do not
 *     allocwork churn OPS     OPS operations by 8 threads, each freeing what others allocated, by C's and
 *                             C++'s functions; says by how much the allocator's own figure of live bytes
 *                             changed:  live|BYTES|LIVE
 *     allocwork extended N    N calls of each of jemalloc's functions beside the standard ones
 *     allocwork older N       gives back N blocks that it got before "ready":  live|BYTES
 *     allocwork fault N       N calls of free with an address that is not mapped
 *     allocwork loop          malloc and free pairs until stdin says so (for detach tests)
 */
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static char in_buffer[4096], out_buffer[16384];

static void wait_line(void)
{
	char line[64];

	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

/* The compiler must not know where a pointer came from, else it removes the pair. */
template <class T> static T *opaque(T *p)
{
	asm volatile("" : "+r"(p) : : "memory");
	return p;
}

static bool with_pvalloc;

struct truth {
	const char *name;
	uint64_t calls, bytes, failed;
};

enum { MALLOC, CALLOC, REALLOC, MEMALIGN, POSIX, VALLOC, PVALLOC, NEW, FREE, DELETE, SIZED, ARRAY };

static truth table[] = {
	{"malloc", 0, 0, 0},	     {"calloc", 0, 0, 0},
	{"realloc", 0, 0, 0},	     {"memalign", 0, 0, 0},
	{"posix_memalign", 0, 0, 0}, {"valloc", 0, 0, 0},
	{"pvalloc", 0, 0, 0},	     {"operator new", 0, 0, 0},
	{"free", 0, 0, 0},	     {"operator delete", 0, 0, 0},
	{"operator delete (sized)", 0, 0, 0}, {"reallocarray", 0, 0, 0},
};

static void *count(int f, size_t bytes, void *p)
{
	p = opaque(p);
	table[f].calls++;
	table[f].bytes += bytes;
	table[f].failed += !p;
	return p;
}

static void release(void *p)
{
	table[FREE].calls += p != nullptr; /* free(NULL) is no operation */
	free(opaque(p));
}

/* From 0 over the tcache, fast and small bins to over the mmap threshold. */
static size_t size_of(unsigned i)
{
	static const size_t sizes[] = {0,   1,	 24,   25,    40,    100,    1000,
				       1032, 1033, 5000, 70000, 131072, 200000, 24};

	return sizes[i % (sizeof(sizes) / sizeof(*sizes))];
}

static void c_functions(unsigned i)
{
	size_t n = size_of(i);
	void *p, *q = nullptr;
	int err;

	release(count(MALLOC, n, malloc(n)));
	release(count(CALLOC, n * 3, calloc(3, n)));
	p = count(REALLOC, n, realloc(opaque<void>(nullptr), n));
	p = count(REALLOC, n + 50, realloc(p, n + 50));
	p = count(REALLOC, n + 90000, realloc(p, n + 90000));
	table[REALLOC].calls++;
	if (opaque(realloc(p, 0))) /* frees */
		abort();
	p = count(ARRAY, 7 * n, reallocarray(opaque<void>(nullptr), 7, n));
	p = count(ARRAY, 9 * n + 9, reallocarray(p, 9, n + 1));
	release(p);
	release(count(MEMALIGN, n, memalign(16, n))); /* small alignment: runs malloc */
	release(count(MEMALIGN, n, memalign(4096, n)));
	release(count(MEMALIGN, n * 64, aligned_alloc(64, n * 64)));
	err = posix_memalign(&q, sizeof(void *), n);
	release(count(POSIX, n, err ? nullptr : q));
	err = posix_memalign(&q, 256, n);
	release(count(POSIX, n, err ? nullptr : q));
	release(count(VALLOC, n, valloc(n)));
	if (with_pvalloc)
		release(count(PVALLOC, n, pvalloc(n)));
	release(nullptr);
}

static void failures(void)
{
	void *q = nullptr;
	volatile size_t huge = size_t{1} << 47; /* over the address space: bytes are not counted */

	count(MALLOC, 0, malloc(huge));
	count(CALLOC, 0, calloc(huge << 16, 4)); /* overflows: asks for no number of bytes */
	count(CALLOC, 0, calloc(huge, huge));
	count(ARRAY, 0, reallocarray(nullptr, 4, huge << 16));
	count(MEMALIGN, 0, memalign(64, huge));
	count(POSIX, 8, posix_memalign(&q, 3, 8) == EINVAL ? nullptr : q);
	q = count(MALLOC, 10, malloc(10));
	count(REALLOC, 0, realloc(q, huge)); /* q stays */
	release(q);
}

static void cxx_functions(unsigned i)
{
	const std::align_val_t al{64};
	size_t n = size_of(i);
	void *p;

	p = count(NEW, n, ::operator new(n));
	table[DELETE].calls++;
	::operator delete(p);
	p = count(NEW, n, ::operator new[](n));
	table[DELETE].calls++;
	::operator delete[](p);
	p = count(NEW, n, ::operator new(n, std::nothrow));
	table[SIZED].calls++;
	::operator delete(p, n);
	p = count(NEW, n, ::operator new[](n, std::nothrow));
	table[SIZED].calls++;
	::operator delete[](p, n);
	p = count(NEW, n, ::operator new(n, al));
	table[DELETE].calls++;
	::operator delete(p, al);
	/* Not of 0 bytes: jemalloc 5.3 then takes the block back as one of 8 bytes, and it is none. */
	p = count(NEW, n + 1, ::operator new[](n + 1, al));
	table[SIZED].calls++;
	::operator delete[](p, n + 1, al);
	/* A malloc of the same size between new and delete is a malloc. */
	p = count(NEW, n, ::operator new(n));
	release(count(MALLOC, n, malloc(n)));
	table[DELETE].calls++;
	::operator delete(p);
	::operator delete(opaque<void>(nullptr)); /* is no operation */
}

static void tell(void)
{
	for (const truth &t : table)
		printf("truth|%s|%llu|%llu|%llu\n", t.name, (unsigned long long)t.calls,
		       (unsigned long long)t.bytes, (unsigned long long)t.failed);
}

static void calls(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		c_functions(i);
		cxx_functions(i);
		failures();
	}
	tell();
}

static void throws(unsigned n)
{
	unsigned caught = 0;

	for (unsigned i = 0; i < n; i++) {
		try {
			opaque(::operator new(PTRDIFF_MAX));
		} catch (const std::bad_alloc &) {
			caught++;
		}
		::operator delete(opaque(::operator new(100)));
	}
	/* Each exception object is a malloc and a free of the C++ runtime's, of a size of its own. */
	printf("truth|operator new|%u|-|%u\ntruth|operator delete|%u|0|0\n", 2 * n, caught, n);
	printf("truth|malloc|%u|-|0\ntruth|free|%u|0|0\n", caught, caught);
}

/*
 * The statistics of other allocators, if this program runs with one of them. Weak: of whatever is
 * linked in or preloaded.
 */
extern "C" {
int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
int je_mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
int MallocExtension_GetNumericProperty(const char *, size_t *) __attribute__((weak));
void *mallocx(size_t, int) __attribute__((weak));
void *rallocx(void *, size_t, int) __attribute__((weak));
size_t xallocx(void *, size_t, size_t, int) __attribute__((weak));
size_t sallocx(const void *, int) __attribute__((weak));
size_t nallocx(size_t, int) __attribute__((weak));
void dallocx(void *, int) __attribute__((weak));
void sdallocx(void *, size_t, int) __attribute__((weak));
}

static void flush_cache(void)
{
	if (mallctl)
		mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
}

static int64_t live(void)
{
	struct mallinfo2 m;
	uint64_t epoch = 1;
	size_t n = 0, len = sizeof(n);

	if (mallctl) {
		flush_cache();
		mallctl("epoch", nullptr, nullptr, &epoch, sizeof(epoch));
		if (mallctl("stats.allocated", &n, &len, nullptr, 0))
			abort();
		return (int64_t)n;
	}
	if (MallocExtension_GetNumericProperty) {
		if (!MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &n))
			abort();
		return (int64_t)n;
	}
	m = mallinfo2();
	return (int64_t)(m.uordblks + m.hblkhd);
}

#define LG_ALIGN(lg) (lg)

static void *checked(void *p, size_t usable)
{
	if (!p || sallocx(p, 0) != usable)
		abort();
	return p;
}

/* Of each the size by which it is known: the first is what nallocx says it gets. */
static void extended(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		size_t size = size_of(i) + 1, want = nallocx(size, 0);
		void *p = checked(count(MALLOC, size, mallocx(size, 0)), want);

		p = checked(count(REALLOC, size + 5000, rallocx(p, size + 5000, 0)),
			    nallocx(size + 5000, 0));
		table[REALLOC].calls++; /* in place, or not at all */
		table[REALLOC].bytes += size + 9000;
		xallocx(opaque(p), size + 9000, 0, 0);
		table[FREE].calls++;
		dallocx(opaque(p), 0);
		want = nallocx(size, LG_ALIGN(12));
		p = checked(count(MALLOC, size, mallocx(size, LG_ALIGN(12))), want);
		table[SIZED].calls++;
		sdallocx(opaque(p), size, LG_ALIGN(12));
		p = count(MALLOC, size, mallocx(size, 0));
		table[SIZED].calls++;
		sdallocx(opaque(p), size, 0);
	}
	tell();
}

#define THREADS 8
#define SLOTS	4096 /* shared: what one thread puts there another one takes */

static std::atomic<void *> slots[SLOTS];
static pthread_barrier_t barrier;
static uint64_t churn_ops;

static size_t churn_size(uint64_t r)
{
	unsigned kind = r & 1023;

	r >>= 10;
	if (kind == 0)
		return 131072 + r % 400000; /* a mapping of its own, until the threshold rises */
	if (kind < 40)
		return r % 20000;
	return r % 700;
}

static void c_once(uint64_t r)
{
	std::atomic<void *> &slot = slots[(r >> 40) % SLOTS];
	size_t n = churn_size(r);
	void *p;

	switch ((r >> 61) % 4) {
	case 0:
		p = calloc(1, n);
		break;
	case 1:
		p = slot.exchange(nullptr);
		p = realloc(p, n + 1);
		break;
	case 2:
		p = memalign(64, n);
		break;
	default:
		p = malloc(n);
	}
	free(slot.exchange(opaque(p)));
}

/* Written into the block, so that another thread can give it back by the form that it needs. */
struct tag {
	size_t size;
	unsigned form;
};

enum { PLAIN, ARRAY_FORM, NOTHROW, NOTHROW_ARRAY, ALIGNED, ALIGNED_ARRAY, FORMS };

static const std::align_val_t alignment{256};

static void *cxx_new(unsigned form, size_t n)
{
	switch (form) {
	case PLAIN:
		return ::operator new(n);
	case ARRAY_FORM:
		return ::operator new[](n);
	case NOTHROW:
		return ::operator new(n, std::nothrow);
	case NOTHROW_ARRAY:
		return ::operator new[](n, std::nothrow);
	case ALIGNED:
		return ::operator new(n, alignment);
	default:
		return ::operator new[](n, alignment);
	}
}

static void cxx_delete(void *p, bool sized)
{
	tag t;

	if (!p)
		return;
	memcpy(&t, p, sizeof(t));
	switch (t.form) {
	case PLAIN:
		return sized ? ::operator delete(p, t.size) : ::operator delete(p);
	case ARRAY_FORM:
		return sized ? ::operator delete[](p, t.size) : ::operator delete[](p);
	case NOTHROW:
		return sized ? ::operator delete(p, t.size)
			     : ::operator delete(p, std::nothrow);
	case NOTHROW_ARRAY:
		return sized ? ::operator delete[](p, t.size)
			     : ::operator delete[](p, std::nothrow);
	case ALIGNED:
		return sized ? ::operator delete(p, t.size, alignment)
			     : ::operator delete(p, alignment);
	default:
		return sized ? ::operator delete[](p, t.size, alignment)
			     : ::operator delete[](p, alignment);
	}
}

static std::atomic<void *> cxx_slots[SLOTS];

static void cxx_once(uint64_t r)
{
	tag t{churn_size(r) + sizeof(tag), static_cast<unsigned>((r >> 56) % FORMS)};
	void *p = cxx_new(t.form, t.size);

	memcpy(p, &t, sizeof(t));
	cxx_delete(cxx_slots[(r >> 40) % SLOTS].exchange(opaque(p)), r >> 63);
}

static void churn_once(uint64_t r)
{
	if (r >> 60 & 1)
		cxx_once(r);
	else
		c_once(r);
}

/* One operation gives memory and one gives it back: an iteration is two. */
static void *churner(void *arg)
{
	uint64_t x = 88172645463325252ull + (uintptr_t)arg * 7919;

	free(opaque(malloc(100))); /* the thread's arena and cache exist before the first reading */
	flush_cache();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	for (uint64_t i = 0; i < churn_ops / THREADS / 2; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		churn_once(x * 2685821657736338717ull);
	}
	flush_cache();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier); /* keep caches and arenas until the second reading is done */
	return nullptr;
}

static void churn(uint64_t ops)
{
	pthread_t threads[THREADS];
	int64_t before;

	churn_ops = ops;
	pthread_barrier_init(&barrier, nullptr, THREADS + 1);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], nullptr, churner, (void *)i))
			abort();
	pthread_barrier_wait(&barrier);
	before = live();
	printf("ready %d\n", getpid());
	wait_line();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	printf("live|%lld|%lld\n", (long long)(live() - before), (long long)live());
	printf("done\n");
	wait_line();
	_exit(0);
}

static void older(unsigned n)
{
	static void *blocks[100000];
	int64_t before;

	n = n > 100000 ? 100000 : n;
	for (unsigned i = 0; i < n; i++)
		blocks[i] = opaque(malloc(size_of(i)));
	before = live();
	printf("ready %d\n", getpid());
	wait_line();
	for (unsigned i = 0; i < n; i++)
		free(blocks[i]);
	printf("live|%lld|%lld\ndone\n", (long long)(live() - before), (long long)live());
	wait_line();
	_exit(0);
}

static sigjmp_buf after_fault;

static void on_fault(int)
{
	siglongjmp(after_fault, 1);
}

/* free reads the word before the pointer first of all, and holds nothing yet. */
static void faults(unsigned n)
{
	char *hole = static_cast<char *>(
		mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	volatile unsigned i;

	signal(SIGSEGV, on_fault);
	for (i = 0; i < n; i++)
		if (!sigsetjmp(after_fault, 1))
			free(opaque(hole + 4096));
	printf("truth|free|%u|0|0\n", n);
}

static void loop(void)
{
	for (uint64_t i = 0;; i++) {
		free(opaque(malloc(16 + i % 1000)));
		if (i % 1024 == 0)
			usleep(1000);
	}
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 2 ? strtoul(argv[2], nullptr, 0) : 1000;

	setvbuf(stdin, in_buffer, _IOFBF, sizeof(in_buffer));
	setvbuf(stdout, out_buffer, _IOFBF, sizeof(out_buffer));
	if (argc < 2) {
		fprintf(stderr, "usage: allocwork calls|throw|churn|extended|older|fault|loop N\n");
		return 2;
	}
	with_pvalloc = !getenv("ALLOCWORK_NO_PVALLOC");
	if (!strcmp(argv[1], "churn"))
		churn(n);
	if (!strcmp(argv[1], "older"))
		older((unsigned)n);
	printf("ready %d\n", getpid());
	fflush(stdout);
	if (!strcmp(argv[1], "loop"))
		loop();
	wait_line();
	if (!strcmp(argv[1], "calls"))
		calls((unsigned)n);
	else if (!strcmp(argv[1], "extended"))
		extended((unsigned)n);
	else if (!strcmp(argv[1], "fault"))
		faults((unsigned)n);
	else
		throws((unsigned)n);
	printf("done\n");
	wait_line();
	return 0;
}
