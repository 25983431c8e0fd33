// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Instructions as uprobes see them. What the kernel emulates and refuses follows
 * arch/x86/kernel/uprobes.c: branch_setup_xol_ops() and push_setup_xol_ops() (push since 4.15,
 * e7ed9d9bd037) emulate, uprobe_init_insn() refuses; all else is single-stepped out of line.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>

#include <Zydis/Zydis.h>

#include "core/mem.h"
#include "target/insn.h"

/* Opcodes of the one-byte map that uprobe_init_insn() refuses: I/O, traps, privileged, invalid. */
static const uint8_t refused_one[] = {
	0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61,
	0x6c, 0x6d, 0x6e, 0x6f, 0x82, 0x9a, 0xcc, 0xcd, 0xce, 0xcf, 0xd4, 0xd5, 0xd6,
	0xe4, 0xe5, 0xe6, 0xe7, 0xea, 0xec, 0xed, 0xee, 0xef, 0xf1, 0xf4, 0xfa, 0xfb,
};

/* The same for the 0f map; any kernel's table refuses these. */
static const uint8_t refused_two[] = {
	0x00, 0x01, 0x04, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x30, 0x32,
	0x34, 0x35, 0x36, 0x37, 0x78, 0x79, 0xa6, 0xa7, 0xaa, 0xb9, 0xff,
};

static bool listed(const uint8_t *list, size_t n, uint8_t opcode)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == opcode)
			return true;
	return false;
}

static bool has_prefix(const ZydisDecodedInstruction *in, uint8_t byte)
{
	for (size_t i = 0; i < in->raw.prefix_count; i++)
		if (in->raw.prefixes[i].value == byte)
			return true;
	return false;
}

/* 41 90 is `xchg r8, rax`, which kernels before 6.19 take for a nop and so would leave out. */
static bool is_xchg_r8(const ZydisDecodedInstruction *in)
{
	return in->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && in->opcode == 0x90 &&
	       in->mnemonic == ZYDIS_MNEMONIC_XCHG;
}

static bool is_refused(const ZydisDecodedInstruction *in)
{
	static const uint8_t prefixes[] = {0x26, 0x2e, 0x36, 0x3e, 0xf0};

	for (size_t i = 0; i < sizeof(prefixes); i++)
		if (has_prefix(in, prefixes[i]))
			return true;
	if (in->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return false;
	if (in->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT)
		return listed(refused_one, sizeof(refused_one), in->opcode) || is_xchg_r8(in);
	if (in->opcode_map == ZYDIS_OPCODE_MAP_0F)
		return listed(refused_two, sizeof(refused_two), in->opcode);
	return false;
}

static bool is_nop5(const uint8_t *code, uint8_t length)
{
	static const uint8_t nop5[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

	return length == sizeof(nop5) && !memcmp(code, nop5, sizeof(nop5));
}

/*
 * From 6.18 on a probe on this nop costs no single step (tests/bpf/sites.bats shows it); before, it
 * was an instruction like any other.
 */
static bool nop5_is_cheap(void)
{
	unsigned major, minor;
	struct utsname u;

	return !uname(&u) && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 18));
}

static bool is_branch_opcode(const ZydisDecodedInstruction *in)
{
	uint8_t op = in->opcode;

	if (in->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return false;
	if (in->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT)
		return op == 0xeb || op == 0xe9 || op == 0xe8 || (op >= 0x70 && op <= 0x7f);
	return in->opcode_map == ZYDIS_OPCODE_MAP_0F && op >= 0x80 && op <= 0x8f;
}

/* Push of a 64-bit register in at most two bytes; a third byte (66, a needless REX) is stepped. */
static bool is_plain_push(const uint8_t *code, const ZydisDecodedInstruction *in)
{
	if (in->length == 1)
		return code[0] >= 0x50 && code[0] <= 0x57;
	return in->length == 2 && code[0] == 0x41 && code[1] >= 0x50 && code[1] <= 0x57;
}

static void classify(const uint8_t *code, const ZydisDecodedInstruction *in, struct sonde_insn *out)
{
	bool nop = in->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY &&
		   in->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && in->opcode == 0x90 &&
		   !is_xchg_r8(in);

	out->refused = is_refused(in);
	out->nop5 = is_nop5(code, in->length);
	if (is_branch_opcode(in) && has_prefix(in, 0x66))
		out->refused = true;
	if (!out->refused && (is_branch_opcode(in) || nop || (out->nop5 && nop5_is_cheap()) ||
			      is_plain_push(code, in)))
		out->kind = SONDE_INSN_EMULATED;
}

static enum sonde_flow flow_of(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops)
{
	bool direct = in->operand_count && ops[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	bool slot = in->operand_count && ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    ops[0].mem.base == ZYDIS_REGISTER_RIP;

	switch (in->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		return SONDE_FLOW_JCC;
	case ZYDIS_CATEGORY_UNCOND_BR:
		if (in->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
			return SONDE_FLOW_OTHER;
		return direct ? SONDE_FLOW_JMP
		       : slot ? SONDE_FLOW_JMP_SLOT
			      : SONDE_FLOW_JMP_REGISTER;
	case ZYDIS_CATEGORY_CALL:
		if (in->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
			return SONDE_FLOW_OTHER;
		return direct ? SONDE_FLOW_CALL : SONDE_FLOW_CALL_INDIRECT;
	case ZYDIS_CATEGORY_RET:
		return in->mnemonic == ZYDIS_MNEMONIC_RET ? SONDE_FLOW_RET : SONDE_FLOW_OTHER;
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
		return SONDE_FLOW_OTHER;
	default:
		return in->mnemonic == ZYDIS_MNEMONIC_UD0 || in->mnemonic == ZYDIS_MNEMONIC_UD1 ||
				       in->mnemonic == ZYDIS_MNEMONIC_UD2 ||
				       in->mnemonic == ZYDIS_MNEMONIC_HLT ||
				       in->mnemonic == ZYDIS_MNEMONIC_XBEGIN
			       ? SONDE_FLOW_OTHER
			       : SONDE_FLOW_NEXT;
	}
}

static unsigned args_written(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops)
{
	static const struct {
		ZydisRegister reg;
		unsigned arg;
	} args[] = {
		{ZYDIS_REGISTER_RDI, SONDE_ARG_RDI},
		{ZYDIS_REGISTER_RSI, SONDE_ARG_RSI},
		{ZYDIS_REGISTER_RDX, SONDE_ARG_RDX},
		{ZYDIS_REGISTER_RCX, SONDE_ARG_RCX},
	};
	unsigned mask = 0;

	for (size_t i = 0; i < in->operand_count; i++) {
		ZydisRegister reg;

		if (ops[i].type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		reg = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
						       ops[i].reg.value);
		for (size_t a = 0; a < SONDE_ARRAY_SIZE(args); a++)
			if (args[a].reg == reg)
				mask |= args[a].arg;
	}
	return mask;
}

/* A store through rsp or rbp is taken for a spill into the frame. */
static bool writes_memory(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops)
{
	for (size_t i = 0; i < in->operand_count_visible; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
		    ops[i].mem.base != ZYDIS_REGISTER_RSP && ops[i].mem.base != ZYDIS_REGISTER_RBP)
			return true;
	return false;
}

static bool writes_sp(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops)
{
	for (size_t i = 0; i < in->operand_count; i++)
		if (ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    (ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
		    ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
						     ops[i].reg.value) == ZYDIS_REGISTER_RSP)
			return true;
	return false;
}

/* Follow rsp through what prologues use: 8-byte push and pop, `sub rsp, imm`, `add rsp, imm`. */
static void follow_sp(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops,
		      struct sonde_insn *out)
{
	bool imm = in->operand_count_visible == 2 && ops[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
		   ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		   ops[0].reg.value == ZYDIS_REGISTER_RSP && ops[1].imm.value.s >= INT16_MIN * 16 &&
		   ops[1].imm.value.s <= INT16_MAX * 16;

	out->sp_known = true;
	if (!writes_sp(in, ops))
		return;
	if (in->mnemonic == ZYDIS_MNEMONIC_PUSH && in->operand_width == 64)
		out->sp_grows = 8;
	else if (in->mnemonic == ZYDIS_MNEMONIC_POP && in->operand_width == 64 &&
		 ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		 ops[0].reg.value != ZYDIS_REGISTER_RSP)
		out->sp_grows = -8;
	else if (in->mnemonic == ZYDIS_MNEMONIC_SUB && imm)
		out->sp_grows = (int32_t)ops[1].imm.value.s;
	else if (in->mnemonic == ZYDIS_MNEMONIC_ADD && imm)
		out->sp_grows = -(int32_t)ops[1].imm.value.s;
	else
		out->sp_known = false;
}

/*
 * The steps of a jump through a table of a position-independent program, and its plain forms. A
 * table at a fixed place is a switch's; one whose place is in a register may be the program's own, of
 * functions, as compilers keep offsets in the tables of position-independent switches.
 */
static void note_table(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops,
		       struct sonde_insn *out)
{
	bool to_reg = in->operand_count && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER;
	bool from_mem = in->operand_count > 1 && ops[1].type == ZYDIS_OPERAND_TYPE_MEMORY;

	if (to_reg)
		out->table_reg = (int)ops[0].reg.value;
	if (in->mnemonic == ZYDIS_MNEMONIC_MOVSXD && to_reg && from_mem && ops[1].mem.scale == 4)
		out->table = SONDE_TABLE_LOAD;
	else if (in->mnemonic == ZYDIS_MNEMONIC_ADD && to_reg)
		out->table = SONDE_TABLE_ADD;
	else if (out->flow == SONDE_FLOW_JMP_REGISTER)
		out->table = SONDE_TABLE_JUMP;
	out->table_certain =
		out->table == SONDE_TABLE_JUMP &&
		(has_prefix(in, 0x3e) ||
		 (!to_reg && ops[0].mem.base == ZYDIS_REGISTER_NONE &&
		  ops[0].mem.index != ZYDIS_REGISTER_NONE && ops[0].mem.scale == 8));
}

static void format(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops, char *text,
		   size_t size)
{
	ZydisFormatter formatter;

	text[0] = '\0';
	if (ZYAN_SUCCESS(ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL)))
		ZydisFormatterFormatInstruction(&formatter, in, ops, in->operand_count_visible,
						text, size, ZYDIS_RUNTIME_ADDRESS_NONE, NULL);
}

int sonde_insn_decode(const uint8_t *code, size_t len, struct sonde_insn *out, char *text,
		      size_t size)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction in;
	struct sonde_insn insn = {0};
	ZydisDecoder decoder;

	if (!ZYAN_SUCCESS(
		    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, len, &in, ops)))
		return -EINVAL;
	insn.length = in.length;
	classify(code, &in, &insn);
	insn.flow = flow_of(&in, ops);
	if (insn.flow == SONDE_FLOW_JCC || insn.flow == SONDE_FLOW_JMP ||
	    insn.flow == SONDE_FLOW_CALL)
		insn.target = in.length + ops[0].imm.value.s;
	insn.args_written = args_written(&in, ops);
	insn.writes_memory = writes_memory(&in, ops);
	note_table(&in, ops, &insn);
	follow_sp(&in, ops, &insn);
	if (text && size)
		format(&in, ops, text, size);
	*out = insn;
	return 0;
}

int sonde_insn_kind(const uint8_t *code, size_t len, enum sonde_insn_kind *out)
{
	struct sonde_insn insn;
	int err = sonde_insn_decode(code, len, &insn, NULL, 0);

	if (err)
		return err;
	if (insn.refused)
		return -EOPNOTSUPP;
	*out = insn.kind;
	return 0;
}
