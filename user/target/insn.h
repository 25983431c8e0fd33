/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One decoded x86-64 instruction, as far as choosing a probe site needs it: how the kernel would
 * treat a uprobe on it, where it can go, what it does to the argument registers and to the stack
 * pointer. The only file besides its .c that knows Zydis.
 */
#ifndef SONDE_TARGET_INSN_H
#define SONDE_TARGET_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/site.h"

/* Where execution may go after the instruction. */
enum sonde_flow {
	SONDE_FLOW_NEXT = 0, /* only to the next instruction (also a call that returns)           */
	SONDE_FLOW_JCC,	 /* to target or next                                                  */
	SONDE_FLOW_JMP,	 /* to target                                                          */
	SONDE_FLOW_CALL, /* to target, comes back                                              */
	SONDE_FLOW_CALL_INDIRECT,
	SONDE_FLOW_JMP_REGISTER, /* jump through a register or an indexed table */
	SONDE_FLOW_JMP_SLOT,	 /* jump through one fixed word, as a call through the GOT is     */
	SONDE_FLOW_RET,
	SONDE_FLOW_OTHER, /* system call, interrupt, trap: no assumption                        */
};

/*
 * For telling a switch from a tail call: `movsxd reg, [base + index*4]`, `add reg, base`, `jmp reg`
 * in this order are a switch; so is a jump through an indexed table at a fixed place or one marked notrack.
 */
enum sonde_table_step {
	SONDE_TABLE_NONE = 0,
	SONDE_TABLE_LOAD,
	SONDE_TABLE_ADD,
	SONDE_TABLE_JUMP,
};

struct sonde_insn {
	uint8_t length;
	enum sonde_insn_kind kind;
	bool refused; /* the kernel refuses a uprobe here */
	bool nop5;    /* the 5-byte nop that 6.18 turns into a call */
	enum sonde_flow flow;
	int64_t target;	       /* of direct jumps and calls: relative to this instruction's start */
	bool writes_memory;    /* elsewhere than on the stack */
	unsigned args_written; /* mask of sonde_site_args */
	enum sonde_table_step table;
	int table_reg;
	bool table_certain; /* a jump that is a switch's for sure */
	bool sp_known;	    /* false: rsp changes in a way not followed */
	int32_t sp_grows;   /* bytes the stack grows by (push: 8) */
};

/* Decode the instruction at @code. 0 or -EINVAL. @text (may be NULL): its text into @size bytes. */
int sonde_insn_decode(const uint8_t *code, size_t len, struct sonde_insn *out, char *text,
		      size_t size);

#endif
