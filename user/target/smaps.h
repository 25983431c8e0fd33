/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * /proc/PID/smaps: what is resident, mapping by mapping. The kernel walks the page tables for it with
 * mmap_lock held for reading (some 20 ms a GiB of base pages, next to nothing for huge pages) and lets
 * go between mappings: with threads at work the rows are of slightly different moments.
 *
 * For every mapping `rss` counts what the kernel's RSS counters count: the sum over a process at rest
 * is its RSS. hugetlb pages are in neither.
 */
#ifndef SONDE_TARGET_SMAPS_H
#define SONDE_TARGET_SMAPS_H

#include "target/maps.h"

/* Of the row VmFlags, what is used here. */
enum sonde_smap_flags {
	SONDE_SMAP_HUGETLB = 1,	  /* ht                                                       */
	SONDE_SMAP_NOHUGE = 2,	  /* nh: also every mapping made with MAP_STACK, since 6.7    */
	SONDE_SMAP_GROWSDOWN = 4, /* gd                                                       */
	SONDE_SMAP_LOCKED = 8,	  /* lo                                                       */
};

/* Bytes. */
struct sonde_smap {
	struct sonde_map map;
	uint64_t rss;
	uint64_t anonymous; /* of rss: private pages, written copies of files included             */
	uint64_t lazyfree;  /* of anonymous: given back by MADV_FREE, not yet taken                */
	uint64_t anon_huge; /* of anonymous: mapped by 2 MiB                                       */
	uint64_t swap;
	uint64_t hugetlb; /* beside rss                                                          */
	uint32_t flags;	  /* enum sonde_smap_flags                                               */
};

struct sonde_smaps {
	struct sonde_smap *m;
	size_t n, cap;
};

/* *took_ns (may be NULL): how long it took. 0 or -errno (-ESRCH: gone); nothing logged. */
int sonde_smaps_read(pid_t pid, struct sonde_smaps *out, uint64_t *took_ns);
/* The same of a text, for tests and fuzzing: 0, -EINVAL or -ENOMEM. */
int sonde_smaps_parse(const char *text, size_t len, struct sonde_smaps *out);
void sonde_smaps_fini(struct sonde_smaps *smaps);

#endif
