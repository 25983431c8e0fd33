// SPDX-License-Identifier: GPL-2.0-or-later
/* Strings that grow, and bytes of a stranger made valid UTF-8. */
#include "unit/unit.h"

#include "core/mem.h"
#include "core/str.h"

static void test_grow(void **state)
{
	sonde_autostr struct sonde_str s = {0};

	(void)state;
	assert_string_equal(sonde_str_get(&s), "");
	for (int i = 0; i < 1000; i++)
		assert_int_equal(sonde_str_addf(&s, "%d,", i % 10), 0);
	assert_int_equal(s.len, 2000);
	assert_int_equal(strlen(sonde_str_get(&s)), 2000);
	sonde_str_clear(&s);
	assert_string_equal(sonde_str_get(&s), "");
}

#define REPL "\xef\xbf\xbd"

static void test_utf8(void **state)
{
	static const struct {
		const char *in;
		size_t len;
		const char *out;
	} rows[] = {
		{"plain", 5, "plain"},
		{"a\tb\nc", 5, "a\tb\nc"},
		{"a\0b", 3, "a" REPL "b"},
		{"\x1b[31m", 5, REPL "[31m"},
		{"\xc3\xa9", 2, "\xc3\xa9"},
		{"\xe2\x82\xac", 3, "\xe2\x82\xac"},
		{"\xf0\x9f\x98\x80", 4, "\xf0\x9f\x98\x80"},
		{"\xc2\x9b"
		 "31m",
		 5, REPL "31m"}, /* C1: CSI in one character */
		{"\xc2\xa0", 2, "\xc2\xa0"},
		{"\xc3", 1, REPL},			      /* cut */
		{"\xc0\xaf", 2, REPL REPL},		      /* overlong */
		{"\xe0\x80\x80", 3, REPL REPL REPL},	      /* overlong */
		{"\xed\xa0\x80", 3, REPL REPL REPL},	      /* surrogate */
		{"\xf4\x90\x80\x80", 4, REPL REPL REPL REPL}, /* above U+10FFFF */
		{"\xff"
		 "a",
		 2, REPL "a"},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		sonde_autostr struct sonde_str s = {0};

		assert_int_equal(sonde_str_add_utf8(&s, rows[i].in, rows[i].len), 0);
		assert_string_equal(sonde_str_get(&s), rows[i].out);
	}
}

static void test_plain(void **state)
{
	char buf[8];

	(void)state;
	assert_string_equal(SONDE_PLAIN("a\nb\tc\x1b[2J\xff"), "a b c" REPL "[2J" REPL);
	assert_string_equal(SONDE_PLAIN(""), "");
	/* Cut between characters, never inside one. */
	assert_string_equal(sonde_plain(buf, sizeof(buf), "12345\xc3\xa9"), "12345\xc3\xa9");
	assert_string_equal(sonde_plain(buf, sizeof(buf), "123456\xc3\xa9"), "123456");
	assert_string_equal(sonde_plain(buf, sizeof(buf), "123456\xff"), "123456");
	assert_string_equal(sonde_plain(buf, 1, "x"), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grow),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
