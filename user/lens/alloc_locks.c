// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where a target's allocator keeps its locks, for programs that see a thread wait for a futex.
 */
#include <sys/types.h>

#include <bpf/bpf.h>

#include "core/log.h"
#include "lens/alloc_locks.h"
#include "sonde/stall.h"
#include "target/allocator.h"
#include "target/maps.h"

/*
 * The writable data of module @m: its own segments and the anonymous rest that follows them. Not of
 * the executable, where an allocator that is linked in shares it with the program's locks.
 */
static struct sonde_stall_range data_of(const struct sonde_maps *maps, const struct sonde_module *m)
{
	struct sonde_stall_range r = {};

	for (size_t i = 0; i < maps->n && !m->is_exe; i++) {
		const struct sonde_map *map = &maps->m[i];
		bool own = map->inode == m->inode && !strcmp(map->path, m->path);

		if (map->w && own && !r.from)
			r.from = map->start;
		if (map->w && (own || (!map->path[0] && map->start == r.to)))
			r.to = map->end;
	}
	return r;
}

void sonde_alloc_locks_seed(const struct sonde_target *t, int fd)
{
	struct sonde_modules mods = {};
	struct sonde_maps maps = {};
	const struct sonde_allocator *a;
	uint32_t tgid = (uint32_t)t->pid;
	char version[32];
	size_t module;

	if (sonde_modules_read(t->pid, &mods))
		return; /* it went meanwhile */
	if (!sonde_allocator_detect(t->pid, &mods, &a, &module, version, sizeof(version)) &&
	    !sonde_maps_read(t->pid, &maps)) {
		struct sonde_stall_range r = data_of(&maps, &mods.m[module]);

		r.align = a->arena_align;
		if (bpf_map_update_elem(fd, &tgid, &r, BPF_ANY))
			sonde_warn("no room for the allocator's locks of pid %d", t->pid);
	}
	sonde_maps_fini(&maps);
	sonde_modules_fini(&mods);
}
