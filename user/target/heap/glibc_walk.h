/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * glibc's arenas and their lists of free chunks, read while their owner goes on. Inside target/heap
 * only.
 *
 * The invariant: nothing that is read is believed before it fits (alignment, size, links, bounds),
 * every loop is bounded by numbers of ours, and what did not fit makes the result not clean.
 */
#ifndef SONDE_TARGET_HEAP_GLIBC_WALK_H
#define SONDE_TARGET_HEAP_GLIBC_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/heap/glibc_layout.h"

#define GLIBC_ARENAS_MAX 4096

struct glibc_arena {
	uint64_t at;	     /* address in the target */
	uint64_t system_mem; /* bytes */
	uint64_t top, top_size;
	uint64_t end; /* of the top chunk, when it was last read whole; 0: not yet */
};

struct glibc_arenas {
	pid_t pid;
	int64_t v[GLIBC_SLOTS];
	uint64_t bias;
	struct glibc_arena *a;
	size_t n, cap;
	uint8_t *image; /* @n of @image_size bytes: the arenas as last read */
	size_t image_size, image_cap;
	const bool
		*stop; /* set meanwhile by another thread: a walk ends with -EINTR; may be NULL */
};

/* Where something did not fit each time that it was looked at. */
struct glibc_break {
	uint64_t at;	    /* address of the chunk; 0: nowhere, or of an entry that is 0 itself */
	uint32_t arena;	    /* its number in the ring */
	bool found, is_top; /* no list: its top chunk */
};

/* What the arenas say without any list. */
struct glibc_totals {
	uint64_t system, tops, mmapped, n_mmaps;
	uint64_t main_top; /* of @tops */
	bool clean;
	struct glibc_break top; /* one that did not fit though it held still */
};

/* What the lists hold. */
struct glibc_free {
	uint64_t bytes, fast_bytes; /* fast_bytes is part of bytes */
	/* Came to lists while they were walked, and so perhaps was not met or met twice: malloc
	 * sorts thousands of chunks at once. */
	uint64_t arrived;
	uint64_t chunks, fast_chunks;
	uint64_t nodes; /* read, some of them twice */
	bool clean;
	bool whole; /* false: the budget ended first, or broken; bytes is less than there are */
	/* A list that cannot be walked from either end, at the same chunks with each try. Damage,
	 * or a thread held up in the middle of a call: who sees it again later knows. */
	struct glibc_break broken;
};

/* 0 or -EINVAL with @why: the layout cannot be one. */
int glibc_arenas_init(struct glibc_arenas *s, pid_t pid, uint64_t bias,
		      const struct sonde_heap_layout *layout, char *why, size_t size);
/* The same arenas of the same process, not read yet. 0 or -ENOMEM. */
int glibc_arenas_copy(struct glibc_arenas *s, const struct glibc_arenas *like);
void glibc_arenas_fini(struct glibc_arenas *s);
/* Read all arenas anew: 0, -ESRCH, -EIO (they do not form a ring), or -errno. */
int glibc_arenas_read(struct glibc_arenas *s, struct glibc_totals *out);
/*
 * Walk all free lists as the arenas were when last read, and read the arenas once more: @after.
 * @max_nodes: 0 without end. 0, -ESRCH or -errno.
 */
int glibc_walk(struct glibc_arenas *s, uint64_t max_nodes, struct glibc_totals *after,
	       struct glibc_free *out);

#endif
