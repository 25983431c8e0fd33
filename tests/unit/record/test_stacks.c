// SPDX-License-Identifier: GPL-2.0-or-later
/* Call stacks through a recording and back, as a table of stacks sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/stacks.h"
#include "unit/record/fixture.h"

#define A (SONDE_STACK_HASHED | 0x1234)
#define C (SONDE_STACK_HASHED | 0x77)

static const struct sonde_frame frames[] = {
	{"alloc_row(int, char const*)", "/usr/bin/x y", "row.cc", 17, 0x1010, true},
	{"read_rows", "/usr/bin/x y", "rows.cc", 170, 0x1010, false},
	{"", "/usr/lib/libz.so.1", "", 0, 0x9000, false},
	{"", "", "", 0, 0x7f0000001000, false},
};

static int push_stack(const struct sonde_visitor *v, uint64_t id, size_t from, size_t n,
		      enum sonde_stack_end end)
{
	struct sonde_stack s = {.id = id, .target = 1, .end = end, .frames = frames + from, .n = n};

	return sonde_visit(v, stack, &s);
}

static int push_count(const struct sonde_visitor *v, unsigned tick, uint64_t id, uint64_t calls,
		      bool live)
{
	struct sonde_stack_count c = {.ts_ns = FIX_MONO + (tick + 1) * SONDE_NS_PER_SEC,
				      .lens = SONDE_LENS_ALLOC,
				      .stack = id,
				      .target = 1,
				      .calls = calls,
				      .bytes = calls * 100,
				      .has_live = live,
				      .live_calls = calls / 2,
				      .live_bytes = calls * 50,
				      .live_error = calls};

	return sonde_visit(v, stack_count, &c);
}

/* Ten ticks; C counts every second one, and is named only at the end. */
static void record(const char *path)
{
	static const struct sonde_writer_opts all;
	struct sonde_writer *w = NULL;
	const struct sonde_visitor *v;
	struct sonde_hist h;

	fix_remove(path);
	assert_int_equal(sonde_hist_init(&h), 0);
	assert_int_equal(sonde_writer_open(&w, path, &all), 0);
	v = sonde_writer_visitor(w);
	assert_int_equal(fix_push_begin(v), 0);
	for (unsigned t = 0; t < 10; t++) {
		if (!t)
			assert_int_equal(push_stack(v, A, 0, 3, SONDE_STACK_COMPLETE), 0);
		assert_int_equal(push_count(v, t, A, 10 * (t + 1), true), 0);
		if (t % 2)
			assert_int_equal(push_count(v, t, C, t, false), 0);
		assert_int_equal(fix_push_tick(v, t, &h), 0);
	}
	assert_int_equal(push_stack(v, C, 3, 1, SONDE_STACK_NO_MAP), 0);
	assert_int_equal(sonde_visit(v, end, &(struct sonde_meta){0}), 0);
	assert_int_equal(sonde_writer_close(&w), 0);
	sonde_hist_fini(&h);
}

static void read_back(const char *path, const struct sonde_reader_filter *f,
		      struct sonde_stack_table *t)
{
	struct sonde_reader *r = NULL;

	sonde_stack_table_init(t);
	assert_int_equal(sonde_reader_open(&r, path), 0);
	assert_int_equal(sonde_reader_visit(r, f, &t->visitor), 0);
	sonde_reader_free(&r);
}

static void assert_frames(const struct sonde_stack_row *row, size_t from, size_t n)
{
	assert_true(row->defined);
	assert_int_equal(row->n, n);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(row->frames[i].function, frames[from + i].function);
		assert_string_equal(row->frames[i].module, frames[from + i].module);
		assert_string_equal(row->frames[i].file, frames[from + i].file);
		assert_int_equal(row->frames[i].line, frames[from + i].line);
		assert_int_equal(row->frames[i].offset, frames[from + i].offset);
		assert_int_equal(row->frames[i].inlined, frames[from + i].inlined);
	}
}

static void there_and_back(void **state)
{
	const char *path = fix_path("stacks");
	struct sonde_site_group *g;
	struct sonde_stack_table t;
	size_t n;

	(void)state;
	record(path);
	read_back(path, NULL, &t);
	assert_int_equal(sonde_site_groups(&t, SONDE_LENS_ALLOC, true, &g, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(g[0].calls, 100);
	assert_int_equal(g[0].bytes, 10000);
	assert_true(g[0].has_live);
	assert_int_equal(g[0].live_calls, 50);
	assert_int_equal(g[0].live_bytes, 5000);
	assert_float_equal(g[0].live_variance, 10000, 0);
	assert_frames(g[0].row, 0, 3);
	assert_int_equal(g[0].row->end, SONDE_STACK_COMPLETE);
	assert_int_equal(t.n_times, 10);
	assert_float_equal(g[0].live[3], 2000, 0);
	assert_int_equal(g[1].calls, 9);
	assert_false(g[1].has_live);
	assert_frames(g[1].row, 3, 1);
	assert_int_equal(g[1].row->end, SONDE_STACK_NO_MAP);
	sonde_site_groups_fini(g, n);
	sonde_stack_table_fini(&t);
	fix_remove(path);
}

/* With a window counts are of the window; what is live is what is live. */
static void in_a_window(void **state)
{
	struct sonde_reader_filter f = {.since_ns = FIX_REAL + 5 * SONDE_NS_PER_SEC,
					.rebase = true};
	const char *path = fix_path("window");
	struct sonde_site_group *g;
	struct sonde_stack_table t;
	size_t n;

	(void)state;
	record(path);
	read_back(path, &f, &t);
	assert_int_equal(sonde_site_groups(&t, SONDE_LENS_ALLOC, false, &g, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(g[0].calls, 50); /* of 100, less the 50 until the fifth tick */
	assert_int_equal(g[0].bytes, 5000);
	assert_int_equal(g[0].live_bytes, 5000);
	assert_int_equal(g[1].calls, 6); /* 9 - 3 */
	sonde_site_groups_fini(g, n);
	sonde_stack_table_fini(&t);
	fix_remove(path);
}

/* A frame that many stacks share is stored once. */
static void shared_frames(void **state)
{
	static const struct sonde_writer_opts all;
	const char *path = fix_path("shared");
	struct sonde_writer *w = NULL;
	const struct sonde_visitor *v;
	struct sonde_stack_table t;

	(void)state;
	fix_remove(path);
	assert_int_equal(sonde_writer_open(&w, path, &all), 0);
	v = sonde_writer_visitor(w);
	assert_int_equal(fix_push_begin(v), 0);
	for (uint64_t i = 0; i < 1000; i++) {
		assert_int_equal(push_stack(v, A + i, i % 2, 2, SONDE_STACK_COMPLETE), 0);
		assert_int_equal(push_count(v, 0, A + i, 1, true), 0);
	}
	assert_int_equal(sonde_visit(v, tick, FIX_MONO + SONDE_NS_PER_SEC), 0);
	assert_int_equal(sonde_visit(v, end, &(struct sonde_meta){0}), 0);
	assert_int_equal(sonde_writer_close(&w), 0);
	read_back(path, NULL, &t);
	assert_int_equal(t.n, 1000);
	for (size_t i = 0; i < t.n; i++)
		assert_frames(&t.rows[i], (t.rows[i].id - A) % 2, 2);
	sonde_stack_table_fini(&t);
	fix_remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(in_a_window),
		cmocka_unit_test(shared_frames),
	};

	return cmocka_run_group_tests_name("record/stacks", tests, NULL, NULL);
}
