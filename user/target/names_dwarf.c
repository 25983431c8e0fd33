// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Inlined functions and source lines, from DWARF by libdw. Units are found by their own ranges,
 * since clang writes no .debug_aranges.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>

#include "core/mem.h"
#include "target/names_priv.h"

/* A stretch of code and the unit that it belongs to. */
struct stretch {
	uint64_t start, end;
	Dwarf_Off unit; /* offset of its DIE */
};

struct sonde_dwarf {
	Dwarf *dw;
	struct stretch *s; /* ascending */
	size_t n, cap;
};

static int add_unit(struct sonde_dwarf *d, Dwarf_Die *die)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
		if (start >= end)
			continue;
		if (SONDE_GROW(d->s, d->n, d->cap))
			return -ENOMEM;
		d->s[d->n++] = (struct stretch){start, end, dwarf_dieoffset(die)};
	}
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static int add_units(struct sonde_dwarf *d)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	int err = 0;

	while (!err && dwarf_get_units(d->dw, cu, &cu, NULL, NULL, &die, NULL) == 0)
		if (dwarf_tag(&die) == DW_TAG_compile_unit)
			err = add_unit(d, &die);
	if (d->n)
		qsort(d->s, d->n, sizeof(*d->s), by_start);
	return err;
}

static Dwarf *begin(struct sonde_elf *elf)
{
	Elf *debug = sonde_elf_debug(elf);
	Dwarf *dw = debug ? dwarf_begin_elf(debug, DWARF_C_READ, NULL) : NULL;

	return dw ? dw : dwarf_begin_elf(elf->elf, DWARF_C_READ, NULL);
}

struct sonde_dwarf *sonde_dwarf_open(struct sonde_elf *elf)
{
	struct sonde_dwarf *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->dw = begin(elf);
	if (!d->dw || add_units(d) || !d->n)
		sonde_dwarf_free(&d);
	return d;
}

void sonde_dwarf_free(struct sonde_dwarf **ref)
{
	struct sonde_dwarf *d = *ref;

	*ref = NULL;
	if (!d)
		return;
	dwarf_end(d->dw);
	free(d->s);
	free(d);
}

static bool unit_at(const struct sonde_dwarf *d, uint64_t vaddr, Dwarf_Die *die)
{
	size_t lo = 0, hi = d->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (d->s[mid].start <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && vaddr < d->s[lo - 1].end && dwarf_offdie(d->dw, d->s[lo - 1].unit, die);
}

static char *name_of(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	const char *name = NULL;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr))
		name = dwarf_formstring(&attr);
	if (!name)
		name = dwarf_diename(die);
	return name ? sonde_demangle(name) : NULL;
}

static const char *base_of(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

/* Where a function stands in the code at the moment: its own line, or the line of the call that was
 * inlined into it. */
struct place {
	const char *file;
	int line;
};

static int add_function(struct sonde_name_list *out, Dwarf_Die *die, const struct place *at)
{
	struct sonde_name name = {.inlined = dwarf_tag(die) == DW_TAG_inlined_subroutine};

	if (SONDE_GROW(out->v, out->n, out->cap))
		return -ENOMEM;
	name.function = name_of(die);
	if (!name.function) /* the symbol may know better */
		return -ENOENT;
	name.file = at->file ? strdup(base_of(at->file)) : NULL;
	name.line = at->line > 0 ? (uint32_t)at->line : 0;
	out->v[out->n++] = name;
	return 0;
}

/* The call that was inlined here. */
static struct place call_of(Dwarf_Die *die, Dwarf_Files *files)
{
	struct place at = {0};
	Dwarf_Attribute attr;
	Dwarf_Word v;

	if (dwarf_attr(die, DW_AT_call_file, &attr) && !dwarf_formudata(&attr, &v))
		at.file = dwarf_filesrc(files, v, NULL, NULL);
	if (dwarf_attr(die, DW_AT_call_line, &attr) && !dwarf_formudata(&attr, &v))
		at.line = (int)v;
	return at;
}

static struct place line_at(Dwarf_Die *unit, uint64_t vaddr)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, vaddr);
	struct place at = {0};

	if (!line)
		return at;
	at.file = dwarf_linesrc(line, NULL, NULL);
	dwarf_lineno(line, &at.line);
	return at;
}

static int add_scopes(Dwarf_Die *unit, uint64_t vaddr, Dwarf_Die *scopes, int n,
		      struct sonde_name_list *out)
{
	struct place at = line_at(unit, vaddr);
	Dwarf_Files *files = NULL;
	size_t n_files;
	int err = 0;

	dwarf_getsrcfiles(unit, &files, &n_files);
	for (int i = 0; i < n && !err; i++) {
		int tag = dwarf_tag(&scopes[i]);

		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
			continue;
		err = add_function(out, &scopes[i], &at);
		if (tag == DW_TAG_subprogram)
			break;
		at = call_of(&scopes[i], files);
	}
	return err;
}

/* An incomplete chain is none: its names would stand for the wrong frames. */
static void forget(struct sonde_name_list *out)
{
	while (out->n) {
		struct sonde_name *name = &out->v[--out->n];

		free(name->function);
		free(name->file);
	}
}

int sonde_dwarf_at(struct sonde_dwarf *d, uint64_t vaddr, struct sonde_name_list *out)
{
	Dwarf_Die unit, *inner = NULL, *scopes = NULL;
	int n, err = 0;

	if (!unit_at(d, vaddr, &unit))
		return 0;
	/* The innermost scope, then what it physically lies in: an inlined function's own scopes
	 * are those of its abstract instance otherwise. */
	n = dwarf_getscopes(&unit, vaddr, &inner);
	if (n > 0)
		n = dwarf_getscopes_die(&inner[0], &scopes);
	if (n > 0)
		err = add_scopes(&unit, vaddr, scopes, n, out);
	free(inner);
	free(scopes);
	if (err || (out->n && out->v[out->n - 1].inlined))
		forget(out);
	return err == -ENOMEM ? err : 0;
}
