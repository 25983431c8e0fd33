// SPDX-License-Identifier: GPL-2.0-or-later
/* Thread pointers of a process, as its own threads see them: all of them, while they come and go.
 */
#include "unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "target/heap/threads.h"

#define MANY 40

static pthread_barrier_t ready, leave;
static uint64_t seen[MANY + 1];

/* On x86-64 pthread_self() is the thread pointer. */
static void *thread(void *arg)
{
	*(uint64_t *)arg = (uint64_t)pthread_self();
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&leave);
	return NULL;
}

static bool holds(const struct sonde_threads *t, uint64_t tp)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->tp[i] == tp)
			return true;
	return false;
}

static void start(pthread_t *id, size_t n)
{
	pthread_barrier_init(&ready, NULL, (unsigned)n + 1);
	pthread_barrier_init(&leave, NULL, (unsigned)n + 1);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(pthread_create(&id[i], NULL, thread, &seen[i]), 0);
	pthread_barrier_wait(&ready);
}

static void end(pthread_t *id, size_t n)
{
	pthread_barrier_wait(&leave);
	for (size_t i = 0; i < n; i++)
		pthread_join(id[i], NULL);
}

static void assert_threads(struct sonde_threads *t, size_t n)
{
	assert_int_equal(sonde_threads_read(t), 0);
	assert_int_equal(t->n, n + 1);
	assert_true(holds(t, (uint64_t)pthread_self()));
	for (size_t i = 0; i < n; i++)
		assert_true(holds(t, seen[i]));
}

static void test_threads(void **state)
{
	struct sonde_threads t = {0};
	struct sonde_modules mods;
	pthread_t id[MANY];
	char why[128];

	(void)state;
	assert_int_equal(sonde_modules_read(getpid(), &mods), 0);
	if (sonde_threads_init(&t, getpid(), &mods, why, sizeof(why)))
		fail_msg("%s", why);
	assert_threads(&t, 0);
	start(id, MANY);
	assert_threads(&t, MANY);
	assert_threads(&t, MANY); /* known by now: a check is all it takes */
	end(id, MANY);
	assert_threads(&t, 0);
	start(id, 3);
	assert_threads(&t, 3);
	end(id, 3);
	assert_threads(&t, 0);
	sonde_threads_fini(&t);
	sonde_modules_fini(&mods);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
