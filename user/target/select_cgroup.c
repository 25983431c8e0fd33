// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Processes of a cgroup, and of a systemd unit, which is the cgroup that bears its name. A machine
 * may have version 2, version 1 or both mounted; systemd keeps units in version 2 or in the version
 * 1 hierarchy that is named after it.
 */
#include <errno.h>
#include <limits.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/err.h"
#include "core/file.h"
#include "core/mem.h"
#include "target/select.h"

#define MAX_DEPTH 32

static int add_procs(const char *dir, struct sonde_pids *out)
{
	sonde_autofree char *text = NULL;
	int pid, digits, err = sonde_read_filef(&text, NULL, "%s/cgroup.procs", dir);

	if (err)
		return err;
	for (const char *p = text; !err; p += digits) {
		if (sscanf(p, " %d%n", &pid, &digits) != 1)
			break;
		/* A process of another pid namespace reads 0. */
		if (pid > 0)
			err = sonde_pids_add(out, pid);
	}
	return err;
}

/* The folder and all below it. A cgroup that vanishes meanwhile has no processes. */
static int add_tree(const char *dir, struct sonde_pids *out, int depth)
{
	sonde_autoclosedir DIR *d = opendir(dir);
	struct dirent *entry;
	int err = d ? add_procs(dir, out) : 0;

	/* A threaded cgroup of version 2 refuses to list processes; its threaded root has them. */
	if (err == -EOPNOTSUPP || err == -ENODEV || err == -ENOENT)
		err = 0;
	while (d && !err && depth < MAX_DEPTH && (entry = readdir(d))) {
		char path[PATH_MAX];

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= PATH_MAX)
			continue;
		err = add_tree(path, out, depth + 1);
	}
	return err;
}

/* Calls @visit with each cgroup mount until it returns non-zero, which is returned. */
static int each_mount(bool systemd_only, int (*visit)(void *ctx, const char *dir), void *ctx)
{
	FILE *f = setmntent("/proc/self/mounts", "r");
	struct mntent *m;
	int ret = 0;

	while (f && !ret && (m = getmntent(f))) {
		bool v2 = !strcmp(m->mnt_type, "cgroup2");

		if (!v2 && strcmp(m->mnt_type, "cgroup"))
			continue;
		if (systemd_only && !v2 && !strstr(m->mnt_opts, "name=systemd"))
			continue;
		ret = visit(ctx, m->mnt_dir);
	}
	if (f)
		endmntent(f);
	return ret;
}

struct lookup {
	const char *name;
	char found[PATH_MAX];
	int depth;
};

static bool is_cgroup(const char *dir)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/cgroup.procs", dir) < PATH_MAX &&
	       !access(path, F_OK);
}

/* Depth first search for a folder of that name. */
static int find_named(void *ctx, const char *dir)
{
	struct lookup *l = ctx;
	sonde_autoclosedir DIR *d = opendir(dir);
	struct dirent *entry;
	int found = 0;

	l->depth++;
	while (d && !found && l->depth < MAX_DEPTH && (entry = readdir(d))) {
		char path[PATH_MAX];

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' ||
		    snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= PATH_MAX)
			continue;
		if (!strcmp(entry->d_name, l->name)) {
			memcpy(l->found, path, sizeof(path));
			found = 1;
		} else {
			found = find_named(l, path);
		}
	}
	l->depth--;
	return found;
}

static int find_path(void *ctx, const char *dir)
{
	struct lookup *l = ctx;

	snprintf(l->found, sizeof(l->found), "%s/%s", dir, l->name);
	return is_cgroup(l->found);
}

static int add_found(const char *dir, const char *what, const char *name, struct sonde_pids *out)
{
	size_t before = out->n;
	int err = add_tree(dir, out, 0);

	if (err)
		return sonde_err(err, "cannot read the processes of %s %s in %s: %s", what, name,
				 dir, strerror(-err));
	if (out->n == before)
		return sonde_err(ESRCH, "%s %s has no process (%s)", what, name, dir);
	return 0;
}

int sonde_select_unit(const char *unit, struct sonde_pids *out)
{
	struct lookup l = {0};
	char name[NAME_MAX + 1];

	/* As systemctl has it: a name without a suffix is a service. */
	snprintf(name, sizeof(name), "%s%s", unit, strchr(unit, '.') ? "" : ".service");
	l.name = name;
	if (strchr(name, '/') || !each_mount(true, find_named, &l))
		return sonde_err(
			ESRCH,
			"no cgroup is named %s: the unit is not active, or this machine does "
			"not run systemd; `systemctl status %s` says which",
			name, name);
	return add_found(l.found, "unit", name, out);
}

int sonde_select_cgroup(const char *path, struct sonde_pids *out)
{
	struct lookup l = {.name = path};

	if (path[0] == '/' && is_cgroup(path))
		return add_found(path, "cgroup", path, out);
	if (!each_mount(false, find_path, &l))
		return sonde_err(ESRCH,
				 "no cgroup %s below any cgroup mount; /proc/PID/cgroup names "
				 "a process's own",
				 path);
	return add_found(l.found, "cgroup", path, out);
}
