// SPDX-License-Identifier: GPL-2.0-or-later
/* Lists of pids: threads, descendants, everybody. Sorted, so that two readings can be compared. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "core/num.h"
#include "target/proc.h"

struct pids {
	pid_t *p;
	size_t n, cap;
};

static int by_pid(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

static int add_pid(struct pids *list, pid_t pid)
{
	int err = SONDE_GROW(list->p, list->n, list->cap);

	if (!err)
		list->p[list->n++] = pid;
	return err;
}

/* Every all-digit name of a folder. */
static int read_numbers(const char *path, pid_t **out, size_t *n)
{
	sonde_autoclosedir DIR *dir = opendir(path);
	struct pids list = {0};
	struct dirent *entry;
	int err = 0;

	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while (!err && (entry = readdir(dir))) {
		uint64_t pid;

		if (isdigit((unsigned char)entry->d_name[0]) &&
		    !sonde_parse_u64(entry->d_name, &pid) && pid <= INT32_MAX)
			err = add_pid(&list, (pid_t)pid);
	}
	if (err) {
		free(list.p);
		return err;
	}
	if (list.n)
		qsort(list.p, list.n, sizeof(*list.p), by_pid);
	*out = list.p;
	*n = list.n;
	return 0;
}

int sonde_proc_threads(pid_t pid, pid_t **out, size_t *n)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return read_numbers(path, out, n);
}

int sonde_proc_all(pid_t **out, size_t *n)
{
	return read_numbers("/proc", out, n);
}

struct edge {
	pid_t pid, ppid;
	bool below;
};

/* Marks spread until none is added: generations, not depth of the list. */
static void mark_below(struct edge *edges, size_t n, pid_t root)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t i = 0; i < n; i++) {
			bool below = edges[i].ppid == root;

			for (size_t k = 0; k < n && !below; k++)
				below = edges[k].below && edges[k].pid == edges[i].ppid;
			if (below && !edges[i].below)
				more = edges[i].below = true;
		}
	}
}

int sonde_proc_descendants(pid_t pid, pid_t **out, size_t *n)
{
	sonde_autofree struct edge *edges = NULL;
	sonde_autofree pid_t *all = NULL;
	struct pids list = {0};
	size_t total, count = 0;
	int err = sonde_proc_all(&all, &total);

	if (err)
		return err;
	edges = calloc(total ? total : 1, sizeof(*edges));
	if (!edges)
		return -ENOMEM;
	for (size_t i = 0; i < total; i++) {
		struct sonde_proc_stat s;

		if (!sonde_proc_stat(all[i], &s) && !s.kernel_thread && s.pid != pid)
			edges[count++] = (struct edge){s.pid, s.ppid, false};
	}
	mark_below(edges, count, pid);
	for (size_t i = 0; i < count && !err; i++)
		if (edges[i].below)
			err = add_pid(&list, edges[i].pid);
	if (err) {
		free(list.p);
		return err;
	}
	*out = list.p;
	*n = list.n;
	return 0;
}
