// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From a file to its unwind table: the entries of .eh_frame, then the functions that it leaves out
 * but that keep a frame pointer, sorted and without rows that say nothing new.
 */
#include <errno.h>
#include <stdbool.h>

#include "core/mem.h"
#include "target/insn.h"
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

#define PROLOGUE_MAX 64 /* bytes; compilers let a few instructions slip in between */

#define BARE_MAX (1u << 20) /* bytes of a function that is decoded whole */

/* A prologue under examination. */
struct prologue {
	uint8_t code[PROLOGUE_MAX];
	size_t len, at;
	uint32_t depth,
		saved; /* bytes from the CFA to rsp, and to where rbp was saved (0: not yet) */
	bool framed;   /* rbp is the frame's */
};

static bool is_mov_rbp_rsp(const uint8_t *code)
{
	static const uint8_t mov[2][3] = {{0x48, 0x89, 0xe5}, {0x48, 0x8b, 0xec}};

	return !memcmp(code, mov[0], sizeof(mov[0])) || !memcmp(code, mov[1], sizeof(mov[1]));
}

/* Over one instruction. False: straight code with a known stack pointer ends here. */
static bool step(struct prologue *p)
{
	const uint8_t *code = p->code + p->at;
	struct sonde_insn insn;

	if (sonde_insn_decode(code, p->len - p->at, &insn, NULL, 0))
		return false;
	if (p->saved && insn.length == 3 && is_mov_rbp_rsp(code)) {
		p->framed = true;
	} else {
		if (insn.flow != SONDE_FLOW_NEXT || !insn.sp_known || insn.sp_grows < 0 ||
		    (p->saved && insn.sp_grows))
			return false;
		p->depth += (uint32_t)insn.sp_grows;
		if (insn.length == 1 && code[0] == 0x55)
			p->saved = p->depth;
	}
	p->at += insn.length;
	return true;
}

static uint32_t rule_of(const struct prologue *p)
{
	return SONDE_UNWIND_RULE(p->framed ? SONDE_UNWIND_RBP : SONDE_UNWIND_RSP, p->depth,
				 p->saved);
}

/* Rows up to where rbp is the frame's; whether it comes to be. */
static int add_prologue(struct sonde_unwind_table *t, uint64_t start, struct prologue *p)
{
	int err = sonde_unwind_add(t, start, rule_of(p));

	while (!err && !p->framed) {
		if (!step(p) || p->depth > SONDE_UNWIND_SAVED_MAX)
			return -ENOENT;
		err = sonde_unwind_add(t, start + p->at, rule_of(p));
	}
	return err;
}

/* `pop %rbp` or `leave`: rbp is the caller's again, and only the return address is left. */
static bool ends_frame(const uint8_t *code, const struct sonde_insn *insn)
{
	return insn->length == 1 && (*code == 0x5d || *code == 0xc9);
}

/* Nothing is called between the end of the frame and the return, but a thread may be interrupted
 * there. */
static int add_epilogues(struct sonde_unwind_table *t, struct sonde_elf *elf,
			 const struct sonde_sym *sym, const struct prologue *p)
{
	sonde_autofree uint8_t *code = sym->size <= BARE_MAX ? malloc(sym->size) : NULL;
	struct sonde_insn insn;
	bool ended = false;
	int err = 0;

	if (!code || p->saved != p->depth || sonde_elf_code(elf, sym->offset, code, sym->size))
		return 0;
	for (uint64_t at = p->at, next; !err && at < sym->size; at = next) {
		if (sonde_insn_decode(code + at, sym->size - at, &insn, NULL, 0))
			return ended ? sonde_unwind_add(t, sym->value + at, rule_of(p)) : 0;
		next = at + insn.length;
		if (next >= sym->size)
			break;
		if (ends_frame(code + at, &insn)) {
			err = sonde_unwind_add(t, sym->value + next,
					       SONDE_UNWIND_RULE(SONDE_UNWIND_RSP, 8, 0));
			ended = true;
		} else if (ended && insn.flow != SONDE_FLOW_NEXT && insn.flow != SONDE_FLOW_JCC) {
			err = sonde_unwind_add(t, sym->value + next, rule_of(p));
			ended = false;
		}
	}
	return err;
}

/* Behind its prologue rbp is the frame's until the epilogue. */
static int add_bare(void *ctx, const struct sonde_sym *sym)
{
	struct bare *b = ctx;
	struct sonde_unwind_table *t = &b->rows;
	struct prologue p = {.len = sym->size < PROLOGUE_MAX ? sym->size : PROLOGUE_MAX,
			     .depth = 8};
	size_t before = t->n;
	int err;

	if (sym->size > UINT32_MAX ||
	    sonde_unwind_find(b->known, sym->value) != SONDE_UNWIND_NONE ||
	    sonde_elf_code(b->elf, sym->offset, p.code, p.len))
		return 0;
	err = add_prologue(t, sym->value, &p);
	if (err == -ENOENT) {
		t->n = before;
		return 0;
	}
	t->by_frame_pointer++;
	err = err ? err : add_epilogues(t, b->elf, sym, &p);
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
