// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exports read back by programs that share no code with sonde (the sqlite3 shell, jq), and their
 * totals held against SQL on the recording.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "export/export.h"
#include "unit/record/fixture.h"

static char db[256], out[300];

static int export_to(const char *format, const struct sonde_export_opts *opts,
		     const struct sonde_reader_filter *f)
{
	struct sonde_reader *r = NULL;
	struct sonde_export *x = NULL;
	FILE *file = fopen(out, "w");
	int err = sonde_reader_open(&r, db), err2;

	if (!err)
		err = sonde_export_open(&x, format, opts, file);
	if (!err)
		err = sonde_reader_visit(r, f, sonde_export_visitor(x));
	err2 = sonde_export_close(&x);
	sonde_reader_free(&r);
	fclose(file);
	return err ? err : err2;
}

/* What the shell command prints, without its last newline. */
static const char *shell(const char *fmt, ...)
{
	static char text[8192];
	char cmd[2048];
	va_list ap;
	FILE *p;
	size_t n;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	p = popen(cmd, "r");
	assert_non_null(p);
	n = fread(text, 1, sizeof(text) - 1, p);
	assert_int_equal(pclose(p), 0);
	text[n] = '\0';
	if (n && text[n - 1] == '\n')
		text[n - 1] = '\0';
	return text;
}

static void need(const char *tool)
{
	char cmd[64];

	snprintf(cmd, sizeof(cmd), "command -v %s >/dev/null", tool);
	if (system(cmd)) {
		print_message("skipped: %s is not installed\n", tool);
		skip();
	}
}

/* @query gives the same on the table csv (the export) as @truth on the recording. */
static void assert_csv(const char *query, const char *truth)
{
	char *want = strdup(shell("sqlite3 -readonly %s \"%s\"", db, truth));
	const char *got = shell("sqlite3 :memory: '.import --csv %s csv' \"%s\"", out, query);

	assert_string_equal(got, want);
	assert_true(*want);
	free(want);
}

static void test_csv_totals(void **state)
{
	(void)state;
	need("sqlite3");
	assert_int_equal(export_to("csv", NULL, NULL), 0);
	assert_csv("SELECT count(*), sum(duration_ns), sum(wait_ns), sum(service_ns), sum(send_ns) "
		   "FROM csv",
		   "SELECT count(*), sum(last_ns - arrival_ns), sum(start_ns - arrival_ns), "
		   "sum(first_ns - start_ns), sum(last_ns - first_ns) FROM span");
	assert_csv("SELECT sum(request_bytes), sum(response_bytes), sum(text_full_bytes) FROM csv",
		   "SELECT sum(bytes_in), sum(bytes_out), sum(request_len) FROM span");
	assert_csv("SELECT count(nullif(faults, '')), sum(CAST(faults AS INTEGER)), "
		   "sum(CAST(fault_ns AS INTEGER)) FROM csv",
		   "SELECT count(faults), sum(faults), sum(fault_ns) FROM span");
	assert_csv(
		"SELECT count(nullif(found_rows, '')), sum(CAST(found_rows AS INTEGER)) FROM csv",
		"SELECT count(found), sum(found) FROM span");
	assert_csv(
		"SELECT client, status, fingerprint, index_, count(*) FROM "
		"(SELECT *, [index] AS index_ FROM csv) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
		"SELECT client, status, fingerprint, coalesce(index_name, ''), count(*) FROM query "
		"GROUP BY 1, 2, 3 ORDER BY 1, 2, 3");
	assert_csv(
		"SELECT min(last_byte_utc), max(last_byte_utc) FROM csv",
		"SELECT strftime('%Y-%m-%dT%H:%M:%S', min(last_ns) / 1000000000, 'unixepoch') || "
		"printf('.%06dZ', min(last_ns) % 1000000000 / 1000), "
		"strftime('%Y-%m-%dT%H:%M:%S', max(last_ns) / 1000000000, 'unixepoch') || "
		"printf('.%06dZ', max(last_ns) % 1000000000 / 1000) FROM span");
	assert_csv("SELECT DISTINCT connection_id, fingerprint_id FROM csv ORDER BY 1, 2",
		   "SELECT DISTINCT '0x' || conn, '0x' || fingerprint_id FROM query ORDER BY 1, 2");
}

static void test_csv_series(void **state)
{
	struct sonde_export_opts opts = {.series = true};

	(void)state;
	need("sqlite3");
	assert_int_equal(export_to("csv", &opts, NULL), 0);
	assert_csv("SELECT metric, label, unit, kind, count(*), printf('%.0f', sum(value)), "
		   "absent_because "
		   "FROM csv GROUP BY 1, 2 ORDER BY 1, 2",
		   "SELECT s.name, s.label, s.unit, e.name, count(*), printf('%.0f', "
		   "coalesce(sum(v.value), 0)), "
		   "coalesce(n.name, '') FROM value v JOIN series s ON s.id = v.series "
		   "JOIN enum e ON e.kind = 'series' AND e.value = s.kind "
		   "LEFT JOIN name n ON n.id = v.absent GROUP BY 1, 2 ORDER BY 1, 2");
	/* Absent is an empty cell, not 0. */
	assert_string_equal(shell("sqlite3 :memory: '.import --csv %s csv' "
				  "\"SELECT DISTINCT value FROM csv WHERE metric = 'rss.swap'\"",
				  out),
			    "");
}

static void test_slowest_and_since(void **state)
{
	struct sonde_reader_filter f = {.slowest = 7, .since_ns = FIX_REAL + 20 * SONDE_NS_PER_SEC};

	(void)state;
	need("sqlite3");
	assert_int_equal(export_to("csv", NULL, &f), 0);
	assert_csv("SELECT duration_ns, seq, client FROM csv",
		   "SELECT duration_ns, seq, client FROM query WHERE last_ns >= (SELECT min(ts_ns) "
		   "FROM tick) "
		   "+ 19000000000 ORDER BY duration_ns DESC, id LIMIT 7");
}

/* @filter on the JSON lines gives the same as @truth on the recording. */
static void assert_json(const char *filter, const char *truth)
{
	char *want = strdup(shell("sqlite3 -readonly %s \"%s\"", db, truth));
	const char *got = shell("jq -s -r '%s' %s", filter, out);

	assert_string_equal(got, want);
	assert_true(*want);
	free(want);
}

static void test_jsonl_totals(void **state)
{
	(void)state;
	need("jq");
	need("sqlite3");
	assert_int_equal(export_to("jsonl", NULL, NULL), 0);
	assert_json("map(select(.type == \"span\")) | \"\\(length)|\\(map(.duration_ns) | add)\"",
		    "SELECT count(*), sum(duration_ns) FROM query");
	assert_json("map(select(.type == \"span\" and has(\"faults\"))) | "
		    "\"\\(length)|\\(map(.fault_ns) | add)\"",
		    "SELECT count(faults), sum(fault_ns) FROM span");
	assert_json("map(select(.type == \"histogram\")) | \"\\(map(.count) | add)|"
		    "\\(map(.buckets[] | .[1]) | add)|\\(map(.buckets[] | .[0] * .[1]) | add)\"",
		    "SELECT (SELECT sum(count) FROM hist_window), sum(count), sum(low * count) "
		    "FROM histogram");
	assert_json(
		"map(select(.type == \"metric\" and .name == \"rss.total\")) | map(.value) | add",
		"SELECT printf('%.0f', sum(value)) FROM metric WHERE name = 'rss.total'");
	assert_json("map(select(.type == \"metric\" and has(\"absent_because\"))) | "
		    "\"\\(length)|\\(map(has(\"value\")) | any)|\\(.[0].absent_because)\"",
		    "SELECT count(*), 'false', absent FROM metric WHERE value IS NULL");
	assert_json("map(select(.type == \"note\"))[0] | \"\\(.level)|\\(.what)|\\(.remedy)\"",
		    "SELECT 'degraded', what, remedy FROM note");
	assert_json("map(select(.type == \"drops\")) | map(.count) | max",
		    "SELECT max(count) FROM drops");
	assert_json("map(select(.type == \"drops\")) | length",
		    "SELECT count(*) FROM drops WHERE count > 0");
	assert_json("map(select(.type == \"meta\"))[0].meta[\"kernel.release\"]",
		    "SELECT value FROM meta WHERE key = 'kernel.release'");
	assert_json(
		"map(select(.type == \"span\"))[1] | \"\\(.connection_id)|\\(.fingerprint_id)\"",
		"SELECT '0x' || conn, '0x' || fingerprint_id FROM query WHERE id = 2");
}

/* An export of a recording that is still growing holds its finished intervals. */
static void test_while_written(void **state)
{
	struct sonde_writer_opts opts = {0};
	struct sonde_writer *w = NULL;
	struct sonde_hist h;
	char finished[sizeof(db)];

	(void)state;
	need("sqlite3");
	snprintf(finished, sizeof(finished), "%s", db);
	snprintf(db, sizeof(db), "%s", fix_path("live.sonde"));
	fix_remove(db);
	assert_int_equal(sonde_hist_init(&h), 0);
	assert_int_equal(sonde_writer_open(&w, db, &opts), 0);
	assert_int_equal(fix_push(sonde_writer_visitor(w), 5, false), 0);
	assert_int_equal(fix_push_spans(sonde_writer_visitor(w), 5, &h), 0);
	assert_int_equal(export_to("csv", NULL, NULL), 0);
	assert_string_equal(
		shell("sqlite3 :memory: '.import --csv %s csv' 'SELECT count(*) FROM csv'", out),
		"100");
	assert_int_equal(sonde_writer_close(&w), 0);
	sonde_hist_fini(&h);
	fix_remove(db);
	snprintf(db, sizeof(db), "%s", finished);
}

static int setup(void **state)
{
	(void)state;
	snprintf(db, sizeof(db), "%s", fix_path("export.sonde"));
	snprintf(out, sizeof(out), "%s.out", db);
	return fix_record(db, NULL, FIX_TICKS, true);
}

static int teardown(void **state)
{
	(void)state;
	fix_remove(db);
	unlink(out);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_csv_totals),	  cmocka_unit_test(test_csv_series),
		cmocka_unit_test(test_slowest_and_since), cmocka_unit_test(test_jsonl_totals),
		cmocka_unit_test(test_while_written),
	};

	return cmocka_run_group_tests_name("export/read_back", tests, setup, teardown);
}
