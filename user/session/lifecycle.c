// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Targets that fork, exec, exit and come back. Every change is a note with its time; a change that
 * makes the attached probes wrong (exec, a successor) asks for a new generation.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "session/internal.h"

#define FOLLOW_EVERY_NS (250 * SONDE_NS_PER_MS)

int session_note(struct session *s, enum sonde_note_level level, const char *remedy,
		 const char *fmt, ...)
{
	char what[512];
	struct sonde_note n = {.ts_ns = sonde_mono_ns(),
			       .level = level,
			       .lens = "",
			       .what = what,
			       .remedy = remedy};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return sonde_visit(&s->gate, note, &n);
}

static size_t living(const struct session *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->targets.n; i++)
		n += !s->targets.t[i].gone;
	return n;
}

static int add_child(struct session *s, pid_t pid)
{
	enum sonde_log_level level = sonde_log_get_level();
	struct sonde_target t = {0};
	ssize_t index;
	int err;

	if (sonde_target_list_find(&s->targets, pid) >= 0)
		return 0;
	sonde_log_set_level(SONDE_LOG_ERROR - 1); /* a child may well be gone already: no message */
	err = sonde_target_open(&t, pid);
	sonde_log_set_level(level);
	if (err)
		return 0;
	t.is_child = true;
	err = sonde_target_list_add(&s->targets, &t);
	if (err)
		return err;
	index = sonde_target_list_find(&s->targets, pid);
	if (s->engine)
		sonde_engine_target_add(s->engine, (uint32_t)pid, (uint32_t)index);
	return session_note(s, SONDE_NOTE_EVENT, "", "child pid %d is observed too", pid);
}

static int on_fork(struct session *s, const struct sonde_ev_proc *ev)
{
	return s->opts->children ? add_child(s, (pid_t)ev->child) : 0;
}

static int on_exec(struct session *s, const struct sonde_ev_proc *ev)
{
	ssize_t i = sonde_target_list_find(&s->targets, (pid_t)ev->h.tgid);
	bool first;

	if (i < 0)
		return 0;
	first = (pid_t)ev->h.tgid == s->command_pid && !s->command_execed;
	s->command_execed |= first;
	s->redescribe = true;
	snprintf(s->targets.t[i].comm, sizeof(s->targets.t[i].comm), "%.15s", ev->comm);
	if (!sonde_target_alive(&s->targets.t[i]) || sonde_target_refresh(&s->targets.t[i]))
		return 0; /* gone again: its exit follows */
	/* Only probes in the program's own files are wrong now; kernel hooks go by pid. */
	s->rebuild =
		s->opts->alloc_mode != SONDE_ALLOC_MODE_OFF || s->targets.t[i].daemon || !first;
	return first ? 0
		     : session_note(s, SONDE_NOTE_EVENT, "", "pid %u replaced its program by %.15s",
				    ev->h.tgid, ev->comm);
}

static int on_gone(struct session *s, ssize_t i)
{
	struct sonde_target *t = &s->targets.t[i];

	if (t->gone)
		return 0;
	t->gone = true;
	if (s->engine)
		sonde_engine_target_del(s->engine, (uint32_t)t->pid);
	if (!living(s) && !s->opts->follow)
		s->ended = "target exited";
	return session_note(s, SONDE_NOTE_EVENT, "", "%s (pid %d) exited", t->comm, t->pid);
}

static int on_exit_event(struct session *s, const struct sonde_ev_proc *ev)
{
	ssize_t i = sonde_target_list_find(&s->targets, (pid_t)ev->h.tgid);

	/* A leader may exit while its threads go on: ask the process. */
	if (i < 0 || sonde_target_alive(&s->targets.t[i]))
		return 0;
	return on_gone(s, i);
}

int session_on_proc_event(struct session *s, const struct sonde_ev_proc *ev)
{
	switch (ev->what) {
	case SONDE_PROC_FORK:
		return on_fork(s, ev);
	case SONDE_PROC_EXEC:
		return on_exec(s, ev);
	default:
		return on_exit_event(s, ev);
	}
}

/* Look for a successor of what the user named; quietly, for it may take hours. */
static int look_for_successor(struct session *s)
{
	enum sonde_log_level level = sonde_log_get_level();
	struct sonde_target_list found = {0};
	uint64_t now = sonde_mono_ns();
	int err;

	if (now < s->next_follow_ns)
		return 0;
	s->next_follow_ns = now + FOLLOW_EVERY_NS;
	sonde_log_set_level(SONDE_LOG_ERROR - 1);
	err = sonde_target_select(&s->opts->target, &found);
	sonde_log_set_level(level);
	if (err) {
		sonde_target_list_fini(&found);
		return 0;
	}
	s->successors = s->targets.n;
	for (size_t i = 0; i < found.n && !err; i++)
		err = sonde_target_list_add(&s->targets, &found.t[i]);
	sonde_target_list_fini(&found);
	s->rebuild = true;
	return err;
}

/* A new program's libraries are mapped only after its exec: what it is, is asked at the next tick.
 */
static int redescribe(struct session *s)
{
	for (size_t i = 0; i < s->targets.n; i++)
		if (!s->targets.t[i].gone && sonde_target_alive(&s->targets.t[i]))
			sonde_target_refresh(&s->targets.t[i]);
	s->redescribe = false;
	return session_describe(s);
}

/* Said once the successors' probes are there. */
int session_note_successors(struct session *s)
{
	int err = 0;

	for (size_t i = s->successors; i < s->targets.n && s->successors && !err; i++)
		err = session_note(s, SONDE_NOTE_EVENT, "", "restarted: pid %d is observed now",
				   s->targets.t[i].pid);
	s->successors = 0;
	return err;
}

int session_check_targets(struct session *s)
{
	int err = s->redescribe ? redescribe(s) : 0;

	for (size_t i = 0; i < s->targets.n && !err; i++)
		if (!s->targets.t[i].gone && !sonde_target_alive(&s->targets.t[i]))
			err = on_gone(s, (ssize_t)i);
	if (!err && s->opts->follow && !living(s))
		err = look_for_successor(s);
	return err;
}

/* The child waits for a byte before it execs, so that sonde is attached from the first instruction;
 * why an exec failed goes up the other pipe, which a successful exec closes. */
static void run_command(const struct session *s, int gate, int report)
{
	sigset_t none;
	ssize_t n;
	char byte;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody would end it otherwise */
	if (read(gate, &byte, 1) != 1)
		_exit(127);
	prctl(PR_SET_PDEATHSIG, 0);
	execvp(s->opts->command[0], (char *const *)s->opts->command);
	n = write(report, &errno, sizeof(errno));
	_exit(n == sizeof(errno) ? 127 : 126);
}

static void close_pair(int fd[2])
{
	close(fd[0]);
	close(fd[1]);
}

int session_start_command(struct session *s)
{
	int gate[2], report[2];

	if (pipe2(gate, O_CLOEXEC))
		return sonde_err(errno, "cannot make a pipe: %s", strerror(errno));
	if (pipe2(report, O_CLOEXEC)) {
		close_pair(gate);
		return sonde_err(errno, "cannot make a pipe: %s", strerror(errno));
	}
	s->command_pid = fork();
	if (s->command_pid < 0) {
		close_pair(gate);
		close_pair(report);
		return sonde_err(errno, "cannot fork: %s", strerror(errno));
	}
	if (!s->command_pid) {
		close(gate[1]);
		close(report[0]);
		run_command(s, gate[0], report[1]);
	}
	close(gate[0]);
	close(report[1]);
	s->command_gate = gate[1];
	s->command_report = report[0];
	return 0;
}

int session_release_command(struct session *s)
{
	ssize_t n;
	int why;

	if (s->command_gate < 0)
		return 0;
	n = write(s->command_gate, "x", 1);
	close(s->command_gate);
	s->command_gate = -1;
	if (n == 1)
		n = read(s->command_report, &why, sizeof(why));
	close(s->command_report);
	s->command_report = -1;
	if (n < 0)
		return sonde_err(EPIPE, "%s ended before it began", s->opts->command[0]);
	if (n == sizeof(why))
		return sonde_err(why == ENOENT ? EIO : why, "cannot run %s: %s",
				 s->opts->command[0], strerror(why));
	return 0;
}

/*
 * Ours to reap: its status is the session's to report. A command that still runs when the session
 * ends ends with it.
 */
int session_reap_command(struct session *s)
{
	int status = 0;

	if (s->command_pid <= 0)
		return 0;
	if (s->command_gate >= 0) { /* never released: it exits by itself */
		close(s->command_gate);
		close(s->command_report);
		s->command_gate = s->command_report = -1;
	}
	if (waitpid(s->command_pid, &status, WNOHANG) == 0) {
		kill(s->command_pid, SIGTERM);
		waitpid(s->command_pid, &status, 0);
	}
	s->command_pid = 0;
	s->result->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return sonde_meta_set(&s->meta, "command.status", "%d", s->result->exit_status);
}
