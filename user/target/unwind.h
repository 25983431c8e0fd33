/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unwind tables: what .eh_frame says about finding the caller, as rows that a BPF program can
 * search. Distribution builds keep no frame pointers, so without such a table only the immediate
 * caller of a function is known. A function that .eh_frame leaves out gets rows where it sets up a
 * frame pointer.
 *
 * The invariant: a rule that a row cannot express is marked so (SONDE_UNWIND_HARD), and an address
 * that nothing is known of has a row that says so (SONDE_UNWIND_NONE): nothing is guessed.
 */
#ifndef SONDE_TARGET_UNWIND_H
#define SONDE_TARGET_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/stack.h"

struct sonde_elf;

struct sonde_unwind_table {
	struct sonde_unwind_row *rows; /* ascending, addresses of the file (p_vaddr); heap       */
	size_t n, cap;
	size_t functions; /* with entries in .eh_frame                                           */
	size_t by_frame_pointer; /* without, but with a frame pointer                            */
	size_t hard; /* rows that cannot be followed                                        */
};

/* -EFBIG: more rows than SONDE_UNWIND_ROWS; -ENOMEM. Nothing is logged. */
int sonde_unwind_build(struct sonde_elf *elf, struct sonde_unwind_table *out);
void sonde_unwind_fini(struct sonde_unwind_table *t);
/* The row that holds @pc, as the kernel side finds it: its rule, 0 if there is none. */
uint32_t sonde_unwind_find(const struct sonde_unwind_table *t, uint64_t pc);

#endif
