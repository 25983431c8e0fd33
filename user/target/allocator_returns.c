// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where the pointers of operator new are seen: it may throw, so its return must not be probed, and
 * is watched at its own `ret` instructions instead (returns.h). The invariant: an entry is tracked
 * only if every place at which its calls can end is among the returns, or is another counted entry.
 */
#include <errno.h>
#include <stdio.h>

#include "core/log.h"
#include "core/mem.h"
#include "target/allocator.h"
#include "target/elf.h"
#include "target/returns.h"

struct returns {
	struct sonde_elf *elf;
	const char *shown;
	struct sonde_alloc_site *sites;
	size_t n_sites;
	struct sonde_alloc_return *out;
	size_t n, cap;
};

static bool is_counted(void *ctx, uint64_t function)
{
	const struct returns *r = ctx;

	for (size_t i = 0; i < r->n_sites; i++)
		if (r->sites[i].site.function == function)
			return true;
	return false;
}

static int add_return(struct returns *r, const struct sonde_alloc_site *of, uint64_t offset)
{
	int err;

	for (size_t i = 0; i < r->n; i++)
		if (r->out[i].offset == offset)
			return 0;
	err = SONDE_GROW(r->out, r->n, r->cap);
	if (!err)
		r->out[r->n++] = (struct sonde_alloc_return){of, offset};
	return err;
}

static int track(struct returns *r, struct sonde_alloc_site *site)
{
	sonde_autofree uint64_t *offsets = NULL;
	size_t n = 0;
	char why[128];
	int err = sonde_site_returns(r->elf, site->site.function, 0, is_counted, r, &offsets, &n,
				     why, sizeof(why));

	if (err == -EOPNOTSUPP) {
		sonde_warn("%s: not every place where %s returns can be probed (%s): as soon as it "
			   "is called, live bytes by call site are absent",
			   r->shown, site->symbol, why);
		return 0;
	}
	for (size_t i = 0; !err && i < n; i++)
		err = add_return(r, site, offsets[i]);
	site->tracked = !err;
	return err;
}

static bool makes_block(const struct sonde_alloc_site *site)
{
	return site->entry->op != SONDE_ALLOC_FREE && site->entry->op != SONDE_ALLOC_DELETE &&
	       site->entry->op != SONDE_ALLOC_DELETE_SIZED;
}

int sonde_allocator_returns(const struct sonde_module *m, struct sonde_alloc_site *sites,
			    size_t n_sites, struct sonde_alloc_return **out, size_t *n)
{
	struct returns r = {.shown = m->path, .sites = sites, .n_sites = n_sites};
	char root[32];
	int err;

	sonde_module_root(m, root, sizeof(root));
	err = sonde_elf_open(&r.elf, m->open_path, root);
	for (size_t i = 0; !err && i < n_sites; i++)
		if (makes_block(&sites[i]) &&
		    !sonde_alloc_wants_return(sites[i].entry, SONDE_RETURNS_ALL))
			err = track(&r, &sites[i]);
	sonde_elf_free(&r.elf);
	if (err) {
		free(r.out);
		return err;
	}
	*out = r.out;
	*n = r.n;
	return 0;
}
