// SPDX-License-Identifier: GPL-2.0-or-later
/* What the fault lens asks for, by what the kernel has; and its order of map entries. */
#include "unit/unit.h"

#include "attach/plan.h"
#include "lens/fault_priv.h"
#include "lens/fault_read.h"
#include "lens/fault_where.h"
#include "lens/lens.h"

extern const struct sonde_lens sonde_lens_fault;

static struct sonde_features all_yes(void)
{
	struct sonde_features f = {};

	for (int i = 0; i < SONDE_FEAT__MAX; i++)
		f.have[i] = SONDE_YES;
	return f;
}

static int make(const struct sonde_features *f, struct sonde_hook_list *hooks,
		struct sonde_plan *plan)
{
	struct sonde_plan_choice choice = {.passive = true};
	struct sonde_lens_ctx ctx = {.lens = &sonde_lens_fault};

	assert_int_equal(sonde_lens_fault.hooks(&ctx, hooks), 0);
	return sonde_plan_make(hooks, f, &choice, plan);
}

/* Program of the hook called @name, NULL if it got none. */
static const char *program(const struct sonde_plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->n; i++)
		if (!strcmp(plan->items[i].hook->name, name))
			return plan->items[i].alt < 0 ? NULL : plan->items[i].program;
	fail_msg("no hook %s", name);
	return NULL;
}

static const struct row {
	const char *title;
	enum sonde_feature lacks[3];
	const char *user, *alloc, *minor, *major;
	bool degraded;
} rows[] = {
	{"everything there",
	 {SONDE_FEAT_NONE, SONDE_FEAT_NONE, SONDE_FEAT_NONE},
	 "fault_user",
	 "fault_page_alloc",
	 "fault_end_minor",
	 "fault_end_major",
	 false},
	{"no typed tracepoints",
	 {SONDE_FEAT_TP_BTF, SONDE_FEAT_NONE, SONDE_FEAT_NONE},
	 "fault_user_raw",
	 "fault_page_alloc_raw",
	 "fault_end_minor",
	 "fault_end_major",
	 false},
	{"no software events",
	 {SONDE_FEAT_PERF_SW, SONDE_FEAT_NONE, SONDE_FEAT_NONE},
	 "fault_user",
	 "fault_page_alloc",
	 "fault_count_user",
	 NULL,
	 true},
	{"neither",
	 {SONDE_FEAT_PERF_SW, SONDE_FEAT_TP_BTF, SONDE_FEAT_NONE},
	 "fault_user_raw",
	 "fault_page_alloc_raw",
	 "fault_count_user_raw",
	 NULL,
	 true},
	{"before 5.11",
	 {SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE, SONDE_FEAT_NONE},
	 NULL,
	 NULL,
	 "fault_count_user",
	 NULL,
	 true},
};

static void same_program(const char *got, const char *want)
{
	if (want && got)
		assert_string_equal(got, want);
	else
		assert_true(!got && !want);
}

static void plans_by_feature(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct sonde_features f = all_yes();
		struct sonde_hook_list hooks = {};
		struct sonde_plan plan = {};

		for (int k = 0; k < 3 && r->lacks[k] != SONDE_FEAT_NONE; k++)
			f.have[r->lacks[k]] = SONDE_NO;
		print_message("%s\n", r->title);
		assert_int_equal(make(&f, &hooks, &plan), 0);
		same_program(program(&plan, "fault.user"), r->user);
		same_program(program(&plan, "fault.alloc"), r->alloc);
		same_program(program(&plan, "fault.minor"), r->minor);
		same_program(program(&plan, "fault.major"), r->major);
		assert_int_equal(plan.degraded, r->degraded);
		sonde_plan_fini(&plan);
		sonde_hook_list_fini(&hooks);
	}
}

/* What is denied can be mended: the weaker way is taken, and the sentence says what to do. */
static void denied_names_the_remedy(void **state)
{
	struct sonde_features f = all_yes();
	struct sonde_hook_list hooks = {};
	struct sonde_plan plan = {};

	(void)state;
	f.have[SONDE_FEAT_PERF_SW] = SONDE_DENIED;
	assert_int_equal(make(&f, &hooks, &plan), 0);
	assert_true(plan.degraded);
	assert_string_equal(plan.items[0].hook->name, "fault.minor");
	assert_non_null(strstr(plan.items[0].reason, "perf_event_paranoid"));
	sonde_plan_fini(&plan);
	sonde_hook_list_fini(&hooks);
}

static void entries_order(void **state)
{
	const struct sonde_fault_entry sorted[] = {
		{{1, 0, 5}, 1}, {{1, 0, 300}, 1}, {{1, 2, 0}, 1}, {{70000, 0, 0}, 1}};
	size_t n = sizeof(sorted) / sizeof(sorted[0]);

	(void)state;
	for (size_t a = 0; a < n; a++)
		for (size_t b = 0; b < n; b++) {
			int got = sonde_fault_entry_compare(&sorted[a], &sorted[b]);

			assert_true(a < b ? got < 0 : a > b ? got > 0 : !got);
		}
}

static void series_are_distinct(void **state)
{
	bool seen[SONDE_FAULT_SERIES] = {};

	(void)state;
	for (int cls = 0; cls < SONDE_FAULT__CLASSES; cls++)
		for (int rest = 0; rest < 4; rest++) {
			unsigned s =
				sonde_fault_series((enum sonde_fault_class)cls, rest & 2, rest & 1);

			assert_true(s < SONDE_FAULT_SERIES);
			assert_false(seen[s]);
			seen[s] = true;
		}
}

static const struct fit {
	const char *title;
	uint64_t in[4], count, out[4];
	bool fits;
} fits[] = {
	{"exact already", {16, 16, 3, 0}, 35, {16, 16, 3, 0}, true},
	{"a few more than the samples stand for", {16, 48, 0, 2}, 71, {17, 52, 0, 2}, true},
	{"fewer: those that stand for themselves stay", {33, 16, 0, 1}, 32, {21, 10, 0, 1}, true},
	{"no sample: nothing stands for the rest", {0, 5, 1, 0}, 11, {0, 5, 1, 0}, false},
	{"fewer than the samples themselves", {160, 0, 0, 0}, 9, {160, 0, 0, 0}, false},
};

/* What a histogram of samples says it holds is what was counted. */
static void histograms_add_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(fits) / sizeof(fits[0]); i++) {
		uint64_t b[4], sum = 0;

		print_message("%s\n", fits[i].title);
		memcpy(b, fits[i].in, sizeof(b));
		assert_int_equal(fault_hist_fit(b, 4, 16, fits[i].count), fits[i].fits);
		for (size_t k = 0; k < 4; k++) {
			assert_int_equal(b[k], fits[i].out[k]);
			sum += b[k];
		}
		if (fits[i].fits)
			assert_int_equal(sum, fits[i].count);
	}
}

#define DEV(major, minor) ((major) << 20 | (minor))

static const struct same {
	const char *title;
	struct sonde_fault_by_sum seen;
	struct sonde_map now;
	enum sonde_map_kind kind;
	bool same;
} sames[] = {
	{"not seen: nothing speaks against it",
	 {},
	 {.start = 0x1000, .end = 0x9000},
	 SONDE_MAP_MMAP,
	 true},
	{"a heap that grew",
	 {.start = 0x1000, .end = 0x3000},
	 {.start = 0x1000, .end = 0x9000},
	 SONDE_MAP_HEAP,
	 true},
	{"another joined it from below",
	 {.start = 0x3000, .end = 0x9000},
	 {.start = 0x1000, .end = 0x9000},
	 SONDE_MAP_MMAP,
	 true},
	{"from both sides",
	 {.start = 0x3000, .end = 0x5000},
	 {.start = 0x1000, .end = 0x9000},
	 SONDE_MAP_MMAP,
	 true},
	{"inside of what was there",
	 {.start = 0x1000, .end = 0x9000},
	 {.start = 0x3000, .end = 0x5000},
	 SONDE_MAP_MMAP,
	 false},
	{"a stack at the top of what was there",
	 {.start = 0x1000, .end = 0x9000},
	 {.start = 0x7000, .end = 0x9000},
	 SONDE_MAP_STACK,
	 false},
	{"a thread's stack",
	 {.start = 0x7000, .end = 0x9000},
	 {.start = 0x7000, .end = 0x9000},
	 SONDE_MAP_STACK,
	 true},
	{"the first stack grew",
	 {.start = 0x7000, .end = 0x9000},
	 {.start = 0x6000, .end = 0x9000, .path = (char *)"[stack]"},
	 SONDE_MAP_STACK,
	 true},
	{"a file where memory was",
	 {.start = 0x1000, .end = 0x9000},
	 {.start = 0x1000, .end = 0x9000, .inode = 7, .path = (char *)"/f"},
	 SONDE_MAP_FILE,
	 false},
	{"another file",
	 {.start = 0x1000, .end = 0x9000, .is_file = 1, .inode = 8, .dev = DEV(254, 1)},
	 {.start = 0x1000, .end = 0x9000, .inode = 7, .dev_major = 254, .dev_minor = 1},
	 SONDE_MAP_FILE,
	 false},
	{"the same, grown to one side",
	 {.start = 0x1000, .end = 0x9000, .is_file = 1, .inode = 7, .dev = DEV(254, 1)},
	 {.start = 0x3000, .end = 0x5000, .inode = 7, .dev_major = 254, .dev_minor = 1},
	 SONDE_MAP_FILE,
	 true},
	{"overlayfs tells another inode",
	 {.start = 0x1000, .end = 0x9000, .is_file = 1, .inode = 8, .dev = DEV(254, 1)},
	 {.start = 0x1000, .end = 0x9000, .inode = 7, .dev_major = 0, .dev_minor = 40},
	 SONDE_MAP_FILE,
	 true},
};

static void mappings_are_told_apart(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sames) / sizeof(sames[0]); i++) {
		struct sonde_map now = sames[i].now;

		print_message("%s\n", sames[i].title);
		now.path = now.path ? now.path : (char *)"";
		assert_int_equal(fault_where_same(&sames[i].seen, &now, sames[i].kind),
				 sames[i].same);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans_by_feature),  cmocka_unit_test(denied_names_the_remedy),
		cmocka_unit_test(entries_order),     cmocka_unit_test(series_are_distinct),
		cmocka_unit_test(histograms_add_up), cmocka_unit_test(mappings_are_told_apart),
	};

	return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
