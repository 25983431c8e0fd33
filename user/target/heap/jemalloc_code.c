// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A walk over a function that knows of each register whether it holds the thread pointer, a
 * distance from it, or their sum. The fast path is straight code at the function's begin, so
 * registers are followed in the order of the instructions; what is written by an instruction not
 * understood is unknown from there on. The outcome is a guess until a scratch process has confirmed
 * it.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <Zydis/Zydis.h>

#include "core/mem.h"
#include "target/heap/jemalloc_code.h"

#define THREAD_BLOCK_MAX (1 << 20) /* no thread-local block of a program is as large */

enum what { UNKNOWN = 0, THREAD_POINTER, DISTANCE, IN_THREAD };

struct value {
	enum what what;
	struct sonde_jemalloc_place place; /* of DISTANCE and IN_THREAD */
};

/* What was done with a 64-bit place of the thread. */
struct use {
	struct sonde_jemalloc_place place;
	bool read, written, compared, added;
};

struct walk {
	struct value reg[16];
	struct use uses[64];
	size_t n;
};

struct insn {
	ZydisDecodedInstruction in;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
	uint64_t at;
};

static int number(ZydisRegister r)
{
	return r >= ZYDIS_REGISTER_RAX && r <= ZYDIS_REGISTER_R15 ? (int)(r - ZYDIS_REGISTER_RAX)
								  : -1;
}

static struct value value_of(const struct walk *w, ZydisRegister r)
{
	int i = number(r);

	return i < 0 ? (struct value){0} : w->reg[i];
}

/* The sum of two registers, where it is one of what is followed. */
static struct value sum(struct value a, struct value b)
{
	struct value v = {0};

	if (a.what == THREAD_POINTER && b.what == DISTANCE)
		v = (struct value){IN_THREAD, b.place};
	else if (b.what == THREAD_POINTER && a.what == DISTANCE)
		v = (struct value){IN_THREAD, a.place};
	return v;
}

static struct value moved(struct value v, int64_t by)
{
	if (v.what == DISTANCE || v.what == IN_THREAD)
		v.place.offset += by;
	else if (v.what == THREAD_POINTER && by)
		v = (struct value){IN_THREAD, {.offset = by}};
	return v;
}

/* What the address of a memory operand is. */
static struct value address(const struct walk *w, const ZydisDecodedOperand *op)
{
	struct value base = value_of(w, op->mem.base), v = base;

	if (op->mem.index != ZYDIS_REGISTER_NONE)
		v = op->mem.scale == 1 ? sum(base, value_of(w, op->mem.index)) : (struct value){0};
	v = moved(v, op->mem.disp.value);
	if (op->mem.segment != ZYDIS_REGISTER_FS)
		return v;
	if (v.what == DISTANCE)
		return (struct value){IN_THREAD, v.place};
	if (op->mem.base == ZYDIS_REGISTER_NONE && op->mem.index == ZYDIS_REGISTER_NONE)
		return (struct value){IN_THREAD, {.offset = op->mem.disp.value}};
	return (struct value){0};
}

static struct use *use_get(struct walk *w, const struct sonde_jemalloc_place *p)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->uses[i].place.word == p->word && w->uses[i].place.offset == p->offset)
			return &w->uses[i];
	if (w->n == SONDE_ARRAY_SIZE(w->uses))
		return NULL;
	w->uses[w->n].place = *p;
	return &w->uses[w->n++];
}

static void note_use(struct walk *w, const struct insn *i, const ZydisDecodedOperand *op)
{
	struct value v = address(w, op);
	struct use *u;

	if (op->size != 64 || v.what != IN_THREAD || v.place.offset > THREAD_BLOCK_MAX ||
	    v.place.offset < -THREAD_BLOCK_MAX)
		return;
	u = use_get(w, &v.place);
	if (!u)
		return;
	u->read |= !!(op->actions & ZYDIS_OPERAND_ACTION_MASK_READ);
	u->written |= !!(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE);
	u->compared |= i->in.mnemonic == ZYDIS_MNEMONIC_CMP;
	u->added |= i->in.mnemonic == ZYDIS_MNEMONIC_ADD &&
		    op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
}

/* What a load of 64 bits gives: the thread pointer, or a word that the dynamic linker fills. */
static struct value loaded(const struct insn *i, const ZydisDecodedOperand *op)
{
	struct value v = {0};

	if (op->mem.segment == ZYDIS_REGISTER_FS && op->mem.base == ZYDIS_REGISTER_NONE &&
	    op->mem.index == ZYDIS_REGISTER_NONE && !op->mem.disp.value)
		v.what = THREAD_POINTER;
	else if (op->mem.base == ZYDIS_REGISTER_RIP &&
		 ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&i->in, op, i->at, &v.place.word)))
		v.what = DISTANCE;
	return v;
}

/* What the instruction leaves in its first operand, a register. */
static struct value result(const struct walk *w, const struct insn *i)
{
	const ZydisDecodedOperand *to = &i->op[0], *from = &i->op[1];
	struct value was = value_of(w, to->reg.value), other = {0};

	if (to->size != 64 || i->in.operand_count < 2)
		return (struct value){0};
	if (from->type == ZYDIS_OPERAND_TYPE_REGISTER)
		other = value_of(w, from->reg.value);
	else if (from->type == ZYDIS_OPERAND_TYPE_MEMORY)
		other = i->in.mnemonic == ZYDIS_MNEMONIC_LEA ? address(w, from) : loaded(i, from);
	else if (from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && from->imm.value.s < 0)
		other = (struct value){DISTANCE, {.offset = from->imm.value.s}};
	switch (i->in.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_LEA:
		return other;
	case ZYDIS_MNEMONIC_ADD:
		if (from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
			return moved(was, from->imm.value.s);
		return sum(was, other);
	case ZYDIS_MNEMONIC_SUB:
		if (from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
			return moved(was, -from->imm.value.s);
		return (struct value){0};
	default:
		return (struct value){0};
	}
}

/* Registers that the instruction writes, the first operand aside. */
static void forget_written(struct walk *w, const struct insn *i)
{
	for (size_t k = 0; k < i->in.operand_count; k++) {
		const ZydisDecodedOperand *op = &i->op[k];
		int r;

		if (op->type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		r = number(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
							    op->reg.value));
		if (r >= 0)
			w->reg[r] = (struct value){0};
	}
}

static void step(struct walk *w, const struct insn *i)
{
	const ZydisDecodedOperand *to = &i->op[0];
	bool writes = i->in.operand_count && to->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		      to->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
	struct value v = writes ? result(w, i) : (struct value){0};

	for (size_t k = 0; i->in.mnemonic != ZYDIS_MNEMONIC_LEA && k < i->in.operand_count; k++)
		if (i->op[k].type == ZYDIS_OPERAND_TYPE_MEMORY)
			note_use(w, i, &i->op[k]);
	forget_written(w, i);
	if (writes && number(to->reg.value) >= 0)
		w->reg[number(to->reg.value)] = v;
}

static const struct use *use_beside(const struct walk *w, const struct use *u)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->uses[i].place.word == u->place.word &&
		    w->uses[i].place.offset == u->place.offset + 8)
			return &w->uses[i];
	return NULL;
}

/* The counter of 5.3 has its threshold beside it; that of older ones is added to in memory. */
static bool is_counter(const struct walk *w, const struct use *u, bool by_threshold)
{
	const struct use *beside = use_beside(w, u);

	if (!by_threshold)
		return u->added;
	return u->read && u->written && beside && beside->compared && !beside->written;
}

static int choose(const struct walk *w, bool by_threshold, struct sonde_jemalloc_place *out)
{
	const struct use *found = NULL;

	for (size_t i = 0; i < w->n; i++) {
		if (!is_counter(w, &w->uses[i], by_threshold))
			continue;
		if (found)
			return -EEXIST;
		found = &w->uses[i];
	}
	if (!found)
		return -ENOENT;
	*out = found->place;
	return 0;
}

int sonde_jemalloc_counter(const uint8_t *code, size_t len, uint64_t vaddr,
			   struct sonde_jemalloc_place *out)
{
	struct walk w = {0};
	ZydisDecoder decoder;
	int err;

	if (ZYAN_FAILED(
		    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return -EINVAL;
	for (size_t at = 0; at < len;) {
		struct insn i = {.at = vaddr + at};

		if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, code + at, len - at, &i.in, i.op)))
			break;
		step(&w, &i);
		at += i.in.length;
	}
	err = choose(&w, true, out);
	return err == -ENOENT ? choose(&w, false, out) : err;
}
