// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tables of allocators that the kernel side looks blocks up in: one domain for each allocator
 * of each target that has tables. The hooks have numbered them in the cookies of their sites; here
 * they are learned once more and put into the map, since a plan carries no data.
 */
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attach/plan.h"
#include "core/err.h"
#include "core/mem.h"
#include "lens/alloc_hooks.h"
#include "target/allocator.h"
#include "target/blocks/blocks.h"

uint32_t sonde_alloc_domain_count(const struct sonde_plan *plan)
{
	uint32_t n = 0;

	for (size_t i = 0; plan && i < plan->n; i++) {
		const struct sonde_hook *h = plan->items[i].hook;

		for (size_t j = 0; h->lens == SONDE_LENS_ALLOC && j < h->n_sites; j++)
			if (SONDE_ALLOC_COOKIE_DOMAIN(h->sites[j].cookie) >= n)
				n = SONDE_ALLOC_COOKIE_DOMAIN(h->sites[j].cookie) + 1;
	}
	return n;
}

static const struct sonde_module *module_of(const struct sonde_modules *mods,
					    const struct sonde_probe_site *site)
{
	for (size_t i = 0; i < mods->n; i++)
		if (mods->m[i].inode == site->inode && mods->m[i].dev == site->dev)
			return &mods->m[i];
	return NULL;
}

static int learn(const struct sonde_probe_site *site, struct sonde_alloc_domain *out)
{
	const struct sonde_module *m;
	struct sonde_modules mods;
	int err = sonde_modules_read(site->pid, &mods);

	if (err)
		return err;
	m = module_of(&mods, site);
	err = -ENOENT;
	for (size_t a = 0; m && err && a < sonde_allocator_count; a++)
		if (sonde_allocators[a]->rule == SONDE_ALLOC_COOKIE_RULE(site->cookie))
			err = sonde_blocks_learn(site->pid, sonde_allocators[a], m, out);
	sonde_modules_fini(&mods);
	return err;
}

static int put_domain(struct sonde_lens_ctx *ctx, const struct sonde_probe_site *site)
{
	struct bpf_map *map = bpf_object__find_map_by_name(ctx->obj, "alloc_domains");
	sonde_autofree struct sonde_alloc_domain *d = calloc(1, sizeof(*d));
	uint32_t i = SONDE_ALLOC_COOKIE_DOMAIN(site->cookie);
	int err = d ? learn(site, d) : -ENOMEM;

	if (!err && bpf_map_update_elem(bpf_map__fd(map), &i, d, BPF_ANY))
		err = -errno;
	return err ? sonde_err(err,
			       "%s: the tables in which the allocator keeps the sizes of its "
			       "blocks are not found again: %s",
			       site->shown, strerror(-err))
		   : 0;
}

int sonde_alloc_domains_fill(struct sonde_lens_ctx *ctx)
{
	uint32_t next = 0;
	int err = 0;

	for (size_t i = 0; ctx->plan && i < ctx->plan->n; i++) {
		const struct sonde_hook *h = ctx->plan->items[i].hook;

		for (size_t j = 0; !err && h->lens == SONDE_LENS_ALLOC && j < h->n_sites; j++) {
			uint64_t cookie = h->sites[j].cookie;
			uint32_t rule = SONDE_ALLOC_COOKIE_RULE(cookie);

			if ((rule != SONDE_BLOCK_RTREE && rule != SONDE_BLOCK_PAGEMAP) ||
			    SONDE_ALLOC_COOKIE_DOMAIN(cookie) != next)
				continue;
			err = put_domain(ctx, &h->sites[j]);
			next++;
		}
	}
	return err;
}
