// SPDX-License-Identifier: GPL-2.0-or-later
/* HTTP/1.1 on a connection: byte streams in, spans out. */
#include "unit/unit.h"

#include "conn_env.h"

static struct sonde_conn conn;

static void reads(const char *s, uint64_t now)
{
	env_io(&conn, false, s, (uint32_t)strlen(s), (uint32_t)strlen(s), now);
}

static void sends(const char *s, uint64_t now)
{
	env_io(&conn, true, s, (uint32_t)strlen(s), (uint32_t)strlen(s), now);
}

#define OK  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define GET "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"

/* An answer in pieces ends with its last, as the next request shows. */
static void test_keep_alive(void **state)
{
	const struct sonde_ev_span *s = &env.spans[0];

	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	env_ready(&conn, 5);
	reads(GET, 10);
	sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 20);
	sends("5\r\nhello\r\n", 30);
	sends("0\r\n\r\n", 40);
	assert_int_equal(env.n_spans, 0);
	reads(GET, 50);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(s->proto, SONDE_PROTO_HTTP);
	assert_int_equal(s->command, SONDE_HTTP_GET);
	assert_int_equal(s->arrival_ns, 5);
	assert_int_equal(s->first_ns, 20);
	assert_int_equal(s->last_ns, 40);
	assert_int_equal(s->status, SONDE_SPAN_OK);
	assert_int_equal(s->bytes_in, strlen(GET));
	assert_int_equal(s->flags, SONDE_SPAN_F_END_GUESSED);
	sends(OK, 60);
	conn_eof(&conn);
	assert_int_equal(env.n_spans, 2);
	assert_int_equal(env.spans[1].last_ns, 60);
}

/* A body in several reads, "100 Continue" in between, an error as the answer. */
static void test_body_and_error(void **state)
{
	const struct sonde_ev_span *s = &env.spans[0];

	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	reads("POST /sql HTTP/1.1\r\nExpect: 100-continue\r\n\r\n", 10);
	sends("HTTP/1.1 100 Continue\r\n\r\n", 12);
	reads("query=SELECT", 14);
	reads("+1", 16);
	sends("HTTP/1.1 500 Internal\r\n\r\n", 20);
	conn_eof(&conn);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(s->request_end_ns, 16);
	assert_int_equal(s->first_ns, 20);
	assert_int_equal(s->status, SONDE_SPAN_ERROR);
	assert_int_equal(s->error, 500);
	assert_memory_equal(s->text + s->text_len - 14, "query=SELECT+1", 14);
}

/* Asked one behind the other, answered one behind the other. */
static void test_pipelined(void **state)
{
	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	reads(GET, 10);
	reads("HEAD /b HTTP/1.1\r\n\r\n", 11);
	reads("PUT /c HTTP/1.1\r\n\r\n", 12);
	sends(OK, 20);
	sends("HTTP/1.1 404 Not Found\r\n\r\n", 30);
	sends(OK, 40);
	reads(GET, 50);
	assert_int_equal(env.n_spans, 3);
	assert_int_equal(env.spans[0].last_ns, 20);
	assert_int_equal(env.spans[1].command, SONDE_HTTP_HEAD);
	assert_int_equal(env.spans[1].error, 404);
	assert_int_equal(env.spans[1].last_ns, 30);
	assert_int_equal(env.spans[2].command, SONDE_HTTP_PUT);
	assert_int_equal(env.spans[2].last_ns, 40);
}

/* Cut off before any answer: aborted; the answer begun: ended with what was sent. */
static void test_closed(void **state)
{
	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	reads(GET, 10);
	conn_close(&conn, 20);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(env.spans[0].status, SONDE_SPAN_ABORTED);
	assert_int_equal(env.spans[0].last_ns, 20);
	reads(GET, 30);
	sends(OK, 40);
	conn_close(&conn, 90);
	assert_int_equal(env.n_spans, 2);
	assert_int_equal(env.spans[1].status, SONDE_SPAN_OK);
	assert_int_equal(env.spans[1].last_ns, 40);
}

/* Open before attach, in the middle of a body: taken up at the next request. */
static void test_taken_up(void **state)
{
	(void)state;
	env_reset(&conn, 0);
	reads("and the rest of a body", 5);
	sends(OK, 6);
	reads(GET, 10);
	sends(OK, 20);
	conn_eof(&conn);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(env.spans[0].last_ns, 20);
}

/* What the server says by itself when it tires of waiting is no part of the answer before; nor is
 * an answer to a request that was not known as one. */
static void test_answers_to_nothing(void **state)
{
	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	reads(GET, 10);
	sends(OK, 20);
	sends("HTTP/1.1 408 Request Timeout\r\n\r\n", 60000);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(env.spans[0].status, SONDE_SPAN_OK);
	assert_int_equal(env.spans[0].last_ns, 20);
	assert_int_equal(env.drops[SONDE_DROP_UNMATCHED], 1);
	reads(GET, 70000);
	sends(OK, 70010);
	reads("PROPFIND /x HTTP/1.1\r\n\r\n", 80000);
	sends("HTTP/1.1 405 Not Allowed\r\n\r\n", 80010);
	assert_int_equal(env.n_spans, 2);
	assert_int_equal(env.spans[1].last_ns, 70010);
	assert_int_equal(env.spans[1].status, SONDE_SPAN_OK);
	assert_int_equal(env.drops[SONDE_DROP_UNMATCHED], 2);
}

/* Another protocol from here on: said once, and let go. */
static void test_upgrade(void **state)
{
	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	reads("GET /socket HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", 10);
	sends("HTTP/1.1 101 Switching Protocols\r\n\r\n", 20);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(env.drops[SONDE_DROP_UNDECODED], 1);
	reads("\x81\x05hello", 30);
	sends("\x81\x05hello", 40);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(env.drops[SONDE_DROP_UNDECODED], 1);
}

/* What sendfile moves cannot be looked at, and is part of the answer. */
static void test_sendfile(void **state)
{
	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	reads(GET, 10);
	sends("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", 20);
	env_io(&conn, true, "", 99, 0, 30);
	reads(GET, 40);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(env.spans[0].last_ns, 30);
	assert_int_equal(env.drops[SONDE_DROP_GAP], 0);
}

/* More than can wait: said, and the connection goes on. */
static void test_too_many(void **state)
{
	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	for (int i = 0; i < SONDE_CONN_QUEUE + 3; i++)
		reads(GET, 10 + (uint64_t)i);
	assert_int_equal(env.drops[SONDE_DROP_NO_END], 2);
	for (int i = 0; i < SONDE_CONN_QUEUE + 1; i++)
		sends(OK, 100 + (uint64_t)i);
	reads(GET, 200);
	assert_int_equal(env.n_spans, SONDE_CONN_QUEUE + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keep_alive),	   cmocka_unit_test(test_body_and_error),
		cmocka_unit_test(test_pipelined),	   cmocka_unit_test(test_closed),
		cmocka_unit_test(test_taken_up),	   cmocka_unit_test(test_upgrade),
		cmocka_unit_test(test_sendfile),	   cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_answers_to_nothing),
	};

	return cmocka_run_group_tests_name("lens/conn_http", tests, NULL, NULL);
}
