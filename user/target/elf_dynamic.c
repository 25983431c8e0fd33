// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The dynamic symbol table as the dynamic linker finds it: by PT_DYNAMIC, which a loadable file
 * must have, where section headers, which nothing that runs needs, were taken off (sstrip).
 *
 * The file may be hostile: counts are bounded, and every name ends within the string table.
 */
#include <errno.h>

#include "core/mem.h"
#include "target/elf_file.h"

#define ENTRIES_MAX 4096
#define SYMBOLS_MAX (1u << 20)
#define STRINGS_MAX (1u << 26)

struct places {
	uint64_t symtab, strtab, strsz, hash, gnu_hash, versym;
};

static void take(struct places *p, const Elf64_Dyn *d)
{
	const struct {
		int64_t tag;
		uint64_t *at;
	} rows[] = {
		{DT_SYMTAB, &p->symtab}, {DT_STRTAB, &p->strtab},     {DT_STRSZ, &p->strsz},
		{DT_HASH, &p->hash},	 {DT_GNU_HASH, &p->gnu_hash}, {DT_VERSYM, &p->versym},
	};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++)
		if (rows[i].tag == d->d_tag)
			*rows[i].at = d->d_un.d_val;
}

static int each_entry(const struct sonde_elf *elf, int (*cb)(void *ctx, const Elf64_Dyn *d),
		      void *ctx)
{
	int err = 0;

	for (uint64_t i = 0; i < ENTRIES_MAX && !err && elf->dynamic_at; i++) {
		Elf64_Dyn d;

		err = sonde_elf_read(elf, elf->dynamic_at + i * sizeof(d), &d, sizeof(d));
		if (!err && d.d_tag == DT_NULL)
			break;
		err = err ? err : cb(ctx, &d);
	}
	return err;
}

static int place_cb(void *ctx, const Elf64_Dyn *d)
{
	take(ctx, d);
	return 0;
}

/* The last symbol is the end of the chain of the last bucket; those before symoffset are not in it.
 */
static int count_gnu(const struct sonde_elf *elf, uint64_t at, uint64_t *n)
{
	uint32_t head[4], last = 0, v = 0; /* buckets, symoffset, words of the filter, its shift */
	uint64_t buckets, chain;
	int err = sonde_elf_read(elf, at, head, sizeof(head));

	if (err || !head[0] || head[0] > SYMBOLS_MAX || head[2] > SYMBOLS_MAX)
		return err ? err : -ENOEXEC;
	buckets = at + sizeof(head) + 8ull * head[2];
	for (uint32_t i = 0; i < head[0] && !err; i++) {
		err = sonde_elf_read(elf, buckets + 4ull * i, &v, 4);
		last = v > last ? v : last;
	}
	if (err || last < head[1]) {
		*n = head[1];
		return err;
	}
	chain = buckets + 4ull * head[0];
	for (v = 0; !err && !(v & 1) && last < SYMBOLS_MAX; last++)
		err = sonde_elf_read(elf, chain + 4ull * (last - head[1]), &v, 4);
	*n = last;
	return err;
}

static int count_symbols(const struct sonde_elf *elf, const struct places *p, uint64_t *n)
{
	uint32_t head[2];
	int err;

	if (p->gnu_hash)
		return count_gnu(elf, p->gnu_hash, n);
	err = p->hash ? sonde_elf_read(elf, p->hash, head, sizeof(head)) : -ENOENT;
	if (!err)
		*n = head[1];
	return err;
}

static int load(const struct sonde_elf *elf, const struct places *p, struct sonde_elf_dynamic *out)
{
	struct sonde_elf_dynamic d = {0};
	uint64_t n = 0;
	int err = p->symtab && p->strtab && p->strsz && p->strsz < STRINGS_MAX
			  ? count_symbols(elf, p, &n)
			  : -ENOENT;

	if (err || n > SYMBOLS_MAX)
		return err ? err : -ENOEXEC;
	d.n = n;
	d.sym = calloc(n + 1, sizeof(*d.sym));
	d.version = calloc(n + 1, sizeof(*d.version));
	d.strings = calloc(p->strsz + 1, 1);
	d.strings_size = p->strsz;
	err = d.sym && d.version && d.strings ? 0 : -ENOMEM;
	if (!err)
		err = sonde_elf_read(elf, p->symtab, d.sym, n * sizeof(*d.sym));
	if (!err)
		err = sonde_elf_read(elf, p->strtab, d.strings, p->strsz);
	if (!err && p->versym)
		err = sonde_elf_read(elf, p->versym, d.version, n * sizeof(*d.version));
	if (err)
		sonde_elf_dynamic_fini(&d);
	else
		*out = d;
	return err;
}

void sonde_elf_dynamic_fini(struct sonde_elf_dynamic *d)
{
	free(d->sym);
	free(d->version);
	free(d->strings);
	*d = (struct sonde_elf_dynamic){0};
}

const struct sonde_elf_dynamic *sonde_elf_dynamic(struct sonde_elf *elf)
{
	struct places p = {0};

	if (!elf->tried_dynamic && !each_entry(elf, place_cb, &p))
		load(elf, &p, &elf->dynamic);
	elf->tried_dynamic = true;
	return elf->dynamic.n ? &elf->dynamic : NULL;
}

const char *sonde_elf_dynamic_name(const struct sonde_elf_dynamic *d, uint64_t at)
{
	return at < d->strings_size ? d->strings + at : NULL;
}

struct names {
	struct sonde_elf *elf;
	const struct sonde_elf_dynamic *d;
	int (*cb)(struct sonde_elf *elf, int64_t tag, const char *name);
};

static int name_cb(void *ctx, const Elf64_Dyn *dyn)
{
	const struct names *n = ctx;
	const char *name = dyn->d_tag == DT_NEEDED || dyn->d_tag == DT_SONAME
				   ? sonde_elf_dynamic_name(n->d, dyn->d_un.d_val)
				   : NULL;

	return name ? n->cb(n->elf, dyn->d_tag, name) : 0;
}

int sonde_elf_dynamic_names(struct sonde_elf *elf,
			    int (*cb)(struct sonde_elf *elf, int64_t tag, const char *name))
{
	struct names n = {elf, sonde_elf_dynamic(elf), cb};

	return n.d ? each_entry(elf, name_cb, &n) : 0;
}
