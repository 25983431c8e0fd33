/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of an ELF file by elfutils. Names are looked for in this order: .dynsym, .symtab, the
 * embedded mini-debug data, a separate debug file found by build-id below the target's root. An
 * offset is a file offset, as uprobes want it: st_value - p_vaddr + p_offset of its segment.
 */
#ifndef SONDE_TARGET_ELF_H
#define SONDE_TARGET_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sonde_elf;

struct sonde_sym {
	const char *name; /* owned by the file object */
	uint64_t offset;  /* in the file, bytes       */
	uint64_t value;	  /* st_value                 */
	uint64_t size;	  /* bytes; 0 if the table does not say */
	const char *table; /* ".dynsym", ".symtab", "debug" */
};

/*
 * Open @path; @root ("" or "/proc/PID/root") is where separate debug files are looked for.
 * -EOPNOTSUPP not x86-64 (a 32-bit or foreign ELF), -ENOEXEC not an ELF; logged once.
 */
int sonde_elf_open(struct sonde_elf **out, const char *path, const char *root);
/* The same of a file that need not be one, as among all that a process maps: nothing is logged. */
int sonde_elf_try(struct sonde_elf **out, const char *path, const char *root);
void sonde_elf_free(struct sonde_elf **elf);

/* Hex build-id into @buf, "" if it has none. */
void sonde_elf_build_id(const struct sonde_elf *elf, char *buf, size_t size);
bool sonde_elf_is_static(const struct sonde_elf *elf); /* no PT_INTERP and no PT_DYNAMIC needs */
/* Defined function of that exact name (default version wins): 0 or -ENOENT, nothing logged. */
int sonde_elf_find(struct sonde_elf *elf, const char *name, struct sonde_sym *out);
/* Every defined function for which @match returns true; @cb returning non-zero stops and is returned. */
int sonde_elf_each(struct sonde_elf *elf, int (*cb)(void *ctx, const struct sonde_sym *sym),
		   void *ctx);
/* Function that holds file offset @off, by symbols or by .eh_frame: its start and size. 0 or -ENOENT. */
int sonde_elf_function_at(struct sonde_elf *elf, uint64_t off, uint64_t *start, uint64_t *size);
/* Copy @len bytes at file offset @off of an executable segment. 0 or -errno. */
int sonde_elf_code(struct sonde_elf *elf, uint64_t off, void *buf, size_t len);
/* Extent in the file of the executable segment that holds file offset @off. 0 or -ENOENT. */
int sonde_elf_text(const struct sonde_elf *elf, uint64_t off, uint64_t *start, uint64_t *size);
/* Is the function at file offset @off a jump through the linkage table? Then *symbol (owned by @elf) is
 * the name it is bound to. 0 or -ENOENT. */
int sonde_elf_plt_symbol(struct sonde_elf *elf, uint64_t off, const char **symbol);
/* Has it a dynamic symbol table that can be read? */
bool sonde_elf_has_dynamic_symbols(struct sonde_elf *elf);
/* Is @name defined for other modules to bind to, i.e. in .dynsym? */
bool sonde_elf_exports(struct sonde_elf *elf, const char *name);
/* Bytes of .rodata, owned by @elf: 0 or -ENOENT. */
int sonde_elf_rodata(struct sonde_elf *elf, const char **data, size_t *len);
/* DT_SONAME, "" if it has none; owned by @elf. */
const char *sonde_elf_soname(const struct sonde_elf *elf);
/* Null-terminated list of DT_NEEDED sonames, owned by @elf. */
const char *const *sonde_elf_needed(const struct sonde_elf *elf);

/* ---- data (elf_data.c); addresses are those of the file ---- */

/* Defined data symbol (STT_OBJECT, STT_TLS: then the value is the offset in the TLS image) of that
 * exact name, in .dynsym or .symtab: 0 or -ENOENT. */
int sonde_elf_find_data(struct sonde_elf *elf, const char *name, uint64_t *value, uint64_t *size);
/* Is the address in a segment that is writable when loaded, .bss included? */
bool sonde_elf_is_writable(const struct sonde_elf *elf, uint64_t vaddr);
bool sonde_elf_is_code(const struct sonde_elf *elf, uint64_t vaddr);
/* Copy initial contents, from any segment; zeros where only memory is. 0 or -ERANGE or -errno. */
int sonde_elf_read(const struct sonde_elf *elf, uint64_t vaddr, void *buf, size_t len);
/* Address of a file offset in an executable segment, and the reverse. 0 or -ENOENT. */
int sonde_elf_offset(const struct sonde_elf *elf, uint64_t vaddr, uint64_t *off);
int sonde_elf_address(const struct sonde_elf *elf, uint64_t off, uint64_t *vaddr);
/* What to add to the file's addresses where @text_start maps file offset @text_pgoff. 0 or -ENOENT.
 */
int sonde_elf_bias(const struct sonde_elf *elf, uint64_t text_start, uint64_t text_pgoff,
		   uint64_t *bias);
/* Size of the PT_TLS segment rounded up to its alignment: the TLS image of an executable begins
 * that many bytes below the thread pointer. 0: it has none. */
uint64_t sonde_elf_tls_size(const struct sonde_elf *elf);

#endif
