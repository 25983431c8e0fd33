/* SPDX-License-Identifier: GPL-2.0-or-later */
/* attachdrv's side of a target process, and how it states facts. */
#ifndef ATTACH_PROCESS_H
#define ATTACH_PROCESS_H

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "attach_target.h"
#include "core/mem.h"

static int failures;

static __attribute__((format(printf, 2, 3))) void check(bool ok, const char *fmt, ...)
{
	va_list ap;

	printf("%s ", ok ? "ok" : "not ok");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	failures += !ok;
}

static __attribute__((noreturn)) void die(const char *what)
{
	printf("not ok %s: %s\n", what, strerror(errno));
	exit(1);
}

struct target {
	pid_t pid;
	FILE *in, *out;
	struct target_hello hello;
};

static struct target target_start(void)
{
	struct target t = {};
	int to[2], from[2];

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		die("pipe");
	t.pid = fork();
	if (!t.pid) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/proc/self/exe", "attachdrv", "target", NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	t.in = fdopen(to[1], "w");
	t.out = fdopen(from[0], "r");
	if (fscanf(t.out, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &t.hello.pair,
		   &t.hello.slid, &t.hello.lo, &t.hello.hi) != 4)
		die("target's greeting");
	return t;
}

static int tell(struct target *t, const char *cmd, long n)
{
	int answer;

	fprintf(t->in, "%s %ld\n", cmd, n);
	fflush(t->in);
	if (fscanf(t->out, " ok %d", &answer) != 1)
		die(cmd);
	return answer;
}

static void target_stop(struct target *t)
{
	fclose(t->in);
	fclose(t->out);
	waitpid(t->pid, NULL, 0);
}

/* The byte of the target's text: 0xcc while a probe sits there. */
static int text_byte(const struct target *t, uint64_t addr)
{
	char path[64];
	unsigned char byte;
	sonde_autoclose int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/mem", t->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, &byte, 1, (off_t)addr) != 1)
		die(path);
	return byte;
}

static bool armed(const struct target *t)
{
	return text_byte(t, t->hello.pair) == 0xcc || text_byte(t, t->hello.slid) == 0xcc;
}

static bool clean(const struct target *t)
{
	return text_byte(t, t->hello.pair) == *(unsigned char *)target_pair &&
	       text_byte(t, t->hello.slid) == ((unsigned char *)target_slid)[TARGET_SLIDE];
}

#endif
