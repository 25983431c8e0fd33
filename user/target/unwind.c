// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From a file to its unwind table: the entries of .eh_frame, then the functions that it leaves out but
 * that keep a frame pointer, sorted and without rows that say nothing new.
 */
#include <errno.h>
#include <stdbool.h>

#include "core/mem.h"
#include "target/unwind_priv.h"

int sonde_unwind_add(struct sonde_unwind_table *t, uint64_t pc, uint32_t rule)
{
	if (pc > UINT32_MAX)
		return 0; /* a program linked above 4 GiB: not known here */
	if (t->n >= 4 * SONDE_UNWIND_ROWS)
		return -EFBIG;
	if (SONDE_GROW(t->rows, t->n, t->cap))
		return -ENOMEM;
	t->rows[t->n++] = (struct sonde_unwind_row){(uint32_t)pc, rule};
	return 0;
}

static int add_frame(void *ctx, const struct sonde_elf_frame *f)
{
	struct sonde_unwind_table *t = ctx;

	if (f->start > UINT32_MAX || f->size > UINT32_MAX)
		return 0;
	t->functions++;
	return sonde_unwind_run(t, f);
}

/* By address; of one address the end of what came before first. */
static int by_pc(const void *a, const void *b)
{
	const struct sonde_unwind_row *x = a, *y = b;

	if (x->pc != y->pc)
		return x->pc < y->pc ? -1 : 1;
	return (x->rule > y->rule) - (x->rule < y->rule);
}

/* Sorted; of one address the last, and none that repeats the one before. */
static void tidy(struct sonde_unwind_table *t)
{
	size_t n = 0;

	if (t->n)
		qsort(t->rows, t->n, sizeof(*t->rows), by_pc);
	for (size_t i = 0; i < t->n; i++) {
		if (i + 1 < t->n && t->rows[i + 1].pc == t->rows[i].pc)
			continue;
		if (n && t->rows[n - 1].rule == t->rows[i].rule)
			continue;
		t->rows[n++] = t->rows[i];
	}
	t->n = n;
}

uint32_t sonde_unwind_find(const struct sonde_unwind_table *t, uint64_t pc)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->rows[mid].pc <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? t->rows[lo - 1].rule : SONDE_UNWIND_NONE;
}

/* The functions that .eh_frame leaves out, as they are found. */
struct bare {
	struct sonde_elf *elf;
	const struct sonde_unwind_table *known;
	struct sonde_unwind_table rows;
};

/* push rbp; mov rbp, rsp, after endbr64 perhaps: the bytes up to the push, or -1. */
static int frame_pointer_at(struct sonde_elf *elf, uint64_t off)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	static const uint8_t mov[2][4] = {{0x55, 0x48, 0x89, 0xe5}, {0x55, 0x48, 0x8b, 0xec}};
	uint8_t code[8];
	int skip;

	if (sonde_elf_code(elf, off, code, sizeof(code)))
		return -1;
	skip = memcmp(code, endbr64, sizeof(endbr64)) ? 0 : 4;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(mov); i++)
		if (!memcmp(code + skip, mov[i], sizeof(mov[i])))
			return skip;
	return -1;
}

/* Between the prologue and the epilogue rbp is the frame's; a function that is left by a call, or
 * stopped at its entry, is in no other place. */
static int add_bare(void *ctx, const struct sonde_sym *sym)
{
	struct bare *b = ctx;
	struct sonde_unwind_table *t = &b->rows;
	int skip, err;

	if (sym->size < 8 || sym->size > UINT32_MAX ||
	    sonde_unwind_find(b->known, sym->value) != SONDE_UNWIND_NONE)
		return 0;
	skip = frame_pointer_at(b->elf, sym->offset);
	if (skip < 0)
		return 0;
	t->by_frame_pointer++;
	err = sonde_unwind_add(t, sym->value, SONDE_UNWIND_RULE(SONDE_UNWIND_RSP, 8, 0));
	err = err ? err
		  : sonde_unwind_add(t, sym->value + (unsigned)skip + 1,
				     SONDE_UNWIND_RULE(SONDE_UNWIND_RSP, 16, 16));
	err = err ? err
		  : sonde_unwind_add(t, sym->value + (unsigned)skip + 4,
				     SONDE_UNWIND_RULE(SONDE_UNWIND_RBP, 16, 16));
	return err ? err : sonde_unwind_add(t, sym->value + sym->size, SONDE_UNWIND_NONE);
}

static int add_bare_functions(struct sonde_elf *elf, struct sonde_unwind_table *t)
{
	struct bare b = {.elf = elf, .known = t};
	int err = sonde_elf_each(elf, add_bare, &b);

	for (size_t i = 0; i < b.rows.n && !err; i++)
		err = sonde_unwind_add(t, b.rows.rows[i].pc, b.rows.rows[i].rule);
	t->by_frame_pointer = b.rows.by_frame_pointer;
	free(b.rows.rows);
	return err;
}

int sonde_unwind_build(struct sonde_elf *elf, struct sonde_unwind_table *out)
{
	struct sonde_unwind_table t = {0};
	int err = sonde_elf_each_frame(elf, add_frame, &t);

	tidy(&t);
	err = err ? err : add_bare_functions(elf, &t);
	tidy(&t);
	if (!err && t.n > SONDE_UNWIND_ROWS)
		err = -EFBIG;
	if (err) {
		free(t.rows);
		return err;
	}
	for (size_t i = 0; i < t.n; i++)
		t.hard += SONDE_UNWIND_KIND(t.rows[i].rule) == SONDE_UNWIND_HARD;
	*out = t;
	return 0;
}

void sonde_unwind_fini(struct sonde_unwind_table *t)
{
	free(t->rows);
	*t = (struct sonde_unwind_table){0};
}
