// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The scratch process: it loads our own C library, is closed in, and ends with whoever started it.
 * What the box allows is asked of /proc and, for namespaces, compared with our own.
 */
#include "unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "core/file.h"
#include "target/elf.h"
#include "target/heap/scratch.h"

static char why[256];

static size_t find_libc(const struct sonde_modules *mods)
{
	for (size_t i = 0; i < mods->n; i++) {
		struct sonde_elf *elf;
		bool same;

		if (sonde_elf_try(&elf, mods->m[i].open_path, ""))
			continue;
		same = !strcmp(sonde_elf_soname(elf), "libc.so.6");
		sonde_elf_free(&elf);
		if (same)
			return i;
	}
	fail_msg("this program maps no libc.so.6");
	return 0;
}

static struct sonde_scratch *start(char what)
{
	struct sonde_scratch *s = NULL;
	struct sonde_modules mods;

	assert_int_equal(sonde_modules_read(getpid(), &mods), 0);
	if (sonde_scratch_start(&s, getpid(), &mods, find_libc(&mods), what, why, sizeof(why)))
		fail_msg("%s", why);
	sonde_modules_fini(&mods);
	return s;
}

/* Through all its states, to its end. */
static void test_states(void **state)
{
	struct sonde_scratch *s = start(SONDE_INSIDE_GLIBC);
	struct sonde_report r = {0};
	uint32_t n = 0;
	int err;

	(void)state;
	while (!(err = sonde_scratch_next(s, &r, why, sizeof(why)))) {
		assert_int_equal(r.state, n++);
		assert_int_equal(r.n, 10);
		assert_true(r.v[0] >= r.v[7]); /* arena holds what is in use of it */
	}
	if (err != -ENODATA)
		fail_msg("%s", why);
	assert_int_equal(n, r.states);
	sonde_scratch_free(&s);
	assert_null(s);
}

/* A signal that we block is not waited out, and stays for who waits for it. */
static void test_told_to_end(void **state)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		struct sonde_scratch *s = start(SONDE_INSIDE_GLIBC);
		pid_t pid = sonde_scratch_pid(s);
		struct sonde_report r;
		sigset_t set;
		int sig;

		sigemptyset(&set);
		sigaddset(&set, signals[i]);
		assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
		assert_int_equal(kill(getpid(), signals[i]), 0);
		assert_int_equal(sonde_scratch_next(s, &r, why, sizeof(why)), -ECANCELED);
		assert_non_null(strstr(why, "told to end"));
		sonde_scratch_free(&s);
		assert_int_equal(kill(pid, 0), -1);
		assert_int_equal(sigwait(&set, &sig), 0);
		assert_int_equal(sig, signals[i]);
		assert_int_equal(sigprocmask(SIG_UNBLOCK, &set, NULL), 0);
	}
}

/* It ends as its limit of CPU time would end it. */
static void test_killed(void **state)
{
	struct sonde_scratch *s = start(SONDE_INSIDE_GLIBC);
	struct sonde_report r;

	(void)state;
	assert_int_equal(sonde_scratch_next(s, &r, why, sizeof(why)), 0);
	assert_int_equal(kill(sonde_scratch_pid(s), SIGKILL), 0);
	assert_int_equal(sonde_scratch_next(s, &r, why, sizeof(why)), -EPROTO);
	assert_non_null(strstr(why, "CPU time"));
	assert_non_null(strstr(why, "dpkg -V"));
	sonde_scratch_free(&s);
}

static uint64_t status_field(pid_t pid, const char *name)
{
	char *text, *at;
	unsigned long long v;

	assert_int_equal(sonde_read_filef(&text, NULL, "/proc/%d/status", pid), 0);
	at = strstr(text, name);
	assert_non_null(at);
	assert_int_equal(sscanf(at + strlen(name), strstr(name, "Cap") ? "%llx" : "%llu", &v), 1);
	free(text);
	return v;
}

static void test_closed(void **state)
{
	static const char *const spaces[] = {"mnt", "pid", "net", "ipc", "uts"};
	struct sonde_scratch *s = start(SONDE_INSIDE_GLIBC);
	pid_t pid = sonde_scratch_pid(s);
	struct sonde_report r;
	char *text;

	(void)state;
	assert_int_equal(sonde_scratch_next(s, &r, why, sizeof(why)), 0);
	assert_int_equal(status_field(pid, "\nCapEff:"), 0);
	assert_int_equal(status_field(pid, "\nCapPrm:"), 0);
	assert_int_equal(status_field(pid, "\nCapBnd:"), 0);
	assert_int_equal(status_field(pid, "\nNoNewPrivs:"), 1);
	assert_int_equal(status_field(pid, "\nSeccomp:"), 2);
	assert_int_equal(status_field(pid, "\nUid:"), geteuid() ? geteuid() : 65534);
	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		char path[64], mine[64] = "", its[64] = "";

		snprintf(path, sizeof(path), "/proc/self/ns/%s", spaces[i]);
		assert_true(readlink(path, mine, sizeof(mine) - 1) > 0);
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, spaces[i]);
		assert_true(readlink(path, its, sizeof(its) - 1) > 0);
		assert_string_not_equal(mine, its);
	}
	/* Its mounts are one: the root with the libraries, read-only. */
	assert_int_equal(sonde_read_filef(&text, NULL, "/proc/%d/mounts", pid), 0);
	assert_non_null(strstr(text, " / tmpfs ro,"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	free(text);
	sonde_scratch_free(&s);
	assert_int_equal(kill(pid, 0), -1);
}

/* A program that was told nonsense ends with its own words as the reason. */
static void test_says_why(void **state)
{
	struct sonde_scratch *s = start(SONDE_INSIDE_TCMALLOC);
	struct sonde_report r;

	(void)state;
	assert_int_equal(sonde_scratch_next(s, &r, why, sizeof(why)), -EPROTO);
	assert_non_null(strstr(why, "no MallocExtension_GetNumericProperty"));
	sonde_scratch_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states),	 cmocka_unit_test(test_told_to_end),
		cmocka_unit_test(test_killed),	 cmocka_unit_test(test_closed),
		cmocka_unit_test(test_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
