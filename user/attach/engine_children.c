// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The children that hold uprobe links. The kernel takes 50 to 200 ms to close one link and a
 * process closes its links one after the other, so that 36 perf links took 4 s: requests are spread
 * over several children, which all leave at the same time.
 */
#include <errno.h>
#include <string.h>
#include <bpf/bpf.h>

#include "attach/engine_priv.h"
#include "core/err.h"
#include "core/mem.h"

/* So that its exit, whatever the cause, ends the counting before it ends the first link. */
static int tell_kernel(struct sonde_engine *e, int lens, const struct sonde_guard *g)
{
	struct sonde_guard_slot slot = {.tgid = (uint32_t)g->pid};

	if (bpf_map_update_elem(e->maps.guards, &lens, &slot, BPF_ANY))
		return sonde_err(errno, "cannot name the guard of lens %s to the kernel: %s",
				 e->lens[lens].name, strerror(errno));
	return 0;
}

uint64_t sonde_engine_lost_ns(const struct sonde_engine *e, int lens)
{
	struct sonde_guard_slot slot;

	return bpf_map_lookup_elem(e->maps.guards, &lens, &slot) ? 0 : slot.lost_ns;
}

int sonde_engine_hold(struct sonde_engine *e, int lens, const struct sonde_requests *reqs,
		      uint64_t beat_ns, uint64_t max_ns)
{
	struct engine_child child = {.lens = lens};
	size_t failed = SIZE_MAX;
	int err;

	if (!reqs->n)
		return 0;
	err = SONDE_GROW(e->children, e->n_children, e->cap_children);
	if (err)
		return err;
	err = sonde_guard_start(reqs->r, reqs->n, beat_ns, max_ns, &child.g, &failed);
	if (err && failed < reqs->n)
		return sonde_engine_link_error(err, &reqs->r[failed]);
	if (err)
		return sonde_err(err, "cannot start the guard child of lens %s: %s",
				 e->lens[lens].name, strerror(-err));
	e->children[e->n_children++] = child;
	return beat_ns || max_ns ? tell_kernel(e, lens, &child.g) : 0;
}

void sonde_engine_release(struct sonde_engine *e, int lens, size_t from)
{
	size_t kept = from;

	e->guards_lost &= lens < 0 ? 0 : ~(1u << lens);
	for (size_t i = from; i < e->n_children; i++)
		if (engine_wants(lens, e->children[i].lens))
			sonde_guard_dismiss(&e->children[i].g);
	for (size_t i = from; i < e->n_children; i++) {
		if (engine_wants(lens, e->children[i].lens))
			sonde_guard_stop(&e->children[i].g);
		else
			e->children[kept++] = e->children[i];
	}
	if (kept < e->n_children)
		e->n_children = kept;
}

void sonde_engine_beat(struct sonde_engine *e)
{
	for (size_t i = 0; i < e->n_children; i++)
		sonde_guard_beat(&e->children[i].g);
}

uint32_t sonde_engine_guards_lost(struct sonde_engine *e)
{
	for (size_t i = 0; i < e->n_children; i++) {
		struct sonde_guard *g = &e->children[i].g;

		if (sonde_engine_lost_ns(e, e->children[i].lens) ||
		    (g->pid && !sonde_guard_alive(g)))
			e->guards_lost |= 1u << e->children[i].lens;
	}
	return e->guards_lost;
}

bool sonde_engine_guard_alive(struct sonde_engine *e)
{
	return !sonde_engine_guards_lost(e);
}
