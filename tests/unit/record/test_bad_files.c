// SPDX-License-Identifier: GPL-2.0-or-later
/* Files that are no recording, or no longer one, or not yet: one sentence each, and never a crash.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/file.h"
#include "unit/record/fixture.h"

static char said[2048];

/* Open @path; what it logged is in said. */
static int try_open(const char *path)
{
	struct sonde_reader *r = NULL;
	FILE *out = tmpfile();
	int saved = dup(2), err;
	size_t n;

	fflush(stderr);
	dup2(fileno(out), 2);
	err = sonde_reader_open(&r, path);
	fflush(stderr);
	dup2(saved, 2);
	close(saved);
	rewind(out);
	n = fread(said, 1, sizeof(said) - 1, out);
	said[n] = '\0';
	fclose(out);
	sonde_reader_free(&r);
	return err;
}

/* Refused with @want, in one line that contains @words. */
static void assert_refused(const char *path, int want, const char *words)
{
	int err = try_open(path);
	const char *end = strchr(said, '\n');

	assert_int_equal(err, want);
	if (!strstr(said, words))
		fail_msg("'%s' is not in: %s", words, said);
	assert_non_null(end);
	assert_string_equal(end, "\n");
}

static void write_bytes(const char *path, const char *bytes, size_t n)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

static void sql(const char *path, const char *text)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void test_no_file(void **state)
{
	(void)state;
	assert_refused("/nonexistent/x.sonde", -ENOENT,
		       "cannot open recording /nonexistent/x.sonde");
	assert_refused("/tmp", -EBADMSG, "not a regular file");
}

static void test_other_files(void **state)
{
	const char *path = fix_path("other");

	(void)state;
	write_bytes(path, "", 0);
	assert_refused(path, -EBADMSG, "has only 0 bytes");
	write_bytes(path, "hello", 5);
	assert_refused(path, -EBADMSG, "has only 5 bytes");
	for (int i = 0; i < 2; i++) {
		char junk[4096];

		memset(junk, i ? 0xff : 'x', sizeof(junk));
		write_bytes(path, junk, sizeof(junk));
		assert_refused(path, -EBADMSG, "is not a sonde recording; make one with");
	}
	fix_remove(path);
	sql(path, "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
	assert_refused(path, -EBADMSG, "is not a sonde recording; make one with");
	fix_remove(path);
}

static void test_versions(void **state)
{
	const char *path = fix_path("version");

	(void)state;
	assert_int_equal(fix_record(path, NULL, 3, true), 0);
	sql(path, "PRAGMA user_version = 99");
	assert_refused(path, -EPROTO, "newer sonde (schema 99, this one reads up to ");
	sql(path, "PRAGMA user_version = 0");
	assert_refused(path, -EBADMSG, "no schema version");
	sql(path,
	    "PRAGMA user_version = 1; DROP VIEW query; DROP VIEW call_site;"
	    "ALTER TABLE span DROP COLUMN heap_freed;"
	    "ALTER TABLE span DROP COLUMN heap_allocated;"
	    "DROP TABLE anatomy; DROP TABLE stack_count; DROP TABLE stack_frame; DROP TABLE stack;"
	    "DROP TABLE frame");
	assert_int_equal(try_open(path), 0);
	fix_remove(path);
}

/* Our application id, but not our tables; a view in a table's place could run anything. */
static void test_wrong_tables(void **state)
{
	const char *path = fix_path("tables");

	(void)state;
	fix_remove(path);
	sql(path,
	    "PRAGMA application_id = 1397706308; PRAGMA user_version = 1; CREATE TABLE meta (x)");
	assert_refused(path, -EBADMSG, "its tables are not a recording's");
	assert_int_equal(fix_record(path, NULL, 3, true), 0);
	sql(path, "DROP TABLE span; CREATE VIEW span AS WITH RECURSIVE r(x) AS "
		  "(SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x FROM r");
	assert_refused(path, -EBADMSG, "its tables are not a recording's");
	fix_remove(path);
}

static int visit_all(const char *path)
{
	struct sonde_reader *r = NULL;
	struct fix_log log;
	int err;

	fix_log_init(&log);
	err = sonde_reader_open(&r, path);
	if (!err)
		err = sonde_reader_visit(r, NULL, &log.visitor);
	sonde_reader_free(&r);
	fix_log_fini(&log);
	return err;
}

/* What cannot have been counted or measured is not shown as if it had. */
static void test_impossible_values(void **state)
{
	static const char *const edits[] = {
		"UPDATE value SET value = 9e999",
		"UPDATE hist_window SET count = -9223372036854775808",
		"INSERT OR REPLACE INTO drops (ts_ns, lens, cause, count) "
		"SELECT ts_ns, 4, 0, -1 FROM tick LIMIT 1",
		"UPDATE span SET bytes_out = -1",
		"UPDATE span SET heap_freed = -1",
	};
	const char *path = fix_path("impossible");

	(void)state;
	for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
		fix_remove(path);
		assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
		sql(path, edits[i]);
		assert_int_equal(visit_all(path), -EBADMSG);
	}
	fix_remove(path);
}

/* Cut anywhere, it is refused or read up to the damage: an error each time, for bytes are missing.
 */
static void test_truncated(void **state)
{
	const char *path = fix_path("cut");
	struct stat st;

	(void)state;
	assert_int_equal(fix_record(path, NULL, FIX_TICKS, true), 0);
	assert_int_equal(stat(path, &st), 0);
	for (off_t keep = st.st_size - 4096; keep > 0; keep -= 4096 * 3 + 17) {
		assert_int_equal(truncate(path, keep), 0);
		assert_int_equal(visit_all(path), -EBADMSG);
	}
	fix_remove(path);
}

/* Values that no writer writes. */
static void test_hostile_rows(void **state)
{
	static const struct {
		const char *text;
		int err;
	} rows[] = {
		{"UPDATE hist SET bucket = 99999 WHERE bucket IN (SELECT bucket FROM hist LIMIT 1)",
		 -EBADMSG},
		{"UPDATE hist SET bucket = -1 WHERE bucket IN (SELECT bucket FROM hist LIMIT 1)",
		 -EBADMSG},
		{"UPDATE hist SET count = -5", -EBADMSG},
		{"UPDATE OR REPLACE value SET series = 77", -EBADMSG},
		{"DELETE FROM series", -EBADMSG},
		{"UPDATE OR REPLACE series SET kind = 3", -EBADMSG},
		{"DELETE FROM name", 0},
		{"DELETE FROM meta", 0},
		{"DELETE FROM fingerprint", 0},
		{"UPDATE OR REPLACE drops SET lens = 1000000, cause = -7", 0},
		{"UPDATE note SET level = -1", 0},
		{"UPDATE span SET proto = 255, status = 99, first_ns = 1, arrival_ns = -1", 0},
		{"UPDATE hist_window SET min = 9, max = 3, sum = 1e300", 0},
		{"DELETE FROM tick", 0},
		{"UPDATE meta SET value = 'junk' WHERE key LIKE 'clock.%'", 0},
	};
	const char *path = fix_path("hostile");

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		int err;

		assert_int_equal(fix_record(path, NULL, 12, true), 0);
		sql(path, rows[i].text);
		err = visit_all(path);
		if (err != rows[i].err)
			fail_msg("%s: %d", rows[i].text, err);
	}
	fix_remove(path);
}

/* Leave a recording as kill -9 leaves it: never closed, its log beside it. */
static void record_cut(const char *path)
{
	static const struct sonde_writer_opts opts;
	struct sonde_writer *w = NULL;
	pid_t pid = fork();

	if (!pid) {
		if (!sonde_writer_open(&w, path, &opts))
			fix_push(sonde_writer_visitor(w), 10, false);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Where no -shm file can be made, a finished recording reads, a cut one says what to do. */
static void test_read_only_directory(void **state)
{
	char dir[] = "/tmp/sonde-test-dir-XXXXXX", path[64], wal[80], shm[80];

	(void)state;
	if (geteuid()) {
		print_message("skipped: becoming another user needs root\n");
		skip();
	}
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/x.sonde", dir);
	snprintf(wal, sizeof(wal), "%s-wal", path);
	snprintf(shm, sizeof(shm), "%s-shm", path);
	assert_int_equal(fix_record(path, NULL, 10, true), 0);
	chmod(path, 0644);
	chmod(dir, 0555);
	assert_int_equal(seteuid(65534), 0);
	assert_int_equal(visit_all(path), 0);
	assert_int_equal(seteuid(0), 0);

	unlink(path);
	record_cut(path);
	unlink(shm);
	assert_int_equal(chmod(path, 0644) | chmod(wal, 0644), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_refused(path, -EACCES, "copy it with its -wal file to a directory that can");
	assert_int_equal(seteuid(0), 0);
	fix_remove(path);
	rmdir(dir);
}

static int be_root(void **state)
{
	(void)state;
	return seteuid(getuid());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_wrong_tables),
		cmocka_unit_test(test_impossible_values),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_hostile_rows),
		cmocka_unit_test_teardown(test_read_only_directory, be_root),
	};

	return cmocka_run_group_tests_name("record/bad_files", tests, NULL, NULL);
}
