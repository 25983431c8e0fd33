// SPDX-License-Identifier: GPL-2.0-or-later
/* The Chrome trace's numbers, texts and slices: exact times, hostile bytes, times that make no
 * sense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>

#include "core/mem.h"
#include "export/chrome_impl.h"
#include "export/export.h"

static const struct sonde_clockpair clock_pair = {1000 * SONDE_NS_PER_SEC,
						  1796059710ull * SONDE_NS_PER_SEC};

static json_t *trace_of(const struct sonde_span *spans, size_t n)
{
	struct sonde_meta meta = {0};
	struct sonde_export *x = NULL;
	const struct sonde_visitor *v;
	char *text = NULL;
	json_t *all;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	sonde_meta_set_clock(&meta, &clock_pair);
	sonde_meta_set(&meta, "target.0.comm", "bad\xff\"name");
	sonde_meta_set(&meta, "target.0.pid", "12");
	assert_int_equal(sonde_export_open(&x, "chrome", NULL, f), 0);
	v = sonde_export_visitor(x);
	assert_int_equal(sonde_visit(v, begin, &meta), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(sonde_visit(v, span, &spans[i]), 0);
	assert_int_equal(sonde_visit(v, end, &meta), 0);
	assert_int_equal(sonde_export_close(&x), 0);
	fclose(f);
	all = json_loadb(text, size, 0, NULL);
	assert_non_null(all);
	free(text);
	sonde_meta_fini(&meta);
	return all;
}

/* The @nth slice of category @cat; borrowed. */
static json_t *slice(json_t *all, const char *cat, size_t nth)
{
	json_t *e;
	size_t i;

	json_array_foreach(json_object_get(all, "traceEvents"), i, e)
	{
		const char *c = json_string_value(json_object_get(e, "cat"));

		if (c && !strcmp(c, cat) && !nth--)
			return e;
	}
	return NULL;
}

static int64_t ns_of(json_t *e, const char *key)
{
	return llround(json_number_value(json_object_get(e, key)) * 1000);
}

static const char *name_of(json_t *e)
{
	return json_string_value(json_object_get(e, "name"));
}

/* Sums and differences of doubles are exact, and the ns are had back by rounding. */
static void test_times(void **state)
{
	uint64_t x = 88172645463325252ull;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		sonde_autostr struct sonde_str ts = {0}, inner = {0}, dur = {0}, rest = {0};
		uint64_t from, mid, to;
		double a, m, b;

		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		from = x % (20ull * 86400 * SONDE_NS_PER_SEC);
		mid = from + x % 1000003;
		to = mid + x % 77777777777;
		sonde_chrome_ts(&ts, from);
		sonde_chrome_ts(&inner, mid);
		sonde_chrome_dur(&dur, from, to);
		sonde_chrome_dur(&rest, mid, to);
		a = strtod(ts.s, NULL);
		m = strtod(inner.s, NULL);
		b = a + strtod(dur.s, NULL);
		assert_true(m + strtod(rest.s, NULL) == b);
		assert_true((m - a) + strtod(rest.s, NULL) == b - a);
		assert_int_equal(llround(a * 1000), from);
		assert_int_equal(llround(strtod(dur.s, NULL) * 1000), to - from);
	}
}

static void test_text(void **state)
{
	static const struct {
		const char *text, *json;
		size_t max;
	} rows[] = {
		{"plain", "\"plain\"", 10},
		{"", "\"\"", 10},
		{"a\"b\\c\n\t", "\"a\\\"b\\\\c\\u000a\\u0009\"", 20},
		{"\x01\x7f\xff", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"", 20},
		{"12345", "\"12345\"", 5},
		{"123456", "\"12345\xe2\x80\xa6\"", 5},
		{"1234\xc3\xa9", "\"1234\xe2\x80\xa6\"", 5},
		{"123456789012345678901234567890", "\"12345\xe2\x80\xa6\"", 5},
		{"</script>", "\"</script>\"", 20},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		sonde_autostr struct sonde_str s = {0};

		assert_int_equal(sonde_chrome_text(&s, rows[i].text, rows[i].max), 0);
		assert_string_equal(s.s, rows[i].json);
	}
}

static struct sonde_span whole(void)
{
	const uint64_t t = 1001 * SONDE_NS_PER_SEC + 1;

	return (struct sonde_span){
		.conn = 7,
		.seq = 1,
		.pid = 12,
		.client = "127.0.0.1:1",
		.command = "query",
		.index = "",
		.fingerprint = "SELECT ?",
		.arrival_ns = t,
		.start_ns = t + 100,
		.first_ns = t + 1000,
		.last_ns = t + 1500,
		.has_parts = true,
		.part_ns = {[SONDE_PART_QUEUED] = 100,
			    [SONDE_PART_USER] = 800,
			    [SONDE_PART_OFF_IO] = 400,
			    [SONDE_PART_UNATTRIBUTED] = 200},
	};
}

/* The parts are laid end to end; one that crosses from service to send is drawn in two pieces. */
static void test_phases_and_parts(void **state)
{
	static const struct {
		const char *name;
		int64_t at, dur;
	} want[] = {
		{"share: queued", 1000000001, 100},	  {"share: user", 1000000101, 800},
		{"share: off_io", 1000000901, 100},	  {"share: off_io", 1000001001, 300},
		{"share: unattributed", 1000001301, 200},
	};
	struct sonde_span s = whole();
	json_t *all = trace_of(&s, 1), *q = slice(all, "query", 0);

	(void)state;
	assert_string_equal(name_of(q), "SELECT ?");
	/* ts 0 is the whole second before. */
	assert_int_equal(ns_of(q, "ts"), 1);
	assert_int_equal(ns_of(q, "dur"), 1500);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(q, "args"), "user_ns")),
			 800);
	assert_null(json_object_get(json_object_get(q, "args"), "sys_brk_ns"));
	assert_string_equal(name_of(slice(all, "phase", 0)), "wait");
	assert_int_equal(ns_of(slice(all, "phase", 1), "ts"), 101);
	assert_int_equal(ns_of(slice(all, "phase", 2), "dur"), 500);
	assert_null(slice(all, "phase", 3));
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(want); i++) {
		json_t *e = slice(all, "share not order", i);

		assert_string_equal(name_of(e), want[i].name);
		assert_int_equal(ns_of(e, "ts"), want[i].at - 1000000000);
		assert_int_equal(ns_of(e, "dur"), want[i].dur);
	}
	assert_null(slice(all, "share not order", SONDE_ARRAY_SIZE(want)));
	json_decref(all);
}

/* Parts that are not the duration are no bar: nothing is clipped to fit. */
static void test_parts_that_do_not_fit(void **state)
{
	struct sonde_span s = whole();
	json_t *all;

	(void)state;
	s.part_ns[SONDE_PART_USER] = UINT64_MAX;
	all = trace_of(&s, 1);
	assert_null(slice(all, "share not order", 0));
	json_decref(all);
	s.part_ns[SONDE_PART_USER] = 799;
	all = trace_of(&s, 1);
	assert_null(slice(all, "share not order", 0));
	assert_non_null(slice(all, "query", 0));
	json_decref(all);
}

/* Lanes: the first that is free; queries of another connection have their own. */
static void test_lanes(void **state)
{
	struct sonde_span s[4] = {whole(), whole(), whole(), whole()};
	const uint64_t t = s[0].arrival_ns;
	const int64_t lanes[] = {1, 2, 1, 3};
	json_t *all;

	(void)state;
	for (int i = 0; i < 4; i++) {
		s[i].seq = (uint64_t)i + 1;
		s[i].has_parts = false;
	}
	s[1].arrival_ns = t + 700; /* pipelined */
	s[1].start_ns = t + 1500;
	s[1].first_ns = s[1].last_ns = t + 1600;
	s[2].arrival_ns = s[2].start_ns = t + 1500; /* when the first has ended */
	s[2].first_ns = s[2].last_ns = t + 1700;
	s[3].conn = 8;
	all = trace_of(s, 4);
	for (size_t i = 0; i < 4; i++) {
		json_t *e = slice(all, "query", i);

		assert_int_equal(json_integer_value(json_object_get(e, "tid")), lanes[i]);
	}
	json_decref(all);
}

/* Times in any order, none at all, the largest: still valid, and no slice of negative length. */
static void test_senseless_times(void **state)
{
	static const uint64_t times[] = {0, 1, 500, UINT64_MAX, UINT64_MAX - 1, 1ull << 62};
	struct sonde_span spans[6 * 6 * 6];
	size_t n = 0;
	json_t *all, *e;

	(void)state;
	for (size_t a = 0; a < 6; a++)
		for (size_t b = 0; b < 6; b++)
			for (size_t c = 0; c < 6; c++) {
				spans[n] = whole();
				spans[n].conn = n % 5;
				spans[n].arrival_ns = times[a];
				spans[n].start_ns = times[b];
				spans[n].first_ns = times[(a + c) % 6];
				spans[n++].last_ns = times[c];
			}
	all = trace_of(spans, n);
	for (size_t i = 0; (e = slice(all, "query", i)); i++)
		assert_true(json_number_value(json_object_get(e, "dur")) >= 0);
	for (size_t i = 0; (e = slice(all, "phase", i)); i++)
		assert_true(json_number_value(json_object_get(e, "dur")) >= 0);
	/* Those with no arrival, start, first or last byte at all. */
	assert_int_equal(json_integer_value(json_object_get(json_object_get(all, "otherData"),
							    "queries_without_time")),
			 1);
	json_decref(all);
}

static void test_nothing(void **state)
{
	json_t *all = trace_of(NULL, 0);

	(void)state;
	assert_int_equal(json_array_size(json_object_get(all, "traceEvents")), 1);
	assert_string_equal(
		json_string_value(json_object_get(
			json_object_get(json_array_get(json_object_get(all, "traceEvents"), 0),
					"args"),
			"name")),
		"bad\xef\xbf\xbd\"name");
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_phases_and_parts),
		cmocka_unit_test(test_parts_that_do_not_fit),
		cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_senseless_times),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests_name("export/chrome", tests, NULL, NULL);
}
