// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A name means the process that serves. Daemons come as families: a watchdog above the server
 * (searchd), a master above equal workers (nginx), a server above helpers (postgres). From the top
 * of the family the walk goes down only where a single child takes the connections in its parent's
 * place.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/str.h"
#include "target/proc.h"
#include "target/select.h"

#define COMM_LEN 15 /* characters that the kernel keeps of a name */

struct member {
	struct sonde_proc_stat stat;
	bool listens;
};

struct family {
	struct member *m;
	size_t n, cap;
};

static bool exe_is_named(pid_t pid, const char *name)
{
	size_t len = strlen(name);
	char link[64], path[PATH_MAX], *base;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0)
		return false;
	path[n] = '\0';
	base = strrchr(path, '/');
	base = base ? base + 1 : path;
	return !strncmp(base, name, len) && (!base[len] || !strcmp(base + len, " (deleted)"));
}

static bool is_named(const struct sonde_proc_stat *s, const char *name)
{
	if (!strncmp(s->comm, name, COMM_LEN) && strlen(name) >= strlen(s->comm))
		return strlen(s->comm) == strlen(name) || strlen(s->comm) == COMM_LEN;
	return exe_is_named(s->pid, name);
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

static int find_members(const char *name, struct family *f)
{
	sonde_autofree pid_t *pids = NULL;
	size_t n;
	int err = sonde_proc_all(&pids, &n);

	for (size_t i = 0; i < n && !err; i++) {
		struct member m = {0};

		if (pids[i] == getpid() || sonde_proc_stat(pids[i], &m.stat) ||
		    m.stat.kernel_thread || m.stat.state == 'Z' || !is_named(&m.stat, name))
			continue;
		m.listens = listens(pids[i]);
		err = SONDE_GROW(f->m, f->n, f->cap);
		if (!err)
			f->m[f->n++] = m;
	}
	return err;
}

static const struct member *find_member(const struct family *f, pid_t pid)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->m[i].stat.pid == pid)
			return &f->m[i];
	return NULL;
}

static uint64_t cpu_ns(const struct member *m)
{
	return m->stat.utime_ns + m->stat.stime_ns;
}

/*
 * The child that serves in place of @m, or NULL. Both may hold the listening sockets, since a fork
 * copies them: a manager above its server has done less than it, a server above the child that it
 * forked for one connection has done more.
 */
static const struct member *successor(const struct family *f, const struct member *m)
{
	const struct member *only = NULL;

	for (size_t i = 0; i < f->n; i++) {
		if (f->m[i].stat.ppid != m->stat.pid || !f->m[i].listens)
			continue;
		if (only)
			return NULL;
		only = &f->m[i];
	}
	if (!only || !m->listens)
		return only;
	return cpu_ns(only) >= cpu_ns(m) ? only : NULL;
}

static const struct member *serving(const struct family *f, const struct member *top, bool say)
{
	const struct member *m = top, *next;

	while ((next = successor(f, m))) {
		if (say)
			sonde_info("%d (%s) serves; its parent %d of the same name only watches "
				   "it",
				   next->stat.pid, next->stat.comm, m->stat.pid);
		m = next;
	}
	return m;
}

static int many(const char *name, const struct family *f)
{
	struct sonde_str sonde_autostr list = {0};

	for (size_t i = 0; i < f->n; i++)
		if (!find_member(f, f->m[i].stat.ppid))
			sonde_str_addf(&list, "%s%d", list.len ? ", " : "",
				       serving(f, &f->m[i], false)->stat.pid);
	return sonde_err(EINVAL,
			 "several independent processes are named %s: %s; choose one with -p PID, "
			 "or several with -p PID,PID",
			 name, sonde_str_get(&list));
}

int sonde_select_name(const char *name, struct sonde_pids *out)
{
	const struct member *top = NULL;
	struct family f = {0};
	size_t tops = 0;
	int err = find_members(name, &f);

	for (size_t i = 0; i < f.n; i++) {
		if (find_member(&f, f.m[i].stat.ppid))
			continue;
		top = &f.m[i];
		tops++;
	}
	if (!err && !tops)
		err = sonde_err(ESRCH,
				"no process is named %s; `sonde ps` lists what can be observed",
				name);
	else if (!err && tops > 1)
		err = many(name, &f);
	if (!err)
		err = sonde_pids_add(out, serving(&f, top, true)->stat.pid);
	free(f.m);
	return err;
}
