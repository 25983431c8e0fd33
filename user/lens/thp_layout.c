// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The layouts known. What moved: mm_khugepaged_scan_pmd lost `writable` in 6.18 and has a page, a
 * folio or a page frame number; mm_khugepaged_collapse_file has `is_shmem` before `addr` in 6.3 and
 * behind it in 6.6; mm_migrate_pages counts split folios since some version after 6.6; of reclaim's
 * order and gfp either may be first. Rows of one hook are alternatives, the first that fits is
 * taken.
 */
#include <errno.h>
#include <string.h>

#include "core/mem.h"
#include "lens/thp_layout.h"
#include "sonde/drop.h"

#define ROW(nm, ev, prog, what, ...)                                                               \
	.hook = {.name = nm, .lens = SONDE_LENS_THP, .purpose = what},                             \
	.alt =                                                                                     \
		{                                                                                  \
			.kind = SONDE_LINK_RAW_TP,                                                 \
			.program = prog,                                                           \
			.event = ev,                                                               \
			.needs = {SONDE_FEAT_BPF, SONDE_FEAT_BTF, SONDE_FEAT_NONE},                \
	},                                                                                         \
	.is = {__VA_ARGS__}, .unknown = ev " has arguments that this sonde does not know"

#define MM                                                                                         \
	{                                                                                          \
		0, "struct mm_struct *"                                                            \
	}
#define ULONG "unsigned long"

#define SCAN	      "khugepaged looks at 2 MiB"
#define SCAN_FILE     "khugepaged looks at 2 MiB of a file"
#define COLLAPSE      "2 MiB become one page"
#define COLLAPSE_FILE "2 MiB of a file become one page"
#define RECLAIM	      "a thread must free memory before it gets some"
#define MEMCG	      "a thread must free memory of its cgroup"
#define MIGRATE	      "pages are moved"

static const struct sonde_thp_layout layouts[] = {
	{ROW("thp.scan", "mm_khugepaged_scan_pmd", "thp_scan_7", SCAN ", 7 arguments", MM,
	     {2, "bool"}, {5, "int"})},
	{ROW("thp.scan", "mm_khugepaged_scan_pmd", "thp_scan_6", SCAN ", 6 arguments", MM,
	     {2, "int"}, {4, "int"})},
	{ROW("thp.scan_file", "mm_khugepaged_scan_file", "thp_scan_file", SCAN_FILE, MM,
	     {2, "struct file *"}, {5, "int"}),
	 .newer = true},
	{ROW("thp.isolate", "mm_collapse_huge_page_isolate", "thp_isolate",
	     "how much of 2 MiB is empty", {1, "int"})},
	{ROW("thp.collapse", "mm_collapse_huge_page", "thp_collapse", COLLAPSE, MM, {2, "int"})},
	{ROW("thp.collapse_file", "mm_khugepaged_collapse_file", "thp_collapse_file_3",
	     COLLAPSE_FILE ", is_shmem before addr", MM, {3, "bool"}, {7, "int"}),
	 .newer = true},
	{ROW("thp.collapse_file", "mm_khugepaged_collapse_file", "thp_collapse_file_4",
	     COLLAPSE_FILE ", is_shmem after addr", MM, {4, "bool"}, {7, "int"}),
	 .newer = true},
	{ROW("thp.reclaim", "mm_vmscan_direct_reclaim_begin", "thp_reclaim_order",
	     RECLAIM ", order before gfp", {0, "int"}, {1, "gfp_t"})},
	{ROW("thp.reclaim", "mm_vmscan_direct_reclaim_begin", "thp_reclaim_gfp",
	     RECLAIM ", gfp before order", {0, "gfp_t"}, {1, "int"})},
	{ROW("thp.memcg", "mm_vmscan_memcg_reclaim_begin", "thp_memcg_order",
	     MEMCG ", order before gfp", {0, "int"}, {1, "gfp_t"})},
	{ROW("thp.memcg", "mm_vmscan_memcg_reclaim_begin", "thp_memcg_gfp",
	     MEMCG ", gfp before order", {0, "gfp_t"}, {1, "int"})},
	{ROW("thp.compact", "mm_compaction_try_to_compact_pages", "thp_compact",
	     "a thread must move pages to get a large one", {0, "int"}, {1, "gfp_t"})},
	{ROW("thp.migrate", "mm_migrate_pages", "thp_migrate_6", MIGRATE ", 7 arguments",
	     {0, ULONG}, {5, "enum migrate_mode"}, {6, "int"})},
	{ROW("thp.migrate", "mm_migrate_pages", "thp_migrate_7", MIGRATE ", 8 arguments",
	     {0, ULONG}, {6, "enum migrate_mode"}, {7, "int"})},
};

static bool same_type(const char *want, const char *have)
{
	if (!strcmp(want, have))
		return true;
	if (!strcmp(want, "int"))
		return !strcmp(have, "unsigned int");
	return !strcmp(want, ULONG) && !strcmp(have, "long unsigned int");
}

static bool fits(const struct sonde_thp_layout *l, sonde_thp_param_fn *param)
{
	char have[64];

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(l->is) && l->is[i].type; i++)
		if (param(l->alt.event, l->is[i].param, have, sizeof(have)) ||
		    !same_type(l->is[i].type, have))
			return false;
	return true;
}

const struct sonde_thp_layout *sonde_thp_layout_find(const char *name, sonde_thp_param_fn *param)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(layouts); i++)
		if (!strcmp(layouts[i].hook.name, name) && fits(&layouts[i], param))
			return &layouts[i];
	return NULL;
}

/* @row is the first of its hook. */
static int add_hook(struct sonde_hook_list *list, const struct sonde_thp_layout *row,
		    sonde_thp_param_fn *param)
{
	const struct sonde_thp_layout *found = sonde_thp_layout_find(row->hook.name, param);
	struct sonde_hook hook = found ? found->hook : row->hook;
	char first[64];

	if (!found && row->newer && param(row->alt.event, 0, first, sizeof(first)))
		return 0;
	if (found) {
		hook.alts = &found->alt;
		hook.n_alts = 1;
	} else {
		hook.purpose = row->unknown;
	}
	return sonde_hook_list_add(list, &hook);
}

int sonde_thp_layout_hooks(struct sonde_hook_list *list, sonde_thp_param_fn *param)
{
	int err = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(layouts) && !err; i++)
		if (!i || strcmp(layouts[i].hook.name, layouts[i - 1].hook.name))
			err = add_hook(list, &layouts[i], param);
	return err;
}
