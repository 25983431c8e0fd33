// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The files a process runs code from. A module is its inode, not its name: the name may be deleted,
 * replaced, or mean another file in sonde's mount namespace, and a probe goes to the inode.
 */
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "core/log.h"
#include "core/mem.h"
#include "target/maps.h"

#define DELETED " (deleted)"

/*
 * Is @path that very inode? Over overlayfs and btrfs the device in maps is the file system's own,
 * not stat's, so it decides only between files of equal inode number: path and inode must match.
 */
static bool is_inode(const char *path, const struct sonde_module *m, bool with_dev)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && st.st_ino == m->inode &&
	       (!with_dev || ((uint64_t)major(st.st_dev) << 32 | minor(st.st_dev)) == m->dev);
}

static bool is_deleted(const char *path)
{
	size_t len = strlen(path), suffix = sizeof(DELETED) - 1;

	return len > suffix && !strcmp(path + len - suffix, DELETED);
}

/*
 * A path that sonde and the kernel can open now. The plain path is preferred where it is the same
 * inode, as it stays good when the target exits; then the path in the target's mount namespace;
 * then map_files, which needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE but no path at all.
 */
static char *find_open_path(pid_t pid, const struct sonde_map *map, const struct sonde_module *m)
{
	char path[PATH_MAX];

	if (!m->deleted) {
		if (is_inode(map->path, m, true))
			return strdup(map->path);
		snprintf(path, sizeof(path), "/proc/%d/root%s", pid, map->path);
		if (is_inode(path, m, true))
			return strdup(path);
	}
	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", pid, (unsigned long)map->start,
		 (unsigned long)map->end);
	if (is_inode(path, m, false))
		return strdup(path);
	if (m->is_exe) {
		snprintf(path, sizeof(path), "/proc/%d/exe", pid);
		if (is_inode(path, m, false))
			return strdup(path);
	}
	/* Overlayfs: maps tells another device than stat. */
	snprintf(path, sizeof(path), "/proc/%d/root%s", pid, map->path);
	return !m->deleted && is_inode(path, m, false) ? strdup(path) : NULL;
}

static struct sonde_module *find_module(const struct sonde_modules *mods,
					const struct sonde_map *map)
{
	uint64_t dev = (uint64_t)map->dev_major << 32 | map->dev_minor;

	for (size_t i = 0; i < mods->n; i++)
		if (mods->m[i].inode == map->inode && mods->m[i].dev == dev)
			return &mods->m[i];
	return NULL;
}

/* /proc/PID/exe is the executable's inode; its lowest mapping need not be the first in memory. */
static bool is_exe_map(pid_t pid, const struct sonde_map *map)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return !stat(path, &st) && st.st_ino == map->inode;
}

static int add_module(pid_t pid, struct sonde_modules *mods, const struct sonde_map *map)
{
	struct sonde_module m = {
		.path = strdup(map->path),
		.inode = map->inode,
		.dev = (uint64_t)map->dev_major << 32 | map->dev_minor,
		.base = map->start,
		.text_start = map->start,
		.text_end = map->end,
		.text_pgoff = map->pgoff,
		.deleted = is_deleted(map->path),
		.is_exe = is_exe_map(pid, map),
	};
	int err = m.path ? SONDE_GROW(mods->m, mods->n, mods->cap) : -ENOMEM;

	if (err) {
		free(m.path);
		return err;
	}
	m.open_path = find_open_path(pid, map, &m);
	if (!m.open_path) {
		sonde_debug("pid %d maps %s, which cannot be opened here", pid, map->path);
		free(m.path);
		return 0;
	}
	mods->m[mods->n++] = m;
	return 0;
}

/* Executable segments make modules; then every segment of a module may lower its base. */
static int collect(pid_t pid, const struct sonde_maps *maps, struct sonde_modules *mods)
{
	for (size_t i = 0; i < maps->n; i++) {
		const struct sonde_map *map = &maps->m[i];
		int err = 0;

		if (map->x && map->inode && map->path[0] == '/' && !find_module(mods, map))
			err = add_module(pid, mods, map);
		if (err)
			return err;
	}
	for (size_t i = 0; i < maps->n; i++) {
		struct sonde_module *m = find_module(mods, &maps->m[i]);

		if (m && maps->m[i].start < m->base)
			m->base = maps->m[i].start;
	}
	return 0;
}

static void exe_first(struct sonde_modules *mods)
{
	for (size_t i = 1; i < mods->n; i++) {
		struct sonde_module exe = mods->m[i];

		if (!exe.is_exe)
			continue;
		memmove(mods->m + 1, mods->m, i * sizeof(*mods->m));
		mods->m[0] = exe;
		return;
	}
}

int sonde_modules_read(pid_t pid, struct sonde_modules *out)
{
	struct sonde_modules mods = {0};
	struct sonde_maps maps;
	int err = sonde_maps_read(pid, &maps);

	if (err)
		return err;
	err = collect(pid, &maps, &mods);
	sonde_maps_fini(&maps);
	if (err) {
		sonde_modules_fini(&mods);
		return err;
	}
	exe_first(&mods);
	*out = mods;
	return 0;
}

void sonde_modules_fini(struct sonde_modules *mods)
{
	for (size_t i = 0; i < mods->n; i++) {
		free(mods->m[i].path);
		free(mods->m[i].open_path);
	}
	free(mods->m);
	*mods = (struct sonde_modules){0};
}

void sonde_module_root(const struct sonde_module *m, char *root, size_t size)
{
	int pid, end = 0;

	root[0] = '\0';
	if (sscanf(m->open_path, "/proc/%d/%n", &pid, &end) == 1 && end)
		snprintf(root, size, "/proc/%d/root", pid);
}
