// SPDX-License-Identifier: GPL-2.0-or-later
/* Protocol recognisers, on bytes captured from real servers and clients and on what resembles them.
 */
#include "unit/unit.h"

#include "core/mem.h"
#include "sonde/query.h"
#include "sonde/wire.h"

#define B(s) ((const sonde_u8 *)(s))

static void test_guess(void **state)
{
	static const struct {
		const char *bytes;
		unsigned have;
		enum sonde_proto proto;
	} rows[] = {
		{"\x09\0\0\0\x03sel", 8, SONDE_PROTO_MYSQL},
		{"\x01\0\0\0\x0e\0\0\0", 5, SONDE_PROTO_MYSQL},
		{"\x09\0\0\0", 4, SONDE_PROTO_MYSQL},
		{"\0\0\1\0\x03sel", 8, SONDE_PROTO_MYSQL},     /* 64 KiB of SQL */
		{"\x09\0\0\1\x03sel", 8, SONDE_PROTO_UNKNOWN}, /* sequence 1 */
		{"\x09\0\0\0\x00sel", 8, SONDE_PROTO_UNKNOWN}, /* command 0 */
		{"\x09\0\0\0\x20sel", 8, SONDE_PROTO_UNKNOWN},
		{"\0\0\0\0", 4, SONDE_PROTO_UNKNOWN},
		{"\0\0\1\x19\0\0\1\x1e", 8, SONDE_PROTO_SPHINXAPI}, /* SEARCH of 2.2 */
		{"\0\5\1\1\0\0\0\4", 8, SONDE_PROTO_SPHINXAPI},	    /* STATUS */
		{"\0\x08\1\0\0\0\0\x10", 8, SONDE_PROTO_SPHINXAPI}, /* SPHINXQL, version 0x100 */
		{"\0\x16\1\0\0\0\0\x10", 8, SONDE_PROTO_UNKNOWN},   /* command 22 */
		{"\0\0\2\x19\0\0\1\x1e", 8, SONDE_PROTO_UNKNOWN},   /* version 2.x */
		{"\0\0\1\x19\x09\0\0\1", 8, SONDE_PROTO_UNKNOWN},   /* over 128 MiB */
		{"GET /sea", 8, SONDE_PROTO_UNKNOWN},
		{"*1\r\n$6\r\n", 8, SONDE_PROTO_UNKNOWN}, /* Redis */
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++)
		assert_int_equal(sonde_wire_guess(B(rows[i].bytes), rows[i].have), rows[i].proto);
}

static void test_greeting(void **state)
{
	(void)state;
	assert_true(sonde_mysql_is_greeting(B("\x4a\0\0\0\x0a"
					      "2.2.11"),
					    8));
	assert_true(sonde_mysql_is_greeting(B("\x6d\0\0\0\x0a"
					      "13.11.1"),
					    8)); /* two-digit major */
	assert_true(sonde_mysql_is_greeting(B("\x17\0\0\0\xff\x10\x04"
					      "#"),
					    8)); /* too many connections */
	assert_false(sonde_mysql_is_greeting(B("\x4a\0\0\1\x0a"
					       "2.2.11"),
					     8));
	assert_false(sonde_mysql_is_greeting(B("\x4a\0\0\0\x0a"
					       "x.2.11"),
					     8));
	assert_false(sonde_mysql_is_greeting(B("\x4a\0\0\0\x09"
					       "2.2.11"),
					     8));
	assert_false(sonde_mysql_is_greeting(B("\x4a\0\0\0\x0a"
					       "2.2.11"),
					     5));
}

static void test_other_protocols(void **state)
{
	(void)state;
	assert_true(sonde_wire_is_tls(B("\x16\3\1\2")));
	assert_false(sonde_wire_is_tls(B("\x16\2\1\2")));
	assert_int_equal(sonde_http_method(B("POST /sq")), SONDE_HTTP_POST);
	assert_int_equal(sonde_http_method(B("GET / HT")), SONDE_HTTP_GET);
	assert_int_equal(sonde_http_method(B("PUT /abc")), SONDE_HTTP_PUT);
	assert_int_equal(sonde_http_method(B("HEAD /ab")), SONDE_HTTP_HEAD);
	assert_int_equal(sonde_http_method(B("DELETE /")), SONDE_HTTP_DELETE);
	assert_int_equal(sonde_http_method(B("PATCH /a")), SONDE_HTTP_PATCH);
	assert_int_equal(sonde_http_method(B("OPTIONS ")), SONDE_HTTP_OPTIONS);
	assert_int_equal(sonde_http_method(B("GETS / H")), SONDE_HTTP_NONE);
	assert_int_equal(sonde_http_method(B("GET away")), SONDE_HTTP_NONE);
	assert_int_equal(sonde_http_method(B("DELETEd/")), SONDE_HTTP_NONE);
	assert_int_equal(sonde_http_status(B("HTTP/1.1 200")), 200);
	assert_int_equal(sonde_http_status(B("HTTP/1.0 404")), 404);
	assert_int_equal(sonde_http_status(B("HTTP/2.0 200")), 0);
	assert_int_equal(sonde_http_status(B("HTTP/1.1 2x0")), 0);
	assert_true(sonde_api_is_handshake(B("\0\0\0\1")));
	assert_false(sonde_api_is_handshake(B("\1\0\0\0")));
}

static void test_status(void **state)
{
	(void)state;
	assert_int_equal(sonde_mysql_status(B("\0\0\0\x0a\0\0\0\0\0\0\0\0"), 7, 7), 0x0a);
	assert_int_equal(sonde_mysql_status(B("\xfe\0\0\x0a\0\0\0\0\0\0\0\0"), 5, 5),
			 0x0a); /* EOF */
	assert_int_equal(sonde_mysql_status(B("\xfe\0\0\x0a\0\0\0\0\0\0\0\0"), 7, 7),
			 0x0a); /* OK as EOF */
	/* 300 rows affected, insert id 1: the status comes later */
	assert_int_equal(sonde_mysql_status(B("\0\xfc\x2c\1\1\x0a\0\0\0\0\0\0"), 9, 9), 0x0a);
	/* 2^24 rows affected, 8 bytes of insert id: beyond what is looked at */
	assert_int_equal(sonde_mysql_status(B("\0\xfd\0\0\1\xfe\1\2\3\4\5\6"), 20, 12), 0);
	assert_int_equal(sonde_mysql_status(B("\0\xfe\0\0\1\xfe\1\2\3\4\5\6"), 20, 12), 0);
}

static void test_packets(void **state)
{
	(void)state;
	assert_int_equal(sonde_mysql_first_packet(B("\xff\x28\x04"), 20), SONDE_MYSQL_P_ERR);
	assert_int_equal(sonde_mysql_first_packet(B("\xff\xff\xff"), 20), SONDE_MYSQL_P_PROGRESS);
	assert_int_equal(sonde_mysql_first_packet(B("\xfc\xfb\0"), 3),
			 SONDE_MYSQL_P_DATA); /* 251 columns */
	assert_int_equal(sonde_mysql_first_packet(B("\xfb/etc"), 5), SONDE_MYSQL_P_INFILE);
	assert_int_equal(sonde_mysql_row_packet(B("\xfe\0\0"), 5), SONDE_MYSQL_P_EOF);
	/* a row whose first value has 16 MiB */
	assert_int_equal(sonde_mysql_row_packet(B("\xfe\0\0"), SONDE_MYSQL_MAX_PAYLOAD),
			 SONDE_MYSQL_P_DATA);
	assert_int_equal(sonde_mysql_row_packet(B("\xfb\0\0"), 2), SONDE_MYSQL_P_DATA); /* NULL */
	assert_true(sonde_mysql_tail_is_eof(B("\5\0\0\7\xfe\0\0\2\0")));
	assert_false(sonde_mysql_tail_is_eof(B("\6\0\0\7\xfe\0\0\2\0")));
	assert_true(sonde_mysql_tail_is_ok(B("\7\0\0\7\xfe\0\0\2\0\0\0")));
}

static void test_classes(void **state)
{
	(void)state;
	assert_int_equal(sonde_query_class(SONDE_PROTO_MYSQL, 3), SONDE_QUERY_CLASS_QUERY);
	assert_int_equal(sonde_query_class(SONDE_PROTO_SPHINXAPI, 3), SONDE_QUERY_CLASS_OTHER);
	assert_int_equal(sonde_query_class(SONDE_PROTO_SPHINXAPI, 0), SONDE_QUERY_CLASS_SEARCH);
	assert_int_equal(sonde_query_class(SONDE_PROTO_UNKNOWN, 0), SONDE_QUERY_CLASS_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_guess),		cmocka_unit_test(test_greeting),
		cmocka_unit_test(test_other_protocols), cmocka_unit_test(test_status),
		cmocka_unit_test(test_packets),		cmocka_unit_test(test_classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
