/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What bytes on a connection are: recognisers for the protocols of search daemons, on a few bytes,
 * pure, with no loop, so that BPF programs and user space share them. A recogniser is asked only
 * about the first bytes of something (a packet, a connection), and says no when in doubt.
 *
 * MySQL ("SphinxQL"): a packet is u24 length (little-endian), u8 sequence, payload; a request has
 * sequence 0 and begins with its command. SphinxAPI: big-endian u16 command, u16 version, u32
 * length; the reply's header is u16 status, u16 version, u32 length.
 */
#ifndef SONDE_WIRE_H
#define SONDE_WIRE_H

#include "event.h"

#ifndef __bpf__
#include <stdbool.h>
#endif

#define SONDE_WIRE_INLINE static inline __attribute__((always_inline))

#define SONDE_MYSQL_HEADER 4
#define SONDE_MYSQL_MAX_PAYLOAD                                                                    \
	0xffffffu /* a payload of this length goes on in the next packet      */
#define SONDE_MYSQL_MORE	 0x0008u /* status word: another result set follows                  */
#define SONDE_MYSQL_CAP_SSL	 0x0800u
#define SONDE_MYSQL_CAP_COMPRESS 0x0020u
#define SONDE_MYSQL_CAP_ZSTD	 (1u << 26)

enum sonde_mysql_command {
	SONDE_MYSQL_QUIT = 0x01,
	SONDE_MYSQL_INIT_DB = 0x02,
	SONDE_MYSQL_QUERY = 0x03,
	SONDE_MYSQL_FIELD_LIST = 0x04,
	SONDE_MYSQL_STATISTICS = 0x09,
	SONDE_MYSQL_PING = 0x0e,
	SONDE_MYSQL_CHANGE_USER = 0x11,
	SONDE_MYSQL_PREPARE = 0x16,
	SONDE_MYSQL_EXECUTE = 0x17,
	SONDE_MYSQL_LONG_DATA = 0x18,
	SONDE_MYSQL_STMT_CLOSE = 0x19,
	SONDE_MYSQL_STMT_RESET = 0x1a,
	SONDE_MYSQL_SET_OPTION = 0x1b,
	SONDE_MYSQL_FETCH = 0x1c,
	SONDE_MYSQL_RESET_CONNECTION = 0x1f,
	SONDE_MYSQL_COMMAND_MAX = 0x1f,
};

#define SONDE_API_HEADER 8
#define SONDE_API_MAX_BODY                                                                         \
	(128u << 20)	      /* Manticore's own limit                                   */
#define SONDE_API_COMMANDS 22 /* numbers below this are commands (Manticore 2026)        */
#define SONDE_API_SEARCH   0
#define SONDE_API_PERSIST  4
#define SONDE_API_SPHINXQL 8
#define SONDE_API_IN_PROGRESS                                                                      \
	4 /* reply status: a heartbeat, the reply proper is still to come       */

SONDE_WIRE_INLINE sonde_u32 sonde_wire_le24(const sonde_u8 *p)
{
	return (sonde_u32)p[0] | (sonde_u32)p[1] << 8 | (sonde_u32)p[2] << 16;
}

SONDE_WIRE_INLINE sonde_u32 sonde_wire_le16(const sonde_u8 *p)
{
	return (sonde_u32)p[0] | (sonde_u32)p[1] << 8;
}

SONDE_WIRE_INLINE sonde_u32 sonde_wire_be16(const sonde_u8 *p)
{
	return (sonde_u32)p[0] << 8 | (sonde_u32)p[1];
}

SONDE_WIRE_INLINE sonde_u32 sonde_wire_be32(const sonde_u8 *p)
{
	return (sonde_u32)p[0] << 24 | (sonde_u32)p[1] << 16 | (sonde_u32)p[2] << 8 |
	       (sonde_u32)p[3];
}

/* Is @command one that a MySQL client may send? */
SONDE_WIRE_INLINE bool sonde_mysql_is_command(sonde_u8 command)
{
	return command >= SONDE_MYSQL_QUIT && command <= SONDE_MYSQL_COMMAND_MAX;
}

/* Commands that no server answers. */
SONDE_WIRE_INLINE bool sonde_mysql_no_reply(sonde_u16 command)
{
	return command == SONDE_MYSQL_QUIT || command == SONDE_MYSQL_LONG_DATA ||
	       command == SONDE_MYSQL_STMT_CLOSE;
}

/* A request's 4-byte header alone (servers read header and body apart). */
SONDE_WIRE_INLINE bool sonde_mysql_is_request_header(const sonde_u8 *p)
{
	return p[3] == 0 && sonde_wire_le24(p) >= 1;
}

/*
 * A server's first packet: protocol 10 and a version that begins with a digit; or an error ("too
 * many connections"), which comes in its place. @n bytes at @p, at least 6.
 */
SONDE_WIRE_INLINE bool sonde_mysql_is_greeting(const sonde_u8 *p, sonde_u32 n)
{
	sonde_u32 len = sonde_wire_le24(p);

	if (n < 6 || p[3] != 0 || len > 512)
		return false;
	if (p[4] == 0x0a)
		return p[5] >= '0' && p[5] <= '9' && len >= 40;
	return p[4] == 0xff && len >= 3;
}

/* First bytes that a client sends to a SphinxAPI server, and the server to it; u32 1, or 2. */
SONDE_WIRE_INLINE bool sonde_api_is_handshake(const sonde_u8 *p)
{
	return p[0] == 0 && p[1] == 0 && p[2] == 0 && (p[3] == 1 || p[3] == 2);
}

/*
 * Header of a request: a known command, version 1.x, a length that servers accept. 8 bytes.
 * PERSIST, which clients send first on a connection they keep, has version 0.
 */
SONDE_WIRE_INLINE bool sonde_api_is_request(const sonde_u8 *p)
{
	sonde_u16 command = sonde_wire_be16(p);

	return command < SONDE_API_COMMANDS &&
	       (p[2] == 1 || (command == SONDE_API_PERSIST && !p[2] && !p[3])) &&
	       sonde_wire_be32(p + 4) <= SONDE_API_MAX_BODY;
}

/* Header of a reply: status 0 to 4, version 1.x (0 with an error), any length. 8 bytes. */
SONDE_WIRE_INLINE bool sonde_api_is_reply(const sonde_u8 *p)
{
	return sonde_wire_be16(p) <= SONDE_API_IN_PROGRESS && p[2] <= 1;
}

/* A TLS record: handshake, version 3.x. */
SONDE_WIRE_INLINE bool sonde_wire_is_tls(const sonde_u8 *p)
{
	return p[0] == 0x16 && p[1] == 0x03 && p[2] <= 4;
}

/* Methods of HTTP/1.1 as commands: numbers that no other protocol's command has. */
enum sonde_http_method {
	SONDE_HTTP_NONE = 0,
	SONDE_HTTP_GET = 0x101,
	SONDE_HTTP_POST,
	SONDE_HTTP_PUT,
	SONDE_HTTP_HEAD,
	SONDE_HTTP_DELETE,
	SONDE_HTTP_PATCH,
	SONDE_HTTP_OPTIONS,
};

#define SONDE_HTTP_HEADER 8 /* bytes that tell a method, with the slash that its path begins with  \
			     */

/*
 * The method that a request begins with, or none: a body may begin with the word, but hardly with
 * word, blank and slash. SONDE_HTTP_HEADER bytes.
 */
SONDE_WIRE_INLINE enum sonde_http_method sonde_http_method(const sonde_u8 *p)
{
	switch (sonde_wire_be32(p)) {
	case 0x47455420: /* "GET " */
		return p[4] == '/' ? SONDE_HTTP_GET : SONDE_HTTP_NONE;
	case 0x504f5354: /* "POST" */
		return p[4] == ' ' && p[5] == '/' ? SONDE_HTTP_POST : SONDE_HTTP_NONE;
	case 0x50555420: /* "PUT " */
		return p[4] == '/' ? SONDE_HTTP_PUT : SONDE_HTTP_NONE;
	case 0x48454144: /* "HEAD" */
		return p[4] == ' ' && p[5] == '/' ? SONDE_HTTP_HEAD : SONDE_HTTP_NONE;
	case 0x44454c45: /* "DELE", "TE /" */
		return sonde_wire_be32(p + 4) == 0x5445202f ? SONDE_HTTP_DELETE : SONDE_HTTP_NONE;
	case 0x50415443: /* "PATC", "H /" */
		return sonde_wire_be32(p + 4) >> 8 == 0x48202f ? SONDE_HTTP_PATCH : SONDE_HTTP_NONE;
	case 0x4f505449: /* "OPTI", "ONS " */
		return sonde_wire_be32(p + 4) == 0x4f4e5320 ? SONDE_HTTP_OPTIONS : SONDE_HTTP_NONE;
	}
	return SONDE_HTTP_NONE;
}

#define SONDE_HTTP_STATUS 12 /* bytes of "HTTP/1.1 200" */

/* The status that a response begins with, 0: it does not begin here. SONDE_HTTP_STATUS bytes. */
SONDE_WIRE_INLINE sonde_u32 sonde_http_status(const sonde_u8 *p)
{
	if (sonde_wire_be32(p) != 0x48545450 || p[4] != '/' || p[5] != '1' || p[6] != '.' ||
	    p[8] != ' ' || p[9] < '1' || p[9] > '9' || p[10] < '0' || p[10] > '9' || p[11] < '0' ||
	    p[11] > '9')
		return 0;
	return (p[9] - '0') * 100u + (p[10] - '0') * 10u + (p[11] - '0');
}

/*
 * What a connection that was open before attach speaks, from the first bytes of what looks like a
 * request: @have bytes at @p (4 or more). Read as MySQL, a SphinxAPI header has a sequence number
 * or command 0, unless its version ends in 00 and its body has 16 MiB or more: called MySQL here.
 */
SONDE_WIRE_INLINE enum sonde_proto sonde_wire_guess(const sonde_u8 *p, sonde_u32 have)
{
	bool header = sonde_mysql_is_request_header(p);

	if (header && (have == SONDE_MYSQL_HEADER || sonde_mysql_is_command(p[4])))
		return SONDE_PROTO_MYSQL;
	if (have >= SONDE_API_HEADER && sonde_api_is_request(p))
		return SONDE_PROTO_SPHINXAPI;
	return SONDE_PROTO_UNKNOWN;
}

enum sonde_mysql_packet {
	SONDE_MYSQL_P_DATA = 0, /* a column count, a definition, a row */
	SONDE_MYSQL_P_OK,
	SONDE_MYSQL_P_ERR,
	SONDE_MYSQL_P_EOF,
	SONDE_MYSQL_P_INFILE,
	SONDE_MYSQL_P_PROGRESS, /* MariaDB: error code 0xffff, not an end */
};

/* The first packet of a response, by its length and first payload bytes. */
SONDE_WIRE_INLINE enum sonde_mysql_packet sonde_mysql_first_packet(const sonde_u8 *payload,
								   sonde_u32 len)
{
	switch (payload[0]) {
	case 0x00:
		return SONDE_MYSQL_P_OK;
	case 0xff:
		return len >= 3 && payload[1] == 0xff && payload[2] == 0xff ? SONDE_MYSQL_P_PROGRESS
									    : SONDE_MYSQL_P_ERR;
	case 0xfe:
		return SONDE_MYSQL_P_EOF;
	case 0xfb:
		return SONDE_MYSQL_P_INFILE;
	}
	return SONDE_MYSQL_P_DATA;
}

/*
 * A packet among definitions or rows. `fe` ends them: with DEPRECATE_EOF it is an OK packet of any
 * length, and a row that begins with `fe` holds a value of 16 MiB, so it fills its packet.
 */
SONDE_WIRE_INLINE enum sonde_mysql_packet sonde_mysql_row_packet(const sonde_u8 *payload,
								 sonde_u32 len)
{
	if (payload[0] == 0xfe && len < SONDE_MYSQL_MAX_PAYLOAD)
		return SONDE_MYSQL_P_EOF;
	if (payload[0] == 0xff && len >= 3)
		return sonde_mysql_first_packet(payload, len);
	return SONDE_MYSQL_P_DATA;
}

/* Bytes of a length-encoded integer by its first byte; 0 where none can start. */
SONDE_WIRE_INLINE sonde_u32 sonde_mysql_lenenc_size(sonde_u8 first)
{
	switch (first) {
	case 0xfb:
	case 0xff:
		return 0;
	case 0xfc:
		return 3;
	case 0xfd:
		return 4;
	case 0xfe:
		return 9;
	}
	return 1;
}

/*
 * The status word of an OK packet (also one with header `fe`) or of an EOF packet; @len bytes of
 * payload of which the first @have are at @payload. 0 where it lies beyond them: no MORE_RESULTS.
 */
SONDE_WIRE_INLINE sonde_u32 sonde_mysql_status(const sonde_u8 *payload, sonde_u32 len,
					       sonde_u32 have)
{
	sonde_u32 at;

	if (payload[0] == 0xfe && len == 5) {
		at = 3;
	} else {
		at = 1 + sonde_mysql_lenenc_size(payload[1]);
		if (at > 4)
			return 0;
		at += sonde_mysql_lenenc_size(payload[at]);
	}
	if (at > 8 || at + 2 > have || at + 2 > len)
		return 0;
	return sonde_wire_le16(payload + at);
}

/* Does a send end with an EOF packet? The last 9 bytes at @p. */
SONDE_WIRE_INLINE bool sonde_mysql_tail_is_eof(const sonde_u8 *p)
{
	return sonde_wire_le24(p) == 5 && p[4] == 0xfe;
}

/* The same for an OK packet in place of EOF (DEPRECATE_EOF), no rows affected, no text; 11 bytes.
 */
SONDE_WIRE_INLINE bool sonde_mysql_tail_is_ok(const sonde_u8 *p)
{
	return sonde_wire_le24(p) == 7 && p[4] == 0xfe && p[5] == 0 && p[6] == 0;
}

#endif
