/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sonde knows about an allocator: how to recognise it and which entry points to count so that one
 * operation fires one probe. One descriptor file each, one line in allocators.def.
 */
#ifndef SONDE_TARGET_ALLOCATOR_H
#define SONDE_TARGET_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "sonde/alloc.h"
#include "target/maps.h"
#include "target/site.h"

struct sonde_alloc_entry {
	const char *symbol;
	enum sonde_alloc_op op;
	bool may_throw;	     /* or it returns no pointer: entry probe only                         */
	unsigned args;	     /* mask of sonde_site_args that the program reads                     */
	/* In some builds it calls another entry of the set, which then counts the operation: the
	 * function is decoded, and left out of such a build. */
	bool wrapper;
};

/* How a free learns the chunk's size. */
enum sonde_free_size { SONDE_FREE_UNKNOWN = 0, SONDE_FREE_GLIBC_HEADER = 1 };

struct sonde_allocator {
	const char *name;	/* "glibc", "jemalloc", "tcmalloc (gperftools)"                     */
	/* Is module @m (opened as @elf) this allocator? It must define malloc. */
	bool (*match)(const struct sonde_module *m, struct sonde_elf *elf);
	/* Version into @buf, "" if it cannot be told. */
	void (*version)(const struct sonde_module *m, struct sonde_elf *elf, char *buf,
			size_t size);
	/* The set that counts each operation once; aliases of one address are merged by the caller. */
	const struct sonde_alloc_entry *entries;
	size_t n_entries;
	enum sonde_free_size free_size;
	bool exact;		/* live bytes can be had in exact mode                              */
	/* Beside its module's own data, locks lie within 256 bytes above multiples of this; 0: none. */
	uint64_t arena_align;
};

/* Names that a build may put in front of every entry ("je_malloc"); "" first. NULL-terminated. */
extern const char *const sonde_alloc_prefixes[];

extern const struct sonde_allocator *const sonde_allocators[];
extern const size_t sonde_allocator_count;

/*
 * Which allocator serves malloc in @pid: the first module in link order that defines it (executable,
 * preloads, libraries). *module receives the index in @mods. 0 or -ENOENT.
 */
int sonde_allocator_detect(pid_t pid, const struct sonde_modules *mods,
			   const struct sonde_allocator **out, size_t *module, char *version,
			   size_t version_size);

/*
 * One probe of the set, resolved in the file. An entry has several where it passes some calls on to
 * another and does the rest itself: then every call that it does itself passes exactly one of them.
 */
struct sonde_alloc_site {
	const struct sonde_alloc_entry *entry;
	char symbol[64]; /* as it is in the file: with the build's prefix */
	struct sonde_site site;
};
/*
 * Resolve the set in module @m: unique by offset, moved to the cheapest site unless the entry wants
 * its return seen (@entry_only for those with a return side, i.e. exact mode and !may_throw and not
 * free). *out heap, caller frees. 0 or -errno (logged).
 */
int sonde_allocator_sites(const struct sonde_allocator *a, const struct sonde_module *m,
			  bool with_returns, struct sonde_alloc_site **out, size_t *n);

#endif
