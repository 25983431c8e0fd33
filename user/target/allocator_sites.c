// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An allocator's set of entries as places in one file. The invariant: one operation passes one
 * site. Names that share an address are one site, and an entry that is only a wrapper in this build
 * is left to the entry it calls.
 */
#include <errno.h>
#include <stdio.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "target/allocator.h"
#include "target/elf.h"
#include "target/wrapper.h"

#define MAX_WRAPPER 4096 /* bytes: what is longer does work of its own */

struct found {
	const struct sonde_alloc_entry *entry;
	struct sonde_sym sym;
	bool is_alias;
	struct sonde_wrapper wrapper;
};

struct resolver {
	struct sonde_elf *elf;
	const char *prefix, *shown;
	struct found *f;
	size_t n;
};

/* File offset that a direct jump or call ends up at, through the linkage table if need be. */
static uint64_t final_target(const struct resolver *r, uint64_t target)
{
	const char *symbol;
	struct sonde_sym sym;

	if (!sonde_elf_plt_symbol(r->elf, target, &symbol) && !sonde_elf_find(r->elf, symbol, &sym))
		return sym.offset;
	return target;
}

static bool is_other_entry(const struct resolver *r, const struct found *self, uint64_t offset)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->f[i].sym.offset == offset && offset != self->sym.offset)
			return true;
	return false;
}

struct query {
	const struct resolver *r;
	const struct found *self;
};

static bool is_counted(void *ctx, int64_t target)
{
	const struct query *q = ctx;

	return is_other_entry(q->r, q->self,
			      final_target(q->r, q->self->sym.offset + (uint64_t)target));
}

/* Does the function hand over to another entry of the set? What cannot be told is its own work. */
static void analyse_wrapper(const struct resolver *r, struct found *f)
{
	struct query q = {r, f};
	size_t size = f->sym.size < MAX_WRAPPER ? f->sym.size : 0;
	sonde_autofree uint8_t *code = malloc(size ? size : 1);

	if (code && size && !sonde_elf_code(r->elf, f->sym.offset, code, size))
		sonde_wrapper_analyse(code, size, f->entry->args, is_counted, &q, &f->wrapper);
}

static bool is_alias(const struct resolver *r, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (r->f[k].sym.offset == r->f[i].sym.offset)
			return true;
	return false;
}

static size_t entry_count(const struct sonde_allocator *a)
{
	return a->n_entries + (a->cxx ? sonde_cxx_entry_count : 0);
}

static const struct sonde_alloc_entry *entry_at(const struct sonde_allocator *a, size_t i)
{
	return i < a->n_entries ? &a->entries[i] : &sonde_cxx_entries[i - a->n_entries];
}

static int find_entries(struct resolver *r, const struct sonde_allocator *a)
{
	r->f = calloc(entry_count(a), sizeof(*r->f));
	if (!r->f)
		return -ENOMEM;
	for (size_t i = 0; i < entry_count(a); i++) {
		struct found f = {.entry = entry_at(a, i)};
		char name[64];

		snprintf(name, sizeof(name), "%s%s", r->prefix, f.entry->symbol);
		/* C++ names carry no prefix in any build. */
		if (!sonde_elf_find(r->elf, name, &f.sym) ||
		    (r->prefix[0] && f.entry->symbol[0] == '_' &&
		     !sonde_elf_find(r->elf, f.entry->symbol, &f.sym)))
			r->f[r->n++] = f;
	}
	for (size_t i = 0; i < r->n; i++) {
		r->f[i].is_alias = is_alias(r, i);
		if (!r->f[i].is_alias && r->f[i].entry->wrapper)
			analyse_wrapper(r, &r->f[i]);
	}
	return 0;
}

/* The side that a return probe is wanted for: those whose result is the new block. One that may
 * pass the call on to another of the set keeps its entry: which of the two it was is told there. */
bool sonde_alloc_wants_return(const struct sonde_alloc_entry *e, enum sonde_alloc_returns returns)
{
	if (returns == SONDE_RETURNS_NONE)
		return false;
	if (e->by_class && (returns == SONDE_RETURNS_SIZES || e->wrapper))
		return false;
	return !e->may_throw && e->op != SONDE_ALLOC_FREE && e->op != SONDE_ALLOC_DELETE &&
	       e->op != SONDE_ALLOC_DELETE_SIZED;
}

static void add_site(const struct found *f, const struct sonde_site *site,
		     struct sonde_alloc_site *out)
{
	*out = (struct sonde_alloc_site){.entry = f->entry, .site = *site};
	snprintf(out->symbol, sizeof(out->symbol), "%.*s", (int)strcspn(f->sym.name, "@"),
		 f->sym.name);
}

/* The paths that do the work here, each with its own site. */
static void add_split(const struct found *f, struct sonde_alloc_site *sites, size_t *n)
{
	for (size_t i = 0; i < f->wrapper.n_split; i++) {
		struct sonde_site site = f->wrapper.split[i];

		site.function = f->sym.offset;
		site.offset += f->sym.offset;
		add_site(f, &site, &sites[(*n)++]);
	}
}

static int add_entry(const struct resolver *r, const struct found *f,
		     enum sonde_alloc_returns returns, struct sonde_alloc_site *sites, size_t *n)
{
	bool entry_only = sonde_alloc_wants_return(f->entry, returns);
	struct sonde_site site;
	int err;

	if (f->is_alias || f->wrapper.wrap == SONDE_WRAP_ALWAYS)
		return 0;
	if (f->wrapper.wrap == SONDE_WRAP_SOMETIMES && f->wrapper.n_split && !entry_only) {
		add_split(f, sites, n);
		return 0;
	}
	/* Where its return is seen, the other function's hit is known to be inside it. */
	if (f->wrapper.wrap == SONDE_WRAP_SOMETIMES && !entry_only)
		sonde_warn("%s: %s sometimes passes a call on to another function that is counted; "
			   "those calls are counted twice",
			   r->shown, f->sym.name);
	err = sonde_site_choose(r->elf, f->sym.offset, f->sym.size, f->entry->args, entry_only,
				&site);
	if (!err)
		add_site(f, &site, &sites[(*n)++]);
	if (err == -EOPNOTSUPP)
		sonde_warn("%s: the kernel takes no probe at the start of %s; its calls are not "
			   "counted",
			   r->shown, f->sym.name);
	return err == -EOPNOTSUPP ? 0 : err;
}

static int choose_sites(const struct resolver *r, enum sonde_alloc_returns returns,
			struct sonde_alloc_site *sites, size_t *n)
{
	int err = 0;

	*n = 0;
	for (size_t i = 0; i < r->n && !err; i++)
		err = add_entry(r, &r->f[i], returns, sites, n);
	return err ? err : *n ? 0 : -ENOENT;
}

static const char *find_prefix(struct sonde_elf *elf)
{
	const char *const *prefix = sonde_alloc_prefixes;

	for (; *prefix; prefix++) {
		struct sonde_sym sym;
		char name[64];

		snprintf(name, sizeof(name), "%smalloc", *prefix);
		if (!sonde_elf_find(elf, name, &sym))
			return *prefix;
	}
	return "";
}

int sonde_allocator_sites(const struct sonde_allocator *a, const struct sonde_module *m,
			  enum sonde_alloc_returns returns, struct sonde_alloc_site **out,
			  size_t *n)
{
	sonde_autofree struct sonde_alloc_site *sites = NULL;
	struct resolver r = {.shown = m->path};
	size_t count = 0;
	char root[32];
	int err;

	sonde_module_root(m, root, sizeof(root));
	err = sonde_elf_open(&r.elf, m->open_path, root);
	if (err)
		return err;
	r.prefix = find_prefix(r.elf);
	sites = calloc(entry_count(a) * SONDE_MAX_SPLIT, sizeof(*sites));
	err = sites ? find_entries(&r, a) : -ENOMEM;
	if (!err)
		err = choose_sites(&r, returns, sites, &count);
	if (err)
		sonde_err(err, "%s: no entry point of %s can be probed: %s", m->path, a->name,
			  strerror(-err));
	sonde_elf_free(&r.elf);
	free(r.f);
	if (err)
		return err;
	*out = SONDE_TAKE(sites);
	*n = count;
	return 0;
}
