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
	unsigned args;	     /* mask of sonde_site_args that the program reads                     */
	bool may_throw;	     /* or switch stacks: never a return probe                             */
	/* The block's size follows from the request alone, by the allocator's size classes: its return
	 * need not be seen. */
	bool by_class;
	bool returns_size;   /* the block's new size, no pointer (xallocx)                         */
	bool aligned;	     /* an alignment is among the arguments (SONDE_ALLOC_COOKIE_ALIGNED)   */
	/* In some builds it calls another entry of the set, which then counts the operation: the
	 * function is decoded, and left out of such a build. */
	bool wrapper;
};

struct sonde_blocks; /* target/blocks/blocks.h */

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
	bool cxx;		/* sonde_cxx_entries belong to the set as well                      */
	/* How a block's size is learned from its address, so that exact mode can tell live bytes. */
	enum sonde_block_rule rule;
	/* Find its tables in the process; NULL where the rule needs none. */
	int (*learn)(const struct sonde_blocks *b, struct sonde_alloc_domain *out);
	/* Beside its module's own data, locks lie within 256 bytes above multiples of this; 0: none. */
	uint64_t arena_align;
};

/* operator new and delete in all their forms. */
extern const struct sonde_alloc_entry sonde_cxx_entries[];
extern const size_t sonde_cxx_entry_count;

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

/* An allocator that a process has. */
struct sonde_allocator_use {
	const struct sonde_allocator *allocator;
	size_t module; /* index into the modules */
	char version[32];
};

/*
 * All of them: first the one that serves malloc, then those that lie beside it, each for those who call
 * it by its own names: built in with a prefix, or loaded with dlopen(). *n of at most @max; 0 or -ENOENT.
 */
int sonde_allocator_list(pid_t pid, const struct sonde_modules *mods,
			 struct sonde_allocator_use *out, size_t max, size_t *n);

/*
 * One probe of the set, resolved in the file. An entry has several where it passes some calls on to
 * another and does the rest itself: then every call that it does itself passes exactly one of them.
 */
struct sonde_alloc_site {
	const struct sonde_alloc_entry *entry;
	char symbol[64]; /* as it is in the file: with the build's prefix */
	struct sonde_site site;
	bool tracked; /* every `ret` at which it can end is known (sonde_allocator_returns())       */
};

/* A `ret` at which an entry of the set can end. */
struct sonde_alloc_return {
	const struct sonde_alloc_site *of; /* one such entry */
	uint64_t offset;
};

/* Whose return is seen: nobody's; where the block's size needs it; or wherever a return may be
 * probed, for then the block's address is known. */
enum sonde_alloc_returns { SONDE_RETURNS_NONE = 0, SONDE_RETURNS_SIZES, SONDE_RETURNS_ALL };
bool sonde_alloc_wants_return(const struct sonde_alloc_entry *e, enum sonde_alloc_returns returns);
/*
 * Resolve the set in module @m: unique by offset, moved to the cheapest site unless the entry wants
 * its return seen. *out heap, caller frees. 0 or -errno (logged).
 */
int sonde_allocator_sites(const struct sonde_allocator *a, const struct sonde_module *m,
			  enum sonde_alloc_returns returns, struct sonde_alloc_site **out,
			  size_t *n);
/*
 * For those of @sites whose return may not be probed though they make a block (operator new): the `ret`
 * instructions at which their calls end, each once. Such a site is marked as tracked; one whose ends
 * cannot all be known is left out, and a warning says why. *out heap, caller frees. 0 or -errno.
 */
int sonde_allocator_returns(const struct sonde_module *m, struct sonde_alloc_site *sites,
			    size_t n_sites, struct sonde_alloc_return **out, size_t *n);

#endif
