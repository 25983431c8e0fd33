// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Targets that fork, exec, exit and come back. Every change is a note with its time; a change that
 * makes the attached probes wrong (exec, a successor) asks for a new generation.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "core/log.h"
#include "core/mem.h"
#include "session/internal.h"

#define MAX_CHILD_NOTES 32
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

/* A shell may fork hundreds: what children do is told of the first only. */
static int __attribute__((format(printf, 3, 4)))
family_note(struct session *s, bool child, const char *fmt, ...)
{
	char what[256];
	va_list ap;

	if (child && ++s->child_notes > MAX_CHILD_NOTES)
		return s->child_notes > MAX_CHILD_NOTES + 1
			       ? 0
			       : session_note(s, SONDE_NOTE_EVENT, "",
					      "more children come and go; they are observed but no "
					      "longer told of");
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return session_note(s, SONDE_NOTE_EVENT, "", "%s", what);
}

size_t session_living(const struct session *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->targets.n; i++)
		n += !s->targets.t[i].gone;
	return n;
}

/* A child that will not be observed must not keep its place in the kernel's list of targets. */
static void forget_child(struct session *s, pid_t pid)
{
	if (s->engine)
		sonde_engine_target_del(s->engine, (uint32_t)pid);
}

static int refuse_child(struct session *s, pid_t pid)
{
	forget_child(s, pid);
	if (s->crowd_noted)
		return 0;
	s->crowd_noted = true;
	return session_note(s, SONDE_NOTE_DEGRADED,
			    "observe the parent alone, or for a shorter time",
			    "%d processes were observed, which is the most: later children are not",
			    SONDE_MAX_TARGETS);
}

int session_add_child(struct session *s, pid_t pid)
{
	enum sonde_log_level level = sonde_log_get_level();
	struct sonde_target t = {0};
	ssize_t index;
	int err;

	if (sonde_target_list_find(&s->targets, pid) >= 0)
		return 0;
	if (s->targets.n >= SONDE_MAX_TARGETS)
		return refuse_child(s, pid);
	sonde_log_set_level(SONDE_LOG_NONE); /* a child may well be gone already: no message */
	err = sonde_target_open(&t, pid);
	sonde_log_set_level(level);
	if (err) { /* the kernel took it for a target at its fork */
		forget_child(s, pid);
		return 0;
	}
	t.is_child = true;
	t.begun_ns = sonde_mono_ns();
	err = sonde_target_list_add(&s->targets, &t);
	if (err)
		return err;
	session_settle_soon(s);
	index = sonde_target_list_find(&s->targets, pid);
	if (s->engine)
		sonde_engine_target_add(s->engine, (uint32_t)pid, (uint32_t)index);
	return family_note(s, true, "child pid %d is observed too", pid);
}

static int on_fork(struct session *s, const struct sonde_ev_proc *ev)
{
	return s->opts->children ? session_add_child(s, (pid_t)ev->child) : 0;
}

static int refresh_quietly(struct sonde_target *t)
{
	enum sonde_log_level level = sonde_log_get_level();
	int err;

	sonde_log_set_level(SONDE_LOG_NONE);
	err = sonde_target_refresh(t);
	sonde_log_set_level(level);
	return err;
}

static int on_exec(struct session *s, const struct sonde_ev_proc *ev)
{
	ssize_t i = sonde_target_list_find(&s->targets, (pid_t)ev->h.tgid);
	struct sonde_target *t;
	bool had_probes;

	if (i < 0)
		return 0;
	t = &s->targets.t[i];
	had_probes = t->daemon;
	if (t->pid == s->command_pid)
		s->settling.verify = t->pid;
	s->redescribe = true;
	snprintf(t->comm, sizeof(t->comm), "%.15s", ev->comm);
	if (!sonde_target_alive(t) || refresh_quietly(t))
		return 0; /* gone again: its exit follows */
	/* Only probes in the program's own files are wrong now; kernel hooks go by pid. */
	s->rebuild = session_probes_alloc(s) || t->daemon || had_probes;
	t->begun_ns = sonde_mono_ns();
	t->new_program = s->rebuild;
	session_expect_libraries(s, (size_t)i);
	session_settle_soon(s);
	return family_note(s, t->is_child, "pid %u replaced its program by %.15s", ev->h.tgid,
			   ev->comm);
}

/* What one of several targets held is no part of what they hold now. The last one's final readings
 * stay. */
static int forget_levels(struct session *s, uint32_t target)
{
	const struct sonde_snapshot *snap = s->snap;
	int err = 0;

	for (size_t i = 0; i < snap->n_metrics && !err && session_living(s); i++) {
		const struct sonde_snap_metric *m = &snap->metrics[i];
		struct sonde_metric absent = {.desc = m->desc,
					      .label = m->label,
					      .ts_ns = sonde_mono_ns(),
					      .target = target,
					      .absent = "the process is gone"};

		if (m->desc->kind == SONDE_GAUGE && m->target == target && m->present)
			err = sonde_visit(&s->gate, metric, &absent);
	}
	return err;
}

static int on_gone(struct session *s, ssize_t i)
{
	struct sonde_target *t = &s->targets.t[i];
	int err = 0;

	if (t->gone)
		return 0;
	t->gone = true;
	if (s->engine)
		sonde_engine_target_del(s->engine, (uint32_t)t->pid);
	if (s->command_pid && t->is_child)
		waitpid(t->pid, NULL, WNOHANG); /* an orphan may be ours to collect */
	if (s->command_pid && s->opts->children)
		err = session_adopt(s);
	t = &s->targets.t[i];
	err = err ? err : forget_levels(s, (uint32_t)i);
	if (err)
		return err;
	if (!session_living(s) && !s->opts->follow)
		s->ended = "target exited";
	return family_note(s, t->is_child, "%s (pid %d) exited", t->comm, t->pid);
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
	sonde_log_set_level(SONDE_LOG_NONE);
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
	s->redescribe = true; /* the successor's rows */
	return err;
}

/* A new program's libraries are mapped only after its exec: what it is, is asked at the next tick.
 */
static int redescribe(struct session *s)
{
	int err = 0;

	s->redescribe = false;
	for (size_t i = 0; i < s->targets.n && !err; i++)
		if (!s->targets.t[i].gone && sonde_target_alive(&s->targets.t[i]) &&
		    !refresh_quietly(&s->targets.t[i]))
			err = session_describe_target(s, i);
	return err;
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
	if (!err && s->opts->follow && !session_living(s))
		err = look_for_successor(s);
	return err;
}
