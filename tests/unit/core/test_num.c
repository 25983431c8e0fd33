// SPDX-License-Identifier: GPL-2.0-or-later
/* Numbers: the whole string or nothing, units scaled, junk refused. */
#include "unit/unit.h"

#include <errno.h>

#include "core/mem.h"
#include "core/num.h"

static void test_u64(void **state)
{
	static const struct {
		const char *text;
		int err;
		uint64_t value;
	} rows[] = {
		{"0", 0, 0},
		{"12", 0, 12},
		{"0x10", 0, 16},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"12abc", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"0x", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		uint64_t v = 7;

		assert_int_equal(sonde_parse_u64(rows[i].text, &v), rows[i].err);
		assert_int_equal(v, rows[i].err ? 7 : rows[i].value);
	}
}

static void test_units(void **state)
{
	static const struct {
		int (*parse)(const char *, uint64_t *);
		const char *text;
		int err;
		uint64_t value;
	} rows[] = {
		{sonde_parse_bytes, "4096", 0, 4096},
		{sonde_parse_bytes, "64K", 0, 65536},
		{sonde_parse_bytes, "64KiB", 0, 65536},
		{sonde_parse_bytes, "1.5G", 0, 1610612736},
		{sonde_parse_bytes, "2T", 0, 2199023255552},
		{sonde_parse_bytes, "64k", -EINVAL, 0},
		{sonde_parse_bytes, "64 K", -EINVAL, 0},
		{sonde_parse_bytes, "nan", -EINVAL, 0},
		{sonde_parse_bytes, "inf", -EINVAL, 0},
		{sonde_parse_bytes, "0x10", -EINVAL, 0},
		{sonde_parse_bytes, "99999999999T", -ERANGE, 0},
		{sonde_parse_duration, "250ms", 0, 250000000},
		{sonde_parse_duration, "30", 0, 30000000000},
		{sonde_parse_duration, "30s", 0, 30000000000},
		{sonde_parse_duration, "5m", 0, 300000000000},
		{sonde_parse_duration, "6h", 0, 21600000000000},
		{sonde_parse_duration, "2d", 0, 172800000000000},
		{sonde_parse_duration, "100us", 0, 100000},
		{sonde_parse_duration, "0", 0, 0},
		{sonde_parse_duration, "3sec", -EINVAL, 0},
		{sonde_parse_duration, "-3s", -EINVAL, 0},
		{sonde_parse_duration, "", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		uint64_t v = 7;

		assert_int_equal(rows[i].parse(rows[i].text, &v), rows[i].err);
		assert_int_equal(v, rows[i].err ? 7 : rows[i].value);
	}
}

static void test_percent(void **state)
{
	double v = 7;

	(void)state;
	assert_int_equal(sonde_parse_percent("1%", &v), 0);
	assert_true(v > 0.00999 && v < 0.01001);
	assert_int_equal(sonde_parse_percent("1", &v), -EINVAL);
	assert_int_equal(sonde_parse_percent("1%%", &v), -EINVAL);
	assert_true(v > 0.00999 && v < 0.01001);
}

static void test_format(void **state)
{
	char buf[32];

	(void)state;
	assert_string_equal(sonde_fmt_bytes(buf, sizeof(buf), 0), "0 B");
	assert_string_equal(sonde_fmt_bytes(buf, sizeof(buf), 1536), "1.50 KiB");
	assert_string_equal(sonde_fmt_bytes(buf, sizeof(buf), 28.8 * 1073741824), "28.8 GiB");
	assert_string_equal(sonde_fmt_ns(buf, sizeof(buf), 999), "999 ns");
	assert_string_equal(sonde_fmt_ns(buf, sizeof(buf), 3.9e6), "3.90 ms");
	assert_string_equal(sonde_fmt_ns(buf, sizeof(buf), 41.7e6), "41.7 ms");
	assert_string_equal(sonde_fmt_count(buf, sizeof(buf), 61240), "61,240");
	assert_string_equal(sonde_fmt_count(buf, sizeof(buf), 999), "999");
	assert_string_equal(sonde_fmt_count(buf, sizeof(buf), 1000000), "1,000,000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
