// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A started command is not itself at once. After its exec it maps its libraries (only then is its
 * allocator known), a daemon goes into the background and forks the process that serves, and that
 * one listens when its data is loaded. These steps are looked for 20 ms after an exec or a fork,
 * then ten times a second until somebody listens, then less and less often. After half a minute
 * without anything new nobody looks any more.
 */
#include <errno.h>
#include <limits.h>

#include "core/log.h"
#include "core/mem.h"
#include "session/internal.h"
#include "target/proc.h"

#define STEP_FIRST_NS (20 * SONDE_NS_PER_MS)
#define STEP_WAIT_NS  (100 * SONDE_NS_PER_MS) /* what a client could send unseen, at most */
#define STEP_LAST_NS  (16 * SONDE_NS_PER_SEC)
#define WAIT_STEPS    300
#define YOUNG_NS      (2 * SONDE_NS_PER_SEC)

void session_settle_soon(struct session *s)
{
	if (!s->command_pid)
		return;
	s->settling.step_ns = STEP_FIRST_NS;
	s->settling.next_ns = sonde_mono_ns() + STEP_FIRST_NS;
	s->settling.waits = 0;
}

/* A process that is our child by birth, such as the one that holds dear probes, is no orphan. */
static bool is_this_program(pid_t pid)
{
	char link[64], theirs[PATH_MAX], ours[PATH_MAX];
	ssize_t n, m;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	n = readlink(link, theirs, sizeof(theirs));
	m = readlink("/proc/self/exe", ours, sizeof(ours));
	return n > 0 && n == m && !memcmp(theirs, ours, (size_t)n);
}

int session_adopt(struct session *s)
{
	sonde_autofree pid_t *pids = NULL;
	size_t n;
	int err = sonde_proc_descendants(getpid(), &pids, &n);

	for (size_t i = 0; i < n && !err; i++) {
		struct sonde_proc_stat stat;

		if (pids[i] == s->command_pid || sonde_proc_stat(pids[i], &stat) ||
		    stat.state == 'Z' || is_this_program(pids[i]))
			continue;
		err = session_add_child(s, pids[i]);
	}
	return err;
}

static bool listens(pid_t pid)
{
	sonde_autofree struct sonde_proc_sock *socks = NULL;
	size_t n;

	if (sonde_proc_sockets(pid, &socks, &n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (socks[i].listening)
			return true;
	return false;
}

/*
 * Index of the target that serves: of those that listen the one that has worked most, and of equals
 * the youngest (a watchdog holds its child's sockets as well, and does nothing). -1: none listens.
 */
static ssize_t find_serving(const struct session *s)
{
	uint64_t most = 0;
	ssize_t best = -1;

	for (size_t i = 0; i < s->targets.n; i++) {
		struct sonde_proc_stat stat;

		if (s->targets.t[i].gone || sonde_proc_stat(s->targets.t[i].pid, &stat) ||
		    !listens(s->targets.t[i].pid) || stat.utime_ns + stat.stime_ns < most)
			continue;
		most = stat.utime_ns + stat.stime_ns;
		best = (ssize_t)i;
	}
	return best;
}

/* Lenses that go by the sockets of a target look at them again. */
static int retarget(struct session *s)
{
	int err = 0;

	for (int l = 0; l < SONDE_LENS__MAX && !err; l++)
		if (s->inited[l] && s->ctx[l].lens->retarget)
			err = s->ctx[l].lens->retarget(&s->ctx[l]);
	return err;
}

/* An allocator that was just mapped may not be ready: it is tried again while its program is young.
 */
static int retarget_young(struct session *s, uint64_t now_ns)
{
	struct sonde_lens_ctx *ctx = &s->ctx[SONDE_LENS_ALLOC];

	for (size_t i = 0; i < s->targets.n; i++) {
		const struct sonde_target *t = &s->targets.t[i];

		if (!t->gone && t->begun_ns && now_ns - t->begun_ns < YOUNG_NS &&
		    s->inited[SONDE_LENS_ALLOC])
			return ctx->lens->retarget(ctx);
	}
	return 0;
}

static int follow_serving(struct session *s)
{
	ssize_t i = find_serving(s);
	int err;

	if (i < 0 || i == s->settling.serving)
		return 0;
	s->settling.serving = i;
	err = sonde_meta_set(&s->meta, "serving", "%zd", i);
	err = err ? err : retarget(s);
	if (err || s->targets.t[i].pid == s->command_pid)
		return err;
	s->settling.verify = s->targets.t[i].pid;
	return session_note(s, SONDE_NOTE_EVENT, "", "%s (pid %d) listens: it is what serves",
			    s->targets.t[i].comm, s->targets.t[i].pid);
}

static int describe_all(struct session *s)
{
	enum sonde_log_level level = sonde_log_get_level();
	int err = 0;

	for (size_t i = 0; i < s->targets.n && !err; i++) {
		struct sonde_target *t = &s->targets.t[i];
		int gone = 0;

		if (t->gone)
			continue;
		if (!t->allocator) {
			sonde_log_set_level(SONDE_LOG_NONE); /* gone already: no message */
			gone = sonde_target_refresh(t);
			sonde_log_set_level(level);
		}
		err = gone ? 0 : session_describe_target(s, i);
	}
	return err;
}

static bool others_live(const struct session *s, pid_t pid)
{
	for (size_t i = 0; i < s->targets.n; i++)
		if (!s->targets.t[i].gone && s->targets.t[i].pid != pid)
			return true;
	return false;
}

static int verify(struct session *s, bool last)
{
	const struct sonde_session_start *start = &s->opts->start;
	pid_t pid = s->settling.verify;
	int err = pid && start->verify ? start->verify(start->ctx, pid) : 0;

	if (err == -EAGAIN && !last)
		return 0;
	s->settling.verify = 0;
	if (err != -EAGAIN && err != -ESRCH)
		return err;
	if (others_live(s, pid))
		return 0; /* it has handed over to another, which is asked in its turn */
	return session_note(s, SONDE_NOTE_DEGRADED, "observe a command that runs longer",
			    "pid %d ended before it could be seen whether it was started as asked",
			    pid);
}

int session_settle_end(struct session *s)
{
	return s->settling.verify ? verify(s, true) : 0;
}

int session_settle(struct session *s, uint64_t now_ns)
{
	struct settling *st = &s->settling;
	int err;

	if (!st->next_ns || now_ns < st->next_ns || s->command_held)
		return 0;
	err = s->opts->children ? session_adopt(s) : 0;
	err = err ? err : follow_serving(s);
	err = err ? err : describe_all(s);
	err = err ? err : retarget_young(s, now_ns);
	err = err ? err : verify(s, false);
	st->step_ns *= 2;
	if (st->serving < 0 && st->step_ns > STEP_WAIT_NS && st->waits++ < WAIT_STEPS)
		st->step_ns = STEP_WAIT_NS;
	st->next_ns = st->step_ns > STEP_LAST_NS ? 0 : now_ns + st->step_ns;
	return err;
}
