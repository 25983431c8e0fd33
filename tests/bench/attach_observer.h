/* SPDX-License-Identifier: GPL-2.0-or-later */
/* attachdrv's lens: its hooks in every kind of link, and an engine that observes targets with them.
 */
#ifndef ATTACH_OBSERVER_H
#define ATTACH_OBSERVER_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attach_process.h"
#include "attach/engine.h"
#include "attach/feature.h"
#include "attach/prog.h"
#include "bench/attachdrv.skel.h"

enum { LENS = SONDE_LENS_THP, THREADS = TARGET_WORKERS + 1, AWAIT_MS = 20000 };
/* As attachdrv.bpf.c numbers them. */
enum { RETURNS = 16, TP_BTF = 32, RAW_TP, CLASSIC, FAULT, FILES };

#define NEEDS_NOTHING                                                                              \
	{                                                                                          \
		SONDE_FEAT_NONE, SONDE_FEAT_NONE, SONDE_FEAT_NONE                                  \
	}

static const struct sonde_alternative pair_alts[] = {
	{.kind = SONDE_LINK_UPROBE_SESSION, .program = "drv_session", .needs = NEEDS_NOTHING},
	{.kind = SONDE_LINK_UPROBE_MULTI,
	 .program = "drv_entry",
	 .ret_program = "drv_return",
	 .needs = NEEDS_NOTHING},
	{.kind = SONDE_LINK_UPROBE_PERF,
	 .program = "drv_entry",
	 .ret_program = "drv_return",
	 .needs = NEEDS_NOTHING},
};
static const struct sonde_alternative entry_alts[] = {
	{.kind = SONDE_LINK_UPROBE_MULTI, .program = "drv_entry", .needs = NEEDS_NOTHING},
	{.kind = SONDE_LINK_UPROBE_PERF, .program = "drv_entry", .needs = NEEDS_NOTHING},
};
static const struct sonde_alternative kernel_alts[] = {
	{.kind = SONDE_LINK_TP_BTF,
	 .program = "drv_rename",
	 .event = "task_rename",
	 .needs = NEEDS_NOTHING},
	{.kind = SONDE_LINK_RAW_TP,
	 .program = "drv_rename_raw",
	 .event = "task_rename",
	 .needs = NEEDS_NOTHING},
	{.kind = SONDE_LINK_TRACEPOINT,
	 .program = "drv_prctl",
	 .event = "syscalls/sys_enter_prctl",
	 .needs = NEEDS_NOTHING},
	{.kind = SONDE_LINK_PERF_SW,
	 .program = "drv_fault",
	 .event = "minor-faults",
	 .needs = NEEDS_NOTHING},
	{.kind = SONDE_LINK_ITER,
	 .program = "drv_files",
	 .event = "task_file",
	 .needs = NEEDS_NOTHING},
	{.kind = SONDE_LINK_RAW_TP,
	 .program = "drv_bad",
	 .event = "task_rename",
	 .needs = NEEDS_NOTHING},
};
enum { N_GOOD_KERNEL = 5, BAD_KERNEL = 5 };

static void add_uprobe(struct sonde_hook_list *hooks, const char *name,
		       const struct target *targets, size_t n, const void *function,
		       unsigned int slide, bool pair)
{
	struct sonde_hook h = {
		.name = name,
		.lens = LENS,
		.required = true,
		.guarded = true,
		.purpose = "a test",
		.alts = pair ? pair_alts : entry_alts,
		.n_alts = pair ? SONDE_ARRAY_SIZE(pair_alts) : SONDE_ARRAY_SIZE(entry_alts),
		.n_sites = n,
		.sites = calloc(n, sizeof(*h.sites)),
	};
	uint64_t offset;

	if (sonde_self_offset(function, &offset))
		die("own offset");
	for (size_t i = 0; i < n; i++)
		h.sites[i] = (struct sonde_probe_site){
			.path = strdup("/proc/self/exe"),
			.shown = strdup("attachdrv"),
			.symbol = strdup(name),
			.pid = targets[i].pid,
			.inode = 1,
			.cookie = (pair ? 1 : 2) | i << 4,
			.want_return = pair,
			.site = {.function = offset,
				 .offset = offset + slide,
				 .slide = slide,
				 .kind = SONDE_INSN_EMULATED,
				 .insn = "push"},
		};
	if (sonde_hook_list_add(hooks, &h))
		die("hook");
}

static void add_kernel(struct sonde_hook_list *hooks, int i)
{
	struct sonde_hook h = {.name = kernel_alts[i].program,
			       .lens = LENS,
			       .required = true,
			       .alts = &kernel_alts[i],
			       .n_alts = 1,
			       .purpose = "a test"};

	if (sonde_hook_list_add(hooks, &h))
		die("hook");
}

/* ---- the observer ---- */

struct observer {
	struct sonde_hook_list hooks;
	struct sonde_features features;
	struct sonde_plan plan;
	struct sonde_engine *engine;
	struct bpf_object *obj;
};

static int observe(struct observer *o, const char *family, const struct target *targets, size_t n)
{
	struct sonde_plan_choice choice = {.force_link = family};
	struct sonde_config config = {};
	const void *elf;
	size_t size;
	int err;

	sonde_features_probe(&o->features);
	err = sonde_plan_make(&o->hooks, &o->features, &choice, &o->plan);
	if (!err)
		err = sonde_engine_new(&o->engine, &config, 0);
	elf = attachdrv_bpf__elf_bytes(&size);
	if (!err)
		err = sonde_engine_open(o->engine, LENS, "attachdrv", elf, size, &o->obj);
	if (!err)
		err = sonde_engine_load(o->engine, &o->plan, -1);
	for (size_t i = 0; !err && i < n; i++)
		err = sonde_engine_target_add(o->engine, (uint32_t)targets[i].pid, (uint32_t)i);
	return err;
}

static void unobserve(struct observer *o)
{
	sonde_engine_free(&o->engine);
	sonde_plan_fini(&o->plan);
	sonde_hook_list_fini(&o->hooks);
}

static uint64_t count(struct observer *o, uint32_t slot)
{
	uint64_t n = 0;

	bpf_map_lookup_elem(bpf_object__find_map_fd_by_name(o->obj, "counts"), &slot, &n);
	return n;
}

static void expect(struct observer *o, uint32_t slot, uint64_t want, const char *what)
{
	uint64_t got = count(o, slot);

	check(got == want, "%s: %" PRIu64 " of %" PRIu64, what, got, want);
}

#endif
