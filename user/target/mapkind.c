// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Kinds of mappings by name and shape; see mapkind.h. Order matters: a name decides before a shape,
 * and of the shapes the one that is hardest to meet by chance comes first.
 */
#include <stdio.h>

#include "core/mem.h"
#include "core/str.h"
#include "target/mapkind.h"

#define MIB (1ull << 20)
#define ARENA_BYTES                                                                                \
	(64 * MIB) /* glibc: HEAP_MAX_SIZE, 2 * DEFAULT_MMAP_THRESHOLD_MAX on 64 bits              \
		    */
#define STACK_MAX (64 * MIB)
#define GUARD_MAX (1 * MIB)
#define BSS_MAX	  (16 * MIB)

const char *sonde_map_kind_name(enum sonde_map_kind kind)
{
	static const char *const names[] = {
#define SONDE_MAP_KIND_NAME(sym, name, title) name,
		SONDE_MAP_KINDS(SONDE_MAP_KIND_NAME)
#undef SONDE_MAP_KIND_NAME
	};

	return (unsigned)kind < SONDE_MAP__MAX ? names[kind] : "?";
}

/* Beginnings of names. The kernel calls a mapping "[anon:NAME]" when the program named it with
 * prctl(PR_SET_VMA_ANON_NAME); glibc 2.39 does with the tunable mem.decorate_maps. */
static const struct {
	const char *prefix;
	enum sonde_map_kind kind;
} names[] = {
	{"[heap]", SONDE_MAP_HEAP},
	{"[stack", SONDE_MAP_STACK},
	{"[anon: glibc: pthread stack", SONDE_MAP_STACK},
	{"[anon: glibc: pthread user stack", SONDE_MAP_STACK},
	{"[anon: glibc: malloc arena", SONDE_MAP_ARENA},
	{"[anon: glibc: malloc", SONDE_MAP_EXTENT},
	{"[anon: glibc: loader malloc", SONDE_MAP_EXTENT},
	{"[anon:jemalloc", SONDE_MAP_EXTENT},
	{"[anon:tcmalloc", SONDE_MAP_EXTENT},
	{"[anon:mimalloc", SONDE_MAP_EXTENT},
	{"[anon_shmem:", SONDE_MAP_SHARED},
	{"/dev/zero", SONDE_MAP_SHARED}, /* private ones are all `anonymous` */
	{"/memfd:", SONDE_MAP_MEMFD},
	{"/SYSV", SONDE_MAP_SYSV},
};

static bool kind_by_name(const char *path, enum sonde_map_kind *kind)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(names); i++)
		if (sonde_str_starts(path, names[i].prefix)) {
			*kind = names[i].kind;
			return true;
		}
	return false;
}

static uint64_t size_of(const struct sonde_map *m)
{
	return m->end - m->start;
}

static bool is_anon(const struct sonde_map *m)
{
	return !m->path[0] && !m->shared;
}

static bool is_none(const struct sonde_map *m)
{
	return is_anon(m) && !m->r && !m->w && !m->x;
}

static const struct sonde_map *neighbour(const struct sonde_smaps *maps, size_t i, int step)
{
	const struct sonde_map *m = &maps->m[i].map, *other;

	if ((step < 0 && !i) || (step > 0 && i + 1 >= maps->n))
		return NULL;
	other = step < 0 ? &maps->m[i - 1].map : &maps->m[i + 1].map;
	return (step < 0 ? other->end == m->start : m->end == other->start) ? other : NULL;
}

/* A guard page below, as pthread_create makes it. */
static bool has_guard(const struct sonde_smaps *maps, size_t i)
{
	const struct sonde_map *below = neighbour(maps, i, -1);

	return below && is_none(below) && size_of(below) <= GUARD_MAX;
}

/*
 * An arena's heap begins at a multiple of 64 MiB; what is not in use of its 64 MiB is reserved
 * without rights. Whatever was merged with it from below goes with it.
 */
static bool is_arena(const struct sonde_smaps *maps, size_t i)
{
	const struct sonde_map *m = &maps->m[i].map, *above = neighbour(maps, i, 1);
	uint64_t base = (m->end - 1) & ~(ARENA_BYTES - 1), top = base + ARENA_BYTES;

	if (!m->w || base < m->start)
		return false;
	if (m->end == top)
		return m->start == base; /* used to its end: only if nothing else is with it */
	return above && is_none(above) && above->end >= top;
}

/* Sorted list: is there a value in [from, to)? */
static bool any_in(const uint64_t *v, size_t n, uint64_t from, uint64_t to)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v[mid] < from)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && v[lo] < to;
}

/*
 * A thread waits on it and it is no bigger than stacks are; or it has a guard and the flag that
 * only MAP_STACK and MADV_NOHUGEPAGE give (since 6.7, c4608d1bf7c6).
 */
static bool is_stack(const struct sonde_smaps *maps, size_t i, const struct sonde_mapkind_hints *h)
{
	const struct sonde_map *m = &maps->m[i].map;
	bool guard = has_guard(maps, i);

	if (!m->w || size_of(m) > STACK_MAX)
		return false;
	if (any_in(h->sp, h->n_sp, m->start, m->end))
		return guard || size_of(m) <= STACK_MAX / 4;
	return guard && maps->m[i].flags & SONDE_SMAP_NOHUGE && size_of(m) <= STACK_MAX / 4;
}

/* .bss follows the writable segment of a program or library, whose code is mapped below it. Any
 * other file may have an anonymous mapping above it by chance. */
static bool is_bss(const struct sonde_smaps *maps, size_t i)
{
	const struct sonde_map *below = neighbour(maps, i, -1);

	if (!below || below->path[0] != '/' || !below->w || below->shared ||
	    size_of(&maps->m[i].map) > BSS_MAX)
		return false;
	for (size_t j = i - 1; !strcmp(maps->m[j].map.path, below->path); j--) {
		if (maps->m[j].map.x)
			return true;
		if (!j)
			break;
	}
	return false;
}

static enum sonde_map_kind kind_of(const struct sonde_smaps *maps, size_t i,
				   const struct sonde_mapkind_hints *h)
{
	const struct sonde_map *m = &maps->m[i].map;
	uint64_t dev = (uint64_t)m->dev_major << 32 | m->dev_minor;
	enum sonde_map_kind kind;

	if (kind_by_name(m->path, &kind))
		return kind;
	if (m->path[0] == '[')
		return SONDE_MAP_MMAP; /* [anon:NAME], [vdso] */
	if (m->path[0])
		return any_in(h->shmem_dev, h->n_shmem_dev, dev, dev + 1) ? SONDE_MAP_TMPFS
									  : SONDE_MAP_FILE;
	if (h->glibc_malloc && is_arena(maps, i))
		return SONDE_MAP_ARENA;
	if (is_stack(maps, i, h))
		return SONDE_MAP_STACK;
	return is_bss(maps, i) ? SONDE_MAP_DATA : SONDE_MAP_MMAP;
}

/* A stack of a thread that does not wait now looks like those that were told by their pointer. */
static void complete_stacks(const struct sonde_smaps *maps, enum sonde_map_kind *kinds)
{
	uint64_t size = 0;

	for (size_t i = 0; i < maps->n; i++)
		if (kinds[i] == SONDE_MAP_STACK && !maps->m[i].map.path[0] && has_guard(maps, i))
			size = size_of(&maps->m[i].map);
	for (size_t i = 0; i < maps->n && size; i++)
		if (kinds[i] == SONDE_MAP_MMAP && is_anon(&maps->m[i].map) &&
		    size_of(&maps->m[i].map) == size && has_guard(maps, i))
			kinds[i] = SONDE_MAP_STACK;
}

void sonde_mapkind(const struct sonde_smaps *maps, const struct sonde_mapkind_hints *hints,
		   enum sonde_map_kind *kinds)
{
	for (size_t i = 0; i < maps->n; i++)
		kinds[i] = kind_of(maps, i, hints);
	complete_stacks(maps, kinds);
}

static size_t without_deleted(const char *path)
{
	static const char suffix[] = " (deleted)";
	size_t len = strlen(path), cut = sizeof(suffix) - 1;

	return len > cut && !strcmp(path + len - cut, suffix) ? len - cut : len;
}

const char *sonde_map_label(const struct sonde_map *map, enum sonde_map_kind kind, char *buf,
			    size_t size)
{
	size_t len = without_deleted(map->path), skip = 0;

	if (kind == SONDE_MAP_SHARED && map->path[0] == '/') {
		snprintf(buf, size, "anonymous");
		return buf;
	}
	if (kind == SONDE_MAP_MEMFD || kind == SONDE_MAP_SYSV)
		skip = 1;
	snprintf(buf, size, "%.*s", (int)(len - skip), map->path + skip);
	return buf;
}

const char *sonde_path_ext(const char *path, char *buf, size_t size)
{
	size_t len = without_deleted(path);
	const char *slash = memrchr(path, '/', len), *base = slash ? slash + 1 : path;
	const char *end = path + len, *so = memmem(base, (size_t)(end - base), ".so", 3), *dot;

	if (so && so > base && (so + 3 == end || so[3] == '.')) {
		snprintf(buf, size, ".so");
		return buf;
	}
	dot = memrchr(base, '.', (size_t)(end - base));
	if (!dot || dot == base || dot + 1 == end || end - dot > 12)
		snprintf(buf, size, "(none)");
	else
		snprintf(buf, size, "%.*s", (int)(end - dot), dot);
	return buf;
}
