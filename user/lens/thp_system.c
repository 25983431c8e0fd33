// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The system's counters, by name: what a kernel lacks is simply not there. Kernels without per-size
 * statistics (before 6.10) have vmstat only. The sizes that are off ("never") hardly change, so
 * they are read once a second; the others and vmstat at each tick (some 10 us a file).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "lens/thp_system.h"

#define THP_DIR "/sys/kernel/mm/transparent_hugepage"

/* What of /proc/vmstat matters here. */
static const char *const prefixes[] = {"thp_", "compact_", "allocstall_", "pgmigrate_"};

static struct sonde_thp_value *find(struct sonde_thp_system *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->v[i].name, name))
			return &s->v[i];
	return NULL;
}

/* @level: an amount that is now, not a count of events. New names have their first value as base.
 */
static int set(struct sonde_thp_system *s, const char *name, uint64_t value, bool level)
{
	struct sonde_thp_value *v = find(s, name);

	if (v) {
		v->now = value;
		return 0;
	}
	if (SONDE_GROW(s->v, s->n, s->cap))
		return -ENOMEM;
	v = &s->v[s->n++];
	*v = (struct sonde_thp_value){.level = level, .base = value, .now = value};
	snprintf(v->name, sizeof(v->name), "%s", name);
	return 0;
}

static bool wanted(const char *name)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(prefixes); i++)
		if (sonde_str_starts(name, prefixes[i]))
			return true;
	return false;
}

int sonde_thp_system_vmstat(struct sonde_thp_system *s, const char *text)
{
	int err = 0;

	for (const char *line = text; line && *line && !err;) {
		unsigned long long value;
		char name[56];

		if (sscanf(line, "%55s %llu", name, &value) == 2 && wanted(name))
			err = set(s, name, value, false);
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return err;
}

/* Is this size switched on, or is nothing known? */
static bool size_is_on(const char *size)
{
	char line[128];

	return sonde_read_line(line, sizeof(line), THP_DIR "/%s/enabled", size) ||
	       !strstr(line, "[never]");
}

static int read_size(struct sonde_thp_system *s, const char *size)
{
	char path[320];
	sonde_autoclosedir DIR *dir = NULL;
	struct dirent *e;
	int err = 0;

	snprintf(path, sizeof(path), THP_DIR "/%s/stats", size);
	dir = opendir(path);
	while (dir && !err && (e = readdir(dir))) {
		char line[32], name[56];
		uint64_t value;

		if (e->d_name[0] == '.' ||
		    sonde_read_line(line, sizeof(line), "%s/%s", path, e->d_name) ||
		    sonde_parse_u64(line, &value))
			continue;
		snprintf(name, sizeof(name), "%.15s.%.38s", size + strlen("hugepages-"), e->d_name);
		err = set(s, name, value, sonde_str_starts(e->d_name, "nr_"));
	}
	return err;
}

static int read_sizes(struct sonde_thp_system *s, bool all)
{
	sonde_autoclosedir DIR *dir = opendir(THP_DIR);
	struct dirent *e;
	int err = 0;

	while (dir && !err && (e = readdir(dir)))
		if (sonde_str_starts(e->d_name, "hugepages-") && (all || size_is_on(e->d_name)))
			err = read_size(s, e->d_name);
	return err;
}

int sonde_thp_system_read(struct sonde_thp_system *s, uint64_t now_ns, bool rebase)
{
	sonde_autofree char *text = NULL;
	bool all = rebase || now_ns - s->sizes_read_ns >= SONDE_NS_PER_SEC;
	int err = sonde_read_file("/proc/vmstat", &text, NULL);

	if (!err)
		err = sonde_thp_system_vmstat(s, text);
	if (err == -ENOMEM)
		return err;
	err = read_sizes(s, all);
	if (all)
		s->sizes_read_ns = now_ns;
	for (size_t i = 0; i < s->n; i++) {
		struct sonde_thp_value *v = &s->v[i];

		if (rebase)
			v->base = v->now;
		v->told |= v->now != v->base || (v->level && v->now);
	}
	return err ? err : s->n ? 0 : -ENOENT;
}

void sonde_thp_system_fini(struct sonde_thp_system *s)
{
	free(s->v);
	*s = (struct sonde_thp_system){};
}
