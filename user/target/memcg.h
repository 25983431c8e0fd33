/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory cgroup of a process, version 1 or 2: what is charged to it, its limit, and what its own
 * statistics make of it. The charge of a huge page stays whole after parts of it were given back, while
 * RSS and `anon` count what is mapped: the difference is the only per-service sight of memory that is
 * held outside RSS.
 */
#ifndef SONDE_TARGET_MEMCG_H
#define SONDE_TARGET_MEMCG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sonde_memcg_dir {
	char path[PATH_MAX]; /* folder in the file system */
	int version;	     /* 1 or 2                    */
};

/* Bytes; -1 where the kernel does not say. Of the cgroup and all below it. */
struct sonde_memcg {
	int64_t usage;
	int64_t limit;	   /* -1: none                                                            */
	int64_t anon;	   /* mapped anonymous memory                                             */
	int64_t anon_huge; /* of it in huge pages                                                 */
	int64_t file;	   /* page cache, shared memory included                                  */
	int64_t kernel;	   /* page tables, stacks, slab                                           */
	size_t procs;	   /* processes directly in it                                            */
	bool has_children; /* cgroups below it                                                    */
};

/* Where the cgroup of @pid is. 0, -ENOENT (no memory controller, not mounted here), -ESRCH. */
int sonde_memcg_find(pid_t pid, struct sonde_memcg_dir *out);
/* The same from the texts of /proc/PID/cgroup and /proc/self/mountinfo. */
int sonde_memcg_find_in(const char *cgroup, const char *mountinfo, struct sonde_memcg_dir *out);
/* 0, -ENODATA (a root cgroup: nothing is charged to it) or -errno; nothing logged. */
int sonde_memcg_read(const struct sonde_memcg_dir *dir, struct sonde_memcg *out);

/*
 * Charged, but in no statistic of what is mapped or cached: pages of partly given back huge pages, and
 * up to 64 pages a CPU that the kernel charges ahead. -1 where a term is missing; never below 0.
 */
int64_t sonde_memcg_outside(const struct sonde_memcg *m);

/* Anonymous huge pages of one size that are mapped in part: system-wide, since 6.10. */
struct sonde_hugepart {
	uint64_t size;	/* bytes of one */
	uint64_t pages; /* how many     */
};
/* All sizes, ascending; *out heap. 0, -ENOENT (this kernel does not count them) or -errno. */
int sonde_hugeparts(struct sonde_hugepart **out, size_t *n);

#endif
