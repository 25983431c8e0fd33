// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The rss lens: what the target holds, from /proc/PID/status each tick. No BPF, nothing attached,
 * about 15 us a reading. AnonHugePages needs a walk of the page tables (smaps_rollup: 33 ms for 2
 * GiB of base pages), so it is read only while its predicted time stays below ROLLUP_MAX_NS, and
 * its age is shown.
 *
 * The kernel's counters are exact since 6.16 (82241a83cd15) and within a per-CPU drift before.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/mem.h"
#include "lens/lens.h"
#include "target/proc.h"

#define ROLLUP_MAX_NS	  (50 * SONDE_NS_PER_MS)
#define ROLLUP_NS_PER_GIB (17 * SONDE_NS_PER_MS) /* measured: base pages, the dear case */
#define ROLLUP_SHARE	  100 /* at most 1/100 of the time may go into walking page tables */

enum {
	M_TOTAL,
	M_ANON,
	M_FILE,
	M_SHMEM,
	M_SWAP,
	M_PTE,
	M_HWM,
	M_HUGETLB,
	M_ANON_HUGE,
	M_LAZYFREE,
	M_ROLLUP_NS,
	M_THREADS,
};

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
	[M_ROLLUP_NS] = {"rss.rollup_time", "ns", SONDE_GAUGE,
			 "time the last page table walk took"},
	[M_THREADS] = {"rss.threads", "count", SONDE_GAUGE, "threads of the process"},
};

struct walk {
	uint64_t last_ns, took_ns; /* of the latest smaps_rollup */
};

struct rss_state {
	struct walk *walks; /* by target index */
	size_t n;
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

	if (s)
		free(s->walks);
	free(s);
	ctx->priv = NULL;
}

static struct walk *walk_of(struct rss_state *s, size_t index)
{
	if (index >= s->n) {
		struct walk *w = reallocarray(s->walks, index + 1, sizeof(*w));

		if (!w)
			return NULL;
		for (size_t i = s->n; i <= index; i++)
			w[i] = (struct walk){0};
		s->walks = w;
		s->n = index + 1;
	}
	return &s->walks[index];
}

/* The walk is worth its price: it is predicted short, and walks have taken under 1/ROLLUP_SHARE of
 * the time so far. */
static bool may_walk(const struct walk *w, uint64_t anon_bytes, uint64_t now_ns)
{
	uint64_t predicted =
		w->took_ns ? w->took_ns : (anon_bytes >> 20) * ROLLUP_NS_PER_GIB / 1024;

	if (predicted > ROLLUP_MAX_NS)
		return false;
	return !w->last_ns || now_ns - w->last_ns >= w->took_ns * ROLLUP_SHARE;
}

static int push_rollup(struct sonde_lens_ctx *ctx, uint32_t index, const struct sonde_proc_mem *mem,
		       uint64_t ts_ns)
{
	static const char *too_dear = "walking the page tables would take over 50 ms of mmap_lock";
	struct walk *w = walk_of(ctx->priv, index);
	struct sonde_proc_rollup roll;
	int err;

	if (!w)
		return -ENOMEM;
	if (!may_walk(w, mem->rss_anon > 0 ? (uint64_t)mem->rss_anon : 0, ts_ns)) {
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
	return err ? err : sonde_lens_push(ctx, index, M_ROLLUP_NS, "", ts_ns, (double)w->took_ns);
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
		{M_HWM, mem.hwm},	  {M_HUGETLB, mem.hugetlb},
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
	return err ? err : push_rollup(ctx, index, &mem, ts_ns);
}

static int rss_tick(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	for (size_t i = 0; i < ctx->targets->n; i++) {
		int err = ctx->targets->t[i].gone ? 0 : push_target(ctx, (uint32_t)i, ts_ns);

		if (err)
			return err;
	}
	return 0;
}

const struct sonde_lens sonde_lens_rss = {
	.id = SONDE_LENS_RSS,
	.name = "rss",
	.summary = "resident memory and its parts over time",
	.overhead = "two reads of /proc a tick, about 25 us; nothing is attached",
	.blind_spots = "what happened between two readings; memory held outside RSS",
	.metrics = metrics,
	.n_metrics = SONDE_ARRAY_SIZE(metrics),
	.hooks = rss_hooks,
	.init = rss_init,
	.tick = rss_tick,
	.fini = rss_fini,
};
