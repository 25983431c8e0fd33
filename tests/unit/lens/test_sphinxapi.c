// SPDX-License-Identifier: GPL-2.0-or-later
/* Bodies of SphinxAPI requests, built as clients build them. */
#include "unit/unit.h"

#include "core/mem.h"
#include "lens/query.h"

struct body {
	char b[1024];
	size_t n;
};

static void u32(struct body *o, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		o->b[o->n++] = (char)(v >> shift);
}

static void str(struct body *o, const char *s)
{
	u32(o, (uint32_t)strlen(s));
	memcpy(o->b + o->n, s, strlen(s));
	o->n += strlen(s);
}

/* @flags: the word that came with version 0x11b; @expr: a ranker with an expression. */
static void search(struct body *o, bool flags, const char *expr, unsigned queries)
{
	u32(o, 0);
	u32(o, queries);
	for (unsigned i = 0; i < queries; i++) {
		if (flags)
			u32(o, 0);
		u32(o, 0);
		u32(o, 20);
		u32(o, 6);
		u32(o, expr ? 8 : 0);
		if (expr)
			str(o, expr);
		u32(o, 4);
		str(o, "gid desc");
		str(o, i ? "second" : "hello world");
		u32(o, 2);
		u32(o, 100);
		u32(o, 1);
		str(o, i ? "other" : "docs, rt");
		u32(o, 1);
	}
}

#define assert_part(text, n, want)                                                                 \
	do {                                                                                       \
		assert_int_equal(n, strlen(want));                                                 \
		assert_memory_equal(text, want, n);                                                \
	} while (0)

static void test_search(void **state)
{
	static const struct {
		unsigned version, queries;
		bool flags;
		const char *expr;
	} rows[] = {
		{0x119, 1, false, NULL},       {0x119, 3, false, NULL},
		{0x119, 1, false, "sum(lcs)"}, {0x11e, 1, true, NULL},
		{0x11e, 2, true, "sum(lcs)"},  {0x128, 1, true, NULL},
		{0x11b, 1, false, NULL}, /* builds of that time disagree */
	};
	struct sonde_api_request r;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		struct body o = {.n = 0};

		search(&o, rows[i].flags, rows[i].expr, rows[i].queries);
		assert_true(sonde_sphinxapi_decode(0, rows[i].version, o.b, o.n, &r));
		assert_int_equal(r.queries, rows[i].queries);
		assert_part(r.text, r.text_len, "hello world");
		assert_part(r.index, r.index_len, "docs, rt");
		assert_part(r.order, r.order_len, "gid desc");
	}
}

/* Captured only in part: what is there is right, what is not is empty. */
static void test_short(void **state)
{
	struct body o = {.n = 0};
	struct sonde_api_request r;

	(void)state;
	search(&o, false, NULL, 1);
	for (size_t len = 0; len < o.n; len++) {
		assert_true(sonde_sphinxapi_decode(0, 0x119, o.b, len, &r));
		assert_true(r.text_len <= strlen("hello world"));
		assert_memory_equal(r.text, "hello world", r.text_len);
		assert_memory_equal(r.index, "docs, rt", r.index_len);
	}
}

static void test_others(void **state)
{
	struct body o = {.n = 0};
	struct sonde_api_request r;

	(void)state;
	u32(&o, 0);
	u32(&o, 1);
	str(&o, "docs");
	str(&o, "some words");
	assert_true(sonde_sphinxapi_decode(1, 0x104, o.b, o.n, &r));
	assert_part(r.index, r.index_len, "docs");
	assert_part(r.text, r.text_len, "some words");
	o.n = 0;
	str(&o, "SELECT 1");
	assert_true(sonde_sphinxapi_decode(8, 0x100, o.b, o.n, &r));
	assert_true(r.is_sql);
	assert_part(r.text, r.text_len, "SELECT 1");
	o.n = 0;
	str(&o, "a b");
	str(&o, "docs");
	u32(&o, 1);
	assert_true(sonde_sphinxapi_decode(3, 0x101, o.b, o.n, &r));
	assert_part(r.index, r.index_len, "docs");
	o.n = 0;
	u32(&o, 0);
	assert_true(sonde_sphinxapi_decode(5, 0x101, o.b, o.n, &r));
	assert_int_equal(r.index_len, 0);
}

static void test_nonsense(void **state)
{
	char junk[64];
	struct sonde_api_request r;

	(void)state;
	memset(junk, 0xff, sizeof(junk));
	assert_false(sonde_sphinxapi_decode(0, 0x119, junk, sizeof(junk), &r));
	assert_false(sonde_sphinxapi_decode(8, 0x100, junk, sizeof(junk), &r));
}

static void test_names(void **state)
{
	size_t n = 10;

	(void)state;
	assert_string_equal(sonde_sphinxapi_command_name(0), "search");
	assert_string_equal(sonde_sphinxapi_command_name(21), "optimize");
	assert_string_equal(sonde_sphinxapi_command_name(22), "unknown");
	assert_string_equal(sonde_mysql_command_name(3), "query");
	assert_string_equal(sonde_mysql_command_name(0), "unknown");
	assert_string_equal(sonde_mysql_command_name(200), "unknown");
	assert_string_equal(sonde_mysql_statement("\0\1SELECT 1", &n), "SELECT 1");
	assert_int_equal(n, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_search), cmocka_unit_test(test_short),
		cmocka_unit_test(test_others), cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
