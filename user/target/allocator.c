// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which allocator serves a process: the first module, in the order in which the dynamic linker
 * looks symbols up, that defines malloc. That order is the executable, the preloaded libraries,
 * then the needed ones breadth first.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/str.h"
#include "target/allocator.h"
#include "target/elf.h"
#include "target/proc.h"

#define SONDE_ALLOCATOR(name) extern const struct sonde_allocator sonde_allocator_##name;
#include "target/allocators.def"
#undef SONDE_ALLOCATOR

#define SONDE_ALLOCATOR(name) &sonde_allocator_##name,
const struct sonde_allocator *const sonde_allocators[] = {
#include "target/allocators.def"
};
#undef SONDE_ALLOCATOR
const size_t sonde_allocator_count = SONDE_ARRAY_SIZE(sonde_allocators);

/* redis' own build of jemalloc, and Rust's. */
const char *const sonde_alloc_prefixes[] = {"", "je_", "_rjem_", NULL};

/* The modules of a process with their files open, and the order of symbol lookup. */
struct scope {
	const struct sonde_modules *mods;
	struct sonde_elf **elf; /* NULL where it could not be opened */
	size_t *order, n;	/* indexes into mods */
	bool *listed;
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void list_module(struct scope *s, size_t i)
{
	if (s->listed[i])
		return;
	s->listed[i] = true;
	s->order[s->n++] = i;
}

static ssize_t find_by_name(const struct scope *s, const char *soname)
{
	for (size_t i = 0; i < s->mods->n; i++)
		if ((s->elf[i] && !strcmp(sonde_elf_soname(s->elf[i]), soname)) ||
		    !strcmp(base_name(s->mods->m[i].path), soname))
			return (ssize_t)i;
	return -1;
}

/* Names in LD_PRELOAD and /etc/ld.so.preload are separated by blanks or colons. */
static void list_preloads(struct scope *s, char *names)
{
	char *save = NULL;

	for (char *name = strtok_r(names, " \t\n:", &save); name;
	     name = strtok_r(NULL, " \t\n:", &save)) {
		ssize_t i = -1;

		/* The name may be a link to the file that is mapped; the soname settles most cases.
		 */
		for (size_t k = 0; k < s->mods->n && i < 0; k++)
			if (!strcmp(s->mods->m[k].path, name))
				i = (ssize_t)k;
		if (i < 0)
			i = find_by_name(s, base_name(name));
		if (i >= 0)
			list_module(s, (size_t)i);
	}
}

static void list_needed(struct scope *s, size_t from)
{
	for (size_t at = from; at < s->n; at++) {
		struct sonde_elf *elf = s->elf[s->order[at]];
		const char *const *needed = elf ? sonde_elf_needed(elf) : NULL;

		for (; needed && *needed; needed++) {
			ssize_t i = find_by_name(s, *needed);

			if (i >= 0)
				list_module(s, (size_t)i);
		}
	}
}

/*
 * Mapped, but not needed by anything: opened later with dlopen(), which does not interpose, or
 * preloaded by a variable that the program has since overwritten. The dynamic linker maps preloads
 * before all others, and mmap goes downwards, so a preload lies above every needed library.
 */
static bool lies_above_needed(const struct scope *s, size_t i)
{
	for (size_t at = 0; at < s->n; at++) {
		const struct sonde_module *m = &s->mods->m[s->order[at]];

		if (!m->is_exe && !sonde_str_starts(base_name(m->path), "ld-") &&
		    m->base > s->mods->m[i].base)
			return false;
	}
	return true;
}

static void order_modules(pid_t pid, struct scope *s)
{
	size_t preloads;
	char env[PATH_MAX];
	sonde_autofree char *file = NULL;

	list_module(s, 0);
	if (!sonde_proc_env(pid, "LD_PRELOAD", env, sizeof(env)))
		list_preloads(s, env);
	if (!sonde_read_filef(&file, NULL, "/proc/%d/root/etc/ld.so.preload", pid))
		list_preloads(s, file);
	preloads = s->n;
	list_needed(s, 0);
	for (size_t i = 1; i < s->mods->n; i++) {
		if (s->listed[i] || !lies_above_needed(s, i))
			continue;
		/* Put it where a preload stands: after those known, before the needed. */
		memmove(s->order + preloads + 1, s->order + preloads,
			(s->n - preloads) * sizeof(*s->order));
		s->order[preloads++] = i;
		s->listed[i] = true;
		s->n++;
	}
}

/*
 * A library's malloc counts only if others can bind to it. An executable's own counts also if it is
 * known by .symtab alone (static), or has a prefix (an allocator built in beside the system's).
 */
static bool defines_malloc(const struct sonde_module *m, struct sonde_elf *elf)
{
	struct sonde_sym sym;

	if (sonde_elf_exports(elf, "malloc"))
		return true;
	if (!m->is_exe)
		return false;
	if (sonde_elf_is_static(elf) && !sonde_elf_find(elf, "malloc", &sym))
		return true;
	for (const char *const *prefix = sonde_alloc_prefixes + 1; *prefix; prefix++) {
		char name[64];

		snprintf(name, sizeof(name), "%smallocx", *prefix);
		if (!sonde_elf_find(elf, name, &sym))
			return true;
	}
	return false;
}

static int recognise(const struct scope *s, const struct sonde_allocator **out, size_t *module,
		     char *version, size_t version_size)
{
	for (size_t at = 0; at < s->n; at++) {
		const struct sonde_module *m = &s->mods->m[s->order[at]];
		struct sonde_elf *elf = s->elf[s->order[at]];

		if (!elf || !defines_malloc(m, elf))
			continue;
		for (size_t a = 0; a < sonde_allocator_count; a++) {
			if (!sonde_allocators[a]->match(m, elf))
				continue;
			sonde_allocators[a]->version(m, elf, version, version_size);
			*out = sonde_allocators[a];
			*module = s->order[at];
			return 0;
		}
		return -ENOENT;
	}
	return -ENOENT;
}

int sonde_allocator_detect(pid_t pid, const struct sonde_modules *mods,
			   const struct sonde_allocator **out, size_t *module, char *version,
			   size_t version_size)
{
	struct scope s = {.mods = mods};
	char root[32];
	int err = -ENOMEM;

	if (!mods->n)
		return -ENOENT;
	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	s.elf = calloc(mods->n, sizeof(*s.elf));
	s.order = calloc(mods->n, sizeof(*s.order));
	s.listed = calloc(mods->n, sizeof(*s.listed));
	if (s.elf && s.order && s.listed) {
		for (size_t i = 0; i < mods->n; i++)
			if (sonde_elf_try(&s.elf[i], mods->m[i].open_path, root))
				s.elf[i] = NULL;
		order_modules(pid, &s);
		err = recognise(&s, out, module, version, version_size);
	}
	for (size_t i = 0; s.elf && i < mods->n; i++)
		sonde_elf_free(&s.elf[i]);
	free(s.elf);
	free(s.order);
	free(s.listed);
	return err;
}
