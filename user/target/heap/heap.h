/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a process's allocator says of its heap, read from outside: no probe, no stop, nothing
 * written. An allocator that can be read so is one row (struct sonde_heap_reader): where its
 * figures lie follows from the code and symbols of the very file that the process maps.
 *
 * The invariant: a layout that was derived is trusted only after a scratch process that loads the
 * same file has confirmed every figure (confirm.h), or where nothing needed deriving. What cannot
 * be read is absent, and an estimate says of which kind it is.
 */
#ifndef SONDE_TARGET_HEAP_HEAP_H
#define SONDE_TARGET_HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/elf.h"
#include "target/maps.h"
#include "target/proc.h"

struct sonde_heap_reader;

/* The figures of a reading, all in bytes. */
enum sonde_heap_figure {
	SONDE_HEAP_LIVE = 0,  /* held by the program, thread caches left out where those are read */
	SONDE_HEAP_ALLOCATED, /* handed out since the process began                             */
	SONDE_HEAP_DEALLOCATED, /* given back since the process began                             */
	SONDE_HEAP_SYSTEM,	/* address space taken from the system, MMAPPED included          */
	SONDE_HEAP_MMAPPED,	/* of it, chunks that are mappings of their own                   */
	SONDE_HEAP_FREE_PAGES,	/* free and whole: page heap, or the top of each arena            */
	SONDE_HEAP_FREE_CENTRAL,  /* free, in lists that threads share  */
	SONDE_HEAP_FREE_TRANSFER, /* free, on the way between threads */
	SONDE_HEAP_FREE_THREAD, /* free, in caches of threads                                     */
	SONDE_HEAP_UNMAPPED,	/* given back to the system, address space kept                   */
	SONDE_HEAP_METADATA,	/* the allocator's own                                            */
	SONDE_HEAP__MAX,
};

/* How the figure for live bytes came about. */
enum sonde_heap_source {
	SONDE_HEAP_COUNTED = 0, /* every part of it was read now */
	SONDE_HEAP_BOUND,    /* an upper bound: free memory in lists was not looked at           */
	SONDE_HEAP_COMBINED, /* the bound less the free memory that was in lists age_ns ago      */
};
extern const char *const sonde_heap_source_names[];

struct sonde_heap_reading {
	uint32_t present; /* mask of 1 << enum sonde_heap_figure                            */
	uint64_t bytes[SONDE_HEAP__MAX];
	enum sonde_heap_source source;
	bool clean; /* every check held; else the target was changing under the reading */
	uint32_t arenas, threads; /* that were read; 0: not told                             */
	uint64_t nodes;	  /* free chunks that were walked                                  */
	uint64_t walk_ns; /* how long that took: of cost_ns where the source is COUNTED, else a
			   * thread did it                                                */
	uint64_t at_ns;	  /* when, CLOCK_MONOTONIC                                         */
	uint64_t age_ns;  /* at_ns less the time of the oldest part of the live figure     */
	uint64_t cost_ns; /* how long reading took                                         */
	bool unsure; /* what was subtracted is of a walk in which a check failed               */
	/* Why no figure for what is live can be trusted: two walks say that the heap is damaged, or
	 * it is not what serves the process; "": nothing is known against it. */
	char broken[96];
};

/* What a reading may take. */
struct sonde_heap_budget {
	bool cheap_only;    /* no walk of free lists                                         */
	double share;	    /* of the time, for what is dear: next after last / share; 0: at once */
	uint64_t max_nodes; /* of a walk that is waited for; 0: without end                  */
	/* Of a walk by a thread of its own, where the former is too little; 0: there is none. */
	uint64_t background_nodes;
	bool no_threads; /* what each thread counts is read in another way                   */
	bool no_bound;	 /* what is live is known from there: no upper bound of it is needed */
};

/* Where the figures lie: one number a slot, by the reader's own table of slots. */
#define SONDE_HEAP_SLOTS 32
struct sonde_heap_layout {
	const struct sonde_heap_reader *reader;
	int64_t v[SONDE_HEAP_SLOTS];
	char build_id[41];
	bool named;    /* by symbols of data alone: no scratch process can load this file   */
	char why[192]; /* derive failed: what was not found                                 */
};

struct sonde_heap_slot {
	const char *name;
	/* A wrong value of this slot must be refused by the scratch process: tests try +-step. 0:
	 * the slot is a choice (0, 1), or nothing reads it. */
	int step;
};

/*
 * What both the library itself (in a scratch process) and a reading from outside can tell: the
 * fields of a report, in its order (inside/report.h). @change: compared are the steps from one
 * state to the next.
 */
struct sonde_heap_field {
	const char *name;
	bool change;
	bool may_stay; /* may be 0 or unchanged through all states                             */
};

struct sonde_heap_reader {
	const char *allocator; /* as in struct sonde_allocator                               */
	const struct sonde_heap_slot *slots;
	size_t n_slots;
	/* Fill out->v from the file. 0, or -EOPNOTSUPP with out->why, or -errno. Deterministic: the
	 * caller keeps the outcome by build-id. */
	int (*derive)(struct sonde_elf *elf, struct sonde_heap_layout *out);
	/* Add to a derived layout what no code tells but a scratch process shows; to be confirmed
	 * like the rest. Optional: without it less can be read. 0 or -errno, and the layout is as
	 * it was. */
	int (*learn)(struct sonde_heap_layout *layout, pid_t pid, const struct sonde_modules *mods,
		     size_t m, char *why, size_t size);
	/* Start reading @pid, whose module @m has this layout. *state is the reader's own. 0, or
	 * -errno with @why filled. */
	int (*attach)(pid_t pid, const struct sonde_modules *mods, size_t m,
		      const struct sonde_heap_layout *layout, void **state, char *why, size_t size);
	/* 0, -ESRCH (gone), or -errno with @why filled. */
	int (*read)(void *state, const struct sonde_heap_budget *budget,
		    struct sonde_heap_reading *out, char *why, size_t size);
	void (*detach)(void *state);
	/* The same figures as the fields of a report, from outside, whatever that costs; used on
	 * the scratch process. *told: mask of those that this layout can tell. 0 or -errno. */
	int (*fields)(void *state, uint64_t *out, uint32_t *told);
	/* Where each thread's own byte counters lie, as distances from its thread pointer:
	 * allocated, deallocated. Optional. */
	bool (*places)(void *state, int64_t out[2]);
	const struct sonde_heap_field *field;
	size_t n_fields;
	char inside; /* what the program in the scratch process is told to report: SONDE_INSIDE_* */
};

extern const struct sonde_heap_reader *const sonde_heap_readers[];
extern const size_t sonde_heap_reader_count;
const struct sonde_heap_reader *sonde_heap_reader_find(const char *allocator);

/* Does this allocator keep counters for each thread, whose places a layout tells? */
bool sonde_heap_counts_threads(const char *allocator);

/* Value of the slot of that name; 0 if there is none. */
int64_t sonde_heap_slot(const struct sonde_heap_layout *layout, const char *name);

/* ---- a process's heap ---- */

struct sonde_heap;

/*
 * Find out which allocator serves @pid, derive and confirm its layout (kept by build-id as long as
 * this process runs) and attach. -EOPNOTSUPP: refused, with the reason in @why; -ESRCH: gone;
 * nothing logged.
 */
int sonde_heap_open(struct sonde_heap **out, pid_t pid, char *why, size_t size);
void sonde_heap_close(struct sonde_heap **heap);
/* "glibc 2.36", and by what it is trusted. Owned by @heap. */
const char *sonde_heap_describe(const struct sonde_heap *heap);
const struct sonde_heap_layout *sonde_heap_layout(const struct sonde_heap *heap);
/* Where the counters of its threads lie (see the reader's places); false: it keeps none. */
bool sonde_heap_places(const struct sonde_heap *heap, int64_t out[2]);
/*
 * Read now. -EAGAIN with @why: not now, as when the target is swapped (reading would fault its
 * pages in); -ESTALE: it has executed another program, open it anew; -ESRCH: gone.
 */
int sonde_heap_read(struct sonde_heap *heap, const struct sonde_heap_budget *budget,
		    struct sonde_heap_reading *out, char *why, size_t size);
/* May the heap of a process with this memory be read? A remote read faults pages in, and free
 * memory is what is swapped out first. 0, -EAGAIN with @why, -ESRCH. */
int sonde_heap_may_read(const struct sonde_proc_mem *mem, char *why, size_t size);

#endif
