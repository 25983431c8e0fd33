/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What names.c (symbols, the answers kept) and names_dwarf.c (inlined functions) share. */
#ifndef SONDE_TARGET_NAMES_PRIV_H
#define SONDE_TARGET_NAMES_PRIV_H

#include "target/elf_file.h"
#include "target/names.h"

struct sonde_name_list {
	struct sonde_name *v;
	size_t n, cap;
};

struct sonde_dwarf;

/* NULL where there is no DWARF. */
struct sonde_dwarf *sonde_dwarf_open(struct sonde_elf *elf);
void sonde_dwarf_free(struct sonde_dwarf **d);
/* What DWARF says of @vaddr, appended innermost first; nothing where it says nothing. 0 or -ENOMEM.
 */
int sonde_dwarf_at(struct sonde_dwarf *d, uint64_t vaddr, struct sonde_name_list *out);

#endif
