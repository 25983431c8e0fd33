/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a function gives its result, for functions whose return must not be probed (they may throw
 * or switch stacks): the `ret` instructions that end it, its own and those of whatever it leaves to
 * by a tail jump. At each of them rsp is what it was at the function's entry and rax is the result.
 * A place may end other functions as well, so a hit is only of a call whose entry was seen with
 * that stack pointer.
 */
#ifndef SONDE_TARGET_RETURNS_H
#define SONDE_TARGET_RETURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/insn.h"

struct sonde_elf;

/* A way out of a function. */
struct sonde_way {
	uint64_t offset; /* of the instruction, in the file                                       */
	enum sonde_flow flow; /* RET, JMP, JCC, JMP_SLOT */
	uint64_t target; /* of JMP and JCC: file offset                                           */
};

/* All of them, those of its split-off parts too. -EOPNOTSUPP: it has an indirect tail jump, or code
 * that cannot be decoded. *out heap, caller frees. */
int sonde_site_ways(struct sonde_elf *elf, uint64_t function, uint64_t size, struct sonde_way **out,
		    size_t *n);

/*
 * The `ret` instructions at which a call of @function can end, without repeats, in order. @counted
 * tells whether a tail jump goes to a function that sees its result itself; there the search ends.
 * -EOPNOTSUPP with the reason in @why: not all can be known. *out heap, caller frees.
 */
int sonde_site_returns(struct sonde_elf *elf, uint64_t function, uint64_t size,
		       bool (*counted)(void *ctx, uint64_t function), void *ctx, uint64_t **out,
		       size_t *n, char *why, size_t why_size);

#endif
