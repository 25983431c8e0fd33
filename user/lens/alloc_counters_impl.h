/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of counters mode share: its state, and what alloc_by_thread.c does for the rest.
 */
#ifndef SONDE_LENS_ALLOC_COUNTERS_IMPL_H
#define SONDE_LENS_ALLOC_COUNTERS_IMPL_H

#include "lens/alloc_counters.h"
#include "lens/alloc_threads.h"
#include "target/heap/heap.h"

struct heap_target {
	struct sonde_heap *heap; /* NULL: not open */
	char why[256];		 /* and why not */
	unsigned wait, step;	 /* ticks until it is tried again; 0: no more */
	bool told;		 /* the reason was said */
	bool noted;
	uint32_t pushed; /* mask of figures that had a value */
	uint64_t not_clean;
	uint64_t base_allocated, base_deallocated;
	uint64_t pushed_allocated, pushed_deallocated;
	bool based;
	uint64_t late_ns; /* of the time observed, not counted                  */
	bool late_said;
	bool begun; /* its program began under observation */
	bool by_thread;		  /* its threads' own counters are read: they are its totals */
	struct sonde_tls_sum sum; /* as they were read last */
	bool lost_said, forked_said, broken_said;
	char threads_why[256]; /* it counts by thread, and that is not read: why */
};

struct sonde_alloc_counters {
	struct heap_target *t;
	size_t n;
	struct sonde_alloc_threads *threads; /* NULL: nobody needs it, or this kernel cannot */
	bool started;
	uint64_t began_ns;		/* when this generation was made             */
	char why[128];			/* it cannot */
	struct sonde_consumption shown; /* the last reading for consumption; bytes 0 before it */
	uint64_t next_ns;		/* when another may be taken */
	double read_ns;			/* CPU time of one, of late */
};

/* Where its allocator counts by thread: have the kernel's programs read that from now on. */
int sonde_alloc_count_threads(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c, size_t i);
/* It is gone: its number may be another's soon. */
void sonde_alloc_forget_threads(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c,
				size_t i);
/* A reading of target @i, its threads' counters included. 0; -ESTALE, -ESRCH, or -errno with the
 * target's `why` filled. */
int sonde_alloc_read_target(struct sonde_lens_ctx *ctx, struct sonde_alloc_counters *c, size_t i,
			    const struct sonde_heap_budget *budget, struct sonde_heap_reading *r);
/* What went through it since attach; and of how many threads, with what is missing. */
int sonde_alloc_push_totals(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t,
			    const struct sonde_heap_reading *r, uint64_t ts_ns);
int sonde_alloc_push_threads(struct sonde_lens_ctx *ctx, uint32_t i, struct heap_target *t,
			     uint64_t ts_ns);

#endif
