// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Layouts derived from the libraries of this system, against the libraries themselves: the right
 * one is confirmed, and with any one slot a step too high or too low it is refused. That is what
 * makes a confirmation worth something.
 */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/log.h"
#include "target/allocator.h"
#include "target/heap/confirm.h"

#define LIBS "/usr/lib/x86_64-linux-gnu/"

struct subject {
	pid_t pid;
	struct sonde_modules mods;
	size_t m;
	struct sonde_heap_layout layout;
};

static char why[256];

/* A process that has the library mapped, and does nothing. */
static pid_t run_with(const char *preload)
{
	int ready[2], hold[2]; /* it reads from the latter, which stays open as long as we live */
	pid_t pid;
	char c;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		dup2(hold[0], 0);
		dup2(ready[1], 1);
		execl("/bin/sh", "sh", "-c", "echo; read x", (char *)NULL);
		_exit(127);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(hold[0]);
	return pid;
}

static void begin(struct subject *s, const char *preload)
{
	const struct sonde_allocator *a;
	struct sonde_elf *elf;
	char version[32];

	*s = (struct subject){.pid = run_with(preload)};
	assert_int_equal(sonde_modules_read(s->pid, &s->mods), 0);
	assert_int_equal(
		sonde_allocator_detect(s->pid, &s->mods, &a, &s->m, version, sizeof(version)), 0);
	s->layout.reader = sonde_heap_reader_find(a->name);
	assert_non_null(s->layout.reader);
	assert_int_equal(sonde_elf_open(&elf, s->mods.m[s->m].open_path, ""), 0);
	sonde_elf_build_id(elf, s->layout.build_id, sizeof(s->layout.build_id));
	if (s->layout.reader->derive(elf, &s->layout))
		fail_msg("%s", s->layout.why);
	if (s->layout.reader->learn &&
	    s->layout.reader->learn(&s->layout, s->pid, &s->mods, s->m, why, sizeof(why)))
		fail_msg("%s", why);
	sonde_elf_free(&elf);
}

static void end(struct subject *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	sonde_modules_fini(&s->mods);
}

static int confirm(const struct subject *s, const struct sonde_heap_layout *layout)
{
	why[0] = '\0';
	return sonde_heap_confirm(layout, s->pid, &s->mods, s->m, why, sizeof(why));
}

/* A slot of step 0 is a choice between 0 and 1, or has its own name in the library. */
static void assert_refused(const struct subject *s, size_t slot, int64_t by)
{
	struct sonde_heap_layout wrong = s->layout;
	int err;

	wrong.v[slot] += by;
	err = confirm(s, &wrong);
	if (!err)
		fail_msg("%s%+d is accepted", s->layout.reader->slots[slot].name, (int)by);
	/* A box that could not be started would refuse everything. */
	assert_int_not_equal(err, -EOPNOTSUPP);
	assert_string_not_equal(why, "");
}

static void check(const char *preload, size_t at_least)
{
	const struct sonde_heap_reader *r;
	struct subject s;
	size_t tried = 0;

	begin(&s, preload);
	r = s.layout.reader;
	if (confirm(&s, &s.layout))
		fail_msg("%s: %s", r->allocator, why);
	for (size_t i = 0; i < r->n_slots; i++) {
		/* The latter stands for the slot before it in static programs only. */
		if (!r->slots[i].step || !strcmp(r->slots[i].name, "tcache.tp"))
			continue;
		assert_refused(&s, i, r->slots[i].step);
		assert_refused(&s, i, -r->slots[i].step);
		tried += 2;
	}
	assert_true(tried >= at_least);
	end(&s);
}

static void test_glibc(void **state)
{
	(void)state;
	check(NULL, 18);
}

static void test_tcmalloc(void **state)
{
	(void)state;
	check(LIBS "libtcmalloc.so.4", 18);
}

static void test_tcmalloc_minimal(void **state)
{
	(void)state;
	check(LIBS "libtcmalloc_minimal.so.4", 18);
}

static void test_jemalloc(void **state)
{
	(void)state;
	check(LIBS "libjemalloc.so.2", 16);
}

/* The mangling of links in fast bins, and the width of the counters of a thread's cache. */
static void test_choices(void **state)
{
	struct subject s;

	(void)state;
	begin(&s, NULL);
	for (size_t i = 0; i < s.layout.reader->n_slots; i++) {
		const char *name = s.layout.reader->slots[i].name;

		if (!strcmp(name, "safe_link"))
			assert_refused(&s, i, s.layout.v[i] ? -1 : 1);
		if (!strcmp(name, "tcache.width"))
			assert_refused(&s, i, s.layout.v[i] == 2 ? -1 : 1);
	}
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_glibc),
		cmocka_unit_test(test_tcmalloc),
		cmocka_unit_test(test_tcmalloc_minimal),
		cmocka_unit_test(test_jemalloc),
		cmocka_unit_test(test_choices),
	};

	sonde_log_set_level(SONDE_LOG_NONE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
