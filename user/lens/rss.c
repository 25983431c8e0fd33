// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The rss lens: what the target holds, from /proc/PID/status each tick. No BPF, nothing attached,
 * about 15 us a reading. Whose memory it is needs a walk of the page tables (smaps: 43 ms for 2 GiB
 * of base pages; smaps_rollup, which knows less, 33 ms), so that is read only while its predicted
 * time stays below 50 ms or when it was asked for, never for more than 1 % of the time, and its age
 * is shown.
 *
 * The kernel's counters are exact since 6.16 (82241a83cd15) and within a per-CPU drift before.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/mem.h"
#include "lens/rss_priv.h"

#define ROLLUP_MAX_NS	  (50 * SONDE_NS_PER_MS)
#define ROLLUP_NS_PER_GIB (17 * SONDE_NS_PER_MS) /* measured: base pages, the dear case */
#define WALK_SHARE	  100 /* at most 1/100 of the time may go into walking page tables */

static const struct sonde_metric_desc metrics[] = {
	[M_TOTAL] = {"rss.total", "bytes", SONDE_GAUGE, "resident memory: anon + file + shmem"},
	[M_ANON] = {"rss.anon", "bytes", SONDE_GAUGE,
		    "resident private anonymous memory (RssAnon)"},
	[M_FILE] = {"rss.file", "bytes", SONDE_GAUGE, "resident file mappings (RssFile)"},
	[M_SHMEM] = {"rss.shmem", "bytes", SONDE_GAUGE,
		     "resident shared anonymous memory (RssShmem)"},
	[M_SWAP] = {"rss.swap", "bytes", SONDE_GAUGE, "anonymous memory swapped out (VmSwap)"},
	[M_PTE] = {"rss.pte", "bytes", SONDE_GAUGE, "page tables (VmPTE), outside RSS"},
	[M_HWM] = {"rss.peak", "bytes", SONDE_GAUGE, "highest RSS since start (VmHWM)"},
	[M_HUGETLB] = {"rss.hugetlb", "bytes", SONDE_GAUGE, "hugetlb pages, outside RSS"},
	[M_ANON_HUGE] = {"rss.anon_huge", "bytes", SONDE_GAUGE,
			 "anonymous memory mapped by PMD huge pages (AnonHugePages)"},
	[M_LAZYFREE] = {"rss.lazyfree", "bytes", SONDE_GAUGE,
			"given back by MADV_FREE and not yet taken; still counted in RSS"},
	[M_LOCKED] = {"rss.locked", "bytes", SONDE_GAUGE,
		      "address space locked by mlock (VmLck); what of it is resident is in RSS"},
	[M_WALK_NS] = {"rss.walk_time", "ns", SONDE_GAUGE,
		       "time the last page table walk took, by the file that was read"},
	[M_THREADS] = {"rss.threads", "count", SONDE_GAUGE, "threads of the process"},
	[M_LEDGER] = {"rss.ledger", "bytes", SONDE_GAUGE,
		      "RSS by whose memory it is: rows of one instant that add up to rss.total"},
	[M_LEDGER_MOVED] = {"rss.ledger_moved", "bytes", SONDE_GAUGE,
			    "how far RSS moved while the ledger was read: bounds its unexplained"},
	[M_LEDGER_SWAP] = {"rss.ledger_swap", "bytes", SONDE_GAUGE,
			   "swapped out, by the ledger's kinds of mappings"},
	[M_SHMEM_NAME] = {"rss.shmem_name", "bytes", SONDE_GAUGE,
			  "resident shared memory by name, the biggest"},
	[M_FILE_EXT] = {"rss.file_ext", "bytes", SONDE_GAUGE,
			"resident file mappings by file name extension"},
	[M_FILE_PATH] = {"rss.file_path", "bytes", SONDE_GAUGE,
			 "resident file mappings by file, the biggest"},
	[M_HELD_OUTSIDE] = {"rss.held_outside", "bytes", SONDE_GAUGE,
			    "charged to the process's cgroup and neither mapped nor cached: parts "
			    "of huge pages that were given back, and up to 64 pages a CPU"},
	[M_HELD_SYSTEM] = {"rss.held_system", "bytes", SONDE_GAUGE,
			   "system-wide: anonymous huge pages that are mapped in part, by size"},
	[M_MEMCG_USAGE] = {"rss.memcg_usage", "bytes", SONDE_GAUGE,
			   "charged to the memory cgroup of the process, by version"},
	[M_MEMCG_LIMIT] = {"rss.memcg_limit", "bytes", SONDE_GAUGE, "limit of that cgroup"},
	[M_MEMCG_ANON] = {"rss.memcg_anon", "bytes", SONDE_GAUGE,
			  "mapped anonymous memory of that cgroup"},
	[M_MEMCG_ANON_HUGE] = {"rss.memcg_anon_huge", "bytes", SONDE_GAUGE, "of it in huge pages"},
	[M_MEMCG_FILE] = {"rss.memcg_file", "bytes", SONDE_GAUGE,
			  "page cache and shared memory of that cgroup"},
};

static int rss_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks)
{
	(void)ctx;
	(void)hooks;
	return 0;
}

static int rss_init(struct sonde_lens_ctx *ctx)
{
	ctx->priv = calloc(1, sizeof(struct rss_state));
	return ctx->priv ? 0 : -ENOMEM;
}

static void rss_fini(struct sonde_lens_ctx *ctx)
{
	struct rss_state *s = ctx->priv;

	for (size_t i = 0; s && i < s->n; i++) {
		rss_tally_fini(&s->targets[i]->shmem);
		rss_tally_fini(&s->targets[i]->ext);
		rss_tally_fini(&s->targets[i]->path);
		free(s->targets[i]);
	}
	if (s)
		free(s->targets);
	free(s);
	ctx->priv = NULL;
}

static struct rss_target *target_of(struct rss_state *s, size_t index)
{
	while (index >= s->n) {
		struct rss_target **t = reallocarray(s->targets, s->n + 1, sizeof(*t));

		if (!t)
			return NULL;
		s->targets = t;
		t[s->n] = calloc(1, sizeof(**t));
		if (!t[s->n])
			return NULL;
		s->n++;
	}
	return s->targets[index];
}

bool rss_may_walk(const struct rss_walk *w, uint64_t predicted_ns, uint64_t max_ns, uint64_t now_ns)
{
	if (w->took_ns)
		predicted_ns = w->took_ns;
	if (predicted_ns > max_ns)
		return false;
	return !w->last_ns || now_ns - w->last_ns >= w->took_ns * WALK_SHARE;
}

/* Huge pages and LazyFree alone, where the mappings are not read. */
static int push_rollup(struct sonde_lens_ctx *ctx, uint32_t index, struct rss_target *t,
		       const struct sonde_proc_mem *mem, uint64_t ts_ns)
{
	static const char *too_dear = "walking the page tables would take over 50 ms of mmap_lock";
	uint64_t anon = mem->rss_anon > 0 ? (uint64_t)mem->rss_anon : 0;
	struct sonde_proc_rollup roll;
	struct rss_walk *w = &t->rollup;
	int err;

	if (!rss_may_walk(w, (anon >> 20) * ROLLUP_NS_PER_GIB / 1024, ROLLUP_MAX_NS, ts_ns)) {
		if (w->last_ns)
			return 0; /* the latest value stands, with its own time */
		return sonde_lens_push_absent(ctx, index, M_ANON_HUGE, "", ts_ns, too_dear);
	}
	err = sonde_proc_rollup(ctx->targets->t[index].pid, &roll, &w->took_ns);
	if (err)
		return sonde_lens_push_absent(ctx, index, M_ANON_HUGE, "", ts_ns,
					      err == -ESRCH ? "the process is gone"
							    : "smaps_rollup is not readable");
	w->last_ns = ts_ns;
	err = sonde_lens_push(ctx, index, M_ANON_HUGE, "", ts_ns, (double)roll.anon_huge);
	err = err ? err : sonde_lens_push(ctx, index, M_LAZYFREE, "", ts_ns, (double)roll.lazyfree);
	return err ? err
		   : sonde_lens_push(ctx, index, M_WALK_NS, "smaps_rollup", ts_ns,
				     (double)w->took_ns);
}

/* What walks page tables, and what is held elsewhere: not in a tick whose values nobody keeps. */
static int push_dear(struct sonde_lens_ctx *ctx, uint32_t index, const struct sonde_proc_mem *mem,
		     uint64_t ts_ns)
{
	struct rss_target *t = target_of(ctx->priv, index);
	bool done = false;
	int err;

	if (ctx->rehearsal)
		return 0;
	if (!t)
		return -ENOMEM;
	err = rss_ledger_push(ctx, index, t, mem, ts_ns, &done);
	if (!err && !done && !t->ledger.last_ns)
		err = push_rollup(ctx, index, t, mem, ts_ns);
	return err ? err : rss_outside_push(ctx, index, t, ts_ns);
}

static int push_target(struct sonde_lens_ctx *ctx, uint32_t index, uint64_t ts_ns)
{
	pid_t pid = ctx->targets->t[index].pid;
	struct sonde_proc_stat stat;
	struct sonde_proc_mem mem;
	int err = sonde_proc_mem(pid, &mem);
	const struct {
		size_t metric;
		int64_t value;
	} rows[] = {
		{M_TOTAL, mem.rss},	  {M_ANON, mem.rss_anon},   {M_FILE, mem.rss_file},
		{M_SHMEM, mem.rss_shmem}, {M_SWAP, mem.swap},	    {M_PTE, mem.pte},
		{M_HWM, mem.hwm},	  {M_HUGETLB, mem.hugetlb}, {M_LOCKED, mem.locked},
	};

	if (err == -ESRCH)
		return 0; /* gone between two ticks: the session says so */
	if (err)
		return sonde_lens_push_absent(ctx, index, M_TOTAL, "", ts_ns,
					      "/proc/PID/status is not readable");
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows) && !err; i++)
		err = rows[i].value >= 0
			      ? sonde_lens_push(ctx, index, rows[i].metric, "", ts_ns,
						(double)rows[i].value)
			      : sonde_lens_push_absent(ctx, index, rows[i].metric, "", ts_ns,
						       "this kernel does not report it");
	if (!err && !sonde_proc_stat(pid, &stat))
		err = sonde_lens_push(ctx, index, M_THREADS, "", ts_ns, (double)stat.threads);
	return err ? err : push_dear(ctx, index, &mem, ts_ns);
}

/* What it held is nobody's now: its last values are not part of any sum. */
static int push_gone(struct sonde_lens_ctx *ctx, uint32_t index, uint64_t ts_ns)
{
	static const size_t levels[] = {M_TOTAL,     M_ANON,	 M_FILE,    M_SHMEM,
					M_SWAP,	     M_PTE,	 M_HUGETLB, M_LOCKED,
					M_ANON_HUGE, M_LAZYFREE, M_THREADS};
	struct rss_target *t = target_of(ctx->priv, index);
	int err = t ? 0 : -ENOMEM;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(levels) && !err && !t->gone; i++)
		err = sonde_lens_push_absent(ctx, index, levels[i], "", ts_ns, "it exited");
	if (!err)
		t->gone = true;
	return err;
}

static int rss_tick(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	bool any = false;

	for (size_t i = 0; i < ctx->targets->n; i++)
		any |= !ctx->targets->t[i].gone;
	/* Of targets that are all gone the last values stand: they are the summary's. */
	for (size_t i = 0; any && i < ctx->targets->n; i++) {
		int err = ctx->targets->t[i].gone ? push_gone(ctx, (uint32_t)i, ts_ns)
						  : push_target(ctx, (uint32_t)i, ts_ns);

		if (err)
			return err;
	}
	return 0;
}

const struct sonde_lens sonde_lens_rss = {
	.id = SONDE_LENS_RSS,
	.name = "rss",
	.summary = "resident memory and its parts over time",
	.overhead = "reads of /proc a tick, about 60 us; the mappings, for a thousandth of the "
		    "time at most, 20 ms a GiB of "
		    "small pages, off above 50 ms (--ledger); nothing is attached",
	.blind_spots = "what happened between two readings; within a mapping whose memory is whose",
	.metrics = metrics,
	.n_metrics = SONDE_ARRAY_SIZE(metrics),
	.hooks = rss_hooks,
	.init = rss_init,
	.tick = rss_tick,
	.fini = rss_fini,
};
