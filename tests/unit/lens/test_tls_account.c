// SPDX-License-Identifier: GPL-2.0-or-later
/* Threads that come and go while their counters are added up: each is in the sum once. */
#include "unit/unit.h"

#include "core/mem.h"
#include "lens/tls_account.h"

static struct sonde_tls_thread thread(uint32_t tid, uint64_t started, uint64_t allocated,
				      uint64_t freed)
{
	return (struct sonde_tls_thread){.key = {started, tid, 7}, .bytes = {allocated, freed}};
}

static void saw(struct sonde_tls_account *a, uint32_t tid, uint64_t allocated, uint64_t freed)
{
	struct sonde_tls_thread t = thread(tid, tid, allocated, freed);

	assert_int_equal(sonde_tls_account_saw(a, &t), 0);
}

static void ended(struct sonde_tls_account *a, uint32_t tid, uint64_t allocated, uint64_t freed)
{
	struct sonde_tls_thread t = thread(tid, tid, allocated, freed);

	assert_int_equal(sonde_tls_account_ended(a, &t), 0);
}

static struct sonde_tls_sum finish(struct sonde_tls_account *a)
{
	struct sonde_tls_sum sum;

	assert_int_equal(sonde_tls_account_finish(a, &sum), 0);
	return sum;
}

static void test_a_thread_that_ends_counts_once(void **state)
{
	/* Where its end is told: before the reading that would have seen it, after one that did, or
	 * both in one, in either order. */
	struct sonde_tls_account a = {0};
	struct sonde_tls_sum s;

	(void)state;
	sonde_tls_account_begin(&a);
	saw(&a, 1, 100, 10);
	saw(&a, 2, 50, 5);
	s = finish(&a);
	assert_int_equal(s.bytes.allocated, 150);
	assert_int_equal(s.bytes.freed, 15);
	assert_int_equal(s.threads, 2);
	sonde_tls_account_begin(&a);
	saw(&a, 1, 110, 20);
	saw(&a, 2, 60, 6);
	ended(&a, 2, 70, 7);
	s = finish(&a);
	assert_int_equal(s.bytes.allocated, 180);
	assert_int_equal(s.bytes.freed, 27);
	assert_int_equal(s.threads, 1);
	assert_int_equal(s.ended, 1);
	sonde_tls_account_begin(&a);
	saw(&a, 1, 110, 20);
	s = finish(&a);
	assert_int_equal(s.bytes.allocated, 180);
	assert_int_equal(a.n, 1);
	sonde_tls_account_begin(&a);
	saw(&a, 1, 110, 20);
	ended(&a, 3, 1000, 1000); /* lived between two readings */
	s = finish(&a);
	assert_int_equal(s.bytes.allocated, 1180);
	assert_int_equal(s.ended, 2);
	assert_int_equal(s.lost, 0);
	sonde_tls_account_fini(&a);
}

static void test_a_leader_that_ended_stays_and_counts_once(void **state)
{
	struct sonde_tls_account a = {0};
	struct sonde_tls_thread zombie = thread(1, 1, 0, 0);
	struct sonde_tls_sum s;

	(void)state;
	zombie.state = SONDE_TLS_UNREAD;
	sonde_tls_account_begin(&a);
	saw(&a, 1, 100, 0);
	finish(&a);
	ended(&a, 1, 120, 0);
	for (int i = 0; i < 5; i++) {
		sonde_tls_account_begin(&a);
		assert_int_equal(sonde_tls_account_saw(&a, &zombie), 0);
		s = finish(&a);
		assert_int_equal(s.bytes.allocated, 120);
		assert_int_equal(s.unread, 0);
		assert_int_equal(s.ended, 1);
	}
	sonde_tls_account_fini(&a);
}

static void test_an_end_that_was_not_read_is_a_loss(void **state)
{
	struct sonde_tls_account a = {0};
	struct sonde_tls_thread t = thread(2, 2, 0, 0);
	struct sonde_tls_sum s;

	(void)state;
	t.state = SONDE_TLS_UNREAD;
	sonde_tls_account_begin(&a);
	saw(&a, 1, 1, 1);
	saw(&a, 2, 500, 400);
	saw(&a, 3, 30, 3);
	finish(&a);
	sonde_tls_account_begin(&a);
	saw(&a, 1, 1, 1);
	assert_int_equal(sonde_tls_account_ended(&a, &t), 0);
	s = finish(&a); /* 2 was told, 3 is only missing: it may still be told */
	assert_int_equal(s.bytes.allocated, 531);
	assert_int_equal(s.lost, 1);
	sonde_tls_account_begin(&a);
	saw(&a, 1, 1, 1);
	s = finish(&a);
	assert_int_equal(s.bytes.allocated, 531);
	assert_int_equal(s.lost, 2);
	assert_int_equal(s.ended, 2);
	sonde_tls_account_fini(&a);
}

static void test_a_number_used_again_is_another_thread(void **state)
{
	struct sonde_tls_account a = {0};
	struct sonde_tls_thread t = thread(2, 999, 5, 0);
	struct sonde_tls_sum s;

	(void)state;
	sonde_tls_account_begin(&a);
	saw(&a, 2, 500, 0);
	finish(&a);
	sonde_tls_account_begin(&a);
	assert_int_equal(sonde_tls_account_saw(&a, &t), 0);
	ended(&a, 2, 600, 0);
	s = finish(&a);
	assert_int_equal(s.bytes.allocated, 605);
	sonde_tls_account_fini(&a);
}

static void test_a_reading_that_fails_keeps_the_one_before(void **state)
{
	struct sonde_tls_account a = {0};
	struct sonde_tls_thread t = thread(2, 2, 0, 0);
	struct sonde_tls_sum s;

	(void)state;
	t.state = SONDE_TLS_UNREAD;
	sonde_tls_account_begin(&a);
	saw(&a, 2, 500, 100);
	finish(&a);
	sonde_tls_account_begin(&a);
	assert_int_equal(sonde_tls_account_saw(&a, &t), 0);
	s = finish(&a);
	assert_int_equal(s.bytes.allocated, 500);
	assert_int_equal(s.unread, 1);
	sonde_tls_account_fini(&a);
}

/* 3,000 threads in an order of its own, half of which end each time: against the plain sum. */
static void test_many_threads(void **state)
{
	struct sonde_tls_account a = {0};
	uint64_t total = 0;
	uint32_t next = 1;

	(void)state;
	for (int round = 0; round < 6; round++) {
		struct sonde_tls_sum s;
		uint32_t first = next;

		sonde_tls_account_begin(&a);
		for (; next < first + 3000; next++) {
			saw(&a, next, next % 97, 0);
			total += next % 97;
		}
		for (uint32_t tid = first; tid < next; tid += 2) {
			ended(&a, tid, tid % 97 + 3, 0);
			total += 3;
		}
		s = finish(&a);
		assert_int_equal(s.bytes.allocated, total);
		assert_int_equal(s.ended, 1500 * (round + 1) + 1500 * (round > 1 ? round - 1 : 0));
		assert_int_equal(s.lost, 1500 * (round > 1 ? round - 1 : 0));
	}
	sonde_tls_account_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_thread_that_ends_counts_once),
		cmocka_unit_test(test_a_leader_that_ended_stays_and_counts_once),
		cmocka_unit_test(test_an_end_that_was_not_read_is_a_loss),
		cmocka_unit_test(test_a_number_used_again_is_another_thread),
		cmocka_unit_test(test_a_reading_that_fails_keeps_the_one_before),
		cmocka_unit_test(test_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
