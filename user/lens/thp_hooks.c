// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the THP lens attaches beside the tracepoints whose arguments vary (thp_layout.c): ends of
 * stalls, the system calls that give memory back, and what tells whose an address space is.
 */
#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/err.h"
#include "core/mem.h"
#include "lens/hook_rows.h"
#include "lens/thp_layout.h"

#define RAW(prog, ev) SONDE_ALTS_RAW(prog, ev, SONDE_FEAT_BPF)

/* With bpf_find_vma() only a cut through one mapping counts, else every cut. */
#define PURGE(prog, ev)                                                                            \
	{                                                                                          \
		{.kind = SONDE_LINK_TRACEPOINT,                                                    \
		 .program = prog,                                                                  \
		 .event = ev,                                                                      \
		 .needs = {SONDE_FEAT_TRACEFS, SONDE_FEAT_BTF, SONDE_FEAT_FIND_VMA}},              \
		{                                                                                  \
			.kind = SONDE_LINK_TRACEPOINT, .program = prog "_plain", .event = ev,      \
			.needs = {SONDE_FEAT_TRACEFS, SONDE_FEAT_BTF, SONDE_FEAT_NONE},            \
			.weaker = "every cut that is not at 2 MiB counts as one that may split"    \
		}                                                                                  \
	}

static const struct sonde_alternative reclaim_end_alts[] =
	RAW("thp_reclaim_end", "mm_vmscan_direct_reclaim_end");
static const struct sonde_alternative memcg_end_alts[] =
	RAW("thp_memcg_end", "mm_vmscan_memcg_reclaim_end");
static const struct sonde_alternative compact_begin_alts[] =
	RAW("thp_compact_begin", "mm_compaction_begin");
static const struct sonde_alternative compact_end_alts[] =
	RAW("thp_compact_end", "mm_compaction_end");
static const struct sonde_alternative exit_alts[] = RAW("thp_exit", "sched_process_exit");
static const struct sonde_alternative madvise_alts[] =
	PURGE("thp_madvise", "syscalls/sys_enter_madvise");
static const struct sonde_alternative munmap_alts[] =
	PURGE("thp_munmap", "syscalls/sys_enter_munmap");
static const struct sonde_alternative mremap_alts[] =
	PURGE("thp_mremap", "syscalls/sys_enter_mremap");
static const struct sonde_alternative brk_alts[] = PURGE("thp_brk", "syscalls/sys_enter_brk");
static const struct sonde_alternative alloc_alts[] = {
	{.kind = SONDE_LINK_TP_BTF,
	 .program = "thp_page_alloc",
	 .event = "mm_page_alloc",
	 .needs = {SONDE_FEAT_TP_BTF, SONDE_FEAT_NONE, SONDE_FEAT_NONE}},
	{.kind = SONDE_LINK_RAW_TP,
	 .program = "thp_page_alloc_raw",
	 .event = "mm_page_alloc",
	 .needs = {SONDE_FEAT_BPF, SONDE_FEAT_NONE, SONDE_FEAT_NONE}},
};
static const struct sonde_alternative seed_alts[] = {
	{.kind = SONDE_LINK_ITER,
	 .program = "thp_seed",
	 .event = "task",
	 .needs = {SONDE_FEAT_BTF, SONDE_FEAT_NONE, SONDE_FEAT_NONE}},
};
/* The second says that owners are not to be asked: see thp_configure(). */
static const struct sonde_alternative exec_alts[] = {
	{.kind = SONDE_LINK_RAW_TP,
	 .program = "thp_exec",
	 .event = "sched_process_exec",
	 .needs = {SONDE_FEAT_MM_OWNER, SONDE_FEAT_NONE, SONDE_FEAT_NONE}},
	{.kind = SONDE_LINK_RAW_TP,
	 .program = "thp_exec",
	 .event = "sched_process_exec",
	 .needs = {SONDE_FEAT_BPF, SONDE_FEAT_NONE, SONDE_FEAT_NONE}},
};

#define HOOK(nm, al, what) SONDE_HOOK(SONDE_LENS_THP, nm, al, false, what)

/* In the order of attaching: ends before begins. */
static const struct sonde_hook fixed_hooks[] = {
	HOOK("thp.seed", seed_alts, "which address space a target has"),
	HOOK("thp.exec", exec_alts, "a target gets another address space"),
	HOOK("thp.exit", exit_alts, "a target's address space ends"),
	HOOK("thp.reclaim.end", reclaim_end_alts, "a thread has freed memory"),
	HOOK("thp.memcg.end", memcg_end_alts, "a thread has freed memory of its cgroup"),
	HOOK("thp.compact.end", compact_end_alts, "a thread has moved the pages of a zone"),
	HOOK("thp.compact.begin", compact_begin_alts,
	     "a thread begins to move the pages of a zone"),
	HOOK("thp.alloc", alloc_alts, "2 MiB were not to be had"),
	HOOK("thp.madvise", madvise_alts, "pages are given back"),
	HOOK("thp.munmap", munmap_alts, "a mapping ends"),
	HOOK("thp.mremap", mremap_alts, "a mapping shrinks"),
	HOOK("thp.brk", brk_alts, "the heap shrinks"),
};

int sonde_thp_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *list)
{
	int err = 0;

	(void)ctx; /* the same for every target: kernel events, filtered by the gate or the owner */
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(fixed_hooks) && !err; i++)
		err = sonde_hook_list_add(list, &fixed_hooks[i]);
	return err ? err : sonde_thp_layout_hooks(list, sonde_btf_tracepoint_param);
}

/* Run the iterator; what it writes to maps is the result. */
int sonde_thp_seed(struct sonde_lens_ctx *ctx)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(ctx->obj, "thp_seed");
	sonde_autoclose int link = -1, it = -1;
	int fd = bpf_program__fd(prog), n;
	char byte;

	if (fd < 0)
		return 0; /* the plan has no iterator */
	link = bpf_link_create(fd, 0, BPF_TRACE_ITER, NULL);
	it = link < 0 ? -errno : bpf_iter_create(link);
	if (it < 0)
		return sonde_err(link < 0 ? -link : errno,
				 "thp: cannot walk the processes; khugepaged's work may be missed");
	do
		n = (int)read(it, &byte, sizeof(byte));
	while (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)));
	return 0;
}
