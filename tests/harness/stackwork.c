// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Allocates from call stacks that it knows: several threads go down random ways through twelve
 * functions, allocate at the bottom, and say at the end which way was gone how often. C and C++; in
 * a program, or with -DSTACKWORK_LIB the functions alone, for a shared library, and with
 * -DSTACKWORK_MAIN the rest.
 *
 *     stackwork WAYS CALLS THREADS [fault]: prints "ready PID", waits for a line, works, prints
 *     truth|INNERMOST;...;OUTERMOST|CALLS|BYTES|LIVE_BYTES, then "done", and waits for a line
 *
 * With "fault" it touches 1 to 8 pages at the bottom instead, which nobody has touched before: by a
 * write of its own, by memset or by read(2). CALLS is then pages. Code, stacks and the tallies are
 * in place before "ready", so that no other fault has such a stack.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEPTH_MAX 40
#define KINDS	  12
#define PAGE	  4096ul

struct way {
	unsigned char step[DEPTH_MAX];
	int depth;
	size_t size;
	int keep; /* one in so many is never freed; 0: all are */
	int leaf; /* which of the functions at the bottom; 0: malloc */
};

void *lv_enter(const struct way *w);
extern __thread char *fresh; /* the next page for a leaf to touch */

#ifndef STACKWORK_MAIN
__thread char *fresh;
void *lv_next(const struct way *w, int at);

/* Different frames: sizes, saved registers, alignment, variable length. */
#define LEVEL(n, locals, use)                                                                      \
	__attribute__((noinline)) void *lv_##n(const struct way *w, int at);                       \
	__attribute__((noinline)) void *lv_##n(const struct way *w, int at)                        \
	{                                                                                          \
		locals;                                                                            \
		void *p = lv_next(w, at);                                                          \
                                                                                                   \
		use;                                                                               \
		__asm__ volatile("" ::: "memory");                                                 \
		return p;                                                                          \
	}

#define TOUCH(v) __asm__ volatile("" ::"r"(v) : "memory")

LEVEL(0, , )
LEVEL(1, volatile char b[24]; b[at & 7] = 1, TOUCH(&b[0]))
LEVEL(2, volatile char b[700]; b[at & 7] = 1, TOUCH(&b[0]))
LEVEL(3, volatile char b[9000]; b[at & 7] = 1, TOUCH(&b[0]))
LEVEL(4, volatile char b[64] __attribute__((aligned(64))); b[at & 7] = 1, TOUCH(&b[0]))
LEVEL(5, volatile char *b = (volatile char *)__builtin_alloca((size_t)at * 16 + 16);
      b[0] = 1, TOUCH(b))
LEVEL(6, long r[6]; for (int i = 0; i < 6; i++) r[i] = at * (i + 3) ^ w->depth,
		    for (int i = 0; i < 6; i++) TOUCH(r[i]))
LEVEL(7, long a = at * 7; long b = a ^ w->depth; long c = a * b;
      long d = c - a, TOUCH(a + b + c + d))
LEVEL(8, volatile char b[40000]; b[at & 7] = 1, TOUCH(&b[0]))
LEVEL(9, double x = at * 1.5; volatile double y = x, TOUCH(y > x))
LEVEL(10, struct way copy = *w, TOUCH(&copy))
LEVEL(11, volatile char b[at + 1]; b[0] = 1, TOUCH(&b[0]))

typedef void *(*level)(const struct way *w, int at);
static const level levels[KINDS] = {lv_0, lv_1, lv_2, lv_3, lv_4,  lv_5,
				    lv_6, lv_7, lv_8, lv_9, lv_10, lv_11};

__attribute__((noinline)) void *lv_leaf(const struct way *w);
__attribute__((noinline)) void *lv_leaf(const struct way *w)
{
	void *p = malloc(w->size);

	__asm__ volatile("" : "+r"(p)::"memory");
	return p;
}

/* The leaf's own instruction, the C library's, the kernel's. Not a loop that becomes a memset. */
__attribute__((noinline)) void *lv_touch(const struct way *w);
__attribute__((noinline)) void *lv_touch(const struct way *w)
{
	for (size_t i = 0; i < w->size; i += PAGE)
		*(volatile char *)&fresh[i] = 1;
	return fresh += w->size;
}

__attribute__((noinline)) void *lv_fill(const struct way *w);
__attribute__((noinline)) void *lv_fill(const struct way *w)
{
	void *p = memset(fresh, 1, w->size);

	__asm__ volatile("" : "+r"(p)::"memory");
	return fresh += w->size;
}

__attribute__((noinline)) void *lv_read(const struct way *w);
__attribute__((noinline)) void *lv_read(const struct way *w)
{
	static int zero = -1;

	if (zero < 0)
		zero = open("/dev/zero", O_RDONLY);
	if (read(zero, fresh, w->size) != (ssize_t)w->size)
		abort();
	return fresh += w->size;
}

typedef void *(*leaf)(const struct way *w);
static const leaf leaves[] = {lv_leaf, lv_touch, lv_fill, lv_read};

__attribute__((noinline)) void *lv_next(const struct way *w, int at)
{
	void *p = at == w->depth ? leaves[w->leaf](w) : levels[w->step[at]](w, at + 1);

	__asm__ volatile("" : "+r"(p)::"memory");
	return p;
}

__attribute__((noinline)) void *lv_enter(const struct way *w)
{
	void *p = lv_next(w, 0);

	__asm__ volatile("" : "+r"(p)::"memory");
	return p;
}
#endif

#ifndef STACKWORK_LIB
struct tally {
	unsigned long calls, bytes, live;
};

static struct way *ways;
static struct tally *tallies;
static unsigned n_ways, n_threads;
static int faults;
static unsigned long n_calls;
static char in_buffer[4096], out_buffer[1 << 16];

static unsigned long next(unsigned long *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x * 2685821657736338717ul;
}

static void make_ways(void)
{
	unsigned long x = 88172645463325252ul;

	ways = (struct way *)calloc(n_ways, sizeof(*ways));
	tallies = (struct tally *)calloc(n_ways, sizeof(*tallies));
	for (unsigned i = 0; i < n_ways; i++) {
		ways[i].depth = (int)(next(&x) >> 33) % 25;
		ways[i].size = 16 + (next(&x) >> 33) % 3000;
		ways[i].keep = (next(&x) >> 33) % 4 ? 0 : 3;
		if (faults) {
			ways[i].leaf = 1 + (int)i % 3;
			ways[i].size = PAGE * (1 + i % 8);
			ways[i].keep = 0;
		}
		for (int d = 0; d < ways[i].depth; d++)
			ways[i].step[d] = (unsigned char)((next(&x) >> 33) % KINDS);
	}
}

static void count(unsigned i, int kept)
{
	__atomic_fetch_add(&tallies[i].calls, faults ? ways[i].size / PAGE : 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&tallies[i].bytes, ways[i].size, __ATOMIC_RELAXED);
	if (kept)
		__atomic_fetch_add(&tallies[i].live, ways[i].size, __ATOMIC_RELAXED);
}

static char *pages(size_t n, int flags)
{
	void *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);

	if (p == MAP_FAILED || madvise(p, n * PAGE, MADV_NOHUGEPAGE))
		abort();
	return (char *)p;
}

/* Each way once, over pages that are there: brings in all code, and this thread's stack. */
static void warm(void)
{
	char *there = pages(8, MAP_POPULATE);

	for (unsigned i = 0; i < n_ways; i++) {
		fresh = there;
		lv_enter(&ways[i]);
	}
}

static void *work(void *arg)
{
	unsigned long x = 7919 + (unsigned long)arg * 104729;

	if (faults)
		fresh = pages(n_calls / n_threads * 8, 0);

	for (unsigned long c = 0; c < n_calls / n_threads; c++) {
		unsigned i = (unsigned)(next(&x) >> 33) % n_ways;
		int kept = ways[i].keep && c % (unsigned)ways[i].keep == 0;
		void *p = lv_enter(&ways[i]);

		count(i, kept);
		if (!kept && !faults)
			free(p);
	}
	return NULL;
}

static const char *const leaf_names[] = {"lv_leaf", "lv_touch", "lv_fill", "lv_read"};

static void tell(void)
{
	for (unsigned i = 0; i < n_ways; i++) {
		if (!tallies[i].calls)
			continue;
		printf("truth|%s;lv_next;", leaf_names[ways[i].leaf]);
		for (int d = ways[i].depth - 1; d >= 0; d--)
			printf("lv_%d;lv_next;", ways[i].step[d]);
		printf("lv_enter|%lu|%lu|%lu\n", tallies[i].calls, tallies[i].bytes,
		       tallies[i].live);
	}
}

static void wait_line(void)
{
	char line[64];

	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		_exit(0);
}

/* A thread whose stack is there as a whole takes no faults on it. */
static void start(pthread_t *thread, unsigned long i)
{
	const size_t size = 512;
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	if (faults)
		pthread_attr_setstack(&attr, pages(size, MAP_POPULATE), size * PAGE);
	if (pthread_create(thread, &attr, work, (void *)i))
		abort();
	pthread_attr_destroy(&attr);
}

int main(int argc, char **argv)
{
	pthread_t threads[16];

	faults = argc == 5 && !strcmp(argv[4], "fault");
	if (argc != 4 + faults) {
		fprintf(stderr, "usage: stackwork WAYS CALLS THREADS [fault]\n");
		return 2;
	}
	n_ways = (unsigned)atoi(argv[1]);
	n_calls = strtoul(argv[2], NULL, 0);
	n_threads = (unsigned)atoi(argv[3]);
	setvbuf(stdin, in_buffer, _IOFBF, sizeof(in_buffer));
	setvbuf(stdout, out_buffer, _IOFBF, sizeof(out_buffer));
	make_ways();
	if (faults)
		warm();
	printf("ready %d\n", getpid());
	wait_line();
	for (unsigned i = 0; i < n_threads; i++)
		start(&threads[i], i);
	for (unsigned i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	tell();
	printf("done\n");
	wait_line();
	return 0;
}
#endif
