// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where the fault lens looks: the begin and the end of faults, what is allocated in between, and
 * the stalls in between. See docs/lens-fault.md.
 */
#include <stdio.h>
#include <string.h>

#include "attach/plan.h"
#include "core/mem.h"
#include "lens/fault_priv.h"
#include "lens/hook_rows.h"

#define TRACEPOINT(prog, ev)                                                                       \
	{                                                                                          \
		{.kind = SONDE_LINK_TP_BTF,                                                        \
		 .program = prog,                                                                  \
		 .event = ev,                                                                      \
		 .needs = {SONDE_FEAT_TP_BTF, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},          \
		{                                                                                  \
			.kind = SONDE_LINK_RAW_TP, .program = prog "_raw", .event = ev, .needs = { \
				SONDE_FEAT_TASK_STORAGE,                                           \
				SONDE_FEAT_NONE,                                                   \
				SONDE_FEAT_NONE                                                    \
			}                                                                          \
		}                                                                                  \
	}
#define RAW(prog, ev) SONDE_ALTS_RAW(prog, ev, SONDE_FEAT_TASK_STORAGE)

static const struct sonde_alternative user_alts[] = TRACEPOINT("fault_user", "page_fault_user");
static const struct sonde_alternative kernel_alts[] =
	TRACEPOINT("fault_kernel", "page_fault_kernel");
static const struct sonde_alternative alloc_alts[] =
	TRACEPOINT("fault_page_alloc", "mm_page_alloc");
static const struct sonde_alternative swap_alts[] = RAW("fault_rss_stat", "rss_stat");
static const struct sonde_alternative reclaim_alts[] =
	RAW("fault_stall_begin", "mm_vmscan_direct_reclaim_begin");
static const struct sonde_alternative reclaim_end_alts[] =
	RAW("fault_reclaim_end", "mm_vmscan_direct_reclaim_end");
static const struct sonde_alternative memcg_alts[] =
	RAW("fault_stall_begin", "mm_vmscan_memcg_reclaim_begin");
static const struct sonde_alternative memcg_end_alts[] =
	RAW("fault_reclaim_end", "mm_vmscan_memcg_reclaim_end");
static const struct sonde_alternative compact_alts[] =
	RAW("fault_stall_begin", "mm_compaction_begin");
static const struct sonde_alternative compact_end_alts[] =
	RAW("fault_compaction_end", "mm_compaction_end");

#define NO_END "no fault latency and no page sizes: only the number of faults"

static const struct sonde_alternative minor_alts[] = {
	{.kind = SONDE_LINK_PERF_SW,
	 .program = "fault_end_minor",
	 .event = "minor-faults",
	 .needs = {SONDE_FEAT_PERF_SW, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},
	{.kind = SONDE_LINK_TP_BTF,
	 .program = "fault_count_user",
	 .event = "page_fault_user",
	 .needs = {SONDE_FEAT_TP_BTF, SONDE_FEAT_NONE, SONDE_FEAT_NONE},
	 .weaker = NO_END},
	{.kind = SONDE_LINK_RAW_TP,
	 .program = "fault_count_user_raw",
	 .event = "page_fault_user",
	 .needs = {SONDE_FEAT_BPF, SONDE_FEAT_NONE, SONDE_FEAT_NONE},
	 .weaker = NO_END},
};

static const struct sonde_alternative major_alts[] = {
	{.kind = SONDE_LINK_PERF_SW,
	 .program = "fault_end_major",
	 .event = "major-faults",
	 .needs = {SONDE_FEAT_PERF_SW, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},
};

#define HOOK(nm, al, req, what) SONDE_HOOK(SONDE_LENS_FAULT, nm, al, req, what)

/* In the order of attaching: ends first, so that no begun fault waits for an end that nobody sees.
 */
static const struct sonde_hook all_hooks[] = {
	HOOK("fault.minor", minor_alts, true, "a fault ends, no disk read"),
	HOOK("fault.major", major_alts, false, "a fault ends, after a disk read"),
	HOOK("fault.alloc", alloc_alts, false, "what page a fault brings"),
	HOOK("fault.reclaim.end", reclaim_end_alts, false, "a fault has freed memory"),
	HOOK("fault.memcg.end", memcg_end_alts, false, "a fault has freed memory of its cgroup"),
	HOOK("fault.compact.end", compact_end_alts, false, "a fault has moved the pages of a zone"),
	HOOK("fault.reclaim", reclaim_alts, false, "a fault begins to free memory"),
	HOOK("fault.memcg", memcg_alts, false, "a fault begins to free memory of its cgroup"),
	HOOK("fault.compact", compact_alts, false, "a fault begins to move the pages of a zone"),
	HOOK("fault.kernel", kernel_alts, false, "a fault begins in a system call"),
	HOOK("fault.user", user_alts, false, "a fault begins in user code"),
};
static const struct sonde_hook swap_hook =
	HOOK("fault.swap", swap_alts, false, "a page comes back from swap");

/* A heading, then a row each. */
static bool has_swap(void)
{
	FILE *f = fopen("/proc/swaps", "re");
	char line[512];
	int rows = 0;

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		rows++;
	fclose(f);
	return rows > 1;
}

int sonde_fault_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *list)
{
	int err = 0;

	(void)ctx; /* the same for every target: kernel events, filtered by the gate */
	if (has_swap())
		err = sonde_hook_list_add(list, &swap_hook);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(all_hooks) && !err; i++)
		err = sonde_hook_list_add(list, &all_hooks[i]);
	return err;
}

const char *sonde_fault_program(const struct sonde_plan *plan, const char *hook)
{
	const struct sonde_plan_item *item = sonde_plan_find(plan, hook);

	return item ? item->program : NULL;
}

/* A fault runs a program where it begins, where it allocates and where it ends. */
size_t sonde_fault_runs(const struct sonde_plan *plan, uint64_t faults, uint64_t allocs,
			struct sonde_lens_hits *out, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->n && n < max; i++) {
		const struct sonde_plan_item *item = &plan->items[i];
		const struct sonde_alternative *alts = item->hook->alts;

		if (item->alt < 0)
			continue;
		if (alts == user_alts || alts == minor_alts)
			out[n++] = (struct sonde_lens_hits){.kind = item->kind, .n = faults};
		else if (alts == alloc_alts)
			out[n++] = (struct sonde_lens_hits){.kind = item->kind, .n = allocs};
	}
	return n;
}
