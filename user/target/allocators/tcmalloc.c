// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * gperftools' tcmalloc. Many names share an address (free = delete = delete[]); the caller merges
 * them. posix_memalign, valloc and pvalloc call memalign in 2.10; sized, nothrow and aligned delete
 * are functions of their own that do not call free (measured with all names probed at once).
 */
#include "core/mem.h"
#include "target/allocators/text.h"

#define NEW_ARGS .args = SONDE_ARG_RDI, .may_throw = true

static const struct sonde_alloc_entry entries[] = {
	{"malloc", SONDE_ALLOC_MALLOC, .args = SONDE_ARG_RDI},
	{"calloc", SONDE_ALLOC_CALLOC, .args = SONDE_ARG_RDI | SONDE_ARG_RSI},
	{"realloc", SONDE_ALLOC_REALLOC, .args = SONDE_ARG_RDI | SONDE_ARG_RSI},
	{"memalign", SONDE_ALLOC_MEMALIGN, .args = SONDE_ARG_RSI},
	{"aligned_alloc", SONDE_ALLOC_MEMALIGN, .args = SONDE_ARG_RSI, .wrapper = true},
	{"posix_memalign", SONDE_ALLOC_POSIX_MEMALIGN, .args = SONDE_ARG_RDI | SONDE_ARG_RDX,
	 .wrapper = true},
	{"valloc", SONDE_ALLOC_VALLOC, .args = SONDE_ARG_RDI, .wrapper = true},
	{"pvalloc", SONDE_ALLOC_PVALLOC, .args = SONDE_ARG_RDI, .wrapper = true},
	{"_Znwm", SONDE_ALLOC_NEW, NEW_ARGS},
	{"_Znam", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnwmRKSt9nothrow_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnamRKSt9nothrow_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnwmSt11align_val_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnamSt11align_val_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnwmSt11align_val_tRKSt9nothrow_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnamSt11align_val_tRKSt9nothrow_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"free", SONDE_ALLOC_FREE, .args = SONDE_ARG_RDI},
	{"_ZdlPv", SONDE_ALLOC_DELETE, .args = SONDE_ARG_RDI, .wrapper = true},
	{"_ZdaPv", SONDE_ALLOC_DELETE, .args = SONDE_ARG_RDI, .wrapper = true},
	{"_ZdlPvRKSt9nothrow_t", SONDE_ALLOC_DELETE, .args = SONDE_ARG_RDI, .wrapper = true},
	{"_ZdaPvRKSt9nothrow_t", SONDE_ALLOC_DELETE, .args = SONDE_ARG_RDI, .wrapper = true},
	{"_ZdlPvSt11align_val_t", SONDE_ALLOC_DELETE, .args = SONDE_ARG_RDI, .wrapper = true},
	{"_ZdaPvSt11align_val_t", SONDE_ALLOC_DELETE, .args = SONDE_ARG_RDI, .wrapper = true},
	{"_ZdlPvm", SONDE_ALLOC_DELETE_SIZED, .args = SONDE_ARG_RDI | SONDE_ARG_RSI,
	 .wrapper = true},
	{"_ZdaPvm", SONDE_ALLOC_DELETE_SIZED, .args = SONDE_ARG_RDI | SONDE_ARG_RSI,
	 .wrapper = true},
	{"_ZdlPvmSt11align_val_t", SONDE_ALLOC_DELETE_SIZED, .args = SONDE_ARG_RDI | SONDE_ARG_RSI,
	 .wrapper = true},
	{"_ZdaPvmSt11align_val_t", SONDE_ALLOC_DELETE_SIZED, .args = SONDE_ARG_RDI | SONDE_ARG_RSI,
	 .wrapper = true},
};

static bool match(const struct sonde_module *m, struct sonde_elf *elf)
{
	struct sonde_sym sym;

	(void)m;
	return !sonde_elf_find(elf, "tc_malloc", &sym) ||
	       sonde_alloc_has_text(elf, "TCMALLOC_RELEASE_RATE");
}

static void version(const struct sonde_module *m, struct sonde_elf *elf, char *buf, size_t size)
{
	(void)m;
	sonde_alloc_text_after(elf, "gperftools ", "0123456789.", buf, size);
}

const struct sonde_allocator sonde_allocator_tcmalloc = {
	.name = "tcmalloc (gperftools)",
	.match = match,
	.version = version,
	.entries = entries,
	.n_entries = SONDE_ARRAY_SIZE(entries),
	.free_size = SONDE_FREE_UNKNOWN,
};
