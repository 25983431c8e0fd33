// SPDX-License-Identifier: GPL-2.0-or-later
/* The connection state machine: byte streams in, spans out. */
#include "unit/unit.h"

#include "conn_env.h"

static struct sonde_conn conn;

/* ---- small builders of MySQL packets ---- */

struct bytes {
	uint8_t b[1 << 16];
	uint32_t n;
};

static void packet(struct bytes *o, uint8_t seq, const void *payload, uint32_t len)
{
	uint8_t *p = o->b + o->n;

	p[0] = len & 255;
	p[1] = len >> 8 & 255;
	p[2] = len >> 16 & 255;
	p[3] = seq;
	memcpy(p + 4, payload, len);
	o->n += 4 + len;
}

static void query(struct bytes *o, const char *sql)
{
	uint8_t body[2048] = {0x03};
	size_t len = strlen(sql);

	memcpy(body + 1, sql, len);
	packet(o, 0, body, (uint32_t)len + 1);
}

static void ok(struct bytes *o, uint8_t seq, uint16_t status)
{
	uint8_t p[7] = {0, 0, 0, status & 255, status >> 8, 0, 0};

	packet(o, seq, p, 7);
}

static void eof(struct bytes *o, uint8_t seq, uint16_t status)
{
	uint8_t p[5] = {0xfe, 0, 0, status & 255, status >> 8};

	packet(o, seq, p, 5);
}

/* A result set of @cols columns and @rows rows; @last ends it: 'e' EOF packets, 'o' DEPRECATE_EOF.
 */
static void resultset(struct bytes *o, uint8_t seq, unsigned cols, unsigned rows, char last,
		      uint16_t status)
{
	uint8_t n = cols;
	uint8_t fe_ok[7] = {0xfe, 0, 0, status & 255, status >> 8, 0, 0};

	packet(o, seq++, &n, 1);
	for (unsigned i = 0; i < cols; i++)
		packet(o, seq++, "\3def\0\0\0\2id\2id\x0c\x3f\0\x0b\0\0\0\3\0\0\0\0\0", 24);
	if (last == 'e')
		eof(o, seq++, 2);
	for (unsigned i = 0; i < rows; i++)
		packet(o, seq++, "\0011", 2);
	if (last == 'e')
		eof(o, seq, status);
	else
		packet(o, seq, fe_ok, 7);
}

static void greet(struct sonde_conn *c)
{
	struct bytes o = {.n = 0};
	uint8_t hello[60] = "\x0a"
			    "2.2.11-id64-release";
	uint8_t login[40] = {0x05, 0xa2, 0, 0};

	packet(&o, 0, hello, sizeof(hello));
	env_io(c, true, o.b, o.n, o.n, 1);
	o.n = 0;
	packet(&o, 1, login, sizeof(login));
	env_io(c, false, o.b, 4, 4, 2);
	env_io(c, false, o.b + 4, o.n - 4, o.n - 4, 2);
	o.n = 0;
	ok(&o, 2, 2);
	env_io(c, true, o.b, o.n, o.n, 3);
	assert_int_equal(c->proto, SONDE_PROTO_MYSQL);
	assert_int_equal(env.n_spans, 0);
}

static unsigned all_drops(void)
{
	unsigned n = 0;

	for (int i = 0; i < SONDE_DROP__MAX; i++)
		n += env.drops[i];
	return n;
}

static void whole(struct sonde_conn *c, bool send, const struct bytes *o, uint64_t now)
{
	env_io(c, send, o->b, o->n, o->n, now);
}

/* ---- cases ---- */

static void test_simple(void **state)
{
	struct bytes q = {.n = 0}, r = {.n = 0};
	const struct sonde_ev_span *s = &env.spans[0];

	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	greet(&conn);
	env_ready(&conn, 100);
	query(&q, "SELECT 1");
	env_io(&conn, false, q.b, 4, 4, 110);
	env_io(&conn, false, q.b + 4, q.n - 4, q.n - 4, 120);
	resultset(&r, 1, 1, 1, 'e', 2);
	whole(&conn, true, &r, 130);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(s->arrival_ns, 100);
	assert_int_equal(s->start_ns, 110);
	assert_int_equal(s->request_end_ns, 120);
	assert_int_equal(s->first_ns, 130);
	assert_int_equal(s->last_ns, 130);
	assert_int_equal(s->request_len, 8);
	assert_int_equal(s->text_len, 8);
	assert_memory_equal(s->text, "SELECT 1", 8);
	assert_int_equal(s->bytes_in, q.n);
	assert_int_equal(s->bytes_out, r.n);
	assert_int_equal(s->flags, 0);
	assert_int_equal(s->statements, 1);
	assert_int_equal(s->command, SONDE_MYSQL_QUERY);
	assert_int_equal(all_drops(), 0);
}

/* Every response form, cut at every place into two sends: one span, ended by its last byte. */
static void test_response_cuts(void **state)
{
	struct bytes q = {.n = 0}, r[6];

	(void)state;
	memset(r, 0, sizeof(r));
	query(&q, "SELECT 1");
	ok(&r[0], 1, 2);
	packet(&r[1], 1, "\xff\x28\x04#42000syntax", 15);
	resultset(&r[2], 1, 3, 4, 'e', 2);
	resultset(&r[3], 1, 3, 4, 'o', 2);
	resultset(&r[4], 1, 2, 0, 'o', 2);
	resultset(&r[5], 1, 1, 2, 'e', 2 | SONDE_MYSQL_MORE);
	ok(&r[5], 7, 2 | SONDE_MYSQL_MORE);
	resultset(&r[5], 8, 1, 0, 'e', 2);
	for (int i = 0; i < 6; i++) {
		for (uint32_t cut = 1; cut < r[i].n; cut++) {
			env_reset(&conn, SONDE_CONN_FRESH);
			greet(&conn);
			whole(&conn, false, &q, 10);
			env_io(&conn, true, r[i].b, cut, cut, 20);
			assert_int_equal(env.n_spans, 0);
			env_io(&conn, true, r[i].b + cut, r[i].n - cut, r[i].n - cut, 30);
			assert_int_equal(env.n_spans, 1);
			assert_int_equal(env.spans[0].first_ns, 20);
			assert_int_equal(env.spans[0].last_ns, 30);
			assert_int_equal(env.spans[0].flags, SONDE_SPAN_F_NO_WAIT);
			assert_int_equal(env.spans[0].statements, i == 5 ? 3 : 1);
			assert_int_equal(env.spans[0].status,
					 i == 1 ? SONDE_SPAN_ERROR : SONDE_SPAN_OK);
			assert_int_equal(env.spans[0].error, i == 1 ? 1064 : 0);
			assert_int_equal(all_drops(), 0);
		}
	}
}

/* A request cut at every place into two reads. */
static void test_request_cuts(void **state)
{
	struct bytes q = {.n = 0}, r = {.n = 0};

	(void)state;
	query(&q, "SELECT * FROM rt WHERE MATCH('a')");
	ok(&r, 1, 2);
	for (uint32_t cut = 1; cut < q.n; cut++) {
		env_reset(&conn, SONDE_CONN_FRESH);
		greet(&conn);
		env_io(&conn, false, q.b, cut, cut, 10);
		env_io(&conn, false, q.b + cut, q.n - cut, q.n - cut, 20);
		whole(&conn, true, &r, 30);
		assert_int_equal(env.n_spans, 1);
		assert_int_equal(env.spans[0].text_len, q.n - 5);
		assert_memory_equal(env.spans[0].text, q.b + 5, q.n - 5);
		assert_int_equal(env.opened, 1);
		assert_int_equal(all_drops(), 0);
	}
}

/* Two requests in one read, answered one by one and then by one send. */
static void test_pipelined(void **state)
{
	struct bytes q = {.n = 0}, r = {.n = 0};

	(void)state;
	query(&q, "SELECT 1");
	query(&q, "SELECT 22");
	query(&q, "SELECT 333");
	env_reset(&conn, SONDE_CONN_FRESH);
	greet(&conn);
	env_ready(&conn, 5);
	whole(&conn, false, &q, 10);
	ok(&r, 1, 2);
	whole(&conn, true, &r, 20);
	assert_int_equal(env.n_spans, 1);
	resultset(&r, 1, 1, 1, 'e', 2);
	whole(&conn, true, &r, 30);
	assert_int_equal(env.n_spans, 3);
	assert_int_equal(env.spans[0].last_ns, 20);
	assert_int_equal(env.spans[2].last_ns, 30);
	assert_int_equal(env.spans[2].request_len, 10);
	assert_int_equal(env.spans[2].arrival_ns, 5);
	assert_true(env.spans[1].flags & SONDE_SPAN_F_PIPELINED);
	assert_true(env.spans[1].flags & SONDE_SPAN_F_NO_TEXT);
	assert_int_equal(all_drops(), 0);
}

/* Two requests arrive together but are read one after the other (Sphinx reads so). */
static void test_pipelined_reads(void **state)
{
	struct bytes a = {.n = 0}, b = {.n = 0}, r = {.n = 0};

	(void)state;
	query(&a, "SELECT 1");
	query(&b, "SELECT 2");
	ok(&r, 1, 2);
	env_reset(&conn, SONDE_CONN_FRESH);
	greet(&conn);
	env_ready(&conn, 5);
	whole(&conn, false, &a, 10);
	whole(&conn, true, &r, 20);
	whole(&conn, false, &b, 21);
	whole(&conn, true, &r, 30);
	assert_int_equal(env.n_spans, 2);
	assert_int_equal(env.spans[1].arrival_ns, 5);
	assert_true(env.spans[1].flags & SONDE_SPAN_F_PIPELINED);
	assert_false(env.spans[1].flags & SONDE_SPAN_F_NO_TEXT);
}

static void test_no_reply(void **state)
{
	struct bytes q = {.n = 0}, r = {.n = 0};

	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	greet(&conn);
	packet(&q, 0, "\x19\1\0\0\0", 5);
	query(&q, "SELECT 1");
	whole(&conn, false, &q, 10);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(env.spans[0].status, SONDE_SPAN_NO_REPLY);
	ok(&r, 1, 2);
	whole(&conn, true, &r, 20);
	assert_int_equal(env.n_spans, 2);
	q.n = 0;
	packet(&q, 0, "\x01", 1);
	whole(&conn, false, &q, 30);
	assert_int_equal(conn_abort(&conn), 0);
	assert_int_equal(env.n_spans, 2);
	assert_int_equal(all_drops(), 0);
}

static void test_prepare(void **state)
{
	static const char def[26] = "\3def\0\0\0\2id\2id\x0c\x3f\0\x0b\0\0\0\3\0\0\0\0\0";
	struct bytes q = {.n = 0}, r = {.n = 0};

	(void)state;
	for (int deprecate = 0; deprecate < 2; deprecate++) {
		env_reset(&conn, SONDE_CONN_FRESH);
		greet(&conn);
		q.n = r.n = 0;
		packet(&q, 0, "\x16SELECT ?, ?", 12);
		whole(&conn, false, &q, 10);
		packet(&r, 1, "\0\1\0\0\0\1\0\2\0\0\0\0", 12);
		packet(&r, 2, def, 24);
		packet(&r, 3, def, 24);
		if (!deprecate)
			eof(&r, 4, 2);
		packet(&r, 5, def, 24);
		if (!deprecate)
			eof(&r, 6, 2);
		whole(&conn, true, &r, 20);
		assert_int_equal(env.n_spans, 1);
		assert_int_equal(env.spans[0].command, SONDE_MYSQL_PREPARE);
		assert_int_equal(all_drops(), 0);
	}
}

/* More packets than are walked: the tail tells, and with several sends only the last one's. */
static void test_long_result(void **state)
{
	struct bytes q = {.n = 0}, r = {.n = 0};

	(void)state;
	query(&q, "SELECT id FROM rt LIMIT 1000");
	resultset(&r, 1, 1, 1000, 'e', 2);
	for (uint32_t cut = 500; cut < r.n; cut += 997) {
		env_reset(&conn, SONDE_CONN_FRESH);
		greet(&conn);
		whole(&conn, false, &q, 10);
		env_io(&conn, true, r.b, cut, cut, 20);
		assert_int_equal(env.n_spans, 0);
		env_io(&conn, true, r.b + cut, r.n - cut, r.n - cut, 30);
		assert_int_equal(env.n_spans, 1);
		assert_int_equal(env.spans[0].bytes_out, r.n);
		assert_int_equal(env.spans[0].flags & SONDE_SPAN_F_END_GUESSED, 0);
	}
}

/* An end that nothing marks is the last send before the next request. */
static void test_guessed_end(void **state)
{
	struct bytes q = {.n = 0}, r = {.n = 0};

	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	greet(&conn);
	query(&q, "SELECT 1");
	whole(&conn, false, &q, 10);
	resultset(&r, 1, 1, 1, 'e', 2);
	env_io(&conn, true, r.b, r.n, 6, 20); /* writev: only the first piece is seen */
	assert_int_equal(env.n_spans, 0);
	whole(&conn, false, &q, 30);
	assert_int_equal(env.n_spans, 1);
	assert_true(env.spans[0].flags & SONDE_SPAN_F_END_GUESSED);
	assert_int_equal(env.spans[0].last_ns, 20);
	conn_abort(&conn);
	assert_int_equal(env.n_spans, 2);
	assert_int_equal(env.spans[1].status, SONDE_SPAN_ABORTED);
}

/* What is open when the connection closes, or when the observation ends; told once. */
static void test_cut_off(void **state)
{
	struct bytes q = {.n = 0}, r = {.n = 0};

	(void)state;
	for (int closes = 0; closes < 2; closes++) {
		env_reset(&conn, SONDE_CONN_FRESH);
		greet(&conn);
		q.n = r.n = 0;
		query(&q, "SELECT 1");
		whole(&conn, false, &q, 10);
		resultset(&r, 1, 1, 1, 'e', 2);
		env_io(&conn, true, r.b, 20, 20, 20); /* a part of the answer */
		for (int twice = 0; twice < 2; twice++) {
			if (closes)
				conn_close(&conn, 50);
			else if (conn.open)
				conn_unfinished(&conn);
		}
		assert_int_equal(env.n_spans, 1);
		assert_int_equal(env.spans[0].status,
				 closes ? SONDE_SPAN_ABORTED : SONDE_SPAN_UNFINISHED);
		assert_int_equal(env.spans[0].first_ns, 20);
		assert_int_equal(env.spans[0].last_ns, closes ? 50 : 0);
		for (int i = 0; i < SONDE_DROP__MAX; i++)
			assert_int_equal(env.drops[i], 0);
	}
}

static void test_big_request(void **state)
{
	static uint8_t big[1 << 20];
	struct bytes r = {.n = 0};
	uint32_t left = SONDE_MYSQL_MAX_PAYLOAD;

	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	greet(&conn);
	memset(big, 'x', sizeof(big));
	env_io(&conn, false, "\xff\xff\xff\0", 4, 4, 10);
	big[0] = 3;
	for (; left; left -= left < sizeof(big) ? left : sizeof(big)) {
		env_io(&conn, false, big, left < sizeof(big) ? left : sizeof(big), 4096, 11);
		big[0] = 'x';
	}
	assert_int_equal(env.opened, 0);
	env_io(&conn, false, "\2\0\0\1", 4, 4, 12);
	env_io(&conn, false, "ab", 2, 2, 13);
	assert_int_equal(env.opened, 1);
	ok(&r, 2, 2);
	whole(&conn, true, &r, 20);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(env.spans[0].text_len, SONDE_TEXT_BYTES);
	assert_true(env.spans[0].flags & SONDE_SPAN_F_CUT);
	assert_int_equal(env.spans[0].request_len, SONDE_MYSQL_MAX_PAYLOAD + 1);
}

static void api(struct bytes *o, uint16_t command, uint16_t version, const void *body, uint32_t len)
{
	uint8_t head[8] = {command >> 8, command & 255,	  version >> 8,	  version & 255,
			   len >> 24,	 len >> 16 & 255, len >> 8 & 255, len & 255};

	memcpy(o->b + o->n, head, 8);
	memcpy(o->b + o->n + 8, body, len);
	o->n += 8 + len;
}

static void test_sphinxapi(void **state)
{
	struct bytes q = {.n = 0}, r = {.n = 0};
	uint8_t body[300] = "\0\0\0\0\0\0\0\1";

	(void)state;
	api(&q, 0, 0x119, body, sizeof(body));
	api(&r, 0, 0x119, body, 200);
	for (int who = 0; who < 3; who++) {
		for (uint32_t cut = 1; cut < r.n; cut++) {
			env_reset(&conn, who == 2 ? 0 : SONDE_CONN_FRESH);
			if (who == 0)
				env_io(&conn, true, "\0\0\0\1", 4, 4, 1);
			if (who < 2)
				env_io(&conn, false, "\0\0\0\1", 4, 4, 2);
			env_ready(&conn, 5);
			env_io(&conn, false, q.b, 8, 8, 10);
			env_io(&conn, false, q.b + 8, q.n - 8, q.n - 8, 11);
			if (who == 1 && cut == 1)
				env_io(&conn, true, "\0\0\0\1", 4, 4, 12);
			env_io(&conn, true, r.b, cut, cut, 20);
			assert_int_equal(env.n_spans, 0);
			env_io(&conn, true, r.b + cut, r.n - cut, r.n - cut, 30);
			assert_int_equal(env.n_spans, 1);
			assert_int_equal(env.spans[0].proto, SONDE_PROTO_SPHINXAPI);
			assert_int_equal(env.spans[0].request_len, 300);
			assert_int_equal(env.spans[0].version, 0x119);
			assert_int_equal(env.spans[0].first_ns, 20);
			assert_int_equal(env.spans[0].last_ns, 30);
			assert_int_equal(all_drops(), 0);
		}
	}
}

/* The server's handshake glued in front of its first reply; PERSIST is not a query. */
static void test_sphinxapi_glued(void **state)
{
	struct bytes q = {.n = 0}, r = {.n = 0};

	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	memcpy(q.b, "\0\0\0\1", 4);
	q.n = 4;
	api(&q, 4, 0, "\0\0\0\1", 4);
	api(&q, 9, 0x100, "\0\0\0\7", 4);
	whole(&conn, false, &q, 10);
	memcpy(r.b, "\0\0\0\1", 4);
	r.n = 4;
	api(&r, 1, 0x100, "\0\0\0\7", 4);
	whole(&conn, true, &r, 20);
	assert_int_equal(env.n_spans, 1);
	assert_int_equal(env.spans[0].command, 9);
	assert_int_equal(env.spans[0].status, SONDE_SPAN_ERROR);
	assert_int_equal(all_drops(), 0);
}

static void test_attached_midway(void **state)
{
	struct bytes q = {.n = 0}, r = {.n = 0};

	(void)state;
	ok(&r, 1, 2);
	query(&q, "SELECT 1");
	env_reset(&conn, 0);
	whole(&conn, true, &r, 5); /* answers what was asked before */
	assert_int_equal(env.drops[SONDE_DROP_NO_ENTRY], 1);
	env_io(&conn, false, q.b, 4, 4, 10);
	env_io(&conn, false, q.b + 4, q.n - 4, q.n - 4, 11);
	whole(&conn, true, &r, 20);
	assert_int_equal(env.n_spans, 1);
	whole(&conn, true, &r, 25);
	assert_int_equal(env.drops[SONDE_DROP_UNMATCHED], 1);
	env_reset(&conn, 0);
	env_io(&conn, false, "SELECT 1, 2 and the like", 20, 20, 10); /* the middle of a body */
	whole(&conn, false, &q, 12);
	whole(&conn, true, &r, 20);
	assert_int_equal(env.n_spans, 1);
}

static void test_given_up(void **state)
{
	uint8_t login[36] = {32, 0, 0, 1, 0x05, 0xaa};

	(void)state;
	env_reset(&conn, SONDE_CONN_FRESH);
	env_io(&conn, false, "\x16\3\1\2\0\1\0\1", 8, 8, 1);
	assert_int_equal(env.drops[SONDE_DROP_ENCRYPTED], 1);
	env_io(&conn, false, "\x16\3\1\2\0\1\0\1", 8, 8, 1);
	assert_int_equal(env.drops[SONDE_DROP_ENCRYPTED], 1);
	env_reset(&conn, SONDE_CONN_FRESH | SONDE_CONN_LOGIN);
	conn.proto = SONDE_PROTO_MYSQL;
	env_io(&conn, false, login, 36, 36, 1); /* an SSL request */
	assert_int_equal(env.drops[SONDE_DROP_ENCRYPTED], 1);
	env_reset(&conn, SONDE_CONN_FRESH);
	env_io(&conn, false, "*1\r\n$6\r\nSELECT\r\n", 16, 16, 1); /* Redis, and not SQL */
	assert_int_equal(env.drops[SONDE_DROP_UNDECODED], 1);
	assert_int_equal(env.n_spans, 0);
}

static void test_unreadable(void **state)
{
	struct bytes q = {.n = 0}, r = {.n = 0};

	(void)state;
	query(&q, "SELECT 1");
	ok(&r, 1, 2);
	env_reset(&conn, SONDE_CONN_FRESH);
	greet(&conn);
	env.fault = true;
	whole(&conn, false, &q, 10);
	assert_int_equal(env.n_spans, 0);
	assert_int_equal(env.drops[SONDE_DROP_GAP], 1);
	env.fault = false;
	whole(&conn, false, &q, 20);
	whole(&conn, true, &r, 30);
	assert_int_equal(env.n_spans, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_simple),		cmocka_unit_test(test_response_cuts),
		cmocka_unit_test(test_request_cuts),	cmocka_unit_test(test_pipelined),
		cmocka_unit_test(test_pipelined_reads), cmocka_unit_test(test_no_reply),
		cmocka_unit_test(test_prepare),		cmocka_unit_test(test_long_result),
		cmocka_unit_test(test_guessed_end),	cmocka_unit_test(test_big_request),
		cmocka_unit_test(test_sphinxapi),	cmocka_unit_test(test_sphinxapi_glued),
		cmocka_unit_test(test_attached_midway), cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_unreadable),	cmocka_unit_test(test_cut_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
