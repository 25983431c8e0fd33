// SPDX-License-Identifier: GPL-2.0-or-later
/* One observed process: opening, refreshing, and telling it from a later one with the same pid. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "core/err.h"
#include "core/file.h"
#include "core/log.h"
#include "core/mem.h"
#include "target/access.h"
#include "target/allocator.h"
#include "target/daemon.h"
#include "target/elf.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/target.h"

/* A thread has its own /proc/TID, too, though it is not listed there. */
static int check_leader(pid_t pid)
{
	sonde_autofree char *text = NULL;
	const char *line;
	int tgid;

	if (sonde_read_filef(&text, NULL, "/proc/%d/status", pid))
		return 0;
	line = strstr(text, "\nTgid:");
	if (line && sscanf(line, "\nTgid: %d", &tgid) == 1 && tgid != pid)
		return sonde_err(ESRCH, "%d is a thread of process %d; observe it with -p %d", pid,
				 tgid, tgid);
	return 0;
}

static int check_state(pid_t pid, struct sonde_proc_stat *s)
{
	int err = sonde_proc_stat(pid, s);

	if (err == -ESRCH) {
		err = sonde_proc_mounted();
		return err ? err : sonde_err(ESRCH, "no process has pid %d", pid);
	}
	if (err)
		return sonde_err(err, "cannot read /proc/%d/stat: %s", pid, strerror(-err));
	if (s->kernel_thread)
		return sonde_err(ESRCH,
				 "%d (%s) is a kernel thread; only user processes can be "
				 "observed",
				 pid, s->comm);
	if (s->state == 'Z' || s->state == 'X')
		return sonde_err(ESRCH,
				 "%d (%s) has exited and waits for its parent %d to collect it",
				 pid, s->comm, s->ppid);
	return check_leader(pid);
}

/* A process that went is told from one that could not be read. */
static int read_error(int err, const char *what, const struct sonde_target *t)
{
	if (err == -ESRCH || err == -ENOENT)
		return sonde_err(ESRCH, "%d (%s) has exited", t->pid, t->comm);
	return sonde_err(err, "cannot read /proc/%d/%s: %s%s", t->pid, what, strerror(-err),
			 err == -EACCES || err == -EPERM ? "; run as root" : "");
}

static int read_exe(struct sonde_target *t)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", t->pid);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0 && (errno == EACCES || errno == EPERM)) {
		char why[256];

		sonde_access_denial(why, sizeof(why));
		return sonde_err(EACCES, "%d (%s) %s", t->pid, t->comm, why);
	}
	if (n < 0)
		return read_error(-errno, "exe", t);
	path[n] = '\0';
	t->exe = strdup(path);
	if (!t->exe)
		return -ENOMEM;
	t->exe_deleted = n > 10 && !strcmp(path + n - 10, " (deleted)");
	t->daemon = sonde_daemon_match(path);
	return 0;
}

/* Also what refuses a 32-bit program. */
static int read_build_id(struct sonde_target *t)
{
	struct sonde_elf *elf;
	char path[64], root[32];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/exe", t->pid);
	snprintf(root, sizeof(root), "/proc/%d/root", t->pid);
	err = sonde_elf_open(&elf, path, root);
	if (err)
		return err;
	sonde_elf_build_id(elf, t->build_id, sizeof(t->build_id));
	sonde_elf_free(&elf);
	return 0;
}

static int read_allocator(struct sonde_target *t)
{
	struct sonde_modules mods;
	size_t module;
	int err = sonde_modules_read(t->pid, &mods);

	if (err)
		return read_error(err, "maps", t);
	err = sonde_allocator_detect(t->pid, &mods, &t->allocator, &module, t->allocator_version,
				     sizeof(t->allocator_version));
	sonde_modules_fini(&mods);
	if (err == -ENOENT)
		sonde_debug("%d (%s): no allocator that sonde knows", t->pid, t->comm);
	return err == -ENOENT ? 0 : err;
}

static int read_details(struct sonde_target *t)
{
	int err = read_exe(t);

	if (!err)
		err = read_build_id(t);
	return err ? err : read_allocator(t);
}

static int check_same(const struct sonde_target *t)
{
	struct sonde_proc_stat again;
	int err = sonde_proc_stat(t->pid, &again);

	if (!err && again.start_ticks != t->start_ticks)
		err = -ESRCH;
	return err ? read_error(err, "stat", t) : 0;
}

int sonde_target_open(struct sonde_target *out, pid_t pid)
{
	struct sonde_target t = {.pid = pid, .pidfd = -1};
	struct sonde_proc_stat s;
	int err = pid > 0 ? check_state(pid, &s) : sonde_err(ESRCH, "%d is not a pid", pid);

	if (err)
		return err;
	memcpy(t.comm, s.comm, sizeof(t.comm));
	t.start_ticks = s.start_ticks;
	t.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (t.pidfd < 0 && errno != ENOSYS)
		err = sonde_err(errno, "cannot hold on to %d (%s): %s", pid, s.comm,
				strerror(errno));
	/* The pidfd must be of the process that was looked at, not of a later one. */
	if (!err)
		err = check_same(&t);
	if (!err)
		err = read_details(&t);
	if (err)
		sonde_target_fini(&t);
	else
		*out = t;
	return err;
}

void sonde_target_fini(struct sonde_target *t)
{
	if (t->pidfd >= 0)
		close(t->pidfd);
	free(t->exe);
	*t = (struct sonde_target){.pidfd = -1};
}

int sonde_target_refresh(struct sonde_target *t)
{
	struct sonde_target fresh = {.pid = t->pid, .pidfd = -1};
	struct sonde_proc_stat s;
	int err = check_state(t->pid, &s);

	if (err)
		return err;
	if (s.start_ticks != t->start_ticks)
		return sonde_err(ESRCH, "%d (%s) has exited and its pid is another process's now",
				 t->pid, t->comm);
	memcpy(fresh.comm, s.comm, sizeof(fresh.comm));
	err = read_details(&fresh);
	if (err) {
		sonde_target_fini(&fresh);
		return err;
	}
	fresh.pidfd = SONDE_TAKE_FD(t->pidfd);
	fresh.start_ticks = t->start_ticks;
	fresh.is_child = t->is_child;
	fresh.begun_ns = t->begun_ns;
	fresh.new_program = t->new_program;
	sonde_target_fini(t);
	*t = fresh;
	return 0;
}

bool sonde_target_alive(const struct sonde_target *t)
{
	struct pollfd p = {.fd = t->pidfd, .events = POLLIN};
	struct sonde_proc_stat s;

	if (t->gone)
		return false;
	/* A pidfd becomes readable when the process has exited, zombie or not. */
	if (t->pidfd >= 0)
		return poll(&p, 1, 0) == 0;
	return !sonde_proc_stat(t->pid, &s) && s.start_ticks == t->start_ticks && s.state != 'Z';
}

int sonde_target_list_add(struct sonde_target_list *list, struct sonde_target *t)
{
	int err = SONDE_GROW(list->t, list->n, list->cap);

	if (err)
		return err;
	list->t[list->n++] = *t;
	*t = (struct sonde_target){.pidfd = -1};
	return 0;
}

void sonde_target_list_fini(struct sonde_target_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		sonde_target_fini(&list->t[i]);
	free(list->t);
	*list = (struct sonde_target_list){0};
}

ssize_t sonde_target_list_find(const struct sonde_target_list *list, pid_t pid)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->t[i].pid == pid && !list->t[i].gone)
			return (ssize_t)i;
	return -1;
}
