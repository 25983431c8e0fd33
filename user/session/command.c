// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A command that the session starts: it waits at a gate until sonde is attached, execs, and ends
 * with the session unless it is to be kept. What it forks belongs to it: while it runs, its orphans
 * become children of sonde (PR_SET_CHILD_SUBREAPER), so that a daemon that goes into the background
 * stays known. Invariant: only processes that descend from the command are ever signalled.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "session/internal.h"

#define END_PATIENCE_NS (15 * SONDE_NS_PER_SEC) /* a daemon may have much to write */
#define END_POLL_US	10000

/* What keeps the command from running goes to the session; the pipe's end without a word is the
 * exec. */
static void give_up(int report, int err)
{
	ssize_t n = write(report, &err, sizeof(err));

	_exit(n < 0 || err != -ENOENT ? 126 : 127);
}

static void run_command(const struct session *s, int gate, int report)
{
	const struct sonde_session_start *start = &s->opts->start;
	sigset_t none;
	char byte;
	int err;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody would end it otherwise */
	err = start->prepare ? start->prepare(start->ctx) : 0;
	if (err || write(report, &err, sizeof(err)) != sizeof(err))
		give_up(report, err);
	if (read(gate, &byte, 1) != 1)
		_exit(127);
	prctl(PR_SET_PDEATHSIG, 0);
	execvp(s->opts->command[0], (char *const *)s->opts->command);
	err = sonde_err(errno, "cannot run %s: %s", s->opts->command[0], strerror(errno));
	give_up(report, err);
}

int session_start_command(struct session *s)
{
	int gate[2], report[2], err = 0;

	if (pipe2(gate, O_CLOEXEC))
		return sonde_err(errno, "cannot make a pipe: %s", strerror(errno));
	if (pipe2(report, O_CLOEXEC)) {
		err = sonde_err(errno, "cannot make a pipe: %s", strerror(errno));
		close(gate[0]);
		close(gate[1]);
		return err;
	}
	if (s->opts->children)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	s->command_pid = fork();
	if (!s->command_pid) {
		close(gate[1]);
		close(report[0]);
		run_command(s, gate[0], report[1]);
	}
	close(gate[0]);
	close(report[1]);
	s->command_gate = gate[1];
	s->command_report = report[0];
	if (s->command_pid < 0)
		return sonde_err(errno, "cannot fork: %s", strerror(errno));
	if (read(s->command_report, &err, sizeof(err)) != sizeof(err))
		return sonde_err(EPIPE, "the command ended before it began");
	return err;
}

int session_release_command(struct session *s)
{
	ssize_t n;

	if (s->command_gate < 0)
		return 0;
	n = write(s->command_gate, "x", 1);
	close(s->command_gate);
	s->command_gate = -1;
	return n == 1 ? 0 : sonde_err(EPIPE, "the command ended before it began");
}

/* The command itself, and what was observed as its child. */
static bool is_ours(const struct session *s, const struct sonde_target *t)
{
	return t->pid == s->command_pid || t->is_child;
}

static size_t signal_all(struct session *s, int sig)
{
	size_t n = 0;

	for (size_t i = 0; i < s->targets.n; i++) {
		const struct sonde_target *t = &s->targets.t[i];

		if (!is_ours(s, t) || !sonde_target_alive(t))
			continue;
		n++;
		if (sig && t->pidfd >= 0)
			syscall(SYS_pidfd_send_signal, t->pidfd, sig, NULL, 0);
		else if (sig)
			kill(t->pid, sig);
	}
	return n;
}

/* Who serves is asked first: a watchdog above it then ends by itself, instead of starting another.
 */
static void end_command(struct session *s)
{
	uint64_t limit = sonde_mono_ns() + END_PATIENCE_NS;
	ssize_t serving = s->settling.serving;
	bool asked_all = false;

	if (serving >= 0 && sonde_target_alive(&s->targets.t[serving]))
		kill(s->targets.t[serving].pid, SIGTERM);
	else
		serving = -1;
	while (signal_all(s, 0)) {
		if (!asked_all && (serving < 0 || !sonde_target_alive(&s->targets.t[serving]))) {
			signal_all(s, SIGTERM);
			asked_all = true;
		}
		if (sonde_mono_ns() > limit) {
			sonde_warn("what was started ignored SIGTERM for 15 s; killing it");
			signal_all(s, SIGKILL);
			limit = UINT64_MAX;
		}
		usleep(END_POLL_US);
	}
}

/* Why it did not run, 0 if it did. */
static int reported(struct session *s)
{
	int err = 0, word;

	fcntl(s->command_report, F_SETFL, O_NONBLOCK);
	if (read(s->command_report, &word, sizeof(word)) == sizeof(word))
		err = word;
	close(s->command_report);
	s->command_report = -1;
	return err;
}

int session_reap_command(struct session *s)
{
	int status = 0, err;
	pid_t pid;

	s->result->exit_status = -1;
	if (s->command_pid <= 0)
		return 0;
	if (s->command_gate >= 0) {
		close(s->command_gate); /* never released: it exits by itself */
		s->command_gate = -1;
		waitpid(s->command_pid, &status, 0);
	} else if (!s->opts->start.keep) {
		end_command(s);
	}
	err = reported(s);
	/* Orphans that became ours, too. */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == s->command_pid)
			s->result->exit_status =
				WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	return err;
}
