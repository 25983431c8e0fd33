// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A damaged ELF file must be refused or read as far as it goes: a target's files are not trusted.
 * The seed is a real allocator library; every call that takes an ELF file is made on the result.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "fuzz/fuzz_target.h"
#include "target/allocator.h"
#include "target/elf.h"
#include "target/site.h"

#define SEED "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"

static uint8_t *seed, *copy;
static size_t seed_len;

static void read_seed(void)
{
	FILE *f = fopen(SEED, "r");

	f = f ? f : fopen("/proc/self/exe", "r");
	assert(f);
	fseek(f, 0, SEEK_END);
	seed_len = (size_t)ftell(f);
	rewind(f);
	seed = malloc(seed_len);
	copy = malloc(seed_len);
	assert(seed && copy && fread(seed, 1, seed_len, f) == seed_len);
	fclose(f);
}

/* Headers and tables are small beside the code: hit the head, the section headers at the tail, or
 * any. */
static void damage(void)
{
	memcpy(copy, seed, seed_len);
	if (!fuzz_below(3)) { /* no section headers: names by PT_DYNAMIC */
		memset(copy + 40, 0, 8);
		memset(copy + 58, 0, 6);
	}
	for (uint64_t n = 1 + fuzz_below(12); n; n--) {
		uint64_t where = fuzz_below(4);
		size_t at = where == 0	 ? fuzz_below(64)
			    : where == 1 ? fuzz_below(4096)
			    : where == 2 ? seed_len - 1 - fuzz_below(4096)
					 : fuzz_below(seed_len);

		copy[at] = fuzz_below(2) ? (uint8_t)fuzz_next()
					 : copy[at] ^ (uint8_t)(1u << fuzz_below(8));
	}
}

static int count(void *ctx, const struct sonde_sym *sym)
{
	assert(sym->name && sym->table);
	return ++*(int *)ctx > 20000;
}

static void use(struct sonde_elf *elf)
{
	uint64_t start, size, *exits;
	struct sonde_sym sym;
	const char *text;
	int seen = 0;
	size_t n;

	sonde_elf_each(elf, count, &seen);
	sonde_elf_exports(elf, "malloc");
	if (!sonde_elf_rodata(elf, &text, &n))
		assert(text);
	if (sonde_elf_find(elf, "free", &sym))
		return;
	sonde_elf_function_at(elf, sym.offset, &start, &size);
	sonde_elf_plt_symbol(elf, sym.offset, &text);
	if (!sonde_site_exits(elf, sym.offset, sym.size, &exits, &n))
		free(exits);
}

int main(int argc, char **argv)
{
	unsigned long n = fuzz_iterations(argc, argv, 400);
	int fd = memfd_create("fuzz", 0);
	char path[64];

	if (!freopen("/dev/null", "w", stderr) || fd < 0)
		return 1;
	read_seed();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (unsigned long i = 0; i < n; i++) {
		struct sonde_module m = {.path = path, .open_path = path};
		struct sonde_alloc_site *sites;
		struct sonde_alloc_return *returns;
		struct sonde_elf *elf;
		size_t len = seed_len, n_sites;

		damage();
		if (fuzz_below(8) == 0)
			len = fuzz_below(seed_len);
		assert(ftruncate(fd, 0) == 0 && pwrite(fd, copy, len, 0) == (ssize_t)len);
		if (sonde_elf_open(&elf, path, ""))
			continue;
		use(elf);
		sonde_elf_free(&elf);
		if (!sonde_allocator_sites(sonde_allocators[1], &m, false, &sites, &n_sites)) {
			if (!sonde_allocator_returns(&m, sites, n_sites, &returns, &n_sites))
				free(returns);
			free(sites);
		}
	}
	free(seed);
	free(copy);
	close(fd);
	return 0;
}
