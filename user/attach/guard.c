// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guard child. Invariants: the timers run before the first link exists; nothing here allocates
 * (the parent may have threads, and a fork copies their locks); no fd of the parent survives but
 * the programs and the socket, so that no pipe of the user's is held open by it.
 *
 * Links are never closed by close(): the child exits, and the exit closes them. While the kernel
 * takes a breakpoint out of the target it walks the target's pages, and gives up when a fatal
 * signal is pending for the closing task ("failed to unregister, leaking uprobe"; seen on 6.18):
 * the breakpoint then stays for the life of the target. A process that is already exiting gets no
 * signals any more, so it cannot be interrupted. For the same reason the parent-death signal is set
 * only once the links exist.
 *
 * SIGKILL by timer_create() acts on a stopped and on a frozen (cgroup v2) process as well; a
 * handler or a loop of our own would not.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "attach/guard.h"
#include "core/clock.h"
#include "core/mem.h"

enum { ANSWER_MS = 10000 };

struct answer {
	int err;
	size_t index;
};

struct child {
	const struct sonde_link_request *reqs;
	size_t n;
	int *keep; /* sorted fds that stay open */
	size_t n_keep;
	int sock;
	pid_t parent;
	uint64_t beat_ns, max_ns;
	timer_t beat, deadline;
	void (*body)(void *arg, int sock); /* NULL: hold the links until told to go */
	void *arg;
};

static int arm(timer_t timer, uint64_t ns)
{
	struct itimerspec its = {
		.it_value = {.tv_sec = (time_t)(ns / SONDE_NS_PER_SEC),
			     .tv_nsec = (long)(ns % SONDE_NS_PER_SEC)},
	};

	return timer_settime(timer, 0, &its, NULL) ? -errno : 0;
}

static int make_timer(timer_t *timer, uint64_t ns)
{
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};

	if (timer_create(CLOCK_MONOTONIC, &ev, timer))
		return -errno;
	return arm(*timer, ns);
}

static void close_others(const struct child *c)
{
	unsigned int from = 0;

	for (size_t i = 0; i < c->n_keep; i++) {
		unsigned int keep = (unsigned int)c->keep[i];

		if (keep > from)
			close_range(from, keep - 1, 0);
		from = keep + 1;
	}
	close_range(from, ~0u, 0);
}

static int settle(struct child *c)
{
	sigset_t all;
	int err = 0;

	prctl(PR_SET_NAME, "sonde-guard");
	/* The terminal's Ctrl-C reaches the whole group; when to let go is the parent's to say. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	close_others(c);
	if (c->beat_ns)
		err = make_timer(&c->beat, c->beat_ns);
	if (!err && c->max_ns)
		err = make_timer(&c->deadline, c->max_ns);
	return err;
}

static void make_links(struct child *c, struct answer *a)
{
	for (size_t i = 0; i < c->n; i++) {
		int fd = sonde_link_create(&c->reqs[i]);

		if (fd < 0) {
			*a = (struct answer){.err = fd, .index = i};
			return;
		}
	}
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		a->err = -errno;
	else if (getppid() != c->parent)
		a->err = -EPIPE;
}

static __attribute__((noreturn)) void child_main(struct child *c)
{
	struct answer a = {.index = SIZE_MAX};
	char cmd;

	a.err = settle(c);
	if (!a.err)
		make_links(c, &a);
	if (send(c->sock, &a, sizeof(a), MSG_NOSIGNAL) < 0 || a.err)
		_exit(1);
	if (c->body) {
		c->body(c->arg, c->sock);
		_exit(0);
	}
	/* The end of the socket is the word to go. */
	while (recv(c->sock, &cmd, 1, 0) == 1) {
		/* Late beats come in a bunch: the timer starts anew once, from now. */
		while (recv(c->sock, &cmd, 1, MSG_DONTWAIT) == 1)
			;
		if (c->beat_ns)
			arm(c->beat, c->beat_ns);
	}
	_exit(0);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static int prepare(struct child *c)
{
	c->keep = calloc(c->n + 1, sizeof(*c->keep));
	if (!c->keep)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		c->keep[c->n_keep++] = c->reqs[i].prog_fd;
	c->keep[c->n_keep++] = c->sock;
	qsort(c->keep, c->n_keep, sizeof(*c->keep), by_number);
	return 0;
}

static int await_answer(int sock, struct answer *a)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	int n;

	do {
		n = poll(&p, 1, ANSWER_MS);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n ? -errno : -ETIMEDOUT;
	if (recv(sock, a, sizeof(*a), 0) != sizeof(*a))
		return -ECHILD;
	return 0;
}

/* A process can be waited for only when its fds are closed: its links are gone then. */
static void reap(struct sonde_guard *g)
{
	while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	g->pid = 0;
}

static int start(struct child c, struct sonde_guard *out, size_t *failed)
{
	struct answer a = {.index = SIZE_MAX};
	struct sonde_guard g = {.n_links = c.n};
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	c.sock = pair[1];
	g.sock = pair[0];
	err = prepare(&c);
	if (!err) {
		g.pid = fork();
		if (!g.pid)
			child_main(&c);
		err = g.pid < 0 ? -errno : 0;
	}
	close(pair[1]);
	free(c.keep);
	if (err) {
		close(pair[0]);
		return err;
	}
	err = await_answer(g.sock, &a);
	if (!err)
		err = a.err;
	if (err) {
		*failed = a.index;
		if (err == -ETIMEDOUT)
			kill(g.pid, SIGKILL);
		close(g.sock);
		reap(&g);
		return err;
	}
	*out = g;
	return 0;
}

int sonde_guard_start(const struct sonde_link_request *reqs, size_t n, uint64_t beat_ns,
		      uint64_t max_ns, struct sonde_guard *out, size_t *failed)
{
	const struct child c = {
		.reqs = reqs,
		.n = n,
		.parent = getpid(),
		.beat_ns = beat_ns,
		.max_ns = max_ns,
	};

	return start(c, out, failed);
}

int sonde_guard_run(const struct sonde_link_request *reqs, size_t n, uint64_t max_ns,
		    void (*body)(void *arg, int sock), void *arg, struct sonde_guard *out,
		    size_t *failed)
{
	const struct child c = {
		.reqs = reqs,
		.n = n,
		.parent = getpid(),
		.max_ns = max_ns,
		.body = body,
		.arg = arg,
	};

	return start(c, out, failed);
}

void sonde_guard_beat(struct sonde_guard *g)
{
	char cmd = 'b';

	/* A full socket means that the child is stopped: its timer decides. */
	if (g->pid)
		(void)!send(g->sock, &cmd, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void sonde_guard_dismiss(struct sonde_guard *g)
{
	if (g->pid && g->sock >= 0)
		close(SONDE_TAKE_FD(g->sock));
}

bool sonde_guard_alive(struct sonde_guard *g)
{
	if (!g->pid)
		return false;
	/* Somebody else may have collected it (ECHILD). */
	if (!waitpid(g->pid, NULL, WNOHANG))
		return true;
	sonde_guard_dismiss(g);
	g->pid = 0;
	return false;
}

/* Is it stopped by a signal, so that it cannot see the end of its socket? */
static bool is_stopped(pid_t pid)
{
	siginfo_t info = {};

	return !waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG | WNOWAIT) && info.si_pid == pid;
}

void sonde_guard_stop(struct sonde_guard *g)
{
	if (!g->pid)
		return;
	sonde_guard_dismiss(g);
	if (is_stopped(g->pid))
		kill(g->pid, SIGKILL);
	reap(g);
}
