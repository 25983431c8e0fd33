/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A function's instructions as recipes look at them: which memory it names, relative to what, and
 * whom it calls. Addresses are the file's own. What a decoder finds is a candidate only: rules
 * demand that exactly one fits.
 */
#ifndef SONDE_TARGET_HEAP_CODE_H
#define SONDE_TARGET_HEAP_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/elf.h"

enum sonde_code_op {
	SONDE_OP_OTHER = 0,
	SONDE_OP_ADD,
	SONDE_OP_CALL, /* direct; the target is in .to */
	SONDE_OP_CMP,
	SONDE_OP_IMUL,
	SONDE_OP_JMP, /* direct, .to; through memory, .rip */
	SONDE_OP_LEA,
	SONDE_OP_MOV, /* also between general and vector registers */
	SONDE_OP_MOVSXD,
	SONDE_OP_MOVZX,
	SONDE_OP_SHL,
	SONDE_OP_SHR,
	SONDE_OP_SUB,
};

#define SONDE_NO_REG (-1)

/* Registers are numbers that are equal for a register and its parts; SONDE_NO_REG: none. */
struct sonde_code {
	uint64_t at;
	uint8_t length;
	enum sonde_code_op op;
	uint64_t to;  /* of direct calls and jumps (conditional ones too) */
	int reg[2];   /* what its first and second operand are, where registers */
	bool has_imm; /* the last visible operand is a constant: */
	int64_t imm;

	/* Its memory operand. */
	bool mem, mem_first; /* there is one; it is the first operand (what is written) */
	bool fs, stack;	     /* relative to the thread pointer; to rsp */
	int base, index, scale;
	int64_t disp;
	unsigned width; /* bits */
	uint64_t rip;	/* the address, where it is relative to the instruction; else 0 */
};

struct sonde_function {
	uint64_t start, size;
	struct sonde_code *code;
	size_t n;
};

/* Decode @size bytes at address @start, until what is no instruction. 0 or -errno. */
int sonde_function_read(struct sonde_elf *elf, uint64_t start, uint64_t size,
			struct sonde_function *out);
/* The function of that name; -ENOENT. */
int sonde_function_find(struct sonde_elf *elf, const char *name, struct sonde_function *out);
/* The function, named or not, that begins at @start; -ENOENT. */
int sonde_function_at(struct sonde_elf *elf, uint64_t start, struct sonde_function *out);
void sonde_function_free(struct sonde_function *f);

/* A load into a register from [base + disp] with a real base other than rsp: its displacement in
 * (@low, @high), else -1. */
int64_t sonde_code_load(const struct sonde_code *c, int64_t low, int64_t high);

/* ---- sets of candidates ---- */

#define SONDE_SET_MAX 64
struct sonde_set {
	uint64_t v[SONDE_SET_MAX];
	size_t n;
};
void sonde_set_add(struct sonde_set *s, uint64_t v);
bool sonde_set_has(const struct sonde_set *s, uint64_t v);
/* Members of all @n sets, into *one; returns how many there are. */
size_t sonde_set_common(const struct sonde_set *sets, size_t n, uint64_t *one);

#endif
