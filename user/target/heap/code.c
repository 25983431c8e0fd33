// SPDX-License-Identifier: GPL-2.0-or-later
/* Decoding for recipes; see code.h. The only file of target/heap that knows Zydis. */
#include <errno.h>

#include <Zydis/Zydis.h>

#include "core/mem.h"
#include "target/heap/code.h"

#define FUNCTION_MAX (32u << 10)

static const struct {
	ZydisMnemonic mnemonic;
	enum sonde_code_op op;
} ops[] = {
	{ZYDIS_MNEMONIC_ADD, SONDE_OP_ADD},	  {ZYDIS_MNEMONIC_CALL, SONDE_OP_CALL},
	{ZYDIS_MNEMONIC_CMP, SONDE_OP_CMP},	  {ZYDIS_MNEMONIC_IMUL, SONDE_OP_IMUL},
	{ZYDIS_MNEMONIC_JMP, SONDE_OP_JMP},	  {ZYDIS_MNEMONIC_LEA, SONDE_OP_LEA},
	{ZYDIS_MNEMONIC_MOV, SONDE_OP_MOV},	  {ZYDIS_MNEMONIC_MOVQ, SONDE_OP_MOV},
	{ZYDIS_MNEMONIC_MOVSXD, SONDE_OP_MOVSXD}, {ZYDIS_MNEMONIC_MOVZX, SONDE_OP_MOVZX},
	{ZYDIS_MNEMONIC_SHL, SONDE_OP_SHL},	  {ZYDIS_MNEMONIC_SHR, SONDE_OP_SHR},
	{ZYDIS_MNEMONIC_SUB, SONDE_OP_SUB},
};

static int reg_of(ZydisRegister reg)
{
	ZydisRegister whole;

	if (reg == ZYDIS_REGISTER_NONE)
		return SONDE_NO_REG;
	whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
	return (int)(whole == ZYDIS_REGISTER_NONE ? reg : whole);
}

static void take_memory(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *op,
			bool first, struct sonde_code *c)
{
	ZyanU64 address;

	c->mem = true;
	c->mem_first = first;
	c->fs = op->mem.segment == ZYDIS_REGISTER_FS;
	c->base = reg_of(op->mem.base);
	c->index = reg_of(op->mem.index);
	c->scale = op->mem.scale;
	c->disp = op->mem.disp.has_displacement ? op->mem.disp.value : 0;
	c->width = op->size;
	c->stack = op->mem.base == ZYDIS_REGISTER_RSP;
	if (op->mem.base == ZYDIS_REGISTER_RIP &&
	    ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(in, op, c->at, &address)))
		c->rip = address;
}

static void take_operands(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *op,
			  struct sonde_code *c)
{
	for (size_t i = 0; i < in->operand_count_visible; i++) {
		switch (op[i].type) {
		case ZYDIS_OPERAND_TYPE_REGISTER:
			if (i < 2)
				c->reg[i] = reg_of(op[i].reg.value);
			break;
		case ZYDIS_OPERAND_TYPE_MEMORY:
			if (!c->mem)
				take_memory(in, &op[i], i == 0, c);
			break;
		case ZYDIS_OPERAND_TYPE_IMMEDIATE:
			if (op[i].imm.is_relative) {
				c->to = c->at + in->length + (uint64_t)op[i].imm.value.s;
			} else {
				c->has_imm = true;
				c->imm = op[i].imm.value.s;
			}
			break;
		default:
			break;
		}
	}
}

static int decode(const ZydisDecoder *d, const uint8_t *p, size_t left, uint64_t at,
		  struct sonde_code *out)
{
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction in;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(d, p, left, &in, op)))
		return -EINVAL;
	*out = (struct sonde_code){
		.at = at,
		.length = in.length,
		.reg = {SONDE_NO_REG, SONDE_NO_REG},
		.base = SONDE_NO_REG,
		.index = SONDE_NO_REG,
	};
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(ops); i++)
		if (ops[i].mnemonic == in.mnemonic)
			out->op = ops[i].op;
	take_operands(&in, op, out);
	return 0;
}

int sonde_function_read(struct sonde_elf *elf, uint64_t start, uint64_t size,
			struct sonde_function *out)
{
	struct sonde_function f = {.start = start, .size = size};
	sonde_autofree uint8_t *bytes = NULL;
	ZydisDecoder d;
	int err;

	if (!size || size > FUNCTION_MAX)
		return -E2BIG;
	bytes = malloc(size);
	f.code = calloc(size, sizeof(*f.code)); /* an instruction has at least one byte */
	err = bytes && f.code ? sonde_elf_read(elf, start, bytes, size) : -ENOMEM;
	if (!err &&
	    !ZYAN_SUCCESS(ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		err = -EINVAL;
	for (uint64_t at = 0; !err && at < size; at += f.code[f.n++].length)
		if (decode(&d, bytes + at, size - at, start + at, &f.code[f.n]))
			break;
	if (err)
		free(f.code);
	else
		*out = f;
	return err;
}

int sonde_function_find(struct sonde_elf *elf, const char *name, struct sonde_function *out)
{
	struct sonde_sym sym;
	int err = sonde_elf_find(elf, name, &sym);

	if (err)
		return err;
	return sym.size ? sonde_function_read(elf, sym.value, sym.size, out)
			: sonde_function_at(elf, sym.value, out);
}

/* File offset of an address in code: the inverse of sonde_elf_address, whose extents are by offset.
 */
static int extent_at(struct sonde_elf *elf, uint64_t start, uint64_t *size)
{
	uint64_t off, begin, vaddr;

	if (sonde_elf_offset(elf, start, &off) || sonde_elf_function_at(elf, off, &begin, size) ||
	    sonde_elf_address(elf, begin, &vaddr) || vaddr != start)
		return -ENOENT;
	return 0;
}

int sonde_function_at(struct sonde_elf *elf, uint64_t start, struct sonde_function *out)
{
	uint64_t size;
	int err = extent_at(elf, start, &size);

	return err ? err : sonde_function_read(elf, start, size, out);
}

void sonde_function_free(struct sonde_function *f)
{
	free(f->code);
	*f = (struct sonde_function){0};
}

int64_t sonde_code_load(const struct sonde_code *c, int64_t low, int64_t high)
{
	if (c->op != SONDE_OP_MOV || !c->mem || c->mem_first || c->rip || c->fs || c->stack ||
	    c->base == SONDE_NO_REG || c->disp <= low || c->disp >= high)
		return -1;
	return c->disp;
}

void sonde_set_add(struct sonde_set *s, uint64_t v)
{
	if (s->n < SONDE_SET_MAX && !sonde_set_has(s, v))
		s->v[s->n++] = v;
}

bool sonde_set_has(const struct sonde_set *s, uint64_t v)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i] == v)
			return true;
	return false;
}

size_t sonde_set_common(const struct sonde_set *sets, size_t n, uint64_t *one)
{
	size_t found = 0;

	for (size_t i = 0; i < sets[0].n; i++) {
		bool all = true;

		for (size_t k = 1; k < n && all; k++)
			all = sonde_set_has(&sets[k], sets[0].v[i]);
		if (!all)
			continue;
		*one = sets[0].v[i];
		found++;
	}
	return found;
}
