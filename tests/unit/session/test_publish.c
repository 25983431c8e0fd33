// SPDX-License-Identifier: GPL-2.0-or-later
/* The published page: whole values under concurrent readers, no file overwritten, death seen by
 * age. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/bus.h"
#include "core/clock.h"
#include "core/log.h"
#include "session/publish.h"

#define WRITES 400000

static char dir[64], path[96];
static const struct sonde_consumption zero;

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/sonde-publish-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/page", dir);
	sonde_log_set_level(SONDE_LOG_NONE);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

/* A value of which every part tells all others. */
static struct sonde_consumption value_of(uint64_t n)
{
	return (struct sonde_consumption){.bytes = (int64_t)n,
					  .bound = n * 0x9e3779b97f4a7c15ull,
					  .taken_ns = ~n,
					  .source = (uint32_t)(n >> 3)};
}

struct reader {
	const struct sonde_consumption_page *page;
	uint64_t reads, torn, backwards, values;
	volatile bool *done;
};

static void *read_until_done(void *arg)
{
	struct reader *r = arg;
	uint64_t last = 0;

	while (!*r->done) {
		struct sonde_consumption c, want;

		if (!sonde_consumption_read(r->page, &c))
			continue;
		want = value_of((uint64_t)c.bytes);
		r->reads++;
		r->torn += c.bound != want.bound || c.taken_ns != want.taken_ns ||
			   c.source != want.source;
		r->backwards += (uint64_t)c.bytes < last;
		r->values += (uint64_t)c.bytes != last;
		last = (uint64_t)c.bytes;
	}
	return NULL;
}

static void test_never_torn(void **state)
{
	struct sonde_publisher *p = NULL;
	volatile bool done = false;
	struct reader r[2] = {{.done = &done}, {.done = &done}};
	const struct sonde_consumption first = value_of(1);
	pthread_t t[2];

	(void)state;
	assert_int_equal(sonde_publisher_open(&p, path, 1000, 1, &first), 0);
	for (int i = 0; i < 2; i++) {
		r[i].page = sonde_consumption_map(path);
		assert_non_null(r[i].page);
		assert_int_equal(pthread_create(&t[i], NULL, read_until_done, &r[i]), 0);
	}
	/* Until both have seen many values, so that on one CPU too they were in the middle of some.
	 */
	for (uint64_t n = 2; n < WRITES || r[0].values < 100 || r[1].values < 100; n++) {
		struct sonde_consumption c = value_of(n);

		sonde_publisher_write(p, &c);
	}
	done = true;
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(r[i].torn, 0);
		assert_int_equal(r[i].backwards, 0);
		sonde_consumption_unmap(r[i].page);
	}
	sonde_publisher_close(&p);
}

static void test_end_is_seen(void **state)
{
	struct sonde_publisher *p = NULL;
	struct sonde_consumption c = {.bytes = -5, .bound = 7, .taken_ns = 9, .source = 1};
	const struct sonde_consumption_page *page;
	struct stat st;

	(void)state;
	assert_int_equal(sonde_publisher_open(&p, path, 1000, 812, &zero), 0);
	page = sonde_consumption_map(path);
	assert_non_null(page);
	assert_int_equal(page->target, 812);
	assert_int_equal(page->publisher, getpid());
	assert_int_equal(page->interval_ns, 1000);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	sonde_publisher_write(p, &c);
	assert_int_equal(sonde_consumption_bytes(page), -5);
	sonde_publisher_close(&p);
	assert_null(p);
	assert_true(sonde_consumption_read(page, &c));
	assert_int_equal(c.bytes, -5);
	assert_int_equal(c.ended, 1);
	assert_int_equal(stat(path, &st), -1);
	sonde_consumption_unmap(page);
}

static void test_nothing_is_overwritten(void **state)
{
	struct sonde_publisher *p = NULL;
	char other[128], text[8] = "";
	FILE *f;

	(void)state;
	snprintf(other, sizeof(other), "%s/other", dir);
	f = fopen(other, "w");
	assert_non_null(f);
	fputs("mine", f);
	fclose(f);
	assert_int_equal(sonde_publisher_open(&p, other, 1000, 1, &zero), -EEXIST);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(sonde_publisher_open(&p, path, 1000, 1, &zero), -EEXIST);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("nowhere", path), 0);
	assert_int_equal(sonde_publisher_open(&p, path, 1000, 1, &zero), -EEXIST);
	f = fopen(other, "r");
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, "mine");
	assert_int_equal(sonde_publisher_open(&p, "/nowhere/page", 1000, 1, &zero), -ENOENT);
	unlink(other);
	unlink(path);
}

/* A publisher that was killed: its last value stays, grows old, and its page may be replaced. */
static void test_killed_publisher(void **state)
{
	struct sonde_publisher *p = NULL;
	const struct sonde_consumption_page *page;
	struct sonde_consumption c;
	pid_t child = fork();
	int status;

	(void)state;
	if (!child) {
		c = (struct sonde_consumption){.bytes = 42, .taken_ns = sonde_mono_ns()};
		if (sonde_publisher_open(&p, path, 1000000, 1, &c))
			_exit(1);
		sonde_publisher_write(p, &c);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	page = sonde_consumption_map(path);
	assert_non_null(page);
	assert_int_equal(page->publisher, child);
	assert_true(sonde_consumption_read(page, &c));
	assert_int_equal(c.bytes, 42);
	assert_int_equal(c.ended, 0);
	while (sonde_consumption_age_ns(&c) <= 3 * page->interval_ns)
		usleep(1000);
	assert_int_equal(sonde_publisher_open(&p, path, 1000, 1, &zero), 0);
	assert_int_equal(sonde_consumption_bytes(page), 42); /* the old page is another file */
	sonde_publisher_close(&p);
	sonde_consumption_unmap(page);
}

/* Somebody else's page that is written to is left alone. */
static void test_living_publisher(void **state)
{
	struct sonde_publisher *p = NULL, *second = NULL;
	struct sonde_consumption c = {.taken_ns = sonde_mono_ns()};

	(void)state;
	assert_int_equal(sonde_publisher_open(&p, path, 1000, 1, &zero), 0);
	sonde_publisher_write(p, &c);
	assert_int_equal(sonde_publisher_open(&second, path, 1000, 1, &zero), -EEXIST);
	c.taken_ns = 1; /* since boot: whoever wrote it has long stopped */
	sonde_publisher_write(p, &c);
	assert_int_equal(sonde_publisher_open(&second, path, 1000, 1, &zero), 0);
	sonde_publisher_close(&p);
	assert_int_equal(access(path, F_OK), 0); /* it is the second's now */
	sonde_publisher_close(&second);
}

/* Cut off under the publisher's hands: it lives, and can tell; the file is not written again. */
static void test_cut_off_page(void **state)
{
	struct sonde_publisher *p = NULL;
	struct sonde_consumption c = {.bytes = 5};
	struct stat st;

	(void)state;
	assert_int_equal(sonde_publisher_open(&p, path, 1000, 1, &zero), 0);
	sonde_publisher_write(p, &c);
	assert_null(sonde_publisher_damage(p));
	assert_int_equal(truncate(path, 0), 0);
	for (int i = 0; i < 3; i++)
		sonde_publisher_write(p, &c);
	assert_string_equal(sonde_publisher_damage(p), "was cut off");
	assert_int_equal(sonde_bus_count(), 1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 0);
	sonde_publisher_close(&p);
	assert_int_equal(stat(path, &st), -1);
}

/* Removed, renamed, replaced: what has the name is left alone. */
static void test_page_without_its_name(void **state)
{
	char other[128];

	(void)state;
	snprintf(other, sizeof(other), "%s/other", dir);
	for (int how = 0; how < 3; how++) {
		struct sonde_publisher *p = NULL;
		struct stat st;

		assert_int_equal(sonde_publisher_open(&p, path, 1000, 1, &zero), 0);
		if (how == 0)
			assert_int_equal(unlink(path), 0);
		if (how)
			assert_int_equal(rename(path, other), 0);
		if (how == 2)
			fclose(fopen(path, "w"));
		assert_string_equal(sonde_publisher_damage(p), "was removed, renamed or replaced");
		sonde_publisher_close(&p);
		assert_int_equal(stat(path, &st), how == 2 ? 0 : -1);
		unlink(other);
		unlink(path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_torn),
		cmocka_unit_test(test_end_is_seen),
		cmocka_unit_test(test_nothing_is_overwritten),
		cmocka_unit_test(test_killed_publisher),
		cmocka_unit_test(test_living_publisher),
		cmocka_unit_test(test_cut_off_page),
		cmocka_unit_test(test_page_without_its_name),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
