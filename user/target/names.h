/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is at an address of a file: the function by its symbols, and where the file or its separate
 * debug file has DWARF also the functions inlined there, with source lines. Answers are kept.
 */
#ifndef SONDE_TARGET_NAMES_H
#define SONDE_TARGET_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sonde_elf;
struct sonde_names;

struct sonde_name {
	char *function; /* demangled; NULL: not known                                          */
	char *file;	/* of the source; NULL: not known                                      */
	uint32_t line;	/* 0: not known                                                        */
	bool inlined;	/* into the next                                                       */
};

/* Of @elf, which must outlive it. 0 or -ENOMEM. */
int sonde_names_new(struct sonde_names **out, struct sonde_elf *elf);
void sonde_names_free(struct sonde_names **names);
/* Innermost first, at least one; owned by @names. @vaddr: an address of the file. 0 or -ENOMEM. */
int sonde_names_at(struct sonde_names *names, uint64_t vaddr, const struct sonde_name **out,
		   size_t *n);

/* A readable copy of a symbol: demangled where it is of C++. NULL: no memory. */
char *sonde_demangle(const char *symbol);

#endif
