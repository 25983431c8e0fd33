/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The unwind table under construction: shared by unwind.c and unwind_cfi.c. */
#ifndef SONDE_TARGET_UNWIND_PRIV_H
#define SONDE_TARGET_UNWIND_PRIV_H

#include "target/elf_file.h"
#include "target/unwind.h"

/* From @pc on @rule holds. 0, -EFBIG or -ENOMEM. */
int sonde_unwind_add(struct sonde_unwind_table *t, uint64_t pc, uint32_t rule);
/* Run the instructions of an entry: a row for each stretch of code with rules of its own. 0 or
 * -errno of sonde_unwind_add. */
int sonde_unwind_run(struct sonde_unwind_table *t, const struct sonde_elf_frame *f);

#endif
