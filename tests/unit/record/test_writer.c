// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a recording survives (kill -9, a full disk, a name that is taken), how it is bounded, and
 * that the projected size is about the size it gets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "unit/record/fixture.h"

static void visit(const char *path, struct fix_log *log)
{
	struct sonde_reader *r = NULL;

	assert_int_equal(sonde_reader_open(&r, path), 0);
	assert_int_equal(sonde_reader_visit(r, NULL, &log->visitor), 0);
	sonde_reader_free(&r);
}

/* A child records 40 ticks and half of the 41st, and is killed as no program could be killed
 * harder. */
static void test_kill_9(void **state)
{
	const char *path = fix_path("killed");
	struct sonde_reader *r = NULL;
	struct fix_log log;
	int status;
	pid_t pid;

	(void)state;
	fix_remove(path);
	pid = fork();
	if (!pid) {
		struct sonde_writer_opts opts = {0};
		struct sonde_writer *w = NULL;
		struct sonde_hist h;

		sonde_hist_init(&h);
		if (!sonde_writer_open(&w, path, &opts) &&
		    !fix_push(sonde_writer_visitor(w), 40, false))
			fix_push_spans(sonde_writer_visitor(w), 40, &h);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

	fix_log_init(&log);
	visit(path, &log);
	assert_int_equal(log.n_ticks, 40);
	assert_int_equal(log.n_spans, 40 * FIX_SPANS_PER_TICK);
	assert_int_equal(log.hist.count, 40 * FIX_SPANS_PER_TICK);
	assert_int_equal(sonde_reader_open(&r, path), 0);
	assert_false(sonde_reader_complete(r));
	assert_int_equal(sonde_reader_cut_ns(r), FIX_REAL + 40 * SONDE_NS_PER_SEC);
	sonde_reader_free(&r);
	fix_log_fini(&log);
	fix_remove(path);
}

static void test_existing_file_is_kept(void **state)
{
	const char *path = fix_path("taken");
	struct sonde_writer_opts opts = {0};
	struct sonde_writer *w = NULL;
	char text[16] = "";
	FILE *f;

	(void)state;
	fix_remove(path);
	f = fopen(path, "w");
	fputs("mine", f);
	fclose(f);
	assert_int_equal(sonde_writer_open(&w, path, &opts), -EEXIST);
	assert_null(w);
	f = fopen(path, "r");
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, "mine");
	opts.overwrite = true;
	assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
	assert_int_equal(sonde_writer_close(&w), 0);
	fix_remove(path);
}

/* A second recorder leaves the first alone until it is done, and may have the name then. */
static void test_two_writers(void **state)
{
	const char *path = fix_path("two");
	struct sonde_writer_opts opts = {.overwrite = true};
	struct sonde_writer *first = NULL, *second = NULL;
	struct fix_log log;

	(void)state;
	fix_remove(path);
	assert_int_equal(sonde_writer_open(&first, path, &opts), 0);
	assert_int_equal(fix_push(sonde_writer_visitor(first), 5, false), 0);
	assert_int_equal(sonde_writer_open(&second, path, &opts), -EBUSY);
	assert_null(second);
	assert_int_equal(
		sonde_visit(sonde_writer_visitor(first), tick, FIX_MONO + 6 * SONDE_NS_PER_SEC), 0);
	assert_int_equal(sonde_writer_close(&first), 0);
	fix_log_init(&log);
	visit(path, &log);
	assert_int_equal(log.n_ticks, 6);
	fix_log_fini(&log);
	assert_int_equal(sonde_writer_open(&second, path, &opts), 0);
	assert_int_equal(sonde_writer_close(&second), 0);
	fix_remove(path);
}

/* How the file of a recorder is taken away: removed, renamed, replaced by another. */
static void take_away(const char *path, const char *other, int how)
{
	if (how == 0)
		assert_int_equal(unlink(path), 0);
	if (how == 1)
		assert_int_equal(rename(path, other), 0);
	if (how == 2) {
		fclose(fopen(other, "w"));
		assert_int_equal(rename(other, path), 0);
	}
}

/* Noticed at the next tick or at the end; what has the name by then is left alone. */
static void test_file_taken_away(void **state)
{
	const char *path = fix_path("away");
	char other[300], said[512];
	struct stat st;

	(void)state;
	snprintf(other, sizeof(other), "%s.other", path);
	for (int i = 0; i < 6; i++) {
		struct sonde_writer_opts opts = {0};
		struct sonde_writer *w = NULL;
		const struct sonde_visitor *v;
		FILE *err_out;
		int saved, err;

		fix_remove(path);
		assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
		v = sonde_writer_visitor(w);
		assert_int_equal(fix_push(v, 5, false), 0);
		take_away(path, other, i % 3);
		saved = capture_begin(&err_out);
		err = i < 3 ? sonde_visit(v, tick, FIX_MONO + 6 * SONDE_NS_PER_SEC)
			    : sonde_visit(v, end, NULL);
		assert_int_equal(sonde_visit(v, end, NULL), -ESTALE);
		sonde_writer_close(&w);
		capture_end(saved, err_out, said, sizeof(said));
		assert_int_equal(err, -ESTALE);
		assert_non_null(strstr(said, "removed, renamed or replaced"));
		assert_string_equal(strchr(said, '\n'), "\n");
		assert_int_equal(stat(path, &st), i % 3 == 2 ? 0 : -1);
		if (i % 3 == 2)
			assert_int_equal(st.st_size, 0);
		unlink(other);
	}
	fix_remove(path);
}

/* A log of a recording that is gone would be replayed into the new one. */
static void test_stale_log_is_refused(void **state)
{
	const char *path = fix_path("stale");
	struct sonde_writer_opts opts = {0};
	struct sonde_writer *w = NULL;
	char wal[300];

	(void)state;
	fix_remove(path);
	snprintf(wal, sizeof(wal), "%s-wal", path);
	fclose(fopen(wal, "w"));
	assert_int_equal(sonde_writer_open(&w, path, &opts), -EEXIST);
	assert_int_equal(access(path, F_OK), -1);
	fix_remove(path);
}

static void test_finished_is_one_private_file(void **state)
{
	const char *path = fix_path("plain");
	struct stat st;
	char wal[300];

	(void)state;
	assert_int_equal(fix_record(path, NULL, 5, true), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	snprintf(wal, sizeof(wal), "%s-wal", path);
	assert_int_equal(access(wal, F_OK), -1);
	fix_remove(path);
}

/* 8 MiB of disk: the recorder says so in one sentence, and what was committed is there. */
static void check_full_disk(const char *path, int want)
{
	struct sonde_writer_opts opts = {0};
	struct sonde_writer *w = NULL;
	struct fix_log log;
	char said[1024], *second;
	FILE *err_out;
	int saved, err;

	assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
	saved = capture_begin(&err_out);
	err = fix_push(sonde_writer_visitor(w), 100000, true);
	/* It stays stopped, and does not say it again. */
	assert_int_equal(sonde_visit(sonde_writer_visitor(w), tick, FIX_MONO), want);
	sonde_writer_close(&w);
	capture_end(saved, err_out, said, sizeof(said));
	assert_int_equal(err, want);
	assert_non_null(strstr(said, "stopped: "));
	assert_non_null(strstr(said, "what was seen until 2026-11-30T"));
	second = strchr(said, '\n');
	assert_non_null(second);
	assert_string_equal(second, "\n");

	fix_log_init(&log);
	visit(path, &log);
	assert_true(log.n_ticks > 20);
	assert_int_equal(log.n_spans, log.n_ticks * FIX_SPANS_PER_TICK);
	assert_int_equal(log.hist.count, log.n_spans);
	fix_log_fini(&log);
}

/* A tmpfs of its own, in a mount namespace that this program alone is in. */
static void test_full_disk(void **state)
{
	char dir[] = "/tmp/sonde-test-full-XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", dir, "tmpfs", 0, "size=8m")) {
		rmdir(dir);
		print_message("skipped: no mount namespace or tmpfs here\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/x.sonde", dir);
	check_full_disk(path, -ENOSPC);
	umount(dir);
	rmdir(dir);
}

static int restore_limit(void **state)
{
	struct rlimit limit;

	(void)state;
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_FSIZE, &limit);
}

/* The same through a file size limit, which SQLite reports as an I/O error. */
static void test_file_size_limit(void **state)
{
	const char *path = fix_path("limit");
	struct rlimit limit;

	(void)state;
	fix_remove(path);
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = 3 << 20;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	check_full_disk(path, -EIO);
	fix_remove(path);
}

static int collect_durations(void *ctx, const struct sonde_span *s)
{
	uint64_t *sum = ctx;

	sum[0]++;
	sum[1] += sonde_span_duration_ns(s);
	return 0;
}

/* 250 ms and 1.999, 1.998 ... once each (1800 spans hold each of them at least once). */
static void test_slowest_per_hour(void **state)
{
	const char *path = fix_path("hour");
	struct sonde_writer_opts opts = {.spans = {SONDE_SPANS_SLOWEST, 4}};
	uint64_t sum[2] = {0};
	struct sonde_visitor v = {.ctx = sum, .span = collect_durations};
	struct sonde_reader *r = NULL;

	(void)state;
	assert_int_equal(fix_record(path, &opts, FIX_TICKS, true), 0);
	assert_int_equal(sonde_reader_open(&r, path), 0);
	assert_int_equal(sonde_reader_visit(r, NULL, &v), 0);
	assert_int_equal(sum[0], 4);
	assert_int_equal(sum[1], 250000000 + 1999000 + 1998000 + 1997000);
	assert_string_equal(sonde_meta_find(sonde_reader_meta(r), "recording.spans_seen"), "1800");
	assert_string_equal(sonde_meta_find(sonde_reader_meta(r), "recording.spans_stored"), "4");
	assert_string_equal(sonde_meta_find(sonde_reader_meta(r), "recording.spans"),
			    "slowest=4/h");
	sonde_reader_free(&r);
	fix_remove(path);
}

static void test_no_spans(void **state)
{
	const char *path = fix_path("none");
	struct sonde_writer_opts opts = {.spans = {SONDE_SPANS_NONE, 0}};
	struct fix_log log;

	(void)state;
	fix_log_init(&log);
	assert_int_equal(fix_record(path, &opts, FIX_TICKS, true), 0);
	visit(path, &log);
	assert_int_equal(log.n_spans, 0);
	assert_int_equal(log.hist.count, FIX_TICKS * FIX_SPANS_PER_TICK);
	fix_log_fini(&log);
	fix_remove(path);
}

/* At the bound spans stop, with a note; histograms and ticks do not. */
static void test_max_bytes(void **state)
{
	const char *path = fix_path("max");
	struct sonde_writer_opts opts = {.max_bytes = 1 << 20};
	struct sonde_writer *w = NULL;
	struct sonde_writer_stats stats;
	struct fix_log log;

	(void)state;
	fix_remove(path);
	fix_log_init(&log);
	assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
	assert_int_equal(fix_push(sonde_writer_visitor(w), 1000, true), 0);
	sonde_writer_stats(w, &stats);
	assert_int_equal(sonde_writer_close(&w), 0);
	assert_int_equal(stats.spans_seen, 20000);
	assert_true(stats.spans_stored > 1000 && stats.spans_stored < 10000);
	visit(path, &log);
	assert_int_equal(log.n_spans, stats.spans_stored);
	assert_int_equal(log.n_ticks, 1000);
	assert_int_equal(log.hist.count, 20000);
	assert_non_null(strstr(log.notes.s, "reached its bound of 1.00 MiB"));
	fix_log_fini(&log);
	fix_remove(path);
}

static off_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_size;
}

/* What was committed reaches the recording while it is written, not only at its end. */
static void test_checkpoints(void **state)
{
	const char *path = fix_path("checkpoint");
	struct sonde_writer_opts opts = {0};
	struct sonde_writer *w = NULL;
	const struct sonde_visitor *v;
	uint64_t give_up;

	(void)state;
	fix_remove(path);
	assert_int_equal(sonde_writer_open(&w, path, &opts), 0);
	v = sonde_writer_visitor(w);
	assert_int_equal(fix_push_begin(v), 0);
	for (uint64_t i = 0; i < 300000; i++) {
		char client[32];
		struct sonde_span s = fix_span(i, client, sizeof(client));

		assert_int_equal(sonde_visit(v, span, &s), 0);
		if (i % 20000 == 19999)
			assert_int_equal(sonde_visit(v, tick, s.last_ns), 0);
	}
	give_up = sonde_mono_ns() + 30 * SONDE_NS_PER_SEC;
	while (size_of(path) < (8 << 20) && sonde_mono_ns() < give_up)
		usleep(10000);
	assert_true(size_of(path) >= (8 << 20));
	assert_int_equal(sonde_writer_close(&w), 0);
	fix_remove(path);
}

static void test_parse_spans(void **state)
{
	static const struct {
		const char *text;
		int err;
		struct sonde_spans_choice want;
	} rows[] = {
		{"all", 0, {SONDE_SPANS_ALL, 0}},
		{"none", 0, {SONDE_SPANS_NONE, 0}},
		{"slowest=100/h", 0, {SONDE_SPANS_SLOWEST, 100}},
		{"slowest=0/h", -EINVAL, {0}},
		{"slowest=-1/h", -EINVAL, {0}},
		{"slowest= 1/h", -EINVAL, {0}},
		{"slowest=100", -EINVAL, {0}},
		{"slowest=100/d", -EINVAL, {0}},
		{"slowest=100/hour", -EINVAL, {0}},
		{"slowest=99999999999/h", -EINVAL, {0}},
		{"slowest", -EINVAL, {0}},
		{"", -EINVAL, {0}},
		{"ALL", -EINVAL, {0}},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		struct sonde_spans_choice got = {0};

		assert_int_equal(sonde_parse_spans(rows[i].text, &got), rows[i].err);
		assert_int_equal(got.mode, rows[i].want.mode);
		assert_int_equal(got.slowest_n, rows[i].want.slowest_n);
	}
}

/* Within a factor of 2 for spans, and for series alone. */
static void test_projected_size(void **state)
{
	const char *path = fix_path("size");
	static const struct sonde_spans_choice choices[] = {{SONDE_SPANS_ALL, 0},
							    {SONDE_SPANS_NONE, 0}};
	struct sonde_writer_forecast f = {
		.spans_per_s = FIX_SPANS_PER_TICK,
		.metric_series = FIX_SERIES,
		.hist_series = 1,
		.interval_ns = SONDE_NS_PER_SEC,
		.duration_ns = 3000 * SONDE_NS_PER_SEC,
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(choices); i++) {
		struct sonde_writer_opts opts = {.spans = choices[i]};
		uint64_t projected = sonde_writer_projected_bytes(&opts, &f);
		struct stat st;

		assert_int_equal(fix_record(path, &opts, 3000, true), 0);
		assert_int_equal(stat(path, &st), 0);
		print_message("projected %llu, is %llu\n", (unsigned long long)projected,
			      (unsigned long long)st.st_size);
		assert_in_range((uint64_t)st.st_size, projected / 2, projected * 2);
	}
	fix_remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kill_9),
		cmocka_unit_test(test_existing_file_is_kept),
		cmocka_unit_test(test_two_writers),
		cmocka_unit_test(test_file_taken_away),
		cmocka_unit_test(test_stale_log_is_refused),
		cmocka_unit_test(test_finished_is_one_private_file),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test_teardown(test_file_size_limit, restore_limit),
		cmocka_unit_test(test_slowest_per_hour),
		cmocka_unit_test(test_no_spans),
		cmocka_unit_test(test_max_bytes),
		cmocka_unit_test(test_checkpoints),
		cmocka_unit_test(test_parse_spans),
		cmocka_unit_test(test_projected_size),
	};

	return cmocka_run_group_tests_name("record/writer", tests, NULL, NULL);
}
