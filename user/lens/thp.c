// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The THP lens: what huge pages do to the target. khugepaged's work is charged to the owner of the
 * address space, purges and stalls to the process whose thread they are; the system's own counters
 * go along as context, as what changed since attach. The kernel side counts into two maps; a tick
 * reads both whole. An entry is deleted when its process has ended and its last value was told.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attach/plan.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "lens/lens.h"
#include "lens/thp_layout.h"
#include "lens/thp_read.h"
#include "lens/thp_system.h"

#include "thp.skel.h"

enum {
	M_SCANS,
	M_COLLAPSES,
	M_FAILED,
	M_BLOAT,
	M_PURGE_CALLS,
	M_PURGE_BYTES,
	M_MAY_SPLIT,
	M_STALL_COUNT,
	M_STALL_TIME,
	M_MIGRATED,
	M_MIGRATE_FAILED,
	M_ALLOC_FAILED,
	M_SYSTEM,
	M_LEVEL,
};

static const struct sonde_metric_desc metrics[] = {
	[M_SCANS] = {"thp.scans", "count", SONDE_COUNTER,
		     "2 MiB ranges looked at for collapsing, by result"},
	[M_COLLAPSES] =
		{"thp.collapses", "count", SONDE_COUNTER,
		 "2 MiB ranges made one page, by whom: khugepaged, or self (MADV_COLLAPSE)"},
	[M_FAILED] = {"thp.collapse_failed", "count", SONDE_COUNTER,
		      "collapses begun and given up, by result"},
	[M_BLOAT] = {"thp.bloat", "bytes", SONDE_COUNTER,
		     "bytes that were empty before a collapse and are resident since, by whom"},
	[M_PURGE_CALLS] = {"thp.purge_calls", "count", SONDE_COUNTER,
			   "calls that give memory back, by call"},
	[M_PURGE_BYTES] = {"thp.purge_bytes", "bytes", SONDE_COUNTER,
			   "bytes in the ranges of those calls"},
	[M_MAY_SPLIT] = {"thp.purge_may_split", "count", SONDE_COUNTER,
			 "of those calls, the ones that cut through 2 MiB that may be a huge page"},
	[M_STALL_COUNT] = {"thp.stall_count", "count", SONDE_COUNTER,
			   "times a thread of the target had to free or move memory, by kind"},
	[M_STALL_TIME] = {"thp.stall_time", "ns", SONDE_COUNTER, "time in those stalls"},
	[M_MIGRATED] = {"thp.migrated", "count", SONDE_COUNTER,
			"pages that the target's threads moved (anybody's pages), by reason"},
	[M_MIGRATE_FAILED] = {"thp.migrate_failed", "count", SONDE_COUNTER,
			      "pages that could not be moved"},
	[M_ALLOC_FAILED] = {"thp.alloc_failed", "count", SONDE_COUNTER,
			    "attempts of the target's threads to get 2 MiB that found none"},
	[M_SYSTEM] = {"thp.system", "count", SONDE_COUNTER,
		      "the whole system's counters, what was added since attach"},
	[M_LEVEL] = {"thp.system_level", "count", SONDE_GAUGE,
		     "the whole system's huge pages, by size of page"},
};

static const struct sonde_hist_desc hists[] = {
	{"thp.stall", "ns",
	 "one reclaim, or the compaction of one zone, in a thread of the target"},
};

struct thp_state {
	int sums_fd, hist_fd, n_cpus;
	struct sonde_thp_sums sums;
	struct sonde_thp_stall_rows stalls;
	struct sonde_thp_system system;
	uint64_t last_ns;
	bool *over; /* by target: it has ended, its last figures are told, its entries forgotten */
	size_t n_over;
	bool told_lost; /* of children without a target */
};

static const void *thp_elf(size_t *size)
{
	return thp_bpf__elf_bytes(size);
}

static const struct sonde_plan_item *plan_item(const struct sonde_plan *plan, const char *hook)
{
	for (size_t i = 0; plan && i < plan->n; i++)
		if (!strcmp(plan->items[i].hook->name, hook))
			return &plan->items[i];
	return NULL;
}

static int thp_configure(struct sonde_lens_ctx *ctx, struct bpf_object *obj)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, ".rodata.thp");
	const struct sonde_plan_item *exec = plan_item(ctx->plan, "thp.exec");
	uint32_t no_owner = !exec || exec->alt != 0;

	if (!map || bpf_map__set_initial_value(map, &no_owner, sizeof(no_owner)))
		return sonde_err(EINVAL, "thp: the BPF object lacks .rodata.thp; rebuild sonde");
	return 0;
}

/* ---- life ---- */

static void thp_fini(struct sonde_lens_ctx *ctx)
{
	struct thp_state *st = ctx->priv;

	if (!st)
		return;
	sonde_thp_sums_fini(&st->sums);
	sonde_thp_stalls_fini(&st->stalls);
	sonde_thp_system_fini(&st->system);
	free(st->over);
	free(st);
	ctx->priv = NULL;
}

static int thp_init(struct sonde_lens_ctx *ctx)
{
	struct thp_state *st = calloc(1, sizeof(*st));
	int err;

	if (!st)
		return sonde_err(ENOMEM, "thp: no memory for the lens");
	ctx->priv = st;
	st->sums_fd = bpf_object__find_map_fd_by_name(ctx->obj, "thp_sums");
	st->hist_fd = bpf_object__find_map_fd_by_name(ctx->obj, "thp_hist");
	st->n_cpus = libbpf_num_possible_cpus();
	st->last_ns = sonde_mono_ns();
	if (st->sums_fd < 0 || st->hist_fd < 0 || st->n_cpus < 1)
		err = sonde_err(EINVAL, "thp: the BPF object lacks its maps; rebuild sonde");
	else
		err = sonde_thp_seed(ctx);
	if (err)
		thp_fini(ctx);
	return err;
}

/* The system's counters count from here. */
static int thp_start(struct sonde_lens_ctx *ctx)
{
	struct thp_state *st = ctx->priv;
	int err = sonde_thp_system_read(&st->system, sonde_mono_ns(), true);

	if (err == -ENOMEM)
		return sonde_err(err, "thp: no memory for the system's counters");
	if (err)
		return sonde_lens_note(ctx, SONDE_NOTE_DEGRADED,
				       "the system's counters of huge pages cannot be read",
				       "look at /proc/vmstat");
	return 0;
}

/* ---- what a tick pushes ---- */

#define ANON_OK(by) SONDE_THP_RESULT(SONDE_THP_SUCCEED, by, SONDE_THP_ANON)

/* These are told even when they are 0: nothing happened, and that was seen. */
static const struct always {
	uint16_t what, arg;
	const char *hook;
} always[] = {
	{SONDE_THP_SCAN, ANON_OK(SONDE_THP_KHUGEPAGED), "thp.scan"},
	{SONDE_THP_COLLAPSE, ANON_OK(SONDE_THP_KHUGEPAGED), "thp.collapse"},
	{SONDE_THP_COLLAPSE, ANON_OK(SONDE_THP_SELF), "thp.collapse"},
	{SONDE_THP_PURGE, SONDE_THP_DONTNEED, "thp.madvise"},
	{SONDE_THP_PURGE, SONDE_THP_FREE, "thp.madvise"},
	{SONDE_THP_PURGE, SONDE_THP_MUNMAP, "thp.munmap"},
	{SONDE_THP_MAY_SPLIT, SONDE_THP_DONTNEED, "thp.madvise"},
	{SONDE_THP_STALL, SONDE_THP_RECLAIM * 2 + 1, "thp.reclaim"},
	{SONDE_THP_STALL, SONDE_THP_COMPACTION * 2 + 1, "thp.compact"},
	{SONDE_THP_ALLOC_FAILED, 0, "thp.alloc"},
};

typedef void label_fn(uint32_t arg, char *buf, size_t size);

static void no_label(uint32_t arg, char *buf, size_t size)
{
	(void)arg;
	if (size)
		*buf = '\0';
}

/* How the sums of one `what` become metrics: the count, and often the amount as well. */
static const struct shape {
	size_t count, amount;
	bool has_amount;
	label_fn *label;
} shapes[] = {
	[SONDE_THP_SCAN] = {M_SCANS, 0, false, sonde_thp_label_result},
	[SONDE_THP_COLLAPSE] = {M_COLLAPSES, M_BLOAT, true, sonde_thp_label_by},
	[SONDE_THP_PURGE] = {M_PURGE_CALLS, M_PURGE_BYTES, true, sonde_thp_label_purge},
	[SONDE_THP_MAY_SPLIT] = {M_MAY_SPLIT, 0, false, sonde_thp_label_purge},
	[SONDE_THP_STALL] = {M_STALL_COUNT, M_STALL_TIME, true, sonde_thp_label_stall},
	[SONDE_THP_MIGRATE] = {M_MIGRATED, M_MIGRATE_FAILED, true, sonde_thp_label_reason},
	[SONDE_THP_ALLOC_FAILED] = {M_ALLOC_FAILED, 0, false, no_label},
};

static const struct shape failed_shape = {M_FAILED, 0, false, sonde_thp_label_result};
/* How much of a file's range was empty is not told. */
static const struct shape file_shape = {M_COLLAPSES, 0, false, sonde_thp_label_by};

static const struct shape *shape_of(uint32_t what, uint32_t arg)
{
	if (what == SONDE_THP_COLLAPSE && SONDE_THP_RESULT_OF(arg) != SONDE_THP_SUCCEED)
		return &failed_shape;
	if (what == SONDE_THP_COLLAPSE && SONDE_THP_KIND_OF(arg) != SONDE_THP_ANON)
		return &file_shape;
	return &shapes[what];
}

static int push_sum(struct sonde_lens_ctx *ctx, uint32_t target, uint64_t ts_ns, uint32_t what,
		    uint32_t arg, const struct sonde_thp_sum *sum)
{
	const struct shape *shape = shape_of(what, arg);
	char label[80];
	int err;

	shape->label(arg, label, sizeof(label));
	err = sonde_lens_push(ctx, target, shape->count, label, ts_ns, (double)sum->count);
	if (!err && shape->has_amount)
		err = sonde_lens_push(ctx, target, shape->amount, label, ts_ns,
				      (double)sum->amount);
	return err;
}

static int push_absent(struct sonde_lens_ctx *ctx, uint32_t target, uint64_t ts_ns,
		       const struct always *a)
{
	const struct shape *shape = shape_of(a->what, a->arg);
	const struct sonde_plan_item *item = plan_item(ctx->plan, a->hook);
	const char *why = item && item->reason ? item->reason : "the kernel does not tell";
	char label[80];
	int err;

	shape->label(a->arg, label, sizeof(label));
	err = sonde_lens_push_absent(ctx, target, shape->count, label, ts_ns, why);
	if (!err && shape->has_amount)
		err = sonde_lens_push_absent(ctx, target, shape->amount, label, ts_ns, why);
	return err;
}

static int push_target(struct sonde_lens_ctx *ctx, uint32_t target, uint64_t ts_ns)
{
	const struct thp_state *st = ctx->priv;
	uint32_t tgid = (uint32_t)ctx->targets->t[target].pid;
	static const struct sonde_thp_sum none;
	int err = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(always) && !err; i++) {
		const struct always *a = &always[i];

		if (!sonde_plan_find(ctx->plan, a->hook))
			err = push_absent(ctx, target, ts_ns, a);
		else if (!sonde_thp_sums_get(&st->sums, tgid, a->what, a->arg).count)
			err = push_sum(ctx, target, ts_ns, a->what, a->arg, &none);
	}
	for (size_t i = 0; i < st->sums.n && !err; i++) {
		const struct sonde_thp_entry *e = &st->sums.e[i];

		if (e->key.tgid == tgid && e->key.what < SONDE_THP__MAX)
			err = push_sum(ctx, target, ts_ns, e->key.what, e->key.arg, &e->sum);
	}
	return err;
}

/* Index of the newest target with that tgid, or -1. Gone ones count: their last stalls are theirs.
 */
static ssize_t index_of(const struct sonde_target_list *targets, uint32_t tgid)
{
	for (size_t i = targets->n; i-- > 0;)
		if ((uint32_t)targets->t[i].pid == tgid)
			return (ssize_t)i;
	return -1;
}

static int push_stalls(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct thp_state *st = ctx->priv;
	int err = 0;

	for (size_t i = 0; i < st->stalls.n && !err; i++) {
		struct sonde_thp_stall_row *row = &st->stalls.r[i];
		ssize_t target = index_of(ctx->targets, row->tgid);
		struct sonde_thp_sum sum =
			sonde_thp_sums_get(&st->sums, row->tgid, SONDE_THP_STALL, row->series);
		char label[48];
		struct sonde_histrow out = {.desc = &hists[0],
					    .hist = &row->added,
					    .label = label,
					    .from_ns = st->last_ns,
					    .to_ns = ts_ns,
					    .target = (uint32_t)target};

		if (target < 0 || !row->added.count)
			continue;
		row->added.sum = (double)(sum.amount - row->ns);
		row->ns = sum.amount;
		sonde_thp_label_stall(row->series, label, sizeof(label));
		err = sonde_visit(ctx->out, hist, &out);
	}
	return err;
}

/* Beside vmstat's: pages that kernel threads (kcompactd) moved. One target carries the system's. */
static int push_system(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct thp_state *st = ctx->priv;
	int err = 0;

	for (size_t i = 0; i < st->system.n && !err; i++) {
		const struct sonde_thp_value *v = &st->system.v[i];

		if (v->told)
			err = sonde_lens_push(ctx, 0, v->level ? M_LEVEL : M_SYSTEM, v->name, ts_ns,
					      (double)(v->level ? v->now : v->now - v->base));
	}
	for (size_t i = 0; i < st->sums.n && !err; i++) {
		const struct sonde_thp_entry *e = &st->sums.e[i];
		char reason[48], label[80];

		if (e->key.tgid || e->key.what != SONDE_THP_MIGRATE)
			continue;
		sonde_thp_label_reason(e->key.arg, reason, sizeof(reason));
		snprintf(label, sizeof(label), "kernel_threads_migrated.%s", reason);
		err = sonde_lens_push(ctx, 0, M_SYSTEM, label, ts_ns, (double)e->sum.count);
	}
	return err;
}

/* Room for targets that joined. */
static int grow_over(struct thp_state *st, size_t n)
{
	bool *over = n > st->n_over ? reallocarray(st->over, n, sizeof(*over)) : st->over;

	if (n > st->n_over) {
		if (!over)
			return -ENOMEM;
		memset(over + st->n_over, 0, (n - st->n_over) * sizeof(*over));
		st->over = over;
		st->n_over = n;
	}
	return 0;
}

static int push_targets(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct thp_state *st = ctx->priv;
	int err = 0;

	for (uint32_t i = 0; i < ctx->targets->n && !err; i++)
		if (!st->over[i])
			err = push_target(ctx, i, ts_ns);
	return err;
}

/*
 * A child may have ended before the session could make a target of it: what it did belongs to no
 * target, which is told once.
 */
static int forget_unknown(struct sonde_lens_ctx *ctx)
{
	struct thp_state *st = ctx->priv;
	uint32_t last = 0;
	bool lost = false;

	for (size_t i = 0; i < st->sums.n; i++) {
		uint32_t tgid = st->sums.e[i].key.tgid;

		if (tgid == last || index_of(ctx->targets, tgid) >= 0)
			continue;
		last = tgid;
		if (!kill((pid_t)tgid, 0) || errno != ESRCH)
			continue;
		sonde_thp_forget(st->sums_fd, st->hist_fd, &st->stalls, tgid);
		lost = true;
	}
	if (!lost || st->told_lost)
		return 0;
	st->told_lost = true;
	return sonde_lens_note(ctx, SONDE_NOTE_CAUTION,
			       "children that end within milliseconds are not in the THP figures",
			       "");
}

/* Those that ended can no longer count, and a number may be another process's soon. */
static void forget_gone(struct sonde_lens_ctx *ctx)
{
	struct thp_state *st = ctx->priv;

	for (size_t i = 0; i < ctx->targets->n; i++) {
		const struct sonde_target *t = &ctx->targets->t[i];

		if (!t->gone || st->over[i])
			continue;
		sonde_thp_forget(st->sums_fd, st->hist_fd, &st->stalls, (uint32_t)t->pid);
		st->over[i] = true;
	}
}

static int thp_tick(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct thp_state *st = ctx->priv;
	int err = sonde_thp_stalls_read(st->hist_fd, &st->stalls);

	err = err ? err : sonde_thp_sums_read(st->sums_fd, st->n_cpus, &st->sums);
	if (!err && sonde_thp_system_read(&st->system, ts_ns, false) == -ENOMEM)
		err = -ENOMEM;
	err = err ? err : grow_over(st, ctx->targets->n);
	if (err)
		return sonde_err(err, "thp: cannot read the counters: %s", strerror(-err));
	err = push_targets(ctx, ts_ns);
	err = err ? err : push_stalls(ctx, ts_ns);
	err = err ? err : push_system(ctx, ts_ns);
	err = err ? err : forget_unknown(ctx);
	if (!err)
		forget_gone(ctx);
	st->last_ns = ts_ns;
	return err;
}

/* A purge runs one program in the target, a stall two. */
static size_t thp_hits(struct sonde_lens_ctx *ctx, struct sonde_lens_hits *out, size_t max)
{
	const struct thp_state *st = ctx->priv;
	struct sonde_lens_hits purges = {.kind = SONDE_LINK_TRACEPOINT};
	struct sonde_lens_hits stalls = {.kind = SONDE_LINK_RAW_TP};

	for (size_t i = 0; i < st->sums.n; i++) {
		const struct sonde_thp_entry *e = &st->sums.e[i];

		if (e->key.what == SONDE_THP_PURGE)
			purges.n += e->sum.count;
		else if (e->key.what == SONDE_THP_STALL)
			stalls.n += 2 * e->sum.count;
	}
	if (max < 2)
		return 0;
	out[0] = purges;
	out[1] = stalls;
	return 2;
}

const struct sonde_lens sonde_lens_thp = {
	.id = SONDE_LENS_THP,
	.name = "thp",
	.on_request = true, /* every process pays for its tracepoints */
	.summary =
		"what huge pages do: khugepaged, bloat, purges that split, reclaim and compaction",
	.overhead = "0.5 us a purge; 40 ns a system call and 70 ns a new page of any process",
	.blind_spots =
		"whether a purge really hits a huge page, purges by io_uring or process_madvise, "
		"bloat from before attach, faults (the fault lens)",
	.metrics = metrics,
	.n_metrics = SONDE_ARRAY_SIZE(metrics),
	.hists = hists,
	.n_hists = SONDE_ARRAY_SIZE(hists),
	.elf = thp_elf,
	.hooks = sonde_thp_hooks,
	.configure = thp_configure,
	.init = thp_init,
	.start = thp_start,
	.retarget = sonde_thp_seed,
	.tick = thp_tick,
	.hits = thp_hits,
	.fini = thp_fini,
};
