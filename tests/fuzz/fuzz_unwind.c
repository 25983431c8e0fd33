// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A damaged ELF file must yield unwind rows that are in order, or none, and names or none: a
 * target's files are not trusted. Damage goes where it hurts: into .eh_frame, the debug sections
 * and the symbols of real files, into headers, and off the end.
 */
#include <assert.h>
#include <elf.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "fuzz/fuzz_target.h"
#include "target/elf.h"
#include "target/names.h"
#include "target/unwind.h"

struct seed {
	uint8_t *bytes;
	size_t len;
	struct {
		size_t at, len;
	} parts[16]; /* sections worth hitting */
	size_t n_parts;
};

static bool is_target(const char *name)
{
	static const char *const names[] = {
		".eh_frame",	   ".eh_frame_hdr", ".debug_info", ".debug_abbrev", ".debug_line",
		".debug_rnglists", ".debug_str",    ".symtab",	   ".strtab",	    ".dynsym"};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static void find_parts(struct seed *s)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)s->bytes;
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(s->bytes + eh->e_shoff);
	const char *names = (const char *)s->bytes + sh[eh->e_shstrndx].sh_offset;

	for (size_t i = 0; i < eh->e_shnum && s->n_parts < SONDE_ARRAY_SIZE(s->parts); i++) {
		if (!is_target(names + sh[i].sh_name) || sh[i].sh_type == SHT_NOBITS)
			continue;
		s->parts[s->n_parts].at = sh[i].sh_offset;
		s->parts[s->n_parts++].len = sh[i].sh_size;
	}
}

static bool read_seed(struct seed *s, const char *path)
{
	FILE *f = fopen(path, "r");

	if (!f)
		return false;
	fseek(f, 0, SEEK_END);
	s->len = (size_t)ftell(f);
	rewind(f);
	s->bytes = malloc(s->len);
	assert(s->bytes && fread(s->bytes, 1, s->len, f) == s->len);
	fclose(f);
	find_parts(s);
	return true;
}

static size_t damage(const struct seed *s, uint8_t *copy)
{
	size_t len = s->len;

	memcpy(copy, s->bytes, s->len);
	for (uint64_t n = 1 + fuzz_below(24); n; n--) {
		size_t at = fuzz_below(s->len);

		if (s->n_parts && fuzz_below(8)) {
			size_t part = fuzz_below(s->n_parts);

			at = s->parts[part].at + fuzz_below(s->parts[part].len);
		} else if (fuzz_below(2)) {
			at = fuzz_below(2) ? fuzz_below(1024) : s->len - 1 - fuzz_below(2048);
		}
		copy[at] = fuzz_below(2) ? (uint8_t)fuzz_next()
					 : copy[at] ^ (uint8_t)(1u << fuzz_below(8));
	}
	if (!fuzz_below(16))
		len = fuzz_below(len);
	return len;
}

static void use_rows(struct sonde_elf *elf)
{
	struct sonde_unwind_table t;

	if (sonde_unwind_build(elf, &t))
		return;
	for (size_t i = 0; i < t.n; i++) {
		assert(!i || t.rows[i].pc > t.rows[i - 1].pc);
		assert(SONDE_UNWIND_KIND(t.rows[i].rule) <= SONDE_UNWIND_HARD);
		assert(sonde_unwind_find(&t, t.rows[i].pc) == t.rows[i].rule);
	}
	sonde_unwind_fini(&t);
}

static void use_names(struct sonde_elf *elf)
{
	struct sonde_names *names = NULL;
	const struct sonde_name *name;
	size_t n;

	if (sonde_names_new(&names, elf))
		return;
	for (int i = 0; i < 40; i++) {
		uint64_t at = fuzz_below(4) ? fuzz_below(1 << 20) : fuzz_next();

		if (!sonde_names_at(names, at, &name, &n))
			assert(n && (!name[n - 1].inlined));
	}
	sonde_names_free(&names);
}

static void try_one(const struct seed *s, uint8_t *copy)
{
	size_t len = damage(s, copy);
	int fd = memfd_create("elf", 0);
	struct sonde_elf *elf = NULL;
	char path[64];

	assert(fd >= 0 && write(fd, copy, len) == (ssize_t)len);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!sonde_elf_try(&elf, path, "")) {
		use_rows(elf);
		use_names(elf);
		sonde_elf_free(&elf);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	/* A library without symbols, and this program with everything. */
	static const char *const paths[] = {"/usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
					    "/proc/self/exe"};
	unsigned long n = fuzz_iterations(argc, argv, 200);
	struct seed seeds[SONDE_ARRAY_SIZE(paths)] = {0};
	size_t n_seeds = 0, longest = 0;
	uint8_t *copy;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(paths); i++)
		n_seeds += read_seed(&seeds[n_seeds], paths[i]);
	for (size_t i = 0; i < n_seeds; i++)
		longest = seeds[i].len > longest ? seeds[i].len : longest;
	copy = malloc(longest);
	assert(copy && n_seeds);
	for (unsigned long i = 0; i < n; i++)
		try_one(&seeds[i % 2 ? 0 : n_seeds - 1], copy);
	for (size_t i = 0; i < n_seeds; i++)
		free(seeds[i].bytes);
	free(copy);
	return 0;
}
