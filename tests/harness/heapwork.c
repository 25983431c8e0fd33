// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A heap to be read from outside, with the allocator's own statistics to compare with: mallinfo2(),
 * or, where gperftools serves malloc, MallocExtension's. Threads replace objects of 16 to 2015
 * bytes at random, at a given rate.
 *
 *     heapwork PAGE MIB THREADS OPS
 *
 * PAGE: a file that holds struct heapwork_page; MIB: live; OPS: mallocs and frees a second of all
 * threads together. Says "ready PID" and ends when its standard input does. A line "fork" on it
 * makes a child that goes on alone, and says "child PID"; "exec" replaces the program by itself;
 * "free" gives half back.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "heapwork.h"

#define THREADS_MAX 16

extern int __attribute__((weak))
MallocExtension_GetNumericProperty(const char *name, size_t *value);

struct worker {
	pthread_t thread;
	void **slot;
	size_t n;
	uint64_t random;
	double ops_per_s;
};

static struct heapwork_page *page;
static struct worker workers[THREADS_MAX];

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static size_t some_size(struct worker *w)
{
	return 16 + next_random(&w->random) % 2000;
}

static void *must(void *p)
{
	if (!p) {
		perror("heapwork");
		exit(1);
	}
	return p;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	nanosleep(&t, NULL);
}

/* Bursts of up to 100 operations, as far apart as the rate wants. 30 % of the slots stay empty, so
 * that the heap is as large at the end as at the begin. */
static void *work(void *arg)
{
	struct worker *w = arg;
	bool rests = false;

	for (;;) {
		bool churn = __atomic_load_n(&page->churn, __ATOMIC_ACQUIRE);

		if (churn == rests)
			__atomic_add_fetch(&page->resting, churn ? -1u : 1u, __ATOMIC_ACQ_REL);
		rests = !churn;
		uint64_t ops = 0;

		for (int i = 0; churn && i < 50; i++) {
			void **p = &w->slot[next_random(&w->random) % w->n];
			bool refill = next_random(&w->random) % 10 < 7;

			ops += !!*p + refill;
			free(*p);
			*p = refill ? must(malloc(some_size(w))) : NULL;
		}
		__atomic_add_fetch(&page->ops, ops, __ATOMIC_RELAXED);
		sleep_ns(churn ? (uint64_t)(100e9 / w->ops_per_s) : 1000000);
	}
	return NULL;
}

static uint64_t live(void)
{
	struct mallinfo2 m;
	size_t v = 0;

	if (MallocExtension_GetNumericProperty &&
	    MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &v))
		return v;
	m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

/* Answers without a malloc, a free or a lock of stdio's. */
static void *answer(void *arg)
{
	(void)arg;
	for (;;) {
		uint32_t ask = __atomic_load_n(&page->ask, __ATOMIC_ACQUIRE);

		if (ask == page->answer) {
			sleep_ns(20000);
			continue;
		}
		page->live = live();
		__atomic_store_n(&page->answer, ask, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* 30 % of what is made is given back at random, so that free chunks lie between others. */
static void fill(struct worker *w, size_t bytes)
{
	w->n = bytes / 1015;
	w->slot = must(calloc(w->n, sizeof(*w->slot)));
	for (size_t i = 0; i < w->n; i++)
		w->slot[i] = must(malloc(some_size(w)));
	for (size_t i = 0; i < w->n; i++)
		if (next_random(&w->random) % 10 < 3) {
			free(w->slot[i]);
			w->slot[i] = NULL;
		}
}

static void *begin(void *arg)
{
	struct worker *w = arg;

	fill(w, w->n);
	__atomic_add_fetch(&page->threads, 1, __ATOMIC_ACQ_REL);
	return work(w);
}

static void start(size_t mib, size_t threads, double ops)
{
	pthread_t id;

	for (size_t i = 0; i < threads; i++) {
		struct worker *w = &workers[i];

		*w = (struct worker){.n = (mib << 20) / threads,
				     .random = 88172645463325252ull + i,
				     .ops_per_s = ops / (double)threads};
		if (pthread_create(&w->thread, NULL, begin, w))
			exit(1);
	}
	while (__atomic_load_n(&page->threads, __ATOMIC_ACQUIRE) < threads ||
	       __atomic_load_n(&page->resting, __ATOMIC_ACQUIRE) < threads)
		sleep_ns(1000000);
	if (pthread_create(&id, NULL, answer, NULL))
		exit(1);
}

/* In a child only this thread goes on: what the parent's held stays, and half of one's share goes.
 */
static void give_half_back(void)
{
	for (size_t i = 0; i < workers[0].n; i += 2) {
		free(workers[0].slot[i]);
		workers[0].slot[i] = NULL;
	}
}

static void obey(char **argv)
{
	char line[16];
	ssize_t n;

	while ((n = read(0, line, sizeof(line))) > 0) {
		if (!strncmp(line, "fork", 4)) {
			pid_t pid = fork();

			if (!pid) {
				give_half_back();
				dprintf(1, "child %d %lu\n", getpid(), (unsigned long)live());
				pause();
			}
		} else if (!strncmp(line, "exec", 4)) {
			execv("/proc/self/exe", argv);
			_exit(127);
		} else if (!strncmp(line, "free", 4)) {
			give_half_back();
			dprintf(1, "freed\n");
		}
	}
}

int main(int argc, char **argv)
{
	int fd = argc == 5 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;

	if (fd < 0 || ftruncate(fd, sizeof(*page))) {
		fprintf(stderr, "usage: heapwork PAGE MIB THREADS OPS\n");
		return 2;
	}
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return 1;
	close(fd);
	memset(page, 0, sizeof(*page));
	start((size_t)atol(argv[2]), (size_t)atol(argv[3]), atof(argv[4]));
	dprintf(1, "ready %d\n", getpid());
	obey(argv);
	return 0;
}
