// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * jemalloc. operator new and sized delete do not pass through malloc and free in 5.3. Plain,
 * nothrow and aligned delete jump to free, new[] to new, and the aligned forms of new call
 * aligned_alloc (measured with all names probed at once); decoding the wrappers confirms or denies
 * it for each build.
 */
#include <string.h>

#include "core/mem.h"
#include "target/allocators/text.h"

#define NEW_ARGS .args = SONDE_ARG_RDI, .may_throw = true

static const struct sonde_alloc_entry entries[] = {
	{"malloc", SONDE_ALLOC_MALLOC, .args = SONDE_ARG_RDI},
	{"calloc", SONDE_ALLOC_CALLOC, .args = SONDE_ARG_RDI | SONDE_ARG_RSI},
	{"realloc", SONDE_ALLOC_REALLOC, .args = SONDE_ARG_RDI | SONDE_ARG_RSI},
	{"posix_memalign", SONDE_ALLOC_POSIX_MEMALIGN, .args = SONDE_ARG_RDI | SONDE_ARG_RDX},
	{"aligned_alloc", SONDE_ALLOC_MEMALIGN, .args = SONDE_ARG_RSI},
	{"memalign", SONDE_ALLOC_MEMALIGN, .args = SONDE_ARG_RSI, .wrapper = true},
	{"valloc", SONDE_ALLOC_VALLOC, .args = SONDE_ARG_RDI, .wrapper = true},
	{"mallocx", SONDE_ALLOC_MALLOC, .args = SONDE_ARG_RDI},
	{"rallocx", SONDE_ALLOC_REALLOC, .args = SONDE_ARG_RDI | SONDE_ARG_RSI},
	/* Returns a size, not a pointer. */
	{"xallocx", SONDE_ALLOC_REALLOC, .args = SONDE_ARG_RDI | SONDE_ARG_RSI, .may_throw = true},
	{"_Znwm", SONDE_ALLOC_NEW, NEW_ARGS},
	{"_Znam", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnwmRKSt9nothrow_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnamRKSt9nothrow_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnwmSt11align_val_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnamSt11align_val_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnwmSt11align_val_tRKSt9nothrow_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"_ZnamSt11align_val_tRKSt9nothrow_t", SONDE_ALLOC_NEW, NEW_ARGS, .wrapper = true},
	{"free", SONDE_ALLOC_FREE, .args = SONDE_ARG_RDI},
	{"dallocx", SONDE_ALLOC_FREE, .args = SONDE_ARG_RDI},
	{"sdallocx", SONDE_ALLOC_DELETE_SIZED, .args = SONDE_ARG_RDI | SONDE_ARG_RSI},
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
	.free_size = SONDE_FREE_UNKNOWN,
};
