// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * glibc's malloc. Some members of the set run another one: realloc() malloc() for a null pointer
 * and free() for a size of 0, memalign() malloc() for a small alignment. The alloc lens recognises
 * the inner call by the thread's stack. operator new and reallocarray() end in malloc and realloc:
 * the lens adds them, since they lie in other files or are called by name only.
 */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "target/allocators/text.h"

static const struct sonde_alloc_entry entries[] = {
	{"malloc", SONDE_ALLOC_MALLOC, .args = SONDE_ARG_RDI},
	{"calloc", SONDE_ALLOC_CALLOC, .args = SONDE_ARG_RDI | SONDE_ARG_RSI},
	{"realloc", SONDE_ALLOC_REALLOC, .args = SONDE_ARG_RDI | SONDE_ARG_RSI},
	{"memalign", SONDE_ALLOC_MEMALIGN, .args = SONDE_ARG_RDI | SONDE_ARG_RSI},
	/* The same address as memalign until 2.37, a function of its own since. */
	{"aligned_alloc", SONDE_ALLOC_MEMALIGN, .args = SONDE_ARG_RDI | SONDE_ARG_RSI,
	 .wrapper = true},
	{"posix_memalign", SONDE_ALLOC_POSIX_MEMALIGN,
	 .args = SONDE_ARG_RDI | SONDE_ARG_RSI | SONDE_ARG_RDX},
	{"valloc", SONDE_ALLOC_VALLOC, .args = SONDE_ARG_RDI},
	{"pvalloc", SONDE_ALLOC_PVALLOC, .args = SONDE_ARG_RDI},
	{"free", SONDE_ALLOC_FREE, .args = SONDE_ARG_RDI},
};

/*
 * musl and others have a malloc too, but not these names. Other allocators define glibc's internal
 * ones beside their own: a file that needs libc itself is not libc.
 */
static bool match(const struct sonde_module *m, struct sonde_elf *elf)
{
	struct sonde_sym sym;

	(void)m;
	for (const char *const *needed = sonde_elf_needed(elf); *needed; needed++)
		if (!strcmp(*needed, "libc.so.6"))
			return false;
	return !sonde_elf_find(elf, "__libc_malloc", &sym) ||
	       !sonde_elf_find(elf, "gnu_get_libc_version", &sym);
}

static void version(const struct sonde_module *m, struct sonde_elf *elf, char *buf, size_t size)
{
	(void)m;
	/* "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36." */
	sonde_alloc_text_after(elf, " release version ", "0123456789.", buf, size);
	if (buf[0] && buf[strlen(buf) - 1] == '.')
		buf[strlen(buf) - 1] = '\0';
}

const struct sonde_allocator sonde_allocator_glibc = {
	.name = "glibc",
	.match = match,
	.version = version,
	.entries = entries,
	.n_entries = SONDE_ARRAY_SIZE(entries),
	.rule = SONDE_BLOCK_HEADER,
	/* HEAP_MAX_SIZE: twice DEFAULT_MMAP_THRESHOLD_MAX, on 64 bits since 2.5. */
	.arena_align = 64ul << 20,
};
