// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory cgroups; see memcg.h. Version 1 wins where both are mounted and it has the controller. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "target/memcg.h"

#define NO_LIMIT   (1ull << 62) /* version 1 says "none" as a number near 2^63 */
#define HUGE_PAGES "/sys/kernel/mm/transparent_hugepage"

static size_t line_len(const char *s)
{
	return strcspn(s, "\n");
}

static const char *next_line(const char *s)
{
	s += line_len(s);
	return *s ? s + 1 : s;
}

/* Is @word one of the comma-separated @list of @len bytes? */
static bool listed(const char *list, size_t len, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; p < list + len;) {
		size_t part = strcspn(p, ",: \n");

		if (part == n && !strncmp(p, word, n))
			return true;
		p += part + 1;
	}
	return false;
}

/* The process's cgroup: "4:memory:/a" of version 1, else "0::/a". */
static bool own_path(const char *text, int *version, const char **path, size_t *len)
{
	*version = 0;
	for (const char *l = text; *l; l = next_line(l)) {
		const char *names = memchr(l, ':', line_len(l)), *at;

		at = names ? memchr(names + 1, ':', line_len(names + 1)) : NULL;
		if (!at)
			continue;
		if (listed(names + 1, (size_t)(at - names - 1), "memory"))
			*version = 1;
		else if (*version || strncmp(l, "0::", 3))
			continue;
		else
			*version = 2;
		*path = at + 1;
		*len = line_len(at + 1);
		if (*version == 1)
			break;
	}
	return *version;
}

/* "35 31 0:32 ROOT DIR rw - cgroup cgroup rw,memory": is it the hierarchy of that version? */
static bool parse_mount(const char *line, int version, char *root, char *dir)
{
	size_t len = line_len(line);
	const char *sep = memmem(line, len, " - ", 3), *opts;

	if (!sep || sscanf(line, "%*u %*u %*u:%*u %4095s %4095s", root, dir) != 2)
		return false;
	sep += 3;
	if (version == 2)
		return !strncmp(sep, "cgroup2 ", 8);
	if (strncmp(sep, "cgroup ", 7))
		return false;
	opts = memrchr(sep, ' ', (size_t)(line + len - sep));
	return opts && listed(opts + 1, (size_t)(line + len - opts - 1), "memory");
}

int sonde_memcg_find_in(const char *cgroup, const char *mountinfo, struct sonde_memcg_dir *out)
{
	char root[PATH_MAX], dir[PATH_MAX];
	const char *path;
	size_t len, skip;
	int version;

	if (!own_path(cgroup, &version, &path, &len))
		return -ENOENT;
	for (const char *l = mountinfo; *l; l = next_line(l)) {
		if (!parse_mount(l, version, root, dir))
			continue;
		/* A container mounts a part of the tree: what is above it cannot be seen. */
		skip = strcmp(root, "/") ? strlen(root) : 0;
		if (skip > len || strncmp(path, root, skip) || (skip < len && path[skip] != '/'))
			continue;
		if (snprintf(out->path, sizeof(out->path), "%s%.*s", dir, (int)(len - skip),
			     path + skip) >= (int)sizeof(out->path))
			return -ENAMETOOLONG;
		out->version = version;
		return 0;
	}
	return -ENOENT;
}

int sonde_memcg_find(pid_t pid, struct sonde_memcg_dir *out)
{
	sonde_autofree char *cgroup = NULL, *mounts = NULL;
	int err = sonde_read_filef(&cgroup, NULL, "/proc/%d/cgroup", pid);

	if (err)
		return err == -ENOENT ? -ESRCH : err;
	err = sonde_read_file("/proc/self/mountinfo", &mounts, NULL);
	return err ? err : sonde_memcg_find_in(cgroup, mounts, out);
}

/* A file of one number, "max" being none: -1 where it cannot be had. */
static int64_t number(const struct sonde_memcg_dir *d, const char *file)
{
	char line[64];
	uint64_t v;

	if (sonde_read_line(line, sizeof(line), "%s/%s", d->path, file) ||
	    sonde_parse_u64(line, &v) || v >= NO_LIMIT)
		return -1;
	return (int64_t)v;
}

/* Row "NAME 123" of memory.stat. */
static int64_t stat_row(const char *text, const char *name)
{
	size_t n = strlen(name);
	int64_t v;

	for (const char *l = text; *l; l = next_line(l))
		if (!strncmp(l, name, n) && l[n] == ' ')
			return sscanf(l + n, "%" SCNd64, &v) == 1 && v >= 0 ? v : -1;
	return -1;
}

static size_t count_procs(const char *dir)
{
	sonde_autofree char *text = NULL;
	size_t n = 0;

	if (sonde_read_filef(&text, NULL, "%s/cgroup.procs", dir))
		return 0;
	for (const char *l = text; *l; l = next_line(l))
		n++;
	return n;
}

static bool has_children(const char *dir)
{
	sonde_autoclosedir DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_type == DT_DIR && e->d_name[0] != '.')
			return true;
	return false;
}

int sonde_memcg_read(const struct sonde_memcg_dir *d, struct sonde_memcg *out)
{
	sonde_autofree char *stat = NULL;
	bool v1 = d->version == 1;
	struct sonde_memcg m = {.usage =
					number(d, v1 ? "memory.usage_in_bytes" : "memory.current")};
	int err;

	if (m.usage < 0)
		return -ENODATA;
	err = sonde_read_filef(&stat, NULL, "%s/memory.stat", d->path);
	if (err)
		return err;
	m.limit = number(d, v1 ? "memory.limit_in_bytes" : "memory.max");
	m.anon = stat_row(stat, v1 ? "total_rss" : "anon");
	m.anon_huge = stat_row(stat, v1 ? "total_rss_huge" : "anon_thp");
	m.file = stat_row(stat, v1 ? "total_cache" : "file");
	m.kernel = v1 ? number(d, "memory.kmem.usage_in_bytes") : stat_row(stat, "kernel");
	m.procs = count_procs(d->path);
	m.has_children = has_children(d->path);
	*out = m;
	return 0;
}

int64_t sonde_memcg_outside(const struct sonde_memcg *m)
{
	int64_t rest = m->usage - m->anon - m->file - m->kernel;

	if (m->usage < 0 || m->anon < 0 || m->file < 0 || m->kernel < 0)
		return -1;
	return rest > 0 ? rest : 0;
}

static int by_size(const void *a, const void *b)
{
	const struct sonde_hugepart *x = a, *y = b;

	return (x->size > y->size) - (x->size < y->size);
}

int sonde_hugeparts(struct sonde_hugepart **out, size_t *n)
{
	sonde_autoclosedir DIR *d = opendir(HUGE_PAGES);
	struct sonde_hugepart *list = NULL;
	size_t used = 0, cap = 0;
	struct dirent *e;
	int err = 0;

	while (d && !err && (e = readdir(d))) {
		struct sonde_hugepart p;
		uint64_t kib;
		char line[64];

		if (sscanf(e->d_name, "hugepages-%" SCNu64 "kB", &kib) != 1 ||
		    sonde_read_line(line, sizeof(line),
				    HUGE_PAGES "/%s/stats/nr_anon_partially_mapped", e->d_name) ||
		    sonde_parse_u64(line, &p.pages))
			continue;
		p.size = kib << 10;
		err = SONDE_GROW(list, used, cap);
		if (!err)
			list[used++] = p;
	}
	if (err || !used) {
		free(list);
		return err ? err : -ENOENT;
	}
	qsort(list, used, sizeof(*list), by_size);
	*out = list;
	*n = used;
	return 0;
}
