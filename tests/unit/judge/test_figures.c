// SPDX-License-Identifier: GPL-2.0-or-later
/* From a snapshot to figures, and to what stat prints of them: what nobody yielded is not known. */
#include <math.h>
#include <stdio.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/clock.h"
#include "core/mem.h"
#include "judge/figures.h"
#include "show/ledger.h"

static const struct sonde_metric_desc descs[] = {
	{"rss.total", "bytes", SONDE_GAUGE, ""},	{"rss.anon", "bytes", SONDE_GAUGE, ""},
	{"rss.file", "bytes", SONDE_GAUGE, ""},		{"rss.shmem", "bytes", SONDE_GAUGE, ""},
	{"rss.ledger", "bytes", SONDE_GAUGE, ""},	{"rss.file_ext", "bytes", SONDE_GAUGE, ""},
	{"rss.held_outside", "bytes", SONDE_GAUGE, ""}, {"rss.walk_time", "ns", SONDE_GAUGE, ""},
	{"thp.bloat", "bytes", SONDE_COUNTER, ""},	{"rss.lazyfree", "bytes", SONDE_GAUGE, ""},
	{"alloc.allocated", "bytes", SONDE_GAUGE, ""},	{"alloc.heap", "bytes", SONDE_GAUGE, ""},
	{"alloc.live", "bytes", SONDE_GAUGE, ""},	{"alloc.calls", "count", SONDE_COUNTER, ""},
};

static void put(struct sonde_snapshot *s, const char *name, const char *label, uint32_t target,
		double second, double value, const char *absent)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(descs); i++) {
		struct sonde_metric m = {.desc = &descs[i],
					 .label = label,
					 .target = target,
					 .ts_ns = (uint64_t)(second * SONDE_NS_PER_SEC) + 1,
					 .value = value,
					 .absent = absent};

		if (!strcmp(descs[i].name, name))
			assert_int_equal(s->visitor.metric(s->visitor.ctx, &m), 0);
	}
}

static void test_nothing(void **state)
{
	struct sonde_snapshot s;
	struct sonde_figures f;

	(void)state;
	sonde_snapshot_init(&s);
	sonde_figures_of(&s, &f);
	assert_true(isnan(f.memory.rss) && isnan(f.memory.allocator) && isnan(f.memory.live));
	assert_true(isnan(f.memory.file_data) && isnan(f.memory.bloat));
	assert_string_equal(f.target, "-p PID");
	assert_string_equal(f.memory.live_why,
			    "the allocator was not asked: it takes alloc in --lens, and no "
			    "--alloc-mode off");
	sonde_snapshot_fini(&s);
}

static void test_two_targets_over_time(void **state)
{
	struct sonde_snapshot s;
	struct sonde_figures f;

	(void)state;
	sonde_snapshot_init(&s);
	sonde_meta_set(&s.meta, "target.0.pid", "812");
	for (uint32_t t = 0; t < 2; t++) {
		put(&s, "rss.total", "", t, 0, 100, NULL);
		put(&s, "rss.total", "", t, 60, 150, NULL);
		put(&s, "rss.anon", "", t, 60, 90, NULL);
		put(&s, "rss.ledger", "heap", t, 60, 30, NULL);
		put(&s, "rss.ledger", "mapped", t, 60, 40, NULL);
		put(&s, "rss.ledger", "stacks", t, 60, 15, NULL);
		put(&s, "rss.ledger", "data", t, 60, 5, NULL);
	}
	put(&s, "rss.file_ext", ".spp", 0, 60, 2048, NULL);
	put(&s, "rss.file_ext", ".spd", 0, 60, 4096, NULL);
	put(&s, "rss.file_ext", ".so", 0, 60, 7, NULL);
	put(&s, "rss.file_ext", "(program)", 0, 60, 8, NULL);
	put(&s, "rss.file_ext", ".spa", 0, 60, 0, NULL);
	sonde_figures_of(&s, &f);
	assert_true(f.memory.rss == 300 && f.memory.rss_first == 200);
	assert_true(f.memory.observed_s == 60);
	assert_true(f.memory.allocator == 140); /* neither stacks nor program data */
	assert_true(f.memory.file_data == 6144);
	assert_string_equal(f.file_parts, "(.spd 4.00 KiB, .spp 2.00 KiB)");
	assert_string_equal(f.target, "-p 812");
	/* Mappings are read more seldom: what came since is not overlooked. */
	put(&s, "rss.anon", "", 1, 61, 100, NULL);
	sonde_figures_of(&s, &f);
	assert_true(f.memory.allocator == 150);
	/* One exits: what is held is the other's. */
	put(&s, "rss.total", "", 1, 61, 0, "it exited");
	sonde_figures_of(&s, &f);
	assert_true(f.memory.rss == 150 && f.memory.anon == 90 && f.memory.allocator == 70);
	sonde_snapshot_fini(&s);
}

/* A value that was, and can no longer be had, is not used. */
static void test_absent_later(void **state)
{
	struct sonde_snapshot s;
	struct sonde_figures f;

	(void)state;
	sonde_snapshot_init(&s);
	put(&s, "rss.held_outside", "", 0, 0, 100, NULL);
	put(&s, "rss.held_outside", "", 0, 1, 0, "it shares its cgroup with 1 other process");
	sonde_figures_of(&s, &f);
	assert_true(isnan(f.memory.held_own));
	sonde_snapshot_fini(&s);
}

/* Why live is not known, from least to most: each fact comes on top of the earlier. */
static void test_live_of_all_or_none(void **state)
{
	struct sonde_snapshot s;
	struct sonde_figures f;

	(void)state;
	sonde_snapshot_init(&s);
	put(&s, "rss.total", "", 0, 0, 100, NULL);
	put(&s, "rss.total", "", 1, 0, 100, NULL);
	put(&s, "alloc.calls", "", 0, 0, 0, "it was not recognised");
	assert_string_equal(sonde_figure_why_not_live(&s), "it was not recognised");
	put(&s, "alloc.live", "", 0, 0, 5, NULL);
	assert_non_null(strstr(sonde_figure_why_not_live(&s), "exact mode"));
	put(&s, "alloc.allocated", "", 0, 0, 40, NULL);
	put(&s, "alloc.heap", "", 0, 0, 50, NULL);
	sonde_figures_of(&s, &f);
	assert_true(isnan(f.memory.live) && isnan(f.memory.heap)); /* of one of two */
	assert_non_null(strstr(f.memory.live_why, "not read in every process"));
	put(&s, "alloc.allocated", "", 1, 0, 0, "it is swapped");
	sonde_figures_of(&s, &f);
	assert_true(isnan(f.memory.live));
	assert_string_equal(f.memory.live_why, "it is swapped");
	put(&s, "rss.total", "", 1, 1, 0, "it exited");
	sonde_figures_of(&s, &f);
	assert_true(f.memory.live == 40 && f.memory.heap == 50);
	sonde_snapshot_fini(&s);
}

/* glibc's rows are its own; of another allocator nothing tells. */
static void test_own_rows(void **state)
{
	static const char *const rows[] = {"heap", "arenas", "large", "mapped", "stacks"};
	struct sonde_snapshot s;
	struct sonde_figures f;

	(void)state;
	sonde_snapshot_init(&s);
	put(&s, "rss.total", "", 0, 0, 100, NULL);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++)
		put(&s, "rss.ledger", rows[i], 0, 0, 1 << i, NULL);
	sonde_figures_of(&s, &f);
	assert_true(isnan(f.memory.own) && f.memory.allocator == 15);
	sonde_meta_set(&s.meta, "target.0.allocator", "glibc");
	sonde_figures_of(&s, &f);
	assert_true(f.memory.own == 7 && f.memory.own_big == 4);
	sonde_snapshot_fini(&s);
}

/* A process that has gone is not to be observed by its pid. */
static void test_target_to_name(void **state)
{
	static const struct {
		const char *comm, *ended, *path, *status, *says;
	} rows[] = {
		{"searchd", "duration", "", "", "-p 812"},
		{"searchd", "target exited", "", "", "-n searchd"},
		{"searchd", "duration", "a.sonde", "", "-n searchd"},
		{"my prog", "target exited", "", "", "-n NAME"},
		{"$(x)", "duration", "a.sonde", "", "-n NAME"},
		{"-p", "duration", "a.sonde", "", "-n NAME"},
		{"searchd", "duration", "", "143", ""},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		struct sonde_snapshot s;
		struct sonde_figures f;

		sonde_snapshot_init(&s);
		sonde_meta_set(&s.meta, "target.0.pid", "812");
		sonde_meta_set(&s.meta, "target.0.comm", "%s", rows[i].comm);
		sonde_meta_set(&s.meta, "ended", "%s", rows[i].ended);
		sonde_meta_set(&s.meta, "recording.path", "%s", rows[i].path);
		sonde_meta_set(&s.meta, "command.status", "%s", rows[i].status);
		sonde_figures_of(&s, &f);
		assert_string_equal(f.target, rows[i].says);
		sonde_snapshot_fini(&s);
	}
}

static char *shown(const struct sonde_snapshot *s, enum sonde_ledger_columns cols)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	sonde_show_memory(out, s, cols);
	fclose(out);
	return text;
}

static void assert_says(char *text, const char *words, bool yes)
{
	if (!strstr(text, words) == yes)
		fail_msg("'%s' is %s in:\n%s", words, yes ? "not" : "still", text);
}

static void test_mappings_not_read(void **state)
{
	struct sonde_snapshot s;
	char *text;

	(void)state;
	sonde_snapshot_init(&s);
	put(&s, "rss.total", "", 0, 0, 4 << 20, NULL);
	put(&s, "rss.anon", "", 0, 0, 3 << 20, NULL);
	put(&s, "rss.file", "", 0, 0, 1 << 20, NULL);
	put(&s, "rss.shmem", "", 0, 0, 0, NULL);
	put(&s, "rss.ledger", "", 0, 0, 0, "it would take 900 ms; --ledger full");
	text = shown(&s, SONDE_LEDGER_NOW);
	assert_says(text, "by mapping: it would take 900 ms; --ledger full", true);
	assert_says(text, "private anonymous          3.00 MiB  75.0 %", true);
	assert_says(text, "unexplained", false);
	assert_says(text, "brk heap", false);
	assert_says(text, "khugepaged's bloat: not observed", true);
	assert_says(text, "at most 3.00 MiB (75 %)", true);
	assert_says(text, "files 1.00 MiB, programs included", true);
	free(text);
	put(&s, "thp.bloat", "", 0, 0, 1 << 20, NULL);
	text = shown(&s, SONDE_LEDGER_FIRST_LAST);
	assert_says(text, "khugepaged's bloat: 1.00 MiB since attach, earlier cannot be split",
		    true);
	assert_says(text, "nan", false);
	free(text);
	sonde_snapshot_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_two_targets_over_time),
		cmocka_unit_test(test_absent_later),
		cmocka_unit_test(test_live_of_all_or_none),
		cmocka_unit_test(test_own_rows),
		cmocka_unit_test(test_target_to_name),
		cmocka_unit_test(test_mappings_not_read),
	};

	return cmocka_run_group_tests_name("figures", tests, NULL, NULL);
}
