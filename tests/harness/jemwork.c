// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program on jemalloc (preloaded or linked) that says what jemalloc says of it. Lines on stdin:
 *
 *     step        each thread allocates and frees at random, then all rest
 *     run, stop   they go on doing so between these two
 *     come N      N threads, some at a time, begin, allocate, free what others allocated, and end
 *     kill        one thread allocates 64 MiB in one piece, and ends without freeing it
 *     quit
 *
 * and after each but `run` the truth at rest:
 *     truth ALLOCATED FREED LIVE STATS THREADS
 * by the threads' own counters (mallctl thread.allocatedp), ended threads included; LIVE by
 * jemalloc's statistics: stats.allocated less what its thread caches and it itself hold; STATS:
 * stats.allocated. Usage: jemwork THREADS FILE; FILE gets, as 64-bit words, what each thread
 * counted after each operation: a slot of two words each (slot 0: threads that ended), for who
 * reads while threads run.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern int mallctl(const char *name, void *old, size_t *old_len, void *fresh, size_t len)
	__attribute__((weak));
extern int je_mallctl(const char *name, void *old, size_t *old_len, void *fresh, size_t len)
	__attribute__((weak));
extern void *je_malloc(size_t size) __attribute__((weak));
extern void je_free(void *p) __attribute__((weak));

#define SLOTS 128
#define POOL  65536 /* blocks that all threads share: who frees is seldom who allocated */

static int (*ctl)(const char *, void *, size_t *, void *, size_t);
static void *(*get)(size_t);
static void (*give)(void *);
static _Atomic uint64_t (*slots)[2];
static _Atomic(void *) pool[POOL];
static pthread_barrier_t barrier;
static atomic_int running, quit, ready;
static int n_threads;

struct self {
	int slot;
	uint64_t *counter[2];
	uint64_t random;
};

static uint64_t ask(const char *name)
{
	size_t v = 0, len = sizeof(v);

	if (ctl(name, &v, &len, NULL, 0)) {
		fprintf(stderr, "jemwork: no %s\n", name);
		exit(1);
	}
	return v;
}

static void self_init(struct self *s, int slot)
{
	size_t len = sizeof(void *);

	s->slot = slot;
	s->random = (uint64_t)slot * 0x9e3779b97f4a7c15u + 88172645463325252u;
	if (ctl("thread.allocatedp", &s->counter[0], &len, NULL, 0) ||
	    ctl("thread.deallocatedp", &s->counter[1], &len, NULL, 0))
		exit(1);
}

static void publish(const struct self *s)
{
	for (int i = 0; i < 2; i++)
		atomic_store_explicit(&slots[s->slot][i], *s->counter[i], memory_order_relaxed);
}

static uint64_t next(struct self *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random;
}

/* A block of some size, written to as programs do; nothing in a third of the cases. */
static void *some_block(struct self *s)
{
	uint64_t r = next(s);
	size_t size = r % 50 ? 16 + r / 64 % 8000 : 20000 + r / 64 % 200000;

	return next(s) % 3 ? memset(get(size), 1, size) : NULL;
}

static void operate(struct self *s, int times)
{
	for (int i = 0; i < times; i++) {
		void *p = some_block(s);

		give(atomic_exchange(&pool[next(s) % POOL], p));
		publish(s);
	}
}

static void *worker(void *arg)
{
	struct self s;

	self_init(&s, (int)(intptr_t)arg);
	publish(&s);
	ready++;
	for (;;) {
		pthread_barrier_wait(&barrier);
		if (quit)
			return NULL;
		do
			operate(&s, 300);
		while (running);
		pthread_barrier_wait(&barrier);
	}
}

/* Its counters, once more, to those that ended. What its end itself does is not counted by
 * jemalloc. */
static void retire(const struct self *s)
{
	for (int i = 0; i < 2; i++)
		atomic_fetch_add(&slots[0][i], *s->counter[i]);
}

static void *comer(void *arg)
{
	struct self s = {.slot = 0};

	self_init(&s, 0);
	s.random ^= (uint64_t)(uintptr_t)arg << 20;
	for (int i = 0; i < 200; i++) {
		void *p = some_block(&s);

		give(atomic_exchange(&pool[next(&s) % POOL], p));
	}
	retire(&s);
	return NULL;
}

static void *wasted[8];

static void *waster(void *arg)
{
	struct self s;

	(void)arg;
	self_init(&s, 0);
	for (int i = 0; i < 8; i++)
		if (!wasted[i]) {
			wasted[i] = get(64 << 20);
			break;
		}
	retire(&s);
	return NULL;
}

static void come(int n, void *(*fn)(void *))
{
	pthread_t t[16];

	for (int i = 0; i < n; i += 16) {
		int m = n - i < 16 ? n - i : 16;

		for (int k = 0; k < m; k++)
			if (pthread_create(&t[k], NULL, fn, (void *)(intptr_t)(i + k + 1)))
				exit(1);
		for (int k = 0; k < m; k++)
			pthread_join(t[k], NULL);
	}
}

static void truth(const struct self *main_thread)
{
	uint64_t epoch = 1, sum[2] = {0};
	size_t len = sizeof(epoch);
	uint64_t stats, live;

	ctl("epoch", &epoch, &len, &epoch, len);
	stats = ask("stats.allocated");
	live = stats - ask("stats.arenas.4096.tcache_bytes") - ask("stats.arenas.4096.internal");
	publish(main_thread);
	for (int i = 0; i < SLOTS; i++)
		for (int k = 0; k < 2; k++)
			sum[k] += slots[i][k];
	printf("truth %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d\n", sum[0], sum[1], live,
	       stats, n_threads + 1);
}

static void serve(const struct self *s)
{
	char line[64];

	truth(s);
	while (fflush(stdout), fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "step\n")) {
			pthread_barrier_wait(&barrier);
			pthread_barrier_wait(&barrier);
		} else if (!strcmp(line, "run\n")) {
			running = 1;
			pthread_barrier_wait(&barrier);
			continue;
		} else if (!strcmp(line, "stop\n")) {
			running = 0;
			pthread_barrier_wait(&barrier);
		} else if (!strncmp(line, "come ", 5)) {
			come(atoi(line + 5), comer);
		} else if (!strcmp(line, "kill\n")) {
			come(1, waster);
		} else {
			break;
		}
		truth(s);
	}
}

static void map_slots(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	size_t size = SLOTS * sizeof(*slots);

	if (fd < 0 || ftruncate(fd, (off_t)size)) {
		perror(path);
		exit(1);
	}
	slots = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (slots == MAP_FAILED)
		exit(1);
}

int main(int argc, char **argv)
{
	static char in[4096], out[4096];
	struct self s;

	n_threads = argc == 3 ? atoi(argv[1]) : 0;
	ctl = mallctl ? mallctl : je_mallctl;
	get = je_malloc ? je_malloc : malloc;
	give = je_free ? je_free : free;
	if (n_threads < 1 || n_threads > SLOTS - 2 || !ctl) {
		fprintf(stderr, "usage: jemwork THREADS FILE (on jemalloc)\n");
		return 2;
	}
	setvbuf(stdin, in, _IOFBF, sizeof(in));
	setvbuf(stdout, out, _IOFBF, sizeof(out));
	map_slots(argv[2]);
	self_init(&s, 1);
	pthread_barrier_init(&barrier, NULL, (unsigned)n_threads + 1);
	for (int i = 0; i < n_threads; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, worker, (void *)(intptr_t)(i + 2)))
			return 1;
		pthread_detach(t);
	}
	while (ready < n_threads)
		usleep(1000);
	serve(&s);
	quit = 1;
	running = 0;
	pthread_barrier_wait(&barrier);
	return 0;
}
