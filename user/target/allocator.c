// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which allocator serves a process: the first module, in the order in which the dynamic linker
 * looks symbols up, that defines malloc. That order is the executable, the preloaded libraries,
 * then the needed ones breadth first.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

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
	bool *damaged; /* an ELF file that cannot be read */
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

/* Under a name of its own? jemalloc's builds have mallocx behind every prefix. */
static bool has_own_names(struct sonde_elf *elf)
{
	struct sonde_sym sym;

	for (const char *const *prefix = sonde_alloc_prefixes + 1; *prefix; prefix++) {
		char name[64];

		snprintf(name, sizeof(name), "%smallocx", *prefix);
		if (!sonde_elf_find(elf, name, &sym))
			return true;
	}
	return !sonde_elf_find(elf, "tc_malloc", &sym);
}

/* A library whose malloc others can find, under whatever name. */
static bool brings_malloc(struct sonde_elf *elf)
{
	return sonde_elf_exports(elf, "malloc") || has_own_names(elf);
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
	return has_own_names(elf);
}

static const struct sonde_allocator *match(const struct sonde_module *m, struct sonde_elf *elf)
{
	for (size_t a = 0; a < sonde_allocator_count; a++)
		if (sonde_allocators[a]->match(m, elf))
			return sonde_allocators[a];
	return NULL;
}

static void use(const struct scope *s, size_t module, const struct sonde_allocator *a,
		struct sonde_allocator_use *out)
{
	*out = (struct sonde_allocator_use){.allocator = a, .module = module};
	a->version(&s->mods->m[module], s->elf[module], out->version, sizeof(out->version));
}

/* Of a library the dynamic linker needs its table. */
static bool hides_symbols(const struct sonde_module *m, struct sonde_elf *elf)
{
	return !m->is_exe && !sonde_elf_has_dynamic_symbols(elf);
}

/* It begins as an ELF file does, and was mapped to be run, and yet cannot be read as one. */
static bool is_damaged(const char *path)
{
	sonde_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	unsigned char ident[EI_NIDENT];

	return fd >= 0 && read(fd, ident, sizeof(ident)) == sizeof(ident) &&
	       !memcmp(ident, ELFMAG, SELFMAG) && ident[EI_CLASS] == ELFCLASS64;
}

static int recognise(const struct scope *s, struct sonde_allocator_use *out)
{
	for (size_t at = 0; at < s->n; at++) {
		size_t i = s->order[at];
		const struct sonde_allocator *a;

		if (s->damaged[i] || (s->elf[i] && hides_symbols(&s->mods->m[i], s->elf[i])))
			return -ENOENT; /* the dynamic linker read it: it may be what serves */
		if (!s->elf[i] || !defines_malloc(&s->mods->m[i], s->elf[i]))
			continue;
		a = match(&s->mods->m[i], s->elf[i]);
		if (a)
			use(s, i, a, out);
		return a ? 0 : -ENOENT;
	}
	return -ENOENT;
}

/*
 * Beside the one that serves malloc: one that a library brings and that is called by its own names
 * or through dlsym(). The system's own is idle while another one stands in for it, except where
 * that one has taken other names.
 */
static bool works_beside(const struct scope *s, const struct sonde_allocator_use *first, size_t i,
			 const struct sonde_allocator *a)
{
	struct sonde_elf *elf = s->elf[first->module];
	struct sonde_sym sym;

	if (i == first->module || s->mods->m[i].is_exe)
		return false;
	return a->rule != SONDE_BLOCK_HEADER ||
	       (!sonde_elf_exports(elf, "malloc") &&
		(!sonde_elf_is_static(elf) || sonde_elf_find(elf, "malloc", &sym)));
}

static size_t list_others(const struct scope *s, struct sonde_allocator_use *out, size_t max)
{
	size_t n = 1;

	for (size_t i = 0; i < s->mods->n && n < max; i++) {
		const struct sonde_allocator *a;

		if (!s->elf[i] || i == out->module || !brings_malloc(s->elf[i]))
			continue;
		a = match(&s->mods->m[i], s->elf[i]);
		if (a && works_beside(s, out, i, a))
			use(s, i, a, &out[n++]);
	}
	return n;
}

static void scope_fini(struct scope *s)
{
	for (size_t i = 0; s->elf && i < s->mods->n; i++)
		sonde_elf_free(&s->elf[i]);
	free(s->elf);
	free(s->order);
	free(s->listed);
	free(s->damaged);
}

int sonde_allocator_list(pid_t pid, const struct sonde_modules *mods,
			 struct sonde_allocator_use *out, size_t max, size_t *n)
{
	struct scope s = {.mods = mods};
	char root[32];
	int err = -ENOMEM;

	if (!mods->n || !max)
		return -ENOENT;
	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	s.elf = calloc(mods->n, sizeof(*s.elf));
	s.order = calloc(mods->n, sizeof(*s.order));
	s.listed = calloc(mods->n, sizeof(*s.listed));
	s.damaged = calloc(mods->n, sizeof(*s.damaged));
	if (s.elf && s.order && s.listed && s.damaged) {
		for (size_t i = 0; i < mods->n; i++)
			if (sonde_elf_try(&s.elf[i], mods->m[i].open_path, root)) {
				s.elf[i] = NULL;
				s.damaged[i] = is_damaged(mods->m[i].open_path);
			}
		order_modules(pid, &s);
		err = recognise(&s, out);
	}
	if (!err)
		*n = list_others(&s, out, max);
	scope_fini(&s);
	return err;
}

int sonde_allocator_detect(pid_t pid, const struct sonde_modules *mods,
			   const struct sonde_allocator **out, size_t *module, char *version,
			   size_t version_size)
{
	struct sonde_allocator_use first;
	size_t n;
	int err = sonde_allocator_list(pid, mods, &first, 1, &n);

	if (err)
		return err;
	*out = first.allocator;
	*module = first.module;
	snprintf(version, version_size, "%s", first.version);
	return 0;
}
