/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The user side of bpf/lib/stack.bpf.h: fills the unwind tables and mappings of each target, renews
 * them when a target maps more code, and names what a stack's addresses stand for. A file's rows
 * and names are had once, however many targets map it.
 */
#ifndef SONDE_LENS_STACKS_H
#define SONDE_LENS_STACKS_H

#include "lens/lens.h"
#include "sonde/stack.h"

struct sonde_stacks;

/* An address as a file's, for good: the target may be gone when it is named. */
struct sonde_code {
	uint32_t module; /* number, UINT32_MAX: in no file */
	uint64_t vaddr;	 /* address of the file; in no file: of the process */
	bool exact;	 /* of the instruction itself, not a return address behind its call */
};

/* Before load: size the maps for @n_targets. 0 or -errno (logged): -EOPNOTSUPP before 5.17. */
int sonde_stacks_configure(struct bpf_object *obj, size_t n_targets);
/* After load. 0 or -errno (logged). */
int sonde_stacks_new(struct sonde_stacks **out, const struct sonde_lens_ctx *ctx, size_t n_targets);
void sonde_stacks_free(struct sonde_stacks **s);
/* Read what the targets map; nothing happens where that is as it was. 0 or -errno (logged). A
 * target that is gone is passed over. */
int sonde_stacks_refresh(struct sonde_stacks *s, const struct sonde_lens_ctx *ctx);
/* What return address @pc of target @target stands for now. */
struct sonde_code sonde_stacks_code(const struct sonde_stacks *s, uint32_t target, uint64_t pc);
/*
 * Name the @n addresses of a stack: *frames is heap, its strings are owned by @s. Inlined functions
 * make more frames than addresses. 0 or -ENOMEM.
 */
int sonde_stacks_name(struct sonde_stacks *s, const struct sonde_code *code, size_t n,
		      struct sonde_frame **frames, size_t *n_frames);

#endif
