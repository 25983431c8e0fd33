/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inside of struct sonde_elf, shared by elf.c (the file), elf_symbol.c (names) and elf_function.c
 * (extents). Nobody else includes this. The file may be hostile: every index is checked by libelf
 * or here, and nothing is memory-mapped, so that a file truncated meanwhile is an error, not a
 * SIGBUS.
 */
#ifndef SONDE_TARGET_ELF_FILE_H
#define SONDE_TARGET_ELF_FILE_H

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <libelf.h>

#include "target/elf.h"

struct sonde_elf_segment {
	uint64_t vaddr, offset, filesz, memsz;
	bool exec, write;
};

/* Start and size of a function, in file offsets. */
struct sonde_elf_extent {
	uint64_t start, size;
};

/* What PT_DYNAMIC names. */
struct sonde_elf_dynamic {
	Elf64_Sym *sym;
	uint16_t *version; /* of each; 0 where there are none */
	size_t n;
	char *strings;
	size_t strings_size;
};

struct sonde_elf {
	int fd;
	Elf *elf;
	char *path, *root;
	struct sonde_elf_segment *segments; /* PT_LOAD only */
	size_t n_segments;
	bool has_interp;
	uint64_t tls_size; /* of PT_TLS, rounded up to its alignment */
	char **needed;	   /* NULL-terminated */
	char *soname;	   /* "" if it has none */
	char build_id[129];

	uint64_t dynamic_at; /* address of PT_DYNAMIC, 0: none */
	bool tried_dynamic;
	struct sonde_elf_dynamic dynamic;

	/* Opened on first need, when the file's own tables did not have the name. */
	bool tried_mini, tried_debug;
	Dwfl *mini; /* reads .gnu_debugdata */
	Dwfl_Module *mini_module;
	int debug_fd;
	Elf *debug; /* the separate file */

	/* Sorted by start, built on first need. */
	struct sonde_elf_extent *extents;
	size_t n_extents;
	bool tried_extents;
};

/* An entry of .eh_frame: addresses of the file, and the instructions that its CIE's continue. */
struct sonde_elf_frame {
	uint64_t start, size;
	const Dwarf_CIE *cie;
	const uint8_t *code, *code_end;
};
typedef int (*sonde_elf_frame_cb)(void *ctx, const struct sonde_elf_frame *f);
/* Every entry in the order of the section; @cb returning non-zero stops and is returned. */
int sonde_elf_each_frame(struct sonde_elf *elf, sonde_elf_frame_cb cb, void *ctx);

/* By PT_DYNAMIC, for files without section headers; NULL: there is none that makes sense. */
const struct sonde_elf_dynamic *sonde_elf_dynamic(struct sonde_elf *elf);
const char *sonde_elf_dynamic_name(const struct sonde_elf_dynamic *d, uint64_t at);
/* Of DT_NEEDED and DT_SONAME; @cb returning non-zero stops and is returned. */
int sonde_elf_dynamic_names(struct sonde_elf *elf,
			    int (*cb)(struct sonde_elf *elf, int64_t tag, const char *name));
void sonde_elf_dynamic_fini(struct sonde_elf_dynamic *d);

/* The separate debug file if there is one, opened on first need; else NULL. */
Elf *sonde_elf_debug(struct sonde_elf *elf);
/* Address to file offset within an executable segment: 0 or -ENOENT. */
int sonde_elf_vaddr_to_offset(const struct sonde_elf *elf, uint64_t vaddr, uint64_t *offset);

#endif
