// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which function holds an offset. Symbols say it best; a stripped file still has .eh_frame, whose
 * entries give start and size of every function (and of every split-off cold part) for unwinding.
 */
#include <errno.h>

#include "core/mem.h"
#include "target/elf_file.h"

struct extents {
	struct sonde_elf_extent *e;
	size_t n, cap;
};

struct frames {
	struct sonde_elf *elf;
	struct extents *list;
};

static int add_extent(struct extents *list, uint64_t start, uint64_t size)
{
	int err = SONDE_GROW(list->e, list->n, list->cap);

	if (!err)
		list->e[list->n++] = (struct sonde_elf_extent){start, size};
	return err;
}

static int add_frame(void *ctx, const struct sonde_elf_frame *f)
{
	struct frames *frames = ctx;
	uint64_t start;

	if (sonde_elf_vaddr_to_offset(frames->elf, f->start, &start))
		return 0;
	return add_extent(frames->list, start, f->size);
}

static int add_symbol(void *ctx, const struct sonde_sym *sym)
{
	return sym->size ? add_extent(ctx, sym->offset, sym->size) : 0;
}

static int by_start(const void *a, const void *b)
{
	const struct sonde_elf_extent *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->size > y->size) - (x->size < y->size);
}

static int build_extents(struct sonde_elf *elf)
{
	struct extents list = {0};
	struct frames frames = {elf, &list};
	int err = sonde_elf_each(elf, add_symbol, &list);

	if (!err)
		err = sonde_elf_each_frame(elf, add_frame, &frames);
	if (err) {
		free(list.e);
		return err;
	}
	if (list.n)
		qsort(list.e, list.n, sizeof(*list.e), by_start);
	elf->extents = list.e;
	elf->n_extents = list.n;
	elf->tried_extents = true;
	return 0;
}

int sonde_elf_function_at(struct sonde_elf *elf, uint64_t off, uint64_t *start, uint64_t *size)
{
	size_t lo = 0, hi;
	int err = elf->tried_extents ? 0 : build_extents(elf);

	if (err)
		return err;
	for (hi = elf->n_extents; lo < hi;) {
		size_t mid = lo + (hi - lo) / 2;

		if (elf->extents[mid].start <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* Extents nest now and then (a symbol over several frames): look a few back. */
	for (size_t i = lo, tries = 0; i-- > 0 && tries < 8; tries++) {
		const struct sonde_elf_extent *e = &elf->extents[i];

		if (off - e->start >= e->size)
			continue;
		*start = e->start;
		*size = e->size;
		return 0;
	}
	return -ENOENT;
}
