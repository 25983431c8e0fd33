// SPDX-License-Identifier: GPL-2.0-or-later
/* Configuration and index of a process; see files.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "core/file.h"
#include "core/hash.h"
#include "core/mem.h"
#include "target/files.h"
#include "target/maps.h"

#define MAX_CONFIG (4 << 20)

/* ---- configuration ---- */

/* Where daemons look that are not told. */
static const struct {
	const char *daemon, *path;
} defaults[] = {
	{"searchd", "/etc/sphinxsearch/sphinx.conf"},
	{"searchd", "/etc/manticoresearch/manticore.conf"},
	{"mariadbd", "/etc/mysql/my.cnf"},
	{"mariadbd", "/etc/my.cnf"},
};

static bool names_config(const char *option)
{
	static const char *const options[] = {
		"-c",	      "--config", "--conf", "--config-file", "--defaults-file",
		"--flagfile", "-flagfile"};

	for (size_t i = 0; option && i < SONDE_ARRAY_SIZE(options); i++)
		if (!strcmp(option, options[i]))
			return true;
	return false;
}

static bool ends_so(const char *path)
{
	static const char *const ends[] = {".conf", ".cnf", ".cfg",  ".ini", ".toml",
					   ".yaml", ".yml", ".json", ".xml", ".gflags"};
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot && i < SONDE_ARRAY_SIZE(ends); i++)
		if (!strcmp(dot, ends[i]))
			return true;
	return false;
}

/* A link out of the process's root must not lead into ours; of a path that is not absolute only the
 * working directory is known. */
static int open_in(pid_t pid, const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
			       .resolve = *path == '/' ? RESOLVE_IN_ROOT : RESOLVE_NO_MAGICLINKS};
	char base[64];
	sonde_autoclose int dir = -1;

	snprintf(base, sizeof(base), "/proc/%d/%s", pid, *path == '/' ? "root" : "cwd");
	dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -1 : (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* 0, -ENOENT (no such file, or none that can be a configuration) or -ENOMEM. */
static int take_config(pid_t pid, const char *path, struct sonde_target_files *f)
{
	sonde_autoclose int fd = open_in(pid, path);
	struct stat st;
	uint64_t h = f->config.len ? f->config_hash : SONDE_FNV1A_BASIS;
	char part[65536];
	ssize_t n;
	int err;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > MAX_CONFIG)
		return -ENOENT;
	while ((n = read(fd, part, sizeof(part))) > 0)
		h = sonde_fnv1a(h, part, (size_t)n);
	if (n < 0)
		return -ENOENT;
	err = f->config.len ? sonde_str_add(&f->config, ", ", 2) : 0;
	err = err ? err : sonde_str_add_utf8(&f->config, path, strlen(path));
	if (!err)
		f->config_hash = h;
	return err;
}

static int read_config(pid_t pid, const struct sonde_daemon *daemon, struct sonde_target_files *f)
{
	sonde_autofree char *line = NULL;
	const char *before = NULL;
	size_t len = 0;
	int err = 0;

	if (sonde_read_filef(&line, &len, "/proc/%d/cmdline", pid))
		return 0;
	for (char *arg = line; arg < line + len && err != -ENOMEM; arg += strlen(arg) + 1) {
		char *equals = *arg == '-' ? strchr(arg, '=') : NULL;
		const char *path = equals ? equals + 1 : arg;

		if (equals)
			*equals = '\0';
		if (arg != line && *path && *path != '-' &&
		    (names_config(equals ? arg : before) || ends_so(path)))
			err = take_config(pid, path, f);
		before = equals ? NULL : arg;
		arg = equals ? equals + 1 : arg;
	}
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(defaults) && daemon && !f->config.len; i++)
		if (err != -ENOMEM && !strcmp(defaults[i].daemon, daemon->name))
			err = take_config(pid, defaults[i].path, f);
	return err == -ENOMEM ? err : 0;
}

/* ---- index ---- */

struct index_file {
	char *name;
	uint64_t bytes;
};

struct index_list {
	struct index_file *f;
	size_t n, cap;
};

/* Index files of Sphinx and Manticore: ".spa", ".spd", ".spp" and their like. */
static bool is_index(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot && !strncmp(dot, ".sp", 3) && strlen(dot) == 4;
}

static int add_index(struct index_list *list, const char *path, const char *open_path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct stat st;
	char *copy;

	if (!is_index(path) || stat(open_path, &st) || !S_ISREG(st.st_mode))
		return 0;
	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->f[i].name, name))
			return 0;
	copy = strdup(name);
	if (!copy || SONDE_GROW(list->f, list->n, list->cap)) {
		free(copy);
		return -ENOMEM;
	}
	list->f[list->n++] = (struct index_file){copy, (uint64_t)st.st_size};
	return 0;
}

static int add_open(pid_t pid, struct index_list *list)
{
	sonde_autoclosedir DIR *dir = NULL;
	char path[320], target[512];
	struct dirent *e;
	int err = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && !err && (e = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n <= 0)
			continue;
		target[n] = '\0';
		err = add_index(list, target, path);
	}
	return err;
}

static int add_mapped(pid_t pid, struct index_list *list)
{
	struct sonde_maps maps = {0};
	char path[512];
	int err = 0;

	if (sonde_maps_read(pid, &maps))
		return 0;
	for (size_t i = 0; i < maps.n && !err; i++) {
		if (!is_index(maps.m[i].path))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/root%s", pid, maps.m[i].path);
		err = add_index(list, maps.m[i].path, path);
	}
	sonde_maps_fini(&maps);
	return err;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct index_file *)a)->name, ((const struct index_file *)b)->name);
}

static int read_index(pid_t pid, struct sonde_target_files *f)
{
	struct index_list list = {0};
	int err = add_open(pid, &list);

	err = err ? err : add_mapped(pid, &list);
	if (list.n)
		qsort(list.f, list.n, sizeof(*list.f), by_name);
	f->index_hash = SONDE_FNV1A_BASIS;
	for (size_t i = 0; i < list.n; i++) {
		f->index_files++;
		f->index_bytes += list.f[i].bytes;
		f->index_hash =
			sonde_fnv1a(f->index_hash, list.f[i].name, strlen(list.f[i].name) + 1);
		f->index_hash =
			sonde_fnv1a(f->index_hash, &list.f[i].bytes, sizeof(list.f[i].bytes));
		free(list.f[i].name);
	}
	free(list.f);
	return err;
}

int sonde_target_files_read(pid_t pid, const struct sonde_daemon *daemon,
			    struct sonde_target_files *out)
{
	struct sonde_target_files f = {0};
	int err = read_config(pid, daemon, &f);

	if (!err && daemon && !strcmp(daemon->name, "searchd"))
		err = read_index(pid, &f);
	if (err)
		sonde_target_files_fini(&f);
	else
		*out = f;
	return err;
}

void sonde_target_files_fini(struct sonde_target_files *f)
{
	sonde_str_fini(&f->config);
	*f = (struct sonde_target_files){0};
}
