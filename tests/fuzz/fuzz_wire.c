// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The connection state machine under random traffic: streams made of good packets, broken ones and
 * noise, cut anywhere, from a fresh connection or the middle of one. Whatever comes: reads stay
 * inside the buffer (checked by the environment), times of a span are in order, spans are never
 * more than requests could be, and a good exchange afterwards on a new connection is one span
 * again. fuzz_wire [ITERATIONS] [SEED]
 */
#include <stdio.h>

#include "conn_env.h"

static uint64_t rng;

static uint32_t rnd(uint32_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 16) % below;
}

static struct sonde_conn conn;

static const struct {
	const char *bytes;
	uint32_t n;
} seeds[] = {
#define SEED(s)                                                                                    \
	{                                                                                          \
		s, sizeof(s) - 1                                                                   \
	}
	SEED("\x4a\0\0\0\x0a"
	     "2.2.11-id64-release (95ae9a6)\0\1\0\0\0abcdefgh\0\x08\x82\x21\2\0"),
	SEED("\x20\0\0\1\x05\xa2\0\0\0\0\0\1!\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
	SEED("\x20\0\0\1\x05\xaa\0\0\0\0\0\1!\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
	SEED("\7\0\0\2\0\0\0\2\0\0\0"),
	SEED("\x09\0\0\0\3SELECT 1"),
	SEED("\x09\0\0\0\3SELECT 1\x0a\0\0\0\3SELECT 22"),
	SEED("\1\0\0\0\x0e"),
	SEED("\1\0\0\0\1"),
	SEED("\5\0\0\0\x19\1\0\0\0"),
	SEED("\x0a\0\0\0\x16SELECT ?\0"),
	SEED("\x0c\0\0\1\0\1\0\0\0\1\0\1\0\0\0\0"),
	SEED("\1\0\0\1\1\2\0\0\2\3d\5\0\0\3\xfe\0\0\2\0\2\0\0\4\1x\5\0\0\5\xfe\0\0\2\0"),
	SEED("\1\0\0\1\1\2\0\0\2\3d\5\0\0\3\xfe\0\0\x0a\0\2\0\0\4\1x\5\0\0\5\xfe\0\0\x0a\0"),
	SEED("\x0f\0\0\1\xff\x28\x04#42000syntax"),
	SEED("\xff\xff\xff\0\3x"),
	SEED("\5\0\0\1\xfb/etc"),
	SEED("\0\0\0\1"),
	SEED("\0\4\1\0\0\0\0\4\0\0\0\1"),
	SEED("\0\0\1\x19\0\0\0\x08\0\0\0\0\0\0\0\1"),
	SEED("\0\0\1\x19\0\0\0\4abcd"),
	SEED("\0\4\1\x19\0\0\0\0"),
	SEED("\x16\3\1\2\0\1\0\1"),
	SEED("GET /search HTTP/1.1\r\n\r\n"),
	SEED("HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"),
	SEED("POST /sql HTTP/1.1\r\nContent-Length: 8\r\n\r\nSELECT 1"),
	SEED("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"),
	SEED("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"),
	SEED("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n"),
	SEED("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
	SEED("HTTP/1.1 101 Switching\r\n\r\n"),
	SEED("HTTP/1.1 200 OK\r\n\r\nuntil closed"),
};

static void check_spans(void)
{
	static unsigned checked;

	if (env.n_spans < checked)
		checked = 0;
	for (; checked < env.n_spans; checked++) {
		const struct sonde_ev_span *s = &env.spans[checked % ENV_SPANS];

		assert(s->start_ns);
		assert(s->arrival_ns <= s->start_ns);
		assert(!s->request_end_ns || s->request_end_ns >= s->start_ns);
		assert(!s->first_ns || s->first_ns >= s->start_ns);
		assert(s->last_ns >= s->first_ns || s->status == SONDE_SPAN_UNFINISHED);
		assert(s->status <= SONDE_SPAN_UNFINISHED);
		assert(s->text_len <= SONDE_TEXT_BYTES && s->text_len <= s->request_len);
		assert(s->statements >= 1);
		assert(s->status != SONDE_SPAN_OK || s->last_ns);
	}
}

static uint32_t make(uint8_t *out, uint32_t size)
{
	uint32_t n = 0, parts = 1 + rnd(4);

	while (parts--) {
		uint32_t i = rnd(sizeof(seeds) / sizeof(seeds[0]));

		if (n + seeds[i].n > size)
			break;
		memcpy(out + n, seeds[i].bytes, seeds[i].n);
		n += seeds[i].n;
	}
	for (uint32_t flips = rnd(3) ? 0 : rnd(6); flips-- && n;)
		out[rnd(n)] = (uint8_t)(rnd(2) ? rnd(256) : rnd(2) * 255);
	return n;
}

/* One stream in one direction, in pieces; sometimes only the first bytes of a piece are seen. */
static void play(bool send, uint64_t *now)
{
	/* Allocated to its exact size, so that a sanitizer sees every byte too many. */
	uint8_t buf[512], *copy;
	uint32_t n = make(buf, sizeof(buf)), at = 0;

	while (at < n) {
		uint32_t piece = rnd(3) ? 1 + rnd(n - at) : n - at;
		uint32_t seen = rnd(8) ? piece : rnd(piece + 1);

		copy = malloc(seen ? seen : 1);
		if (!copy)
			exit(1);
		memcpy(copy, buf + at, seen);
		*now += 1 + rnd(5);
		if (!send && rnd(4))
			env_ready(&conn, *now - 1);
		env.fault = !rnd(200);
		env_io(&conn, send, copy, piece, seen, *now);
		free(copy);
		at += piece;
		check_spans();
	}
}

static void good_exchange(void)
{
	env_reset(&conn, 0);
	env_io(&conn, false, "\x09\0\0\0\3SELECT 1", 13, 13, 10);
	env_io(&conn, true, "\7\0\0\1\0\0\0\2\0\0\0", 11, 11, 20);
	assert(env.n_spans == 1 && env.spans[0].last_ns == 20 && env.spans[0].text_len == 8);
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;

	rng = argc > 2 ? strtoull(argv[2], NULL, 10) : 88172645463325252u;
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t now = 1;

		env_reset(&conn, rnd(2) ? SONDE_CONN_FRESH : 0);
		for (uint32_t turns = 1 + rnd(30); turns--;) {
			play(rnd(2), &now);
			if (!rnd(40))
				conn_suspend(&conn);
			if (!rnd(40))
				conn_eof(&conn);
		}
		if (conn.open && rnd(2))
			conn_unfinished(&conn);
		conn_close(&conn, ++now);
		check_spans();
		good_exchange();
	}
	printf("fuzz_wire: %llu connections\n", (unsigned long long)rounds);
	return 0;
}
