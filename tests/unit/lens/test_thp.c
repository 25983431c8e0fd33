// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The THP lens: which program is taken for which argument list, against the lists that kernels from
 * 5.15 to 7.x have; the names of its series; and the system's counters.
 */
#include <stdio.h>

#include "unit/unit.h"

#include "attach/plan.h"
#include "core/mem.h"
#include "lens/lens.h"
#include "lens/thp_layout.h"
#include "lens/thp_read.h"
#include "lens/thp_system.h"

/* What the kernel under test has: arguments of each event, in order. */
struct event {
	const char *name;
	const char *args[9];
};

static const struct event *kernel;
static size_t n_events;

static int param(const char *event, int i, char *buf, size_t size)
{
	for (size_t e = 0; e < n_events; e++) {
		int n = 0;

		if (strcmp(kernel[e].name, event))
			continue;
		while (n < 9 && kernel[e].args[n])
			n++;
		if (i < 0 || i >= n)
			return -ENOENT;
		snprintf(buf, size, "%s", kernel[e].args[i]);
		return 0;
	}
	return -ENOENT;
}

#define MM    "struct mm_struct *"
#define SCAN  "mm_khugepaged_scan_pmd"
#define FILE_ "mm_khugepaged_collapse_file"
#define MIGR  "mm_migrate_pages"
#define UL    "unsigned long"

static const struct event k5_15[] = {
	{SCAN, {MM, "struct page *", "bool", "int", "int", "int", "int"}},
	{"mm_collapse_huge_page_isolate", {"struct page *", "int", "int", "bool", "int"}},
	{"mm_collapse_huge_page", {MM, "int", "int"}},
	{"mm_vmscan_direct_reclaim_begin", {"int", "gfp_t"}},
	{"mm_vmscan_memcg_reclaim_begin", {"int", "gfp_t"}},
	{"mm_compaction_try_to_compact_pages", {"int", "gfp_t", "int"}},
	{MIGR, {UL, UL, UL, UL, UL, "enum migrate_mode", "int"}},
};
static const struct event k6_3[] = {
	{SCAN, {MM, "struct page *", "bool", "int", "int", "int", "int"}},
	{"mm_khugepaged_scan_file", {MM, "struct page *", "struct file *", "int", "int", "int"}},
	{FILE_, {MM, "struct page *", UL, "bool", UL, "struct file *", "int", "int"}},
};
static const struct event k6_18[] = {
	{SCAN, {MM, "struct folio *", "int", "int", "int", "int"}},
	{"mm_khugepaged_scan_file", {MM, "struct folio *", "struct file *", "int", "int", "int"}},
	{"mm_collapse_huge_page_isolate", {"struct folio *", "int", "int", "int"}},
	{"mm_collapse_huge_page", {MM, "int", "int"}},
	{FILE_, {MM, "struct folio *", UL, UL, "bool", "struct file *", "int", "int"}},
	{"mm_vmscan_direct_reclaim_begin", {"unsigned int", "gfp_t"}},
	{MIGR, {"long unsigned int", UL, UL, UL, UL, UL, "enum migrate_mode", "int"}},
};
static const struct event tip[] = {
	{SCAN, {MM, UL, "int", "int", "int", "int"}},
	{"mm_khugepaged_scan_file", {MM, UL, "struct file *", "int", "int", "int"}},
	{"mm_collapse_huge_page_isolate", {UL, "int", "int", "int", "unsigned int"}},
	{"mm_collapse_huge_page", {MM, "int", "int", "unsigned int"}},
	{"mm_vmscan_direct_reclaim_begin", {"gfp_t", "int", "struct mem_cgroup *"}},
	{"mm_vmscan_memcg_reclaim_begin", {"gfp_t", "int", "struct mem_cgroup *"}},
};
/* Nothing like what is known: the status moved to the front, the reason away. */
static const struct event strange[] = {
	{SCAN, {"int", MM, "struct folio *", "int", "int", "int"}},
	{MIGR, {UL, UL, "enum migrate_mode"}},
	{FILE_, {MM, "struct folio *", UL, UL, UL, "struct file *", "int", "int"}},
};

#define KERNEL(k) kernel = (k), n_events = SONDE_ARRAY_SIZE(k)

static const char *taken(const char *hook)
{
	const struct sonde_thp_layout *l = sonde_thp_layout_find(hook, param);

	return l ? l->alt.program : "none";
}

static void test_layouts_of_5_15(void **state)
{
	(void)state;
	KERNEL(k5_15);
	assert_string_equal(taken("thp.scan"), "thp_scan_7");
	assert_string_equal(taken("thp.isolate"), "thp_isolate");
	assert_string_equal(taken("thp.collapse"), "thp_collapse");
	assert_string_equal(taken("thp.reclaim"), "thp_reclaim_order");
	assert_string_equal(taken("thp.memcg"), "thp_memcg_order");
	assert_string_equal(taken("thp.compact"), "thp_compact");
	assert_string_equal(taken("thp.migrate"), "thp_migrate_6");
	assert_string_equal(taken("thp.scan_file"), "none");
	assert_string_equal(taken("thp.collapse_file"), "none");
}

static void test_layouts_of_later_kernels(void **state)
{
	(void)state;
	KERNEL(k6_3);
	assert_string_equal(taken("thp.scan"), "thp_scan_7");
	assert_string_equal(taken("thp.scan_file"), "thp_scan_file");
	assert_string_equal(taken("thp.collapse_file"), "thp_collapse_file_3");
	KERNEL(k6_18);
	assert_string_equal(taken("thp.scan"), "thp_scan_6");
	assert_string_equal(taken("thp.isolate"), "thp_isolate");
	assert_string_equal(taken("thp.collapse_file"), "thp_collapse_file_4");
	assert_string_equal(taken("thp.reclaim"), "thp_reclaim_order");
	assert_string_equal(taken("thp.migrate"), "thp_migrate_7");
	KERNEL(tip);
	assert_string_equal(taken("thp.scan"), "thp_scan_6");
	assert_string_equal(taken("thp.scan_file"), "thp_scan_file");
	assert_string_equal(taken("thp.isolate"), "thp_isolate");
	assert_string_equal(taken("thp.collapse"), "thp_collapse");
	assert_string_equal(taken("thp.reclaim"), "thp_reclaim_gfp");
	assert_string_equal(taken("thp.memcg"), "thp_memcg_gfp");
}

static const struct sonde_hook *hook(const struct sonde_hook_list *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->h[i].name, name))
			return &list->h[i];
	return NULL;
}

/* An argument list that nobody knows is a hook that the plan reports, never a guess. */
static void test_unknown_layout_is_reported(void **state)
{
	struct sonde_hook_list list = {};

	(void)state;
	KERNEL(strange);
	assert_int_equal(sonde_thp_layout_hooks(&list, param), 0);
	assert_non_null(hook(&list, "thp.scan"));
	assert_int_equal(hook(&list, "thp.scan")->n_alts, 0);
	assert_int_equal(hook(&list, "thp.migrate")->n_alts, 0);
	assert_int_equal(hook(&list, "thp.collapse_file")->n_alts, 0);
	/* This kernel has no such event, and older ones never had. */
	assert_null(hook(&list, "thp.scan_file"));
	sonde_hook_list_fini(&list);
}

static void test_one_hook_an_event(void **state)
{
	struct sonde_hook_list list = {};

	(void)state;
	KERNEL(k6_18);
	assert_int_equal(sonde_thp_layout_hooks(&list, param), 0);
	for (size_t i = 0; i < list.n; i++)
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(list.h[i].name, list.h[j].name);
	assert_int_equal(hook(&list, "thp.scan")->n_alts, 1);
	assert_string_equal(hook(&list, "thp.scan")->alts[0].event, SCAN);
	sonde_hook_list_fini(&list);
}

static void test_labels(void **state)
{
	char buf[80];

	(void)state;
	sonde_thp_label_by(SONDE_THP_RESULT(1, SONDE_THP_KHUGEPAGED, SONDE_THP_ANON), buf,
			   sizeof(buf));
	assert_string_equal(buf, "khugepaged");
	sonde_thp_label_by(SONDE_THP_RESULT(1, SONDE_THP_SELF, SONDE_THP_SHMEM), buf, sizeof(buf));
	assert_string_equal(buf, "self.shmem");
	sonde_thp_label_purge(SONDE_THP_FREE, buf, sizeof(buf));
	assert_string_equal(buf, "free");
	sonde_thp_label_purge(99, buf, sizeof(buf));
	assert_string_equal(buf, "unknown");
	sonde_thp_label_stall(sonde_thp_stall_series(SONDE_THP_COMPACTION, 1), buf, sizeof(buf));
	assert_string_equal(buf, "compaction.huge");
	sonde_thp_label_stall(sonde_thp_stall_series(SONDE_THP_RECLAIM, 0), buf, sizeof(buf));
	assert_string_equal(buf, "reclaim");
	/* A result that no kernel has keeps its number. */
	sonde_thp_label_result(SONDE_THP_RESULT(3000, SONDE_THP_SELF, SONDE_THP_FILE), buf,
			       sizeof(buf));
	assert_string_equal(buf, "self.file.result_3000");
}

static void test_result_keeps_its_parts(void **state)
{
	(void)state;
	for (uint32_t by = 0; by < 3; by++)
		for (uint32_t kind = 0; kind < 3; kind++) {
			uint32_t arg = SONDE_THP_RESULT(31, by, kind);

			assert_in_range(arg, 0, UINT16_MAX);
			assert_int_equal(SONDE_THP_RESULT_OF(arg), 31);
			assert_int_equal(SONDE_THP_BY_OF(arg), by);
			assert_int_equal(SONDE_THP_KIND_OF(arg), kind);
		}
}

static void test_vmstat(void **state)
{
	struct sonde_thp_system s = {};

	(void)state;
	assert_int_equal(sonde_thp_system_vmstat(&s, "nr_free_pages 7\nthp_fault_alloc 10\n"
						     "compact_stall 3\nthp_split_pmd 1\nbad\n"),
			 0);
	assert_int_equal(s.n, 3);
	assert_string_equal(s.v[0].name, "thp_fault_alloc");
	assert_int_equal(s.v[0].base, 10);
	assert_int_equal(sonde_thp_system_vmstat(&s, "thp_fault_alloc 12\nallocstall_normal 5"), 0);
	assert_int_equal(s.n, 4);
	assert_int_equal(s.v[0].now, 12);
	assert_int_equal(s.v[0].base, 10);
	assert_int_equal(s.v[3].now, 5);
	sonde_thp_system_fini(&s);
}

/* Whatever this kernel is: what its types say of an event that all have. */
static void test_this_kernel(void **state)
{
	char buf[64];

	(void)state;
	if (sonde_btf_tracepoint_args("sched_process_exit") < 0)
		skip();
	assert_int_equal(sonde_btf_tracepoint_param("sched_process_exit", 0, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "struct task_struct *");
	assert_int_equal(sonde_btf_tracepoint_param("sched_process_exit", 9, buf, sizeof(buf)),
			 -ENOENT);
	assert_int_equal(sonde_btf_tracepoint_param("no_such_event", 0, buf, sizeof(buf)), -ENOENT);
	assert_int_equal(sonde_btf_enum_name("pid_type", 0, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "PIDTYPE_PID");
	assert_int_equal(sonde_btf_enum_name("pid_type", 1000, buf, sizeof(buf)), -ENOENT);
	assert_true(sonde_btf_has_member("mm_struct", "start_brk"));
	assert_false(sonde_btf_has_member("mm_struct", "no_such_member"));
	assert_false(sonde_btf_has_member("no_such_struct", "start_brk"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts_of_5_15),
		cmocka_unit_test(test_layouts_of_later_kernels),
		cmocka_unit_test(test_unknown_layout_is_reported),
		cmocka_unit_test(test_one_hook_an_event),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_result_keeps_its_parts),
		cmocka_unit_test(test_vmstat),
		cmocka_unit_test(test_this_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
