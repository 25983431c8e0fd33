// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A command that the session starts: it waits at a gate until sonde is attached, execs, and ends
 * with the session unless it is to be kept. What it forks belongs to it: while it runs, its orphans
 * become children of sonde (PR_SET_CHILD_SUBREAPER), so that a daemon that goes into the background
 * stays known. Invariant: only processes that descend from the command are ever signalled.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "session/internal.h"

#define END_PATIENCE_NS (15 * SONDE_NS_PER_SEC) /* a daemon may have much to write */
#define END_POLL_US	10000
#define LINKER_CALLS                                                                               \
	20000 /* system calls, entry and exit: a program with hundreds of libraries                \
	       */

/* What keeps the command from running goes to the session; the pipe's end without a word is the
 * exec. */
static void run_command(const struct session *s, int report)
{
	const struct sonde_session_start *start = &s->opts->start;
	sigset_t none;
	int err;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	err = start->prepare ? start->prepare(start->ctx) : 0;
	if (!err && ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		err = sonde_err(errno,
				"cannot hold the command until it is observed: ptrace: %s; "
				"start it yourself and observe it with -p",
				strerror(errno));
	if (!err) {
		execvp(s->opts->command[0], (char *const *)s->opts->command);
		err = sonde_err(errno, "cannot run %s: %s", s->opts->command[0], strerror(errno));
	}
	if (write(report, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

/* Wait for the exec, which a traced process stops at: everything in it is there, nothing has run.
 */
static int hold_command(struct session *s, int report)
{
	int status, err = 0;
	ssize_t n = read(report, &err, sizeof(err));
	pid_t pid;

	do
		pid = waitpid(s->command_pid, &status, 0);
	while (pid < 0 && errno == EINTR);
	if (pid == s->command_pid && WIFSTOPPED(status)) {
		ptrace(PTRACE_SETOPTIONS, s->command_pid, NULL, PTRACE_O_EXITKILL);
		s->command_held = true;
		return 0;
	}
	s->command_pid = 0;
	if (n == sizeof(err) && err)
		return err;
	return sonde_err(EPIPE, "the command ended before it began");
}

int session_start_command(struct session *s)
{
	int report[2], err;

	if (pipe2(report, O_CLOEXEC))
		return sonde_err(errno, "cannot make a pipe: %s", strerror(errno));
	if (s->opts->children)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	s->command_pid = fork();
	if (!s->command_pid)
		run_command(s, report[1]);
	close(report[1]);
	if (s->command_pid < 0) {
		s->command_pid = 0;
		err = sonde_err(errno, "cannot fork: %s", strerror(errno));
	} else {
		err = hold_command(s, report[0]);
	}
	close(report[0]);
	return err;
}

/* One system call further; true while it is still held. */
static bool step_command(struct session *s)
{
	int status;

	if (ptrace(PTRACE_SYSCALL, s->command_pid, NULL, NULL) ||
	    waitpid(s->command_pid, &status, 0) < 0)
		return false;
	return WIFSTOPPED(status);
}

/*
 * Let the dynamic linker work, and no more: its last act is to unmap its cache, and then every
 * library is there while neither a constructor nor main() has run. A static program needs no step.
 */
int session_advance_command(struct session *s, struct sonde_target *t)
{
	struct user_regs_struct regs;
	int err = sonde_target_open(t, s->command_pid);

	for (int i = 0; i < LINKER_CALLS && !err && !t->allocator; i++) {
		if (!step_command(s) || ptrace(PTRACE_GETREGS, s->command_pid, NULL, &regs)) {
			s->command_held = false;
			return sonde_err(EPIPE, "the command ended before it began");
		}
		if (regs.orig_rax != SYS_munmap || regs.rax != 0)
			continue;
		sonde_target_fini(t);
		err = sonde_target_open(t, s->command_pid);
	}
	return err;
}

/* What the dynamic linker calls; main() has not begun while there is nothing else. */
static bool is_linker_call(unsigned long long call)
{
	static const unsigned short calls[] = {
		SYS_read,
		SYS_open,
		SYS_close,
		SYS_stat,
		SYS_fstat,
		SYS_lseek,
		SYS_mmap,
		SYS_mprotect,
		SYS_munmap,
		SYS_brk,
		SYS_pread64,
		SYS_access,
		SYS_uname,
		SYS_readlink,
		SYS_arch_prctl,
		SYS_getcwd,
		SYS_set_tid_address,
		SYS_openat,
		SYS_newfstatat,
		SYS_set_robust_list,
		SYS_prlimit64,
		SYS_getrandom,
		SYS_rseq,
		SYS_execve,
	};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(calls); i++)
		if (calls[i] == call)
			return true;
	return false;
}

/* Is the linker's cache of names mapped there? */
static bool is_cache(pid_t pid, unsigned long long at)
{
	char path[64], line[512];
	unsigned long long start;
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%llx-", &start) == 1 && start == at &&
			strstr(line, "/ld.so.cache");
	if (f)
		fclose(f);
	return found;
}

/*
 * An allocator that counts by thread is found by a word that the linker writes, and then nothing
 * that the command does is missed. The linker's last act is to unmap its cache: there it stops, or
 * before the first call that no linker makes.
 */
static int link_command(struct session *s)
{
	for (int i = 0; i < LINKER_CALLS; i++) {
		struct user_regs_struct regs;
		bool enters, last;

		if (!step_command(s) || ptrace(PTRACE_GETREGS, s->command_pid, NULL, &regs)) {
			s->command_held = false;
			return sonde_err(EPIPE, "the command ended before it began");
		}
		enters = (long long)regs.rax == -ENOSYS;
		if (enters && !is_linker_call(regs.orig_rax))
			return 0;
		last = enters && regs.orig_rax == SYS_munmap && is_cache(s->command_pid, regs.rdi);
		if (last)
			return step_command(s) ? 0 : -EPIPE;
	}
	return 0;
}

int session_link_command(struct session *s, struct sonde_target *t)
{
	int err = s->opts->lens.alloc_counters && sonde_session_wants_alloc(s->opts) &&
				  !s->opts->lens.passive
			  ? link_command(s)
			  : 0;

	return err ? err : sonde_target_open(t, s->command_pid);
}

/* Its life begins now. */
int session_release_command(struct session *s)
{
	if (!s->command_held)
		return 0;
	s->command_held = false;
	s->settling.verify = s->command_pid;
	session_settle_soon(s);
	if (ptrace(PTRACE_DETACH, s->command_pid, NULL, NULL))
		return sonde_err(EPIPE, "the command ended before it began");
	return sonde_meta_set(&s->meta, "target.0.start_mono_ns", "%" PRIu64, sonde_mono_ns());
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

int session_reap_command(struct session *s)
{
	pid_t command = s->command_pid, pid;
	int status = 0;

	if (command <= 0)
		return 0;
	if (s->command_held) /* never let go: it has done nothing yet */
		kill(command, SIGKILL);
	else if (!s->opts->start.keep)
		end_command(s);
	s->command_pid = 0;
	if (s->command_held)
		return waitpid(command, &status, 0) < 0 ? -errno : 0;
	/* Orphans that became ours, too. */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == command)
			s->result->exit_status =
				WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	return s->result->exit_status < 0
		       ? 0
		       : sonde_meta_set(&s->meta, "command.status", "%d", s->result->exit_status);
}
