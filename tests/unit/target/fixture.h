/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Small programs and libraries compiled for a test, in a folder of its own. The compiler, linker
 * and binutils are independent witnesses: what they were told to make is what must be found.
 */
#ifndef TESTS_TARGET_FIXTURE_H
#define TESTS_TARGET_FIXTURE_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mem.h"

static char fx_dir[64];

/* Group setup and teardown for cmocka. */
static inline int fx_open(void **state)
{
	(void)state;
	snprintf(fx_dir, sizeof(fx_dir), "/tmp/sonde-test-XXXXXX");
	return mkdtemp(fx_dir) ? 0 : -1;
}

static inline int fx_close(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", fx_dir);
	return system(command);
}

static inline char *fx_path(char *buf, size_t size, const char *name)
{
	snprintf(buf, size, "%s/%s", fx_dir, name);
	return buf;
}

static inline void fx_write(const char *name, const char *text)
{
	char path[128];
	FILE *f = fopen(fx_path(path, sizeof(path), name), "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* Run a shell command inside the folder; it must succeed. */
static inline void fx_run(const char *command)
{
	char line[1024];

	snprintf(line, sizeof(line), "cd '%s' && %s", fx_dir, command);
	if (system(line))
		fail_msg("failed: %s", line);
}

/* Compile C text to file @name. */
static inline void fx_compile(const char *name, const char *flags, const char *source)
{
	char file[64], command[512];

	snprintf(file, sizeof(file), "%s.c", name);
	fx_write(file, source);
	snprintf(command, sizeof(command), "gcc -w -o %s %s.c %s", name, name, flags);
	fx_run(command);
}

/*
 * A child that has run @setup (may be NULL) and then sleeps until it is killed; it dies with the
 * test. Returns when the setup is done.
 */
static inline pid_t fx_child(void (*setup)(void *ctx), void *ctx)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		if (setup)
			setup(ctx);
		if (write(ready[1], "r", 1) != 1)
			exit(1);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

/* A program that writes a byte to descriptor 3 when it has come up; @env is "NAME=VALUE" or NULL.
 */
static inline pid_t fx_spawn(const char *path, const char *env)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		char *argv[] = {(char *)path, NULL}, *envp[] = {(char *)env, NULL};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ready[1], 3);
		execve(path, argv, envp);
		exit(127);
	}
	assert_true(pid > 0);
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static inline void fx_stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#define FX_READY_MAIN                                                                              \
	"#include <unistd.h>\n"                                                                    \
	"int main(void) { write(3, \"r\", 1); for (;;) pause(); }\n"

#endif
