// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Readings of a heap from outside against the allocator's own statistics, of
 * tests/harness/heapwork.
 *
 *     heapcheck PID PAGE READINGS rest|churn|alone
 *
 * For each reading the target is asked for its own figure just before and just after; the truth is
 * taken to be in the middle. Says "NAME VALUE" lines: errors in millionths of what is live. With
 * `alone` it is not asked: readings go on until one fails, and the last one's figure is said.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/num.h"
#include "harness/heapwork.h"
#include "target/heap/heap.h"

#define READINGS_MAX 100000

static struct heapwork_page *page;
static pid_t target;
static double error[READINGS_MAX];
static double cost[READINGS_MAX];

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void nap(long ns)
{
	struct timespec t = {0, ns};

	nanosleep(&t, NULL);
}

static uint64_t ask(void)
{
	uint32_t next = page->ask + 1;

	__atomic_store_n(&page->ask, next, __ATOMIC_RELEASE);
	while (__atomic_load_n(&page->answer, __ATOMIC_ACQUIRE) != next && !kill(target, 0))
		nap(10000);
	return page->live;
}

static void churn(int on)
{
	uint32_t resting = on ? 0 : page->threads;

	__atomic_store_n(&page->churn, (uint32_t)on, __ATOMIC_RELEASE);
	while (__atomic_load_n(&page->resting, __ATOMIC_ACQUIRE) != resting && !kill(target, 0))
		nap(100000);
}

struct tally {
	uint64_t clean, from_walk, estimates, bounds, most_nodes, live;
	double bias;
};

/* What threads cache counts as used in glibc's own statistics, and not in gperftools'. */
static uint64_t as_told(const struct sonde_heap *heap, const struct sonde_heap_reading *r)
{
	uint64_t live = r->bytes[SONDE_HEAP_LIVE];

	if (!strcmp(sonde_heap_layout(heap)->reader->allocator, "glibc"))
		live += r->bytes[SONDE_HEAP_FREE_THREAD];
	return live;
}

static int compare(struct sonde_heap *heap, size_t n, struct tally *t)
{
	const struct sonde_heap_budget budget = {0};
	char why[256];

	for (size_t i = 0; i < n; i++) {
		uint64_t before = ask(), after;
		struct sonde_heap_reading r;
		double truth;
		int err = sonde_heap_read(heap, &budget, &r, why, sizeof(why));

		if (err) {
			fprintf(stderr, "heapcheck: %s (%s)\n", why, strerror(-err));
			return 1;
		}
		after = ask();
		truth = ((double)before + (double)after) / 2;
		error[i] = fabs((double)as_told(heap, &r) - truth) / truth * 1e6;
		t->bias += ((double)as_told(heap, &r) - truth) / truth * 1e6 / (double)n;
		cost[i] = (double)r.cost_ns;
		t->clean += r.clean;
		t->from_walk += r.source == SONDE_HEAP_COUNTED;
		t->estimates += r.source == SONDE_HEAP_COMBINED;
		t->bounds += r.source == SONDE_HEAP_BOUND;
		t->most_nodes = r.nodes > t->most_nodes ? r.nodes : t->most_nodes;
		t->live = after;
	}
	return 0;
}

static void print(size_t n, const struct tally *t, double ops)
{
	qsort(error, n, sizeof(*error), by_size);
	qsort(cost, n, sizeof(*cost), by_size);
	printf("readings %zu\nlive %" PRIu64 "\nops_per_s %.0f\n", n, t->live, ops);
	printf("error_median_ppm %.0f\nerror_p99_ppm %.0f\nerror_max_ppm %.0f\nbias_ppm %.0f\n",
	       error[n / 2], error[n * 99 / 100], error[n - 1], t->bias);
	printf("clean %" PRIu64 "\ncounted %" PRIu64 "\nestimates %" PRIu64 "\nbounds %" PRIu64
	       "\nnodes %" PRIu64 "\n",
	       t->clean, t->from_walk, t->estimates, t->bounds, t->most_nodes);
	printf("cost_median_us %.0f\ncost_max_us %.0f\n", cost[n / 2] / 1e3, cost[n - 1] / 1e3);
}

static int read_alone(struct sonde_heap *heap, size_t n)
{
	const struct sonde_heap_budget budget = {0};
	struct sonde_heap_reading r = {0};
	char why[256] = "";
	int err = 0;

	printf("reading\n");
	fflush(stdout);
	for (size_t i = 0; i < n && !err; i++)
		err = sonde_heap_read(heap, &budget, &r, why, sizeof(why));
	printf("told %" PRIu64 "\nended %s %s\n", as_told(heap, &r), err ? strerror(-err) : "",
	       why);
	return 0;
}

static int run(size_t n, const char *how)
{
	struct sonde_heap *heap;
	struct tally t = {0};
	uint64_t began, ops;
	char why[256];
	int err = sonde_heap_open(&heap, target, why, sizeof(why));

	if (err) {
		fprintf(stderr, "heapcheck: %s\n", why);
		return 1;
	}
	printf("heap %s\n", sonde_heap_describe(heap));
	if (!strcmp(how, "alone")) {
		err = read_alone(heap, n);
		sonde_heap_close(&heap);
		return err;
	}
	churn(!strcmp(how, "churn"));
	ops = page->ops;
	began = sonde_mono_ns();
	err = compare(heap, n, &t);
	ops = page->ops - ops;
	if (!err)
		print(n, &t, (double)ops / ((double)(sonde_mono_ns() - began) / 1e9));
	churn(0);
	sonde_heap_close(&heap);
	return err;
}

int main(int argc, char **argv)
{
	uint64_t pid, n;
	int fd;

	if (argc < 5 || sonde_parse_u64(argv[1], &pid) || sonde_parse_u64(argv[3], &n) || !n ||
	    n > READINGS_MAX) {
		fprintf(stderr, "usage: heapcheck PID PAGE READINGS rest|churn|alone\n");
		return 2;
	}
	fd = open(argv[2], O_RDWR | O_CLOEXEC);
	page = fd < 0 ? MAP_FAILED
		      : mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		fprintf(stderr, "heapcheck: %s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	target = (pid_t)pid;
	return run(n, argv[4]);
}
