// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * gperftools' tcmalloc. Many names share an address (free = delete = delete[] = tc_free); the
 * caller merges them, so tc_malloc and its like need no rows. posix_memalign, valloc and pvalloc
 * call memalign in 2.10; sized, nothrow and aligned delete are functions of their own that do not
 * call free (measured with all names probed at once).
 *
 * malloc and new round by size classes alone, and begin with an instruction that is dear to probe:
 * their entries suffice. realloc may keep a block that is larger than needed, so its return is
 * seen.
 */
#include "core/mem.h"
#include "target/allocators/text.h"
#include "target/blocks/tcmalloc.h"

#define SIZE_AT_0 SONDE_ARG_RDI
#define SIZE_AT_1 (SONDE_ARG_RDI | SONDE_ARG_RSI)

static const struct sonde_alloc_entry entries[] = {
	{"malloc", SONDE_ALLOC_MALLOC, .args = SIZE_AT_0, .by_class = true},
	{"calloc", SONDE_ALLOC_CALLOC, .args = SIZE_AT_1},
	{"realloc", SONDE_ALLOC_REALLOC, .args = SIZE_AT_1},
	{"memalign", SONDE_ALLOC_MEMALIGN, .args = SONDE_ARG_RSI},
	{"aligned_alloc", SONDE_ALLOC_MEMALIGN, .args = SONDE_ARG_RSI, .wrapper = true},
	{"posix_memalign", SONDE_ALLOC_POSIX_MEMALIGN, .args = SONDE_ARG_RDI | SONDE_ARG_RDX,
	 .wrapper = true},
	{"valloc", SONDE_ALLOC_VALLOC, .args = SIZE_AT_0, .wrapper = true},
	{"pvalloc", SONDE_ALLOC_PVALLOC, .args = SIZE_AT_0, .wrapper = true},
	{"free", SONDE_ALLOC_FREE, .args = SONDE_ARG_RDI},
	{"tc_malloc_skip_new_handler", SONDE_ALLOC_MALLOC, .args = SIZE_AT_0, .by_class = true,
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
	.cxx = true,
	.rule = SONDE_BLOCK_PAGEMAP,
	.learn = sonde_tcmalloc_learn,
};
