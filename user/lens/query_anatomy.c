// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The anatomy of queries, this side: what is attached for it, from when on it is complete, and its
 * totals, which the kernel keeps by command.
 *
 * The invariant: over the queries that have an anatomy, the parts add up to their durations.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attach/plan.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "lens/alloc_locks.h"
#include "lens/hook_rows.h"
#include "lens/query_impl.h"

#define TYPED(prog, ev, need) SONDE_ALTS_TYPED(prog, ev, SONDE_FEAT_TASK_STORAGE, need)
#define RAW(prog, ev)	      SONDE_ALTS_RAW(prog, ev, SONDE_FEAT_TASK_STORAGE)

static const struct sonde_alternative switch_alts[] =
	TYPED("anatomy_switch", "sched_switch", SONDE_FEAT_NONE);
static const struct sonde_alternative wakeup_alts[] =
	TYPED("anatomy_wakeup", "sched_wakeup", SONDE_FEAT_NONE);
static const struct sonde_alternative enter_alts[] =
	TYPED("anatomy_sys_enter", "sys_enter", SONDE_FEAT_NONE);
static const struct sonde_alternative exit_alts[] =
	TYPED("anatomy_sys_exit", "sys_exit", SONDE_FEAT_NONE);
static const struct sonde_alternative lock_alts[] =
	TYPED("anatomy_lock", "contention_begin", SONDE_FEAT_CONTENTION);
static const struct sonde_alternative unlock_alts[] =
	TYPED("anatomy_unlock", "contention_end", SONDE_FEAT_CONTENTION);
static const struct sonde_alternative reclaim_alts[] =
	RAW("anatomy_reclaim", "mm_vmscan_direct_reclaim_begin");
static const struct sonde_alternative reclaim_end_alts[] =
	RAW("anatomy_memory_end", "mm_vmscan_direct_reclaim_end");
static const struct sonde_alternative memcg_alts[] =
	RAW("anatomy_reclaim", "mm_vmscan_memcg_reclaim_begin");
static const struct sonde_alternative memcg_end_alts[] =
	RAW("anatomy_memory_end", "mm_vmscan_memcg_reclaim_end");
static const struct sonde_alternative compact_alts[] =
	RAW("anatomy_compact", "mm_compaction_begin");
static const struct sonde_alternative compact_end_alts[] =
	RAW("anatomy_memory_end", "mm_compaction_end");

#define HOOK(nm, al, what) SONDE_HOOK(SONDE_LENS_QUERY, nm, al, false, what)

static const struct sonde_hook hooks[] = {
	HOOK("query.anatomy.switch", switch_alts, "anatomy: its thread leaves or gets a CPU"),
	HOOK("query.anatomy.wakeup", wakeup_alts, "anatomy: its thread is woken"),
	HOOK("query.anatomy.exit", exit_alts, "anatomy: a system call ends"),
	HOOK("query.anatomy.enter", enter_alts, "anatomy: a system call begins"),
	HOOK("query.anatomy.unlock", unlock_alts, "anatomy: a wait for a kernel lock ends"),
	HOOK("query.anatomy.lock", lock_alts, "anatomy: a kernel lock is found taken"),
	HOOK("query.anatomy.reclaim.end", reclaim_end_alts, "anatomy: it has freed memory"),
	HOOK("query.anatomy.reclaim", reclaim_alts, "anatomy: it has to free memory first"),
	HOOK("query.anatomy.memcg.end", memcg_end_alts,
	     "anatomy: it has freed its cgroup's memory"),
	HOOK("query.anatomy.memcg", memcg_alts, "anatomy: it has to free its cgroup's memory"),
	HOOK("query.anatomy.compact.end", compact_end_alts, "anatomy: it has moved pages"),
	HOOK("query.anatomy.compact", compact_alts, "anatomy: it has to move pages first"),
};

/* Without these there is none: everything else refines it. */
static const char *const essential[] = {"query.anatomy.switch", "query.anatomy.wakeup",
					"query.anatomy.exit", "query.anatomy.enter"};

bool sonde_query_has_anatomy(const struct sonde_lens_opts *opts)
{
	if (opts->anatomy == SONDE_ANATOMY_AUTO)
		return opts->want_spans;
	return opts->anatomy == SONDE_ANATOMY_ON;
}

int query_anatomy_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *list)
{
	int err = 0;

	if (!sonde_query_has_anatomy(ctx->opts))
		return 0;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(hooks) && !err; i++)
		err = sonde_hook_list_add(list, &hooks[i]);
	return err;
}

int query_anatomy_seed(struct sonde_lens_ctx *ctx)
{
	int fd = bpf_object__find_map_fd_by_name(ctx->obj, "stall_ranges");

	if (!sonde_query_has_anatomy(ctx->opts))
		return 0;
	for (size_t i = 0; i < ctx->targets->n; i++)
		if (!ctx->targets->t[i].gone)
			sonde_alloc_locks_seed(&ctx->targets->t[i], fd);
	return 0;
}

/* From here on every program is there, those of the fault lens too; a query that began before has
 * no anatomy. */
int query_anatomy_start(struct sonde_lens_ctx *ctx)
{
	int fd = bpf_object__find_map_fd_by_name(ctx->obj, "anatomy_from");
	uint64_t now = sonde_mono_ns();
	uint32_t zero = 0;

	if (!sonde_query_has_anatomy(ctx->opts))
		return 0;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(essential); i++)
		if (!sonde_plan_find(ctx->plan, essential[i]))
			return sonde_lens_note(
				ctx, SONDE_NOTE_DEGRADED,
				"no anatomy of queries: the kernel's tracepoints of scheduler and "
				"system calls cannot be attached to",
				"run sonde doctor to see what is missing");
	if (bpf_map_update_elem(fd, &zero, &now, BPF_ANY))
		return sonde_err(errno, "query: cannot start the anatomy: %s", strerror(errno));
	return 0;
}

static void add(struct sonde_query_part_sums *to, const struct sonde_query_part_sums *p)
{
	to->spans += p->spans;
	for (int i = 0; i < SONDE_PART__MAX; i++)
		to->ns[i] += p->ns[i];
}

static int push(const struct sonde_lens_ctx *ctx, size_t first, const char *label,
		const struct sonde_query_part_sums *p, uint64_t ts_ns)
{
	int err = p->spans ? sonde_lens_push(ctx, 0, first, label, ts_ns, (double)p->spans) : 0;

	for (size_t i = 0; i < SONDE_PART__MAX && !err; i++)
		if (p->ns[i])
			err = sonde_lens_push(ctx, 0, first + 1 + i, label, ts_ns,
					      (double)p->ns[i]);
	return err;
}

int query_anatomy_tick(const struct sonde_lens_ctx *ctx, size_t first, const char *const *names,
		       uint64_t ts_ns)
{
	const struct query_state *st = ctx->priv;
	int fd = bpf_object__find_map_fd_by_name(ctx->obj, "query_parts"), err = 0;
	sonde_autofree struct sonde_query_part_sums *v = NULL;
	struct sonde_query_part_sums all = {};

	if (!sonde_query_has_anatomy(ctx->opts))
		return 0;
	v = calloc((size_t)st->n_cpus, sizeof(*v));
	if (!v)
		return sonde_err(ENOMEM, "query: no memory for the anatomy");
	for (uint32_t row = 0; row < SONDE_QUERY_CLASS__MAX && !err; row++) {
		struct sonde_query_part_sums sum = {};

		if (bpf_map_lookup_elem(fd, &row, v))
			return sonde_err(errno, "query: cannot read the anatomy: %s",
					 strerror(errno));
		for (int c = 0; c < st->n_cpus; c++)
			add(&sum, &v[c]);
		add(&all, &sum);
		err = push(ctx, first, names[row], &sum, ts_ns);
	}
	return err ? err : push(ctx, first, "", &all, ts_ns);
}
