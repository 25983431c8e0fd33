// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What tells kinds of mappings apart beside their shape: where threads' stack pointers are, and
 * which devices are memory. See mapkind.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/file.h"
#include "core/mem.h"
#include "target/mapkind.h"
#include "target/proc.h"

struct list {
	uint64_t *v;
	size_t n, cap;
};

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void hand_over(struct list *l, uint64_t **out, size_t *n)
{
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), compare);
	*out = SONDE_TAKE(l->v);
	*n = l->n;
}

/* "NR ARG0 .. ARG5 SP PC", or "-1 SP PC" of a thread that waits outside a system call. */
int sonde_stack_pointer_parse(const char *text, uint64_t *sp)
{
	uint64_t at;
	long nr;

	if (!strncmp(text, "running", 7))
		return -EAGAIN;
	if (sscanf(text, "%ld", &nr) != 1)
		return -EINVAL;
	if (nr < 0 ? sscanf(text, "%*d 0x%" SCNx64 " 0x%*x", &at) != 1
		   : sscanf(text, "%*d %*s %*s %*s %*s %*s %*s 0x%" SCNx64, &at) != 1)
		return -EINVAL;
	*sp = at;
	return 0;
}

int sonde_stack_pointers(pid_t pid, uint64_t **out, size_t *n)
{
	sonde_autofree pid_t *tids = NULL;
	struct list list = {0};
	size_t threads = 0;
	int err = sonde_proc_threads(pid, &tids, &threads);

	for (size_t i = 0; i < threads && !err; i++) {
		char line[256];
		uint64_t sp;

		if (sonde_read_line(line, sizeof(line), "/proc/%d/task/%d/syscall", pid, tids[i]) ||
		    sonde_stack_pointer_parse(line, &sp))
			continue; /* gone, running, or not ours to ask */
		err = SONDE_GROW(list.v, list.n, list.cap);
		if (!err)
			list.v[list.n++] = sp;
	}
	if (err)
		free(list.v);
	else
		hand_over(&list, out, n);
	return err;
}

/* "22 27 0:25 / /dev/shm rw shared:4 - tmpfs tmpfs rw": the type is behind " - ". */
static bool parse_mount(const char *line, size_t len, uint64_t *dev)
{
	const char *type = memmem(line, len, " - ", 3);
	unsigned major, minor;

	if (!type || sscanf(line, "%*u %*u %u:%u", &major, &minor) != 2)
		return false;
	type += 3;
	if (strncmp(type, "tmpfs ", 6) && strncmp(type, "devtmpfs ", 9))
		return false;
	*dev = (uint64_t)major << 32 | minor;
	return true;
}

int sonde_shmem_devices_parse(const char *text, uint64_t **out, size_t *n)
{
	struct list list = {0};
	int err = 0;

	while (*text && !err) {
		size_t len = strcspn(text, "\n");
		uint64_t dev;

		if (parse_mount(text, len, &dev)) {
			err = SONDE_GROW(list.v, list.n, list.cap);
			if (!err)
				list.v[list.n++] = dev;
		}
		text += len + (text[len] == '\n');
	}
	if (err)
		free(list.v);
	else
		hand_over(&list, out, n);
	return err;
}

int sonde_shmem_devices(pid_t pid, uint64_t **out, size_t *n)
{
	sonde_autofree char *text = NULL;
	int err = sonde_read_filef(&text, NULL, "/proc/%d/mountinfo", pid);

	return err ? err : sonde_shmem_devices_parse(text, out, n);
}
