// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every way out of a function. A function may lie in two pieces, the second of which (".cold") has
 * its own frame entry and jumps back: its exits are the function's, and the jumps between the
 * pieces are none. What leaves in a way that cannot be probed makes the answer -EOPNOTSUPP, never a
 * part.
 */
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/elf.h"
#include "target/insn.h"
#include "target/returns.h"

#define MAX_PIECE  (4u << 20)
#define MAX_PIECES 16
#define MAX_TEXT   (512u << 20)

struct piece {
	uint64_t start, size;
};

struct exits {
	struct sonde_elf *elf;
	struct piece pieces[MAX_PIECES];
	size_t n_pieces;
	struct sonde_way *out;
	size_t n, cap;
};

static int add_way(struct exits *x, uint64_t offset, const struct sonde_insn *insn)
{
	bool direct = insn->flow == SONDE_FLOW_JMP || insn->flow == SONDE_FLOW_JCC;
	int err = SONDE_GROW(x->out, x->n, x->cap);

	if (!err)
		x->out[x->n++] = (struct sonde_way){
			.offset = offset,
			.flow = insn->flow,
			.target = direct ? offset + (uint64_t)insn->target : 0,
		};
	return err;
}

static bool is_inside(const struct piece *p, uint64_t offset)
{
	return offset - p->start < p->size;
}

static bool is_ours(const struct exits *x, uint64_t offset)
{
	for (size_t i = 0; i < x->n_pieces; i++)
		if (is_inside(&x->pieces[i], offset))
			return true;
	return false;
}

typedef int (*insn_cb)(void *ctx, uint64_t offset, const struct sonde_insn *insn);

/* Calls @cb for each instruction of a piece until it returns non-zero, which is returned. */
static int each_insn(struct sonde_elf *elf, const struct piece *p, insn_cb cb, void *ctx)
{
	sonde_autofree uint8_t *code = p->size <= MAX_PIECE ? malloc(p->size + 1) : NULL;
	struct sonde_insn insn;
	int ret = code ? sonde_elf_code(elf, p->start, code, p->size) : -E2BIG;

	for (uint64_t at = 0; !ret && at < p->size; at += insn.length) {
		ret = sonde_insn_decode(code + at, p->size - at, &insn, NULL, 0);
		if (ret)
			return -EOPNOTSUPP;
		ret = cb(ctx, p->start + at, &insn);
	}
	return ret;
}

static bool is_jump(const struct sonde_insn *insn)
{
	return insn->flow == SONDE_FLOW_JMP || insn->flow == SONDE_FLOW_JCC;
}

/* Does a piece jump to behind the start of another? Only a part of the same function does. */
static int jumps_inside(void *ctx, uint64_t offset, const struct sonde_insn *insn)
{
	const struct piece *main_piece = ctx;
	uint64_t to = offset + (uint64_t)insn->target;

	return is_jump(insn) && is_inside(main_piece, to) && to != main_piece->start;
}

/* Does a piece end anywhere but in calls that do not return? */
static int leaves(void *ctx, uint64_t offset, const struct sonde_insn *insn)
{
	const struct piece *self = ctx;

	if (is_jump(insn))
		return !is_inside(self, offset + (uint64_t)insn->target);
	return insn->flow == SONDE_FLOW_RET || insn->flow == SONDE_FLOW_JMP_SLOT ||
	       insn->flow == SONDE_FLOW_JMP_REGISTER;
}

static int add_piece(struct exits *x, const struct piece *p)
{
	if (x->n_pieces == MAX_PIECES)
		return -EOPNOTSUPP;
	x->pieces[x->n_pieces++] = *p;
	return 0;
}

/* Take in what the function jumps to, if it is no function of its own. */
static int find_pieces(void *ctx, uint64_t offset, const struct sonde_insn *insn)
{
	struct exits *x = ctx;
	uint64_t to = offset + (uint64_t)insn->target;
	const char *symbol;
	struct piece p;
	int ret;

	if (!is_jump(insn) || is_ours(x, to) || !sonde_elf_plt_symbol(x->elf, to, &symbol) ||
	    sonde_elf_function_at(x->elf, to, &p.start, &p.size))
		return 0;
	ret = each_insn(x->elf, &p, jumps_inside, &x->pieces[0]);
	if (!ret && to != p.start)
		ret = 1;
	if (!ret && !each_insn(x->elf, &p, leaves, &p))
		ret = 1;
	return ret > 0 ? add_piece(x, &p) : 0;
}

/*
 * Take in what jumps into the function from afar: a cold piece that only a switch's table leads to.
 * Every byte of the segment is tried as the end of a 32-bit displacement.
 */
static int find_pieces_from_afar(struct exits *x)
{
	const struct piece whole = x->pieces[0];
	sonde_autofree uint8_t *text = NULL;
	uint64_t start, size;
	int err = sonde_elf_text(x->elf, whole.start, &start, &size);

	if (err || size > MAX_TEXT)
		return err ? err : -E2BIG;
	text = malloc(size);
	err = text ? sonde_elf_code(x->elf, start, text, size) : -ENOMEM;
	for (uint64_t next = 5; !err && next <= size; next++) {
		struct piece p;
		uint64_t to;
		int32_t rel;

		memcpy(&rel, text + next - 4, sizeof(rel));
		to = start + next + (uint64_t)(int64_t)rel;
		if (to == whole.start || !is_inside(&whole, to) || is_ours(x, start + next - 5) ||
		    sonde_elf_function_at(x->elf, start + next - 5, &p.start, &p.size))
			continue;
		if (each_insn(x->elf, &p, jumps_inside, &x->pieces[0]) == 1)
			err = add_piece(x, &p);
	}
	return err;
}

/* The last instructions before a jump, newest last. */
struct history {
	struct sonde_insn insn[8];
	size_t n;
};

static void remember(struct history *h, const struct sonde_insn *insn)
{
	h->insn[h->n++ % SONDE_ARRAY_SIZE(h->insn)] = *insn;
}

/* Was the register of this jump loaded from a table and made absolute just before? */
static bool is_switch(const struct history *h, const struct sonde_insn *jump)
{
	enum sonde_table_step want = SONDE_TABLE_ADD;

	if (jump->table_certain)
		return true;
	for (size_t i = 1; i <= SONDE_ARRAY_SIZE(h->insn) && i <= h->n; i++) {
		const struct sonde_insn *insn = &h->insn[(h->n - i) % SONDE_ARRAY_SIZE(h->insn)];

		if (insn->flow != SONDE_FLOW_NEXT)
			return false;
		if (insn->table != want || insn->table_reg != jump->table_reg)
			continue;
		if (want == SONDE_TABLE_LOAD)
			return true;
		want = SONDE_TABLE_LOAD;
	}
	return false;
}

struct collector {
	struct exits *x;
	struct history history;
};

static int collect(void *ctx, uint64_t offset, const struct sonde_insn *insn)
{
	struct collector *c = ctx;
	bool out = is_jump(insn) && !is_ours(c->x, offset + (uint64_t)insn->target);
	int err = 0;

	if (insn->flow == SONDE_FLOW_RET || insn->flow == SONDE_FLOW_JMP_SLOT || out)
		err = add_way(c->x, offset, insn);
	else if (insn->flow == SONDE_FLOW_JMP_REGISTER && !is_switch(&c->history, insn))
		err = -EOPNOTSUPP;
	remember(&c->history, insn);
	return err;
}

/* Linear order within a piece is not the order of execution, but exits are a set. */
static int by_offset(const void *a, const void *b)
{
	const struct sonde_way *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

int sonde_site_ways(struct sonde_elf *elf, uint64_t function, uint64_t size, struct sonde_way **out,
		    size_t *n)
{
	struct exits x = {.elf = elf, .n_pieces = 1};
	struct piece whole;
	int err;

	if (!size && (sonde_elf_function_at(elf, function, &whole.start, &whole.size) ||
		      whole.start != function))
		return -ENOENT;
	x.pieces[0] = size ? (struct piece){function, size} : whole;
	err = find_pieces_from_afar(&x);
	for (size_t i = 0; i < x.n_pieces && !err; i++)
		err = each_insn(elf, &x.pieces[i], find_pieces, &x);
	for (size_t i = 0; i < x.n_pieces && !err; i++) {
		struct collector c = {.x = &x};

		err = each_insn(elf, &x.pieces[i], collect, &c);
	}
	if (err) {
		free(x.out);
		return err;
	}
	if (x.n)
		qsort(x.out, x.n, sizeof(*x.out), by_offset);
	*out = x.out;
	*n = x.n;
	return 0;
}

int sonde_site_exits(struct sonde_elf *elf, uint64_t function, uint64_t size, uint64_t **out,
		     size_t *n)
{
	sonde_autofree struct sonde_way *ways = NULL;
	uint64_t *offsets;
	size_t n_ways = 0;
	int err = sonde_site_ways(elf, function, size, &ways, &n_ways);

	/* A probe on a conditional jump would fire whether or not the function is left. */
	for (size_t i = 0; !err && i < n_ways; i++)
		err = ways[i].flow == SONDE_FLOW_JCC ? -EOPNOTSUPP : 0;
	if (err)
		return err;
	offsets = calloc(n_ways ? n_ways : 1, sizeof(*offsets));
	if (!offsets)
		return -ENOMEM;
	for (size_t i = 0; i < n_ways; i++)
		offsets[i] = ways[i].offset;
	*out = offsets;
	*n = n_ways;
	return 0;
}
