/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the rss lens share. rss.c reads what costs microseconds; rss_ledger.c the
 * mappings, when that is worth its price; rss_outside.c what is charged or held beside RSS.
 */
#ifndef SONDE_LENS_RSS_PRIV_H
#define SONDE_LENS_RSS_PRIV_H

#include "lens/lens.h"
#include "lens/rss_tally.h"
#include "target/mapkind.h"
#include "target/memcg.h"
#include "target/proc.h"

enum rss_metric {
	M_TOTAL,
	M_ANON,
	M_FILE,
	M_SHMEM,
	M_SWAP,
	M_PTE,
	M_HWM,
	M_HUGETLB,
	M_LOCKED,
	M_ANON_HUGE,
	M_LAZYFREE,
	M_WALK_NS,
	M_THREADS,
	M_LEDGER,
	M_LEDGER_MOVED,
	M_LEDGER_SWAP,
	M_SHMEM_NAME,
	M_FILE_EXT,
	M_FILE_PATH,
	M_HELD_OUTSIDE,
	M_HELD_SYSTEM,
	M_MEMCG_USAGE,
	M_MEMCG_LIMIT,
	M_MEMCG_ANON,
	M_MEMCG_ANON_HUGE,
	M_MEMCG_FILE,
};

/* A reader that walks page tables: when it last did, and how long that took. */
struct rss_walk {
	uint64_t last_ns, took_ns;
	bool refused; /* its absence was said: once is enough until it is read again */
};

struct rss_target {
	bool gone; /* and said so */
	struct rss_walk ledger, rollup;
	struct rss_tally shmem, ext, path;
	uint32_t swapped;   /* kinds that had swap: their series go on */
	uint32_t parts;	    /* sizes of huge pages that were seen mapped in part */
	bool extent, large; /* so do these rows of the ledger          */
	struct sonde_memcg_dir memcg;
	int memcg_err; /* of finding it; 0: found                 */
	uint64_t memcg_known_ns;
};

struct rss_state {
	struct rss_target **targets; /* by index */
	size_t n;
};

/*
 * The mappings, if that may be read now. *done: they were read (anon_huge and lazyfree with them).
 * @mem is the process's status read just before: the rows add up to it. 0 or -errno.
 */
int rss_ledger_push(struct sonde_lens_ctx *ctx, uint32_t index, struct rss_target *t,
		    const struct sonde_proc_mem *mem, uint64_t ts_ns, bool *done);
int rss_outside_push(struct sonde_lens_ctx *ctx, uint32_t index, struct rss_target *t,
		     uint64_t ts_ns);

/* May a walk of predicted length run now? Under @max_ns and 1/100 of the time. */
bool rss_may_walk(const struct rss_walk *w, uint64_t predicted_ns, uint64_t max_ns,
		  uint64_t now_ns);

#endif
