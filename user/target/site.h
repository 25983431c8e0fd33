/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where to put a probe. A uprobe costs one trap when the kernel emulates the probed instruction (push,
 * nop, jmp, jcc, call) and two, the second of them 14 times dearer in some guests, when it must
 * single-step it. So the prologue is decoded and the probe moved to the first emulated instruction
 * that every call reaches before the argument registers change.
 *
 * The invariant: from the entry to the chosen instruction the code is straight (nothing branches out,
 * nothing branches in), and the argument registers in use and the stack pointer's relation to the
 * return address are known there.
 */
#ifndef SONDE_TARGET_SITE_H
#define SONDE_TARGET_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sonde_elf;

enum sonde_insn_kind {
	SONDE_INSN_STEPPED = 0,	 /* single-stepped out of line: dear                               */
	SONDE_INSN_EMULATED = 1, /* push, nop, jmp, jcc, call: one trap                            */
};

struct sonde_site {
	uint64_t function; /* file offset of the function's entry                                  */
	uint64_t offset;   /* file offset of the probe: function + slide                           */
	uint32_t slide;	   /* bytes the probe was moved                                            */
	uint32_t sp_delta; /* bytes pushed since entry: return address is at rsp + sp_delta        */
	enum sonde_insn_kind kind;
	char insn[48];	   /* the probed instruction as text, for doctor                           */
};

/* Argument registers that the program at the site will read. */
enum sonde_site_args { SONDE_ARG_RDI = 1, SONDE_ARG_RSI = 2, SONDE_ARG_RDX = 4, SONDE_ARG_RCX = 8 };

/*
 * Choose the site for a function at file offset @function of @elf (@size bytes, 0 unknown). @args: mask
 * of sonde_site_args that must still hold the arguments there. @entry_only: return probes and pairs
 * must sit at the true entry, so do not move (a return probe's trampoline needs rsp at the return
 * address). 0 or -errno; never fails for want of a cheap site: the entry is then the answer.
 */
int sonde_site_choose(struct sonde_elf *elf, uint64_t function, uint64_t size, unsigned args,
		      bool entry_only, struct sonde_site *out);

/* The same on bytes, for tests and fuzzing: @code holds @len bytes from the function's entry. */
int sonde_site_choose_code(const uint8_t *code, size_t len, unsigned args, bool entry_only,
			   struct sonde_site *out);

/* How the kernel treats the instruction at @code (arch/x86/kernel/uprobes.c). -EINVAL: undecodable,
 * -EOPNOTSUPP: the kernel refuses a probe on it. */
int sonde_insn_kind(const uint8_t *code, size_t len, enum sonde_insn_kind *out);

/*
 * Every way out of a function: offsets of `ret` and of direct tail jumps. -EOPNOTSUPP: an indirect tail
 * jump, so that the ends cannot all be seen. *out heap, caller frees.
 */
int sonde_site_exits(struct sonde_elf *elf, uint64_t function, uint64_t size, uint64_t **out,
		     size_t *n);

#endif
