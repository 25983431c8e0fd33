// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Unwind tables and mappings for the kernel side; see stacks.h. A file keeps its descriptor, so
 * that names can be had when the target is gone. A file that cannot be read or does not fit has no
 * table: stacks through it end there and say so.
 */
#include <errno.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "lens/stacks.h"
#include "target/elf.h"
#include "target/maps.h"
#include "target/names.h"
#include "target/unwind.h"

/* A file that some target maps executable. */
struct module {
	uint64_t dev, inode;
	char build_id[SONDE_BUILD_ID_HEX];
	char *path;
	struct sonde_elf *elf; /* NULL: could not be opened */
	struct sonde_names *names;
	bool tried_names;
	uint32_t first, n; /* rows */
};

struct mapping {
	struct sonde_unwind_map map;
	uint32_t module;
};

struct process {
	struct mapping *m; /* ascending */
	size_t n, cap;
	uint64_t seen; /* hash of what was mapped, 0: never read */
	uint32_t copy;
};

struct sonde_stacks {
	struct module *modules;
	size_t n_modules, cap_modules;
	struct process *processes;
	size_t n_targets;
	struct sonde_unwind_row *rows;
	struct sonde_unwind_map *maps;
	uint64_t *cache;
	uint32_t n_rows;
	int processes_fd;
	bool full, crowd; /* not all fits */
	bool full_said, crowd_said, loaded;
};

static const struct {
	const char *name;
	uint32_t each, fixed; /* entries: for each target, and beside */
} sizes[] = {
	{"unwind_rows", 0, SONDE_UNWIND_ROWS},
	{"unwind_maps", 2 * SONDE_UNWIND_MAPS, 0},
	{"unwind_processes", 1, 0},
	{"unwind_cache", 0, 1u << SONDE_UNWIND_CACHE_BITS},
	{"stacks", 1, SONDE_STACKS_MAX},
};

int sonde_stacks_configure(struct bpf_object *obj, size_t n_targets)
{
	if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_loop, NULL) == 0)
		return sonde_err(EOPNOTSUPP,
				 "call stacks need Linux 5.17 (bpf_loop); leave out --sites and "
				 "--fault-by stack");
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(sizes); i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, sizes[i].name);
		uint32_t n = sizes[i].fixed + sizes[i].each * (uint32_t)n_targets;
		int err = map ? bpf_map__set_max_entries(map, n) : -ENOENT;

		if (err)
			return sonde_err(err, "cannot size map %s: %s", sizes[i].name,
					 strerror(-err));
	}
	return 0;
}

static size_t map_bytes(const struct bpf_map *map)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t n = (size_t)bpf_map__max_entries(map) * ((bpf_map__value_size(map) + 7) / 8 * 8);

	return (n + page - 1) / page * page;
}

static void *map_view(struct bpf_object *obj, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, name);
	void *p = map ? mmap(NULL, map_bytes(map), PROT_READ | PROT_WRITE, MAP_SHARED,
			     bpf_map__fd(map), 0)
		      : MAP_FAILED;

	if (p == MAP_FAILED) {
		sonde_err(errno ? errno : ENOENT, "cannot map %s: %s", name, strerror(errno));
		return NULL;
	}
	return p;
}

/* What finds the table of stacks full is counted here. */
static int seed_lost(const struct sonde_lens_ctx *ctx, uint32_t n_targets)
{
	int fd = bpf_object__find_map_fd_by_name(ctx->obj, "stacks"), err = 0;

	for (uint32_t t = 0; t < n_targets && !err; t++) {
		struct sonde_stack_value v = {.target = t, .end = SONDE_STACK_LOST};
		uint64_t key = SONDE_STACK_LOST_KEY(ctx->lens->id, t);

		err = bpf_map_update_elem(fd, &key, &v, BPF_ANY);
	}
	return err ? sonde_err(err, "cannot fill the table of stacks: %s", strerror(-err)) : 0;
}

int sonde_stacks_new(struct sonde_stacks **out, const struct sonde_lens_ctx *ctx, size_t n_targets)
{
	struct sonde_stacks *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->n_targets = n_targets;
	s->processes = calloc(n_targets, sizeof(*s->processes));
	s->rows = map_view(ctx->obj, "unwind_rows");
	s->maps = map_view(ctx->obj, "unwind_maps");
	s->cache = map_view(ctx->obj, "unwind_cache");
	s->processes_fd = bpf_object__find_map_fd_by_name(ctx->obj, "unwind_processes");
	err = s->processes && s->rows && s->maps && s->cache ? 0 : -EIO;
	err = err ? err : seed_lost(ctx, (uint32_t)n_targets);
	err = err ? err : sonde_stacks_refresh(s, ctx);
	if (err)
		sonde_stacks_free(&s);
	*out = s;
	return err;
}

/* The views of the maps go with the maps: sizes are those of configure. */
static void unmap(void *p, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (p)
		munmap(p, (bytes + page - 1) / page * page);
}

void sonde_stacks_free(struct sonde_stacks **ref)
{
	struct sonde_stacks *s = *ref;

	*ref = NULL;
	if (!s)
		return;
	for (size_t i = 0; i < s->n_modules; i++) {
		sonde_names_free(&s->modules[i].names);
		sonde_elf_free(&s->modules[i].elf);
		free(s->modules[i].path);
	}
	for (size_t i = 0; s->processes && i < s->n_targets; i++)
		free(s->processes[i].m);
	unmap(s->rows, sizeof(*s->rows) * SONDE_UNWIND_ROWS);
	unmap(s->maps, sizeof(*s->maps) * 2 * SONDE_UNWIND_MAPS * s->n_targets);
	unmap(s->cache, sizeof(*s->cache) << SONDE_UNWIND_CACHE_BITS);
	free(s->modules);
	free(s->processes);
	free(s);
}

/* Put a file's rows behind those that are there. */
static int load_rows(struct sonde_stacks *s, struct module *m)
{
	struct sonde_unwind_table t = {0};
	int err = sonde_unwind_build(m->elf, &t);

	if (err == -ENOMEM)
		return err;
	if (!err && t.n <= SONDE_UNWIND_ROWS - s->n_rows) {
		memcpy(s->rows + s->n_rows, t.rows, t.n * sizeof(*t.rows));
		m->first = s->n_rows;
		m->n = (uint32_t)t.n;
		s->n_rows += m->n;
		sonde_debug("%s: %zu functions, %zu unwind rows, %zu cannot be followed", m->path,
			    t.functions, t.n, t.hard);
	} else {
		s->full = true;
	}
	sonde_unwind_fini(&t);
	return err == -EFBIG ? 0 : err;
}

static ssize_t find_module(const struct sonde_stacks *s, const struct sonde_module *m)
{
	for (size_t i = 0; i < s->n_modules; i++)
		if (s->modules[i].inode == m->inode && s->modules[i].dev == m->dev)
			return (ssize_t)i;
	return -1;
}

/* The same file in another container has the same build-id and rows. */
static const struct module *find_build(const struct sonde_stacks *s, const char *build_id)
{
	for (size_t i = 0; *build_id && i < s->n_modules; i++)
		if (!strcmp(s->modules[i].build_id, build_id))
			return &s->modules[i];
	return NULL;
}

static int add_module(struct sonde_stacks *s, pid_t pid, const struct sonde_module *from)
{
	struct module m = {.dev = from->dev, .inode = from->inode, .path = strdup(from->path)};
	const struct module *twin;
	char root[32];
	int err = 0;

	if (!m.path || SONDE_GROW(s->modules, s->n_modules, s->cap_modules)) {
		free(m.path);
		return -ENOMEM;
	}
	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	if (!sonde_elf_try(&m.elf, from->open_path, root)) {
		sonde_elf_build_id(m.elf, m.build_id, sizeof(m.build_id));
		twin = find_build(s, m.build_id);
		if (twin) {
			m.first = twin->first;
			m.n = twin->n;
		} else {
			err = load_rows(s, &m);
		}
	}
	s->modules[s->n_modules++] = m;
	return err;
}

static int add_mapping(struct sonde_stacks *s, const struct sonde_map *map, struct process *p)
{
	const struct sonde_module key = {.inode = map->inode,
					 .dev = (uint64_t)map->dev_major << 32 | map->dev_minor};
	struct mapping m = {.map = {.start = map->start, .end = map->end}};
	ssize_t at = find_module(s, &key);

	if (at < 0 || !s->modules[at].elf ||
	    sonde_elf_bias(s->modules[at].elf, map->start, map->pgoff, &m.map.bias))
		return 0;
	m.module = (uint32_t)at;
	m.map.first = s->modules[at].first;
	m.map.n = s->modules[at].n;
	if (SONDE_GROW(p->m, p->n, p->cap))
		return -ENOMEM;
	p->m[p->n++] = m;
	return 0;
}

/* Into the copy that is not in use, then turn. A walk that began before goes on in the other one,
 * which is as it was until the next change. */
static int publish(struct sonde_stacks *s, uint32_t target)
{
	struct process *p = &s->processes[target];
	struct sonde_unwind_process v = {.current = !p->copy};
	uint32_t n = p->n < SONDE_UNWIND_MAPS ? (uint32_t)p->n : SONDE_UNWIND_MAPS;
	int err;

	for (uint32_t i = 0; i < n; i++)
		s->maps[sonde_unwind_map_index(target, v.current, i)] = p->m[i].map;
	v.n[0] = v.n[1] = n;
	err = bpf_map_update_elem(s->processes_fd, &target, &v, BPF_ANY);
	if (err)
		return sonde_err(err, "cannot load the mappings: %s", strerror(-err));
	p->copy = v.current;
	for (size_t i = 0; i < 1u << SONDE_UNWIND_CACHE_BITS; i++)
		__atomic_store_n(&s->cache[i], 0, __ATOMIC_RELAXED);
	return 0;
}

static uint64_t hash_maps(const struct sonde_maps *maps)
{
	uint64_t h = 1;

	for (size_t i = 0; i < maps->n; i++) {
		const struct sonde_map *m = &maps->m[i];
		const uint64_t parts[] = {m->start, m->end, m->inode, m->pgoff};

		for (size_t j = 0; m->x && m->inode && j < SONDE_ARRAY_SIZE(parts); j++)
			h = (h ^ parts[j]) * 0x9e3779b97f4a7c15ull ^ h >> 31;
	}
	return h ? h : 1;
}

static int add_modules(struct sonde_stacks *s, pid_t pid)
{
	struct sonde_modules mods = {0};
	int err = sonde_modules_read(pid, &mods);

	for (size_t i = 0; !err && i < mods.n; i++)
		if (find_module(s, &mods.m[i]) < 0)
			err = add_module(s, pid, &mods.m[i]);
	sonde_modules_fini(&mods);
	return err;
}

static int refresh_target(struct sonde_stacks *s, const struct sonde_lens_ctx *ctx, uint32_t target)
{
	struct process *p = &s->processes[target];
	pid_t pid = ctx->targets->t[target].pid;
	struct sonde_maps maps;
	int err = sonde_maps_read(pid, &maps);
	uint64_t seen;

	if (err)
		return err == -ENOMEM ? err : 0; /* gone */
	seen = hash_maps(&maps);
	if (seen != p->seen) {
		err = add_modules(s, pid);
		p->n = 0;
		for (size_t i = 0; !err && i < maps.n; i++)
			if (maps.m[i].x && maps.m[i].inode)
				err = add_mapping(s, &maps.m[i], p);
		err = err ? (err == -ENOMEM ? err : 0) : publish(s, target);
		s->crowd |= p->n > SONDE_UNWIND_MAPS;
		p->seen = seen;
	}
	sonde_maps_fini(&maps);
	return err;
}

/* Said at an interval: when the maps are first filled the recording has not begun. */
static int say_limits(struct sonde_stacks *s, const struct sonde_lens_ctx *ctx)
{
	int err = 0;

	if (s->full && !s->full_said)
		err = sonde_lens_note(ctx, SONDE_NOTE_DEGRADED,
				      "the unwind tables of all files together are larger than the "
				      "8 MiB kept for them: stacks end where a table is missing",
				      "observe fewer different programs at once");
	s->full_said = s->full;
	if (!err && s->crowd && !s->crowd_said)
		err = sonde_lens_note(ctx, SONDE_NOTE_DEGRADED,
				      "a process maps more than 256 pieces of code: stacks through "
				      "the others end there",
				      "");
	s->crowd_said = s->crowd;
	return err;
}

int sonde_stacks_refresh(struct sonde_stacks *s, const struct sonde_lens_ctx *ctx)
{
	int err = 0;

	for (size_t t = 0; !err && t < ctx->targets->n && t < s->n_targets; t++)
		if (!ctx->targets->t[t].gone)
			err = refresh_target(s, ctx, (uint32_t)t);
	if (!err && s->loaded)
		err = say_limits(s, ctx);
	s->loaded = true;
	return err;
}

struct sonde_code sonde_stacks_code(const struct sonde_stacks *s, uint32_t target, uint64_t pc)
{
	struct sonde_code code = {UINT32_MAX, pc, false};
	const struct process *p = target < s->n_targets ? &s->processes[target] : NULL;

	for (size_t i = 0; p && i < p->n; i++)
		if (pc >= p->m[i].map.start && pc < p->m[i].map.end)
			return (struct sonde_code){p->m[i].module, pc - p->m[i].map.bias, false};
	return code;
}

static struct sonde_names *names_of(struct module *m)
{
	if (!m->tried_names && m->elf && sonde_names_new(&m->names, m->elf))
		sonde_debug("%s: no names can be had", m->path);
	m->tried_names = true;
	return m->names;
}

struct frames {
	struct sonde_frame *f;
	size_t n, cap;
};

static int add_frame(struct frames *to, const struct sonde_name *name, const char *path,
		     uint64_t offset)
{
	if (SONDE_GROW(to->f, to->n, to->cap))
		return -ENOMEM;
	to->f[to->n++] = (struct sonde_frame){
		.function = name && name->function ? name->function : "",
		.module = path,
		.file = name && name->file ? name->file : "",
		.line = name ? name->line : 0,
		.offset = offset,
		.inlined = name && name->inlined,
	};
	return 0;
}

/* A return address is behind the call, which may be the last of its function or line: ask for the
 * byte before. */
static int name_code(struct sonde_stacks *s, const struct sonde_code *code, struct frames *to)
{
	struct module *m = code->module < s->n_modules ? &s->modules[code->module] : NULL;
	struct sonde_names *names = m ? names_of(m) : NULL;
	const struct sonde_name *found = NULL;
	size_t n = 0;
	int err = names ? sonde_names_at(names, code->vaddr - !code->exact, &found, &n) : 0;

	if (!err && !n)
		err = add_frame(to, NULL, m ? m->path : "", code->vaddr);
	for (size_t i = 0; !err && i < n; i++)
		err = add_frame(to, &found[i], m->path, code->vaddr);
	return err;
}

int sonde_stacks_name(struct sonde_stacks *s, const struct sonde_code *code, size_t n,
		      struct sonde_frame **frames, size_t *n_frames)
{
	struct frames to = {0};
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		err = name_code(s, &code[i], &to);
	if (err) {
		free(to.f);
		return err;
	}
	*frames = to.f;
	*n_frames = to.n;
	return 0;
}
