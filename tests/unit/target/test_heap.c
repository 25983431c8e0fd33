// SPDX-License-Identifier: GPL-2.0-or-later
/* Heaps that must not be read, and processes that have none; a reading of our own heap. */
#include "unit/unit.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log.h"
#include "target/heap/heap.h"

static char why[256];

static void test_swapped_is_refused(void **state)
{
	struct sonde_proc_mem mem;

	(void)state;
	assert_int_equal(sonde_proc_mem_parse("VmRSS:\t100 kB\nVmSwap:\t  4 kB\n", &mem), 0);
	assert_int_equal(sonde_heap_may_read(&mem, why, sizeof(why)), -EAGAIN);
	assert_non_null(strstr(why, "swapped out"));
	assert_int_equal(sonde_proc_mem_parse("VmRSS:\t100 kB\nVmSwap:\t  0 kB\n", &mem), 0);
	assert_int_equal(sonde_heap_may_read(&mem, why, sizeof(why)), 0);
	/* No VmSwap: a kernel without swap. */
	assert_int_equal(sonde_proc_mem_parse("VmRSS:\t100 kB\n", &mem), 0);
	assert_int_equal(sonde_heap_may_read(&mem, why, sizeof(why)), 0);
	assert_int_equal(sonde_proc_mem_parse("Name:\tzombie\n", &mem), 0);
	assert_int_equal(sonde_heap_may_read(&mem, why, sizeof(why)), -ESRCH);
}

static void test_no_process(void **state)
{
	struct sonde_heap *heap = NULL;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(sonde_heap_open(&heap, pid, why, sizeof(why)), -ESRCH);
	assert_null(heap);
}

static struct sonde_heap_reading read_own(struct sonde_heap *heap,
					  const struct sonde_heap_budget *budget)
{
	struct sonde_heap_reading r;

	if (sonde_heap_read(heap, budget, &r, why, sizeof(why)))
		fail_msg("%s", why);
	return r;
}

static uint64_t with_caches(const struct sonde_heap_reading *r)
{
	return r->bytes[SONDE_HEAP_LIVE] + r->bytes[SONDE_HEAP_FREE_THREAD];
}

/*
 * Our own heap, which nobody else changes: a walk is followed by estimates until its share of the
 * time has passed, a bound is what the walk was not asked to improve, and a block shows in all of
 * them.
 */
static __attribute__((unused)) void test_sources(void **state)
{
	const struct sonde_heap_budget cheap = {.cheap_only = true}, dear = {.share = 1e-9};
	const struct sonde_heap_budget few = {.max_nodes = 1};
	struct sonde_heap_reading bound, counted, estimate, more;
	struct sonde_heap *heap = NULL;
	void *p[64], *big;

	(void)state;
	for (size_t i = 0; i < 64; i++)
		p[i] = malloc(5000 + 16 * i);
	for (size_t i = 0; i < 64; i += 2)
		free(p[i]);
	if (sonde_heap_open(&heap, getpid(), why, sizeof(why)))
		fail_msg("%s", why);
	bound = read_own(heap, &cheap);
	counted = read_own(heap, &dear);
	estimate = read_own(heap, &dear);
	assert_int_equal(bound.source, SONDE_HEAP_BOUND);
	assert_int_equal(counted.source, SONDE_HEAP_COUNTED);
	assert_int_equal(estimate.source, SONDE_HEAP_COMBINED);
	assert_true(counted.clean && counted.nodes > 0 && !counted.age_ns && estimate.age_ns);
	assert_true(with_caches(&bound) > with_caches(&counted) + 16 * 5000);
	/* A mapping of its own: what is taken from a list shows at the next walk only. */
	big = malloc(64 << 20);
	asm volatile("" : : "r"(big) : "memory"); /* or the compiler does without it */
	more = read_own(heap, &dear);
	assert_true(with_caches(&more) >= with_caches(&estimate) + (63 << 20));
	free(big);
	sonde_heap_close(&heap);

	/* A walk that may not end leaves a bound. */
	assert_int_equal(sonde_heap_open(&heap, getpid(), why, sizeof(why)), 0);
	more = read_own(heap, &few);
	assert_int_equal(more.source, SONDE_HEAP_BOUND);
	assert_false(more.present & 1u << SONDE_HEAP_FREE_CENTRAL);
	sonde_heap_close(&heap);
	for (size_t i = 1; i < 64; i += 2)
		free(p[i]);
}

/* A walk that may not be waited for is done by a thread; closing does not wait for it to end. */
static __attribute__((unused)) void test_background(void **state)
{
	const struct sonde_heap_budget beside = {.max_nodes = 1, .background_nodes = 1u << 20};
	struct sonde_heap_reading r;
	struct sonde_heap *heap = NULL;

	(void)state;
	assert_int_equal(sonde_heap_open(&heap, getpid(), why, sizeof(why)), 0);
	r = read_own(heap, &beside);
	assert_int_equal(r.source, SONDE_HEAP_BOUND);
	while (r.source == SONDE_HEAP_BOUND)
		r = read_own(heap, &beside);
	assert_int_equal(r.source, SONDE_HEAP_COMBINED);
	assert_true(r.age_ns > 0 && r.nodes > 1 && r.walk_ns > 0);
	assert_true(r.present & 1u << SONDE_HEAP_FREE_CENTRAL);
	sonde_heap_close(&heap);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(sonde_heap_open(&heap, getpid(), why, sizeof(why)), 0);
		read_own(heap, &beside);
		sonde_heap_close(&heap);
	}
}

/* What mallinfo2() says, to the byte, though the asking itself is done in between. */
static __attribute__((unused)) void test_equals_mallinfo(void **state)
{
	const struct sonde_heap_budget at_once = {0};
	struct sonde_heap *heap = NULL;
	struct sonde_heap_reading r = {0};
	struct mallinfo2 m;

	(void)state;
	assert_int_equal(sonde_heap_open(&heap, getpid(), why, sizeof(why)), 0);
	/* The first one makes the reader's own buffers; they are kept or freed alike by the next.
	 */
	read_own(heap, &at_once);
	r = read_own(heap, &at_once);
	m = mallinfo2();
	/* Its buffers were live while it read. */
	assert_true(with_caches(&r) >= m.uordblks + m.hblkhd);
	assert_true(with_caches(&r) < m.uordblks + m.hblkhd + (1 << 20));
	assert_true(r.bytes[SONDE_HEAP_SYSTEM] >= m.arena + m.hblkhd);
	sonde_heap_close(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_swapped_is_refused),
		cmocka_unit_test(test_no_process),
#if !defined(__SANITIZE_ADDRESS__) &&                                                              \
	!defined(__SANITIZE_THREAD__) /* which bring their own allocator */
		cmocka_unit_test(test_sources),
		cmocka_unit_test(test_equals_mallinfo),
		cmocka_unit_test(test_background),
#endif
	};

	sonde_log_set_level(SONDE_LOG_NONE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
