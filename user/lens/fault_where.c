// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of mappings and of code; see fault_where.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "lens/fault_where.h"
#include "target/allocator.h"
#include "target/elf.h"
#include "target/names.h"

enum { FUNCTION_MAX = 80 }; /* bytes of a function's name that are shown */

/* A file that some target runs code from. */
struct fault_file {
	uint64_t dev, inode;
	struct sonde_elf *elf; /* NULL: cannot be read */
	struct sonde_names *names;
};

void fault_files_fini(struct fault_files *files)
{
	for (size_t i = 0; i < files->n; i++) {
		sonde_names_free(&files->f[i].names);
		sonde_elf_free(&files->f[i].elf);
	}
	free(files->f);
	*files = (struct fault_files){};
}

void fault_where_fini(struct fault_where *w)
{
	sonde_maps_fini(&w->maps);
	free(w->smaps.m);
	free(w->kinds);
	*w = (struct fault_where){.files = w->files};
}

static ssize_t map_at(const struct sonde_maps *maps, uint64_t address)
{
	size_t lo = 0, hi = maps->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (maps->m[mid].end <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < maps->n && maps->m[lo].start <= address ? (ssize_t)lo : -1;
}

/* ---- what was there at the fault, and what is there now ---- */

/* A device as the kernel has it in memory, as maps tells it. */
static bool same_dev(uint32_t dev, const struct sonde_map *m)
{
	return dev >> 20 == m->dev_major && (dev & 0xfffff) == m->dev_minor;
}

/*
 * A mapping keeps an end where it grows (an arena, the heap, the first stack), where it is cut and
 * where a neighbour joins it. That is not enough for a thread's stack: its upper end is where the
 * kernel puts whatever comes next into a hole, its lower end is a guard page above that. Over
 * overlayfs maps tells another inode than the mapping has, and another device.
 */
bool fault_where_same(const struct sonde_fault_by_sum *seen, const struct sonde_map *now,
		      enum sonde_map_kind kind)
{
	bool start = seen->start == now->start, end = seen->end == now->end;

	if (!seen->start)
		return true; /* up to 6.0 it cannot be seen */
	if (!!seen->is_file != (now->inode != 0))
		return false;
	if (seen->is_file)
		return seen->inode == now->inode || !same_dev(seen->dev, now);
	if (kind == SONDE_MAP_STACK)
		return start || (end && now->path[0]);
	return start || end || (now->start < seen->start && seen->end < now->end);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Did a thread that faulted stand in a mapping that is still the same? */
static bool still_stands(const struct sonde_maps *maps, const struct fault_by_entry *e)
{
	ssize_t i;

	if (e->key.by != SONDE_FAULT_BY_MAPPING || !e->sum.sp)
		return false;
	if (!e->sum.start)
		return true;
	i = map_at(maps, e->sum.sp);
	return e->sum.own && i >= 0 && fault_where_same(&e->sum, &maps->m[i], SONDE_MAP_STACK);
}

/* Stack pointers: of threads that wait, and of those that faulted, which smaps' flags would tell.
 */
static size_t stack_pointers(const struct fault_where *w, const struct fault_by_entry *e, size_t n,
			     uint64_t **out)
{
	uint64_t *sp = NULL, *more;
	size_t n_sp = 0;

	sonde_stack_pointers(w->pid, &sp, &n_sp);
	more = reallocarray(sp, n_sp + n + 1, sizeof(*sp));
	if (!more) {
		*out = sp;
		return n_sp;
	}
	for (size_t i = 0; i < n; i++)
		if (still_stands(&w->maps, &e[i]))
			more[n_sp++] = e[i].sum.sp;
	if (n_sp)
		qsort(more, n_sp, sizeof(*more), compare_u64);
	*out = more;
	return n_sp;
}

int fault_where_read(struct fault_where *w, const struct sonde_target *t,
		     const struct fault_by_entry *e, size_t n)
{
	uint64_t *sp = NULL, *dev = NULL;
	struct sonde_mapkind_hints hints = {};
	int err = sonde_maps_read(t->pid, &w->maps);

	if (err)
		return err;
	w->pid = t->pid;
	w->smaps.m = calloc(w->maps.n + 1, sizeof(*w->smaps.m));
	w->kinds = calloc(w->maps.n + 1, sizeof(*w->kinds));
	if (!w->smaps.m || !w->kinds)
		return -ENOMEM;
	w->smaps.n = w->maps.n;
	for (size_t i = 0; i < w->maps.n; i++)
		w->smaps.m[i].map = w->maps.m[i];
	hints.glibc_malloc = t->allocator && !strcmp(t->allocator->name, "glibc");
	hints.n_sp = stack_pointers(w, e, n, &sp);
	hints.sp = sp;
	if (!sonde_shmem_devices(t->pid, &dev, &hints.n_shmem_dev))
		hints.shmem_dev = dev;
	sonde_mapkind(&w->smaps, &hints, w->kinds);
	free(sp);
	free(dev);
	return 0;
}

void fault_where_mapping(const struct fault_where *w, const struct sonde_fault_by_sum *sum,
			 char *buf, size_t size)
{
	ssize_t i = map_at(&w->maps, sum->address);
	enum sonde_map_kind kind = i < 0 ? SONDE_MAP_MMAP : w->kinds[i];

	if (i < 0 || !fault_where_same(sum, &w->maps.m[i], kind))
		snprintf(buf, size, "%s",
			 sum->own && !sum->is_file ? sonde_map_kind_name(SONDE_MAP_STACK)
						   : "unmapped since");
	else if (kind == SONDE_MAP_FILE || kind == SONDE_MAP_TMPFS)
		sonde_map_label(&w->maps.m[i], kind, buf, size);
	else
		snprintf(buf, size, "%s", sonde_map_kind_name(kind));
}

/* ---- code ---- */

/* By the path that leads to that very inode. */
static void open_file(struct fault_file *f, pid_t pid)
{
	struct sonde_modules mods = {};
	char root[32];

	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	if (sonde_modules_read(pid, &mods))
		return;
	for (size_t i = 0; i < mods.n; i++) {
		if (mods.m[i].inode != f->inode || mods.m[i].dev != f->dev)
			continue;
		if (!mods.m[i].open_path || sonde_elf_try(&f->elf, mods.m[i].open_path, root))
			break;
		if (sonde_names_new(&f->names, f->elf))
			sonde_debug("%s: no names can be had", mods.m[i].path);
		break;
	}
	sonde_modules_fini(&mods);
}

static struct fault_file *file_of(struct fault_where *w, const struct sonde_map *m)
{
	struct fault_files *files = w->files;
	uint64_t dev = (uint64_t)m->dev_major << 32 | m->dev_minor;

	for (size_t i = 0; i < files->n; i++)
		if (files->f[i].inode == m->inode && files->f[i].dev == dev)
			return &files->f[i];
	if (!m->inode || SONDE_GROW(files->f, files->n, files->cap))
		return NULL;
	files->f[files->n] = (struct fault_file){.dev = dev, .inode = m->inode};
	open_file(&files->f[files->n], w->pid);
	return &files->f[files->n++];
}

/* The innermost function, as call sites are named. False: no name is known. */
static bool name_function(struct fault_where *w, const struct sonde_map *m, uint64_t offset,
			  const char *module, char *buf, size_t size)
{
	struct fault_file *f = file_of(w, m);
	const struct sonde_name *name;
	uint64_t vaddr;
	size_t n = 0;
	int len;

	if (!f || !f->names || sonde_elf_address(f->elf, offset, &vaddr) ||
	    sonde_names_at(f->names, vaddr, &name, &n) || !n || !name->function)
		return false;
	len = snprintf(buf, size, "%.*s%s", FUNCTION_MAX, name->function,
		       strlen(name->function) > FUNCTION_MAX ? "..." : "");
	if (name->file && name->line)
		snprintf(buf + len, size - (size_t)len, " (%s:%u)", name->file, name->line);
	else
		snprintf(buf + len, size - (size_t)len, " in %s", module);
	return true;
}

void fault_where_site(struct fault_where *w, uint64_t ip, char *buf, size_t size)
{
	ssize_t i = map_at(&w->maps, ip);
	const struct sonde_map *m = i < 0 ? NULL : &w->maps.m[i];
	const char *slash = m ? strrchr(m->path, '/') : NULL;
	const char *module = slash ? slash + 1 : m && *m->path ? m->path : "anonymous code";
	uint64_t offset = m ? ip - m->start + m->pgoff : 0;

	if (!ip)
		snprintf(buf, size, "in system calls");
	else if (!m)
		snprintf(buf, size, "0x%llx", (unsigned long long)ip);
	else if (!name_function(w, m, offset, module, buf, size))
		snprintf(buf, size, "%s+0x%llx", module, (unsigned long long)offset);
}
