// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who asked: a return address as function and module. The call is the instruction before it, so it
 * is looked up one byte earlier: a call that never returns may be the last of its function.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "lens/ask_caller.h"
#include "target/elf.h"
#include "target/maps.h"
#include "target/names.h"

struct holder {
	uint64_t offset;
	char *buf;
	size_t size;
	uint64_t start;
};

static int holds(void *ctx, const struct sonde_sym *sym)
{
	struct holder *h = ctx;
	char *readable;

	if (h->offset - sym->offset >= sym->size)
		return 0;
	readable = sonde_demangle(sym->name);
	snprintf(h->buf, h->size, "%s", readable ? readable : sym->name);
	free(readable);
	h->start = sym->offset;
	return 1;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void name_in_module(pid_t pid, const struct sonde_module *m, uint64_t addr, char *buf,
			   size_t size)
{
	uint64_t offset = addr - m->text_start + m->text_pgoff;
	struct sonde_elf *elf = NULL;
	char root[32], symbol[256];
	struct holder h = {.offset = offset - 1, .buf = symbol, .size = sizeof(symbol)};

	snprintf(root, sizeof(root), "/proc/%d/root", pid);
	if (!sonde_elf_try(&elf, m->open_path, root) && sonde_elf_each(elf, holds, &h) == 1)
		snprintf(buf, size, "%s+0x%" PRIx64 " (%s)", symbol, offset - h.start,
			 base_name(m->path));
	else
		snprintf(buf, size, "%s+0x%" PRIx64, base_name(m->path), addr - m->base);
	sonde_elf_free(&elf);
}

void sonde_ask_caller_name(pid_t pid, uint64_t addr, char *buf, size_t size)
{
	struct sonde_modules mods = {0};

	snprintf(buf, size, "0x%" PRIx64, addr);
	if (sonde_modules_read(pid, &mods))
		return;
	for (size_t i = 0; i < mods.n; i++)
		if (addr > mods.m[i].text_start && addr <= mods.m[i].text_end) {
			name_in_module(pid, &mods.m[i], addr, buf, size);
			break;
		}
	sonde_modules_fini(&mods);
}
