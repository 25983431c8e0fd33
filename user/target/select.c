// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From what the user asked for to opened targets. Each way of asking yields pids; a name yields
 * one, the process that serves, and everything is opened in one place.
 */
#include <errno.h>
#include <stdio.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/str.h"
#include "sonde/limits.h"
#include "target/access.h"
#include "target/proc.h"
#include "target/select.h"
#include "target/target.h"

int sonde_pids_add(struct sonde_pids *list, pid_t pid)
{
	int err;

	for (size_t i = 0; i < list->n; i++)
		if (list->p[i] == pid)
			return 0;
	err = SONDE_GROW(list->p, list->n, list->cap);
	if (!err)
		list->p[list->n++] = pid;
	return err;
}

void sonde_pids_fini(struct sonde_pids *list)
{
	free(list->p);
	*list = (struct sonde_pids){0};
}

/* Worth opening without a message about each that is not: a user process that still runs. */
static bool is_running(pid_t pid)
{
	struct sonde_proc_stat s;

	return !sonde_proc_stat(pid, &s) && !s.kernel_thread && s.state != 'Z' && s.state != 'X';
}

/* One of many that the system keeps from us must not keep the others from us. */
static bool pass_over(pid_t pid)
{
	struct sonde_proc_stat s;
	char why[256];

	if (!is_running(pid))
		return true;
	if (!sonde_access_denied(pid) || sonde_proc_stat(pid, &s))
		return false;
	sonde_access_denial(why, sizeof(why));
	sonde_warn("%d (%s) is left out: it %s", pid, s.comm, why);
	return true;
}

/* @named: the user gave this pid, so that its failure is the answer; else it is passed over. */
static int open_one(struct sonde_target_list *list, pid_t pid, bool named, bool is_child)
{
	struct sonde_target t;
	int err;

	if (sonde_target_list_find(list, pid) >= 0 || (!named && pass_over(pid)))
		return 0;
	if (list->n >= SONDE_MAX_TARGETS)
		return sonde_err(E2BIG, "more than %d processes; observe fewer, or name them by -p",
				 SONDE_MAX_TARGETS);
	err = sonde_target_open(&t, pid);
	if (err)
		return !named && err == -ESRCH ? 0 : err;
	t.is_child = is_child;
	err = sonde_target_list_add(list, &t);
	if (err)
		sonde_target_fini(&t);
	return err;
}

static int open_all(struct sonde_target_list *list, const pid_t *pids, size_t n, bool named,
		    bool is_child)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		err = open_one(list, pids[i], named, is_child);
	return err;
}

static int open_children(struct sonde_target_list *list)
{
	size_t n_roots = list->n;
	int err = 0;

	for (size_t i = 0; i < n_roots && !err; i++) {
		sonde_autofree pid_t *pids = NULL;
		size_t n;

		err = sonde_proc_descendants(list->t[i].pid, &pids, &n);
		if (!err)
			err = open_all(list, pids, n, false, true);
	}
	return err;
}

static int collect_pids(const struct sonde_target_query *q, struct sonde_pids *pids)
{
	int err = 0;

	if (q->name)
		err = sonde_select_name(q->name, pids);
	if (!err && q->unit)
		err = sonde_select_unit(q->unit, pids);
	if (!err && q->cgroup)
		err = sonde_select_cgroup(q->cgroup, pids);
	return err;
}

static int none_left(const struct sonde_pids *pids)
{
	for (size_t i = 0; i < pids->n; i++)
		if (sonde_access_denied(pids->p[i]))
			return sonde_err(EACCES, "none of the processes asked for may be observed");
	return sonde_err(ESRCH, "none of the processes asked for is running any more");
}

int sonde_target_select(const struct sonde_target_query *q, struct sonde_target_list *out)
{
	struct sonde_target_list list = {0};
	struct sonde_pids pids = {0};
	int err;

	if (!q->n_pids && !q->name && !q->unit && !q->cgroup)
		return sonde_err(EINVAL, "no process named; say -p PID, -n NAME, --unit UNIT or "
					 "--cgroup PATH");
	err = sonde_proc_mounted();
	if (!err)
		err = collect_pids(q, &pids);
	if (!err)
		err = open_all(&list, q->pids, q->n_pids, true, false);
	if (!err)
		err = open_all(&list, pids.p, pids.n, q->name != NULL, false);
	if (!err && !list.n)
		err = none_left(&pids);
	sonde_pids_fini(&pids);
	if (!err && q->children)
		err = open_children(&list);
	if (err)
		sonde_target_list_fini(&list);
	else
		*out = list;
	return err;
}
