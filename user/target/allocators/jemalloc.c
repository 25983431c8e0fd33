// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * jemalloc. operator new and sized delete do not pass through malloc and free in 5.3. Plain,
 * nothrow and aligned delete jump to free, new[] to new, and the aligned forms of new call
 * aligned_alloc (measured with all names probed at once); decoding the wrappers confirms or denies
 * it for each build.
 *
 * malloc and new round by size classes alone, and begin with an instruction that is dear to probe:
 * their entries suffice. The others begin with a push, so that their returns are cheap to see, and
 * what they hand out depends on alignment and on what was there before.
 */
#include <string.h>

#include "core/mem.h"
#include "target/allocators/text.h"
#include "target/blocks/jemalloc.h"

#define SIZE_AT_0 SONDE_ARG_RDI
#define SIZE_AT_1 (SONDE_ARG_RDI | SONDE_ARG_RSI)

static const struct sonde_alloc_entry entries[] = {
	{"malloc", SONDE_ALLOC_MALLOC, .args = SIZE_AT_0, .by_class = true},
	{"calloc", SONDE_ALLOC_CALLOC, .args = SIZE_AT_1},
	{"realloc", SONDE_ALLOC_REALLOC, .args = SIZE_AT_1},
	{"posix_memalign", SONDE_ALLOC_POSIX_MEMALIGN, .args = SONDE_ARG_RDI | SONDE_ARG_RDX},
	{"aligned_alloc", SONDE_ALLOC_MEMALIGN, .args = SONDE_ARG_RSI},
	{"memalign", SONDE_ALLOC_MEMALIGN, .args = SONDE_ARG_RSI, .wrapper = true},
	{"valloc", SONDE_ALLOC_VALLOC, .args = SIZE_AT_0, .wrapper = true},
	{"mallocx", SONDE_ALLOC_MALLOC, .args = SIZE_AT_0},
	{"rallocx", SONDE_ALLOC_REALLOC, .args = SIZE_AT_1},
	{"xallocx", SONDE_ALLOC_REALLOC, .args = SIZE_AT_1, .returns_size = true},
	{"free", SONDE_ALLOC_FREE, .args = SONDE_ARG_RDI},
	{"dallocx", SONDE_ALLOC_FREE, .args = SONDE_ARG_RDI},
	/* Its third argument may hold an alignment: the block is looked up. */
	{"sdallocx", SONDE_ALLOC_DELETE_SIZED, .args = SIZE_AT_1, .aligned = true},
};

/* mallctl, under any of the prefixes that builds use; or, where it is stripped, the messages. */
static bool match(const struct sonde_module *m, struct sonde_elf *elf)
{
	(void)m;
	for (const char *const *prefix = sonde_alloc_prefixes; *prefix; prefix++) {
		struct sonde_sym sym;
		char name[64];

		snprintf(name, sizeof(name), "%smallctl", *prefix);
		if (!sonde_elf_find(elf, name, &sym))
			return true;
	}
	return sonde_alloc_has_text(elf, "<jemalloc>: ");
}

/* "5.3.0-0-g54eaed1d...": the release is what stands before the first dash. */
static void version(const struct sonde_module *m, struct sonde_elf *elf, char *buf, size_t size)
{
	const char *text, *p, *end;
	size_t len;

	(void)m;
	buf[0] = '\0';
	if (sonde_elf_rodata(elf, &text, &len))
		return;
	end = text + len;
	for (p = text; (p = memmem(p, (size_t)(end - p), "-0-g", 4)); p += 4) {
		const char *start = p;

		while (start > text && p - start < 16 && strchr("0123456789.", start[-1]) &&
		       start[-1])
			start--;
		if (start == p || start == text || start[-1])
			continue;
		snprintf(buf, size, "%.*s", (int)(p - start), start);
		return;
	}
}

const struct sonde_allocator sonde_allocator_jemalloc = {
	.name = "jemalloc",
	.match = match,
	.version = version,
	.entries = entries,
	.n_entries = SONDE_ARRAY_SIZE(entries),
	.cxx = true,
	.rule = SONDE_BLOCK_RTREE,
	.learn = sonde_jemalloc_learn,
};
