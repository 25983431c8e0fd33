// SPDX-License-Identifier: GPL-2.0-or-later
/* Configuration and index of a process, by its command line and what it has open. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/mem.h"
#include "target/files.h"

static char dir[] = "/tmp/sonde-files-XXXXXX";
static const struct sonde_daemon searchd = {.name = "searchd"};

static void write_file(const char *name, const char *text)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int hold = -1; /* while it is open, the shell waits */

/* A shell with these arguments, in @dir, that waits for its end and has docs.spd open. */
static pid_t start(const char *option, const char *value)
{
	int ready[2], go_on[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go_on, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (chdir(dir) || open("docs.spd", O_RDONLY) < 0 || dup2(go_on[0], 0) < 0 ||
		    dup2(ready[1], 9) < 0)
			_exit(1);
		execl("/bin/sh", "sh", "-c", "echo >&9; read x", "searchd", option, value, NULL);
		_exit(1);
	}
	close(ready[1]);
	close(go_on[0]);
	hold = go_on[1];
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void stop(pid_t pid)
{
	close(hold);
	waitpid(pid, NULL, 0);
}

static void look(const char *option, const char *value, struct sonde_target_files *f)
{
	pid_t pid = start(option, value);

	assert_int_equal(sonde_target_files_read(pid, &searchd, f), 0);
	stop(pid);
}

/* The same bytes have the same hash, wherever they are; others another. */
static void test_config(void **state)
{
	struct sonde_target_files a, b;
	char path[64], option[96];

	(void)state;
	write_file("a.conf", "listen = 9306\n");
	write_file("b.txt", "listen = 9306\n");
	snprintf(path, sizeof(path), "%s/a.conf", dir);
	look("--whatever", path, &a);
	assert_string_equal(a.config.s, path);
	snprintf(option, sizeof(option), "--config=%s/b.txt", dir);
	look(option, "", &b);
	assert_true(a.config_hash == b.config_hash);
	sonde_target_files_fini(&b);
	/* From its working directory, too. */
	look("-c", "b.txt", &b);
	assert_string_equal(b.config.s, "b.txt");
	assert_true(a.config_hash == b.config_hash);
	sonde_target_files_fini(&b);
	write_file("b.txt", "listen = 9307\n");
	look("--config", "b.txt", &b);
	assert_true(a.config_hash != b.config_hash);
	sonde_target_files_fini(&a);
	sonde_target_files_fini(&b);
}

/* An argument that names no file, a directory or something else is no configuration. */
static void test_none(void **state)
{
	struct sonde_target_files f;
	const struct sonde_daemon other = {.name = "other"};
	pid_t pid = start("--config", "/dev/null");

	(void)state;
	assert_int_equal(sonde_target_files_read(pid, &other, &f), 0);
	assert_true(!f.config.len && !f.index_files);
	stop(pid);
	sonde_target_files_fini(&f);
	pid = start("b.txt", "/nowhere.conf");
	assert_int_equal(sonde_target_files_read(pid, &other, &f), 0);
	assert_int_equal(f.config.len, 0);
	stop(pid);
	sonde_target_files_fini(&f);
	assert_int_equal(sonde_target_files_read(pid, NULL, &f), 0); /* gone */
	sonde_target_files_fini(&f);
}

/* Of an index names and sizes count. */
static void test_index(void **state)
{
	struct sonde_target_files a, b;

	(void)state;
	look("--x", "y", &a);
	assert_true(a.index_files == 1 && a.index_bytes == 4);
	write_file("docs.spd", "5678");
	look("--x", "y", &b);
	assert_true(a.index_hash == b.index_hash);
	sonde_target_files_fini(&b);
	write_file("docs.spd", "56789");
	look("--x", "y", &b);
	assert_true(a.index_hash != b.index_hash);
	sonde_target_files_fini(&a);
	sonde_target_files_fini(&b);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	write_file("docs.spd", "1234");
	return 0;
}

static int tear_down(void **state)
{
	static const char *const files[] = {"a.conf", "b.txt", "docs.spd"};
	char path[64];

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		unlink(path);
	}
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_index),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
