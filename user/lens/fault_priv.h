/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the fault lens's files share: its hooks, its sampling and the other things it charges to. */
#ifndef SONDE_LENS_FAULT_PRIV_H
#define SONDE_LENS_FAULT_PRIV_H

#include "lens/lens.h"
#include "sonde/fault.h"

/* ---- fault_hooks.c ---- */

int sonde_fault_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *list);
/* Did the plan get the hook of that name, and which program for it? NULL: no. */
const char *sonde_fault_program(const struct sonde_plan *plan, const char *hook);
/* Runs of the lens's programs for @faults faults, of which @allocs allocated. Up to @max rows. */
size_t sonde_fault_runs(const struct sonde_plan *plan, uint64_t faults, uint64_t allocs,
			struct sonde_lens_hits *out, size_t max);

/* ---- fault_sample.c ---- */

/* The time of a series so far. It only grows, though an estimate from all samples may shrink. */
struct fault_time {
	struct sonde_fault_sum sum; /* as of the last reading                                     */
	double ns;		    /* of all faults: timed ones, and an estimate for the others  */
	double error_ns;	    /* 95 of 100 such samples are at most that far off; 0: exact  */
};

/* Take in a newer reading of the same series. */
void fault_time_update(struct fault_time *t, const struct sonde_fault_sum *now);

/*
 * Make a sampled series's buckets (what was added since they were last pushed) add up to @count, the
 * faults since then: a sample stands for as many as there were, which is about @every. False: no
 * sample is there to stand for them; wait for one.
 */
bool fault_hist_fit(uint64_t *buckets, size_t n, uint32_t every, uint64_t count);

/* ---- fault_exception.c ---- */

/* ns a fault that its latency leaves out; everything must be attached. @anatomy: the programs are told
 * what the faults of queries leave out. 0 or -errno. */
int sonde_fault_exception(struct bpf_object *obj, bool anatomy, double *ns);

/* ---- fault_by.c ---- */

struct fault_by;
/* For the things asked for in ctx->opts->fault_by. 0 or -errno (logged). */
int fault_by_new(struct fault_by **out, const struct sonde_lens_ctx *ctx);
void fault_by_free(struct fault_by **by);
/* Read and push them as the metrics @first (count, time) of THREAD, + 2 of MAPPING, + 4 of SITE. */
int fault_by_tick(struct fault_by *by, struct sonde_lens_ctx *ctx, size_t first, uint64_t ts_ns);

/* ---- fault_stacks.c ---- */

struct fault_stacks;
/* Are faults to be counted by call stack? Then the object is another one. */
bool fault_stacks_asked(const struct sonde_lens_ctx *ctx);
/* Of how many targets call stacks can be had. */
uint32_t fault_stacks_room(const struct sonde_lens_ctx *ctx);
/* Before load: size the maps. 0 or -errno (logged). */
int fault_stacks_configure(const struct sonde_lens_ctx *ctx, struct bpf_object *obj);
/* After load. 0 or -errno (logged). */
int fault_stacks_new(struct fault_stacks **out, const struct sonde_lens_ctx *ctx);
/* Read and push them, and as metric @metric how many ended how. 0 or -errno (logged). */
int fault_stacks_tick(struct fault_stacks *st, const struct sonde_lens_ctx *ctx, size_t metric,
		      uint64_t ts_ns);
/* The targets changed: read what the new ones map. 0 or -errno (logged). */
int fault_stacks_retarget(struct fault_stacks *st, const struct sonde_lens_ctx *ctx);
/* The next tick is the last: it pushes everything. */
void fault_stacks_finish(struct fault_stacks *st);
/* Name what has no names yet, and free. */
void fault_stacks_free(struct fault_stacks **st, const struct sonde_lens_ctx *ctx);

#endif
