/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server-side connection as a state machine over what was received and sent: it cuts the byte
 * streams into requests and responses and assembles one span per query. The BPF programs drive it with
 * user memory, the unit tests and the fuzzer with plain buffers, so it is tested without a kernel.
 *
 * The invariant: at most one span is being assembled (`open`); each one that was opened is emitted
 * exactly once, or dropped by cause. Requests that arrive before their predecessor was answered wait,
 * without text, in a short queue.
 *
 * The includer defines, before including this file:
 *   int  conn_env_read(void *dst, u32 size, u64 src)     0, or negative when the bytes cannot be read
 *   void conn_env_emit(struct sonde_conn *c)             c->span is complete
 *   void conn_env_open(struct sonde_conn *c)             this thread has read a whole request
 *   void conn_env_drop(enum sonde_drop cause)
 *   conn_env_loop(n, step, walk)                         bpf_loop(): at most n steps, until one returns 1
 *   CONN_NOINLINE                                        attribute of the larger functions
 */
#ifndef SONDE_CONN_H
#define SONDE_CONN_H

#include "drop.h"
#include "wire.h"

#define SONDE_CONN_QUEUE   8  /* pipelined requests kept behind the one being answered                 */
#define SONDE_CONN_PACKETS 64 /* response packets walked in one send; beyond, only its tail is looked at */
#define SONDE_CONN_MISSES  8  /* reads on a connection that fit no protocol before it is given up       */

enum sonde_conn_flag {
	SONDE_CONN_FRESH = 1 << 0,   /* seen from its first byte                                    */
	SONDE_CONN_LISTENER = 1 << 1, /* storage of a listening socket: its children inherit a copy  */
	SONDE_CONN_DEAD = 1 << 2,    /* given up: encrypted, or no known protocol                   */
	SONDE_CONN_LOGIN = 1 << 3,   /* MySQL: no command seen yet                                  */
	SONDE_CONN_UNSURE = 1 << 4,  /* the packet walk went wrong once: ends are found by tail      */
	SONDE_CONN_UNIX = 1 << 5,
};

enum sonde_conn_rx { SONDE_RX_HEAD = 0, SONDE_RX_BODY };

/* Whose bytes the body being read are. */
enum sonde_conn_body { SONDE_BODY_REQUEST = 0, SONDE_BODY_QUEUED, SONDE_BODY_OTHER };

enum sonde_conn_open { SONDE_OPEN_NONE = 0, SONDE_OPEN_READING, SONDE_OPEN_READ };

/* What the next packet of a MySQL response is. */
enum sonde_conn_tx {
	SONDE_TX_FIRST = 0, /* OK, ERR, EOF or a column count */
	SONDE_TX_DEFS,
	SONDE_TX_DEFS_END, /* EOF, or with DEPRECATE_EOF the first row */
	SONDE_TX_ROWS,
	SONDE_TX_TO_EOF,
	SONDE_TX_STRING,
	SONDE_TX_PREPARE,
	SONDE_TX_PREPARE_DEFS,
	SONDE_TX_AUTH,
	SONDE_TX_LOST, /* not known: look for an end in the tail of each send */
};

struct sonde_conn_queued {
	sonde_u64 start_ns, arrival_ns;
	sonde_u32 len;
	sonde_u16 command, version;
};

struct sonde_conn {
	sonde_u64 ready_ns;	 /* first data ready since the last read, 0: none (softirq writes)    */
	sonde_u64 last_ready_ns; /* latest data ready                                                */
	sonde_u64 arrival_ns;	 /* of the bytes now being read                                       */
	sonde_u64 prev_end_ns;	 /* end of the span before                                            */
	sonde_u64 seq;
	sonde_u32 rx_left, tx_left; /* bytes of the current body still to come                       */
	sonde_u32 tx_defs;
	sonde_u8 flags, proto, misses;
	sonde_u8 rx, rx_have, rx_body, rx_command_due, rx_more;
	sonde_u8 open, tx, tx_have, tx_final;
	sonde_u8 queued, handshaken, pad[2];
	sonde_u8 rx_head[16], tx_head[32];
	struct sonde_conn_queued queue[SONDE_CONN_QUEUE];
	struct sonde_ev_span span;
	/* Never written: lets the verifier see that text offset + length stays inside the value. */
	char spill[SONDE_TEXT_BYTES];
};

/* One read or write that the server made: @len bytes moved, @seen of them contiguous at @base. */
struct sonde_conn_io {
	struct sonde_conn *c;
	sonde_u64 base, now;
	sonde_u32 len, seen, off, text_bytes;
};

#define CONN_INLINE static inline __attribute__((always_inline))

/* Hide a 64-bit size's origin from the compiler, so that the bound tested next is the register used. */
#define CONN_OPAQUE(x) __asm__ volatile("" : "+r"(x))

CONN_INLINE sonde_u32 conn_min(sonde_u32 a, sonde_u32 b)
{
	return a < b ? a : b;
}

CONN_INLINE void conn_give_up(struct sonde_conn *c, enum sonde_drop cause)
{
	conn_env_drop(cause);
	c->flags |= SONDE_CONN_DEAD;
	c->open = SONDE_OPEN_NONE;
}

/* Forget what was being followed, without a drop: sonde is paused, or this thread is not wanted. */
CONN_INLINE void conn_suspend(struct sonde_conn *c)
{
	c->ready_ns = 0;
	c->last_ready_ns = 0;
	c->open = SONDE_OPEN_NONE;
	c->queued = 0;
	c->rx = SONDE_RX_HEAD;
	c->rx_have = 0;
	c->rx_more = 0;
	c->proto = SONDE_PROTO_UNKNOWN;
	c->flags &= ~(SONDE_CONN_FRESH | SONDE_CONN_LOGIN);
}

/* ---- spans ---- */

CONN_INLINE void conn_span_begin(struct sonde_conn *c, sonde_u64 start_ns, sonde_u64 arrival_ns)
{
	struct sonde_ev_span *s = &c->span;

	__builtin_memset(&s->seq, 0,
			 __builtin_offsetof(struct sonde_ev_span, family) -
				 __builtin_offsetof(struct sonde_ev_span, seq));
	s->index[0] = 0;
	s->seq = ++c->seq;
	s->start_ns = start_ns;
	s->arrival_ns = arrival_ns <= start_ns ? arrival_ns : start_ns;
	s->proto = c->proto;
	s->statements = 1;
	if (!arrival_ns)
		s->flags |= SONDE_SPAN_F_NO_WAIT;
	else if (arrival_ns < c->prev_end_ns)
		s->flags |= SONDE_SPAN_F_PIPELINED;
	if (c->flags & SONDE_CONN_UNIX)
		s->flags |= SONDE_SPAN_F_UNIX;
	c->open = SONDE_OPEN_READING;
	c->tx = c->flags & SONDE_CONN_UNSURE ? SONDE_TX_LOST : SONDE_TX_FIRST;
	c->tx_have = 0;
	c->tx_left = 0;
	c->tx_final = 0;
	c->tx_defs = 0;
}

/* How the response to a MySQL command is laid out. */
CONN_INLINE sonde_u8 conn_mysql_layout(sonde_u16 command)
{
	switch (command) {
	case SONDE_MYSQL_FIELD_LIST:
	case SONDE_MYSQL_FETCH:
		return SONDE_TX_TO_EOF;
	case SONDE_MYSQL_STATISTICS:
		return SONDE_TX_STRING;
	case SONDE_MYSQL_PREPARE:
		return SONDE_TX_PREPARE;
	case SONDE_MYSQL_CHANGE_USER:
		return SONDE_TX_AUTH;
	}
	return SONDE_TX_FIRST;
}

CONN_INLINE bool conn_no_reply(const struct sonde_conn *c, sonde_u16 command)
{
	return c->proto == SONDE_PROTO_MYSQL ? sonde_mysql_no_reply(command)
					     : command == SONDE_API_PERSIST;
}

/* Not queries: they end a connection, or prolong it. */
CONN_INLINE bool conn_is_silent(const struct sonde_conn *c, sonde_u16 command)
{
	return c->proto == SONDE_PROTO_MYSQL ? command == SONDE_MYSQL_QUIT
					     : command == SONDE_API_PERSIST;
}

/* The next request of the queue becomes the open span. */
CONN_INLINE void conn_pop(struct sonde_conn *c)
{
	struct sonde_conn_queued q = c->queue[0];

	if (!c->queued)
		return;
	for (int i = 0; i + 1 < SONDE_CONN_QUEUE; i++)
		c->queue[i] = c->queue[i + 1];
	c->queued--;
	conn_span_begin(c, q.start_ns, q.arrival_ns);
	c->span.flags |= SONDE_SPAN_F_PIPELINED | SONDE_SPAN_F_NO_TEXT | SONDE_SPAN_F_CUT;
	c->span.command = q.command;
	c->span.version = q.version;
	c->span.request_len = q.len;
	c->span.request_end_ns = q.start_ns;
	c->span.bytes_in = q.len + (c->proto == SONDE_PROTO_MYSQL ? 5 : SONDE_API_HEADER);
	c->open = SONDE_OPEN_READ;
	if (c->tx != SONDE_TX_LOST && c->proto == SONDE_PROTO_MYSQL)
		c->tx = conn_mysql_layout(q.command);
}

/* The open span is over: hand it out, and go on with the queue. */
static CONN_NOINLINE int conn_finish(struct sonde_conn *c)
{
	if (!c->open)
		return 0;
	if (c->span.last_ns)
		c->prev_end_ns = c->span.last_ns;
	conn_env_emit(c);
	c->open = SONDE_OPEN_NONE;
	conn_pop(c);
	return 0;
}

/* The next request shows that the response, whose end was not recognised, had ended. */
CONN_INLINE void conn_finish_guessed(struct sonde_conn *c)
{
	c->span.flags |= SONDE_SPAN_F_END_GUESSED;
	conn_finish(c);
}

static CONN_NOINLINE int conn_abort(struct sonde_conn *c)
{
	if (!c->open)
		return 0;
	if (c->queued)
		conn_env_drop(SONDE_DROP_NO_END);
	c->queued = 0;
	if (c->tx == SONDE_TX_LOST && c->span.first_ns)
		c->span.flags |= SONDE_SPAN_F_END_GUESSED;
	else
		c->span.status = SONDE_SPAN_ABORTED;
	return conn_finish(c);
}

/* The client will send no more: a request that was not read whole never will be. */
CONN_INLINE void conn_eof(struct sonde_conn *c)
{
	if (c->open == SONDE_OPEN_READING || (c->open && c->tx == SONDE_TX_LOST && c->span.first_ns))
		conn_abort(c);
}

/* ---- requests ---- */

/* A request's header was read: open a span, or queue behind the open one. */
CONN_INLINE void conn_request(struct sonde_conn_io *w, sonde_u32 len)
{
	struct sonde_conn *c = w->c;

	if (c->open && c->span.first_ns && c->tx == SONDE_TX_LOST)
		conn_finish_guessed(c);
	if (c->open && c->queued >= SONDE_CONN_QUEUE) {
		/* More likely a response's end was missed than eight requests are waiting. */
		conn_env_drop(SONDE_DROP_NO_END);
		c->flags |= SONDE_CONN_UNSURE;
		c->queued = 0;
		conn_abort(c);
	}
	c->flags &= ~SONDE_CONN_LOGIN;
	c->rx_left = len;
	c->rx = SONDE_RX_BODY;
	if (!c->open) {
		conn_span_begin(w->c, w->now, c->arrival_ns);
		c->rx_body = SONDE_BODY_REQUEST;
	} else {
		c->rx_body = SONDE_BODY_QUEUED;
	}
}

CONN_INLINE void conn_enqueue(struct sonde_conn_io *w, sonde_u16 command, sonde_u16 version,
			      sonde_u32 len)
{
	struct sonde_conn *c = w->c;
	sonde_u32 at = c->queued;

	/* What needs no answer is over already. */
	if (at >= SONDE_CONN_QUEUE || conn_no_reply(c, command))
		return;
	c->queue[at & (SONDE_CONN_QUEUE - 1)] =
		(struct sonde_conn_queued){w->now, c->arrival_ns, len, command, version};
	c->queued = at + 1;
}

CONN_INLINE void conn_request_complete(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;

	c->rx = SONDE_RX_HEAD;
	c->rx_have = 0;
	if (c->rx_body != SONDE_BODY_REQUEST || c->rx_more || c->open != SONDE_OPEN_READING)
		return;
	if (conn_is_silent(c, c->span.command)) {
		c->open = SONDE_OPEN_NONE;
		c->seq--;
		return;
	}
	c->open = SONDE_OPEN_READ;
	c->span.request_end_ns = w->now;
	conn_env_open(c);
	if (conn_no_reply(c, c->span.command)) {
		c->span.status = SONDE_SPAN_NO_REPLY;
		conn_finish(c);
	} else if (c->tx == SONDE_TX_FIRST && c->proto == SONDE_PROTO_MYSQL) {
		c->tx = conn_mysql_layout(c->span.command);
	}
}

/* The stream cannot be followed from here: wait for something that looks like a request. */
CONN_INLINE void conn_lose(struct sonde_conn *c)
{
	conn_env_drop(SONDE_DROP_GAP);
	if (c->open == SONDE_OPEN_READING)
		c->open = SONDE_OPEN_NONE;
	c->queued = 0;
	c->rx = SONDE_RX_HEAD;
	c->rx_have = 0;
	c->rx_more = 0;
	c->proto = SONDE_PROTO_UNKNOWN;
	c->flags &= ~SONDE_CONN_FRESH;
}

/* First byte of a MySQL request's body: the command. */
CONN_INLINE int conn_mysql_command(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u8 command = 0;

	if (conn_env_read(&command, 1, w->base + w->off)) {
		conn_env_drop(SONDE_DROP_COPY_FAULT);
		conn_lose(c);
		return 1;
	}
	if (!sonde_mysql_is_command(command)) {
		conn_lose(c);
		return 1;
	}
	w->off++;
	c->rx_left--;
	c->rx_command_due = 0;
	if (c->rx_body == SONDE_BODY_QUEUED) {
		conn_enqueue(w, command, 0, c->rx_left);
	} else {
		c->span.command = command;
		c->span.bytes_in = SONDE_MYSQL_HEADER + 1;
	}
	return 0;
}

/* MySQL login: what did the client choose? First 4 bytes of its packet. */
CONN_INLINE void conn_mysql_login(struct sonde_conn_io *w)
{
	sonde_u8 caps[4] = {0};
	sonde_u32 mask;

	w->c->rx_command_due = 0;
	if (w->len - w->off < 4 || conn_env_read(caps, 4, w->base + w->off))
		return;
	mask = sonde_wire_le16(caps) | sonde_wire_le16(caps + 2) << 16;
	if ((mask & SONDE_MYSQL_CAP_SSL && w->c->rx_left == 32) ||
	    mask & (SONDE_MYSQL_CAP_COMPRESS | SONDE_MYSQL_CAP_ZSTD))
		conn_give_up(w->c, SONDE_DROP_ENCRYPTED);
}

/* @n bytes of a request's body were read, of which @seen can be copied. */
CONN_INLINE void conn_copy_text(struct sonde_conn_io *w, sonde_u32 n, sonde_u32 seen)
{
	struct sonde_conn *c = w->c;
	sonde_u32 have = c->span.text_len & (SONDE_TEXT_BYTES - 1), room;
	sonde_u64 size;
	char *text = (char *)c + __builtin_offsetof(struct sonde_conn, span) +
		     __builtin_offsetof(struct sonde_ev_span, text);

	c->span.request_len += n;
	c->span.bytes_in += n;
	room = w->text_bytes > have ? w->text_bytes - have : 0;
	if (c->span.text_len >= SONDE_TEXT_BYTES || c->span.flags & SONDE_SPAN_F_NO_TEXT)
		room = 0;
	room = conn_min(room, seen);
	if (n > room) {
		c->span.flags |= SONDE_SPAN_F_CUT;
		n = room;
	}
	size = n;
	CONN_OPAQUE(size);
	if (size == 0 || size > SONDE_TEXT_BYTES)
		return;
	if (conn_env_read(text + have, size, w->base + w->off)) {
		c->span.flags |= SONDE_SPAN_F_NO_TEXT | SONDE_SPAN_F_CUT;
		conn_env_drop(SONDE_DROP_COPY_FAULT);
		return;
	}
	c->span.text_len = have + n;
}

CONN_INLINE int conn_rx_body(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u32 n;

	if (c->rx_command_due && c->rx_body != SONDE_BODY_OTHER) {
		if (conn_mysql_command(w))
			return 1;
	} else if (c->rx_command_due) {
		conn_mysql_login(w);
		if (c->flags & SONDE_CONN_DEAD)
			return 1;
	}
	n = conn_min(c->rx_left, w->len - w->off);
	if (c->rx_body == SONDE_BODY_REQUEST && c->open)
		conn_copy_text(w, n, w->seen > w->off ? w->seen - w->off : 0);
	w->off += n;
	c->rx_left -= n;
	if (!c->rx_left)
		conn_request_complete(w);
	return 0;
}

CONN_INLINE int conn_rx_mysql(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u32 len = sonde_wire_le24(c->rx_head);
	bool goes_on = c->rx_more;

	c->rx_have = 0;
	c->rx_more = len == SONDE_MYSQL_MAX_PAYLOAD;
	c->rx_command_due = 0;
	if (c->rx_head[3] == 0 && !goes_on) {
		if (!len) {
			conn_lose(c);
			return 1;
		}
		c->rx_command_due = 1;
		conn_request(w, len);
		return 0;
	}
	/* Sequence 1 and more: login, a file for LOAD DATA, or the rest of a request over 16 MiB. */
	if (!goes_on) {
		c->rx_body = SONDE_BODY_OTHER;
		c->rx_command_due = c->flags & SONDE_CONN_LOGIN && c->rx_head[3] == 1;
	}
	c->rx_left = len;
	c->rx = SONDE_RX_BODY;
	if (!len)
		conn_request_complete(w);
	return 0;
}

CONN_INLINE int conn_rx_api(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u16 command = sonde_wire_be16(c->rx_head), version = sonde_wire_be16(c->rx_head + 2);
	sonde_u32 len = sonde_wire_be32(c->rx_head + 4);

	c->rx_have = 0;
	c->rx_command_due = 0;
	c->rx_more = 0;
	if (!sonde_api_is_request(c->rx_head)) {
		conn_lose(c);
		return 1;
	}
	conn_request(w, len);
	if (c->rx_body == SONDE_BODY_QUEUED) {
		conn_enqueue(w, command, version, len);
	} else {
		c->span.command = command;
		c->span.version = version;
		c->span.bytes_in = SONDE_API_HEADER;
	}
	if (!len)
		conn_request_complete(w);
	return 0;
}

/* Nothing that is known: count once a connection, and stop looking after some reads. */
CONN_INLINE int conn_rx_miss(struct sonde_conn *c)
{
	c->rx_have = 0;
	c->misses++;
	if (c->flags & SONDE_CONN_FRESH || c->misses >= SONDE_CONN_MISSES)
		conn_give_up(c, SONDE_DROP_UNDECODED);
	return 1;
}

/* The protocol, from the first bytes of one read. */
CONN_INLINE int conn_rx_probe(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u32 have = c->rx_have;

	if (have < 4)
		return conn_rx_miss(c);
	if (sonde_wire_is_tls(c->rx_head)) {
		conn_give_up(c, SONDE_DROP_ENCRYPTED);
		return 1;
	}
	if (sonde_wire_is_http(c->rx_head)) {
		c->proto = SONDE_PROTO_HTTP;
		conn_give_up(c, SONDE_DROP_UNDECODED);
		return 1;
	}
	c->proto = sonde_api_is_handshake(c->rx_head) ? SONDE_PROTO_SPHINXAPI
						      : sonde_wire_guess(c->rx_head, have);
	if (c->proto == SONDE_PROTO_UNKNOWN)
		return conn_rx_miss(c);
	/* Read them again, now with the right header size. */
	w->off -= have;
	c->rx_have = 0;
	return 0;
}

/* Header bytes wanted before anything can be said. */
CONN_INLINE sonde_u32 conn_rx_want(const struct sonde_conn *c)
{
	if (c->proto == SONDE_PROTO_MYSQL)
		return SONDE_MYSQL_HEADER;
	if (c->proto == SONDE_PROTO_SPHINXAPI && c->rx_have < 4)
		return 4;
	return SONDE_API_HEADER;
}

CONN_INLINE int conn_rx_head(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u32 have = c->rx_have & 7, want = conn_rx_want(c);
	sonde_u64 n = conn_min(want - conn_min(want, have), w->len - w->off);

	CONN_OPAQUE(n);
	if (n > SONDE_API_HEADER)
		return 1;
	if (n && (w->off + n > w->seen || conn_env_read(c->rx_head + have, n, w->base + w->off))) {
		conn_lose(c);
		return 1;
	}
	w->off += n;
	c->rx_have = have + n;
	if (c->proto == SONDE_PROTO_UNKNOWN)
		return conn_rx_probe(w);
	if (c->rx_have < want)
		return 1;
	if (c->proto == SONDE_PROTO_MYSQL)
		return conn_rx_mysql(w);
	if (c->rx_have == 4) {
		if (sonde_api_is_handshake(c->rx_head))
			c->rx_have = 0;
		return 0;
	}
	return conn_rx_api(w);
}

static long conn_rx_step(sonde_u32 i, void *ctx)
{
	struct sonde_conn_io *w = ctx;

	(void)i;
	if (w->off >= w->len)
		return 1;
	return w->c->rx == SONDE_RX_BODY ? conn_rx_body(w) : conn_rx_head(w);
}

/* The server read @w->len bytes. */
CONN_INLINE void conn_received(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u64 ready = c->ready_ns;

	c->ready_ns = 0;
	if (c->flags & SONDE_CONN_DEAD)
		return;
	c->arrival_ns = ready ? ready : c->last_ready_ns;
	if (c->proto == SONDE_PROTO_UNKNOWN)
		c->rx_have = 0;
	if (!w->seen && c->rx == SONDE_RX_HEAD) {
		conn_lose(c);
		return;
	}
	conn_env_loop(2 * SONDE_CONN_QUEUE + 4, conn_rx_step, w);
	if (w->off < w->len && !(c->flags & SONDE_CONN_DEAD) && c->proto != SONDE_PROTO_UNKNOWN)
		conn_lose(c);
}

/* ---- responses ---- */

/* A result set, or an OK, is over; @status may say that another follows. */
CONN_INLINE void conn_result_end(struct sonde_conn *c, sonde_u32 status)
{
	if (status & SONDE_MYSQL_MORE) {
		c->span.statements++;
		c->tx = SONDE_TX_FIRST;
	} else {
		c->tx_final = 1;
	}
}

CONN_INLINE void conn_error(struct sonde_conn *c, const sonde_u8 *payload, sonde_u32 len)
{
	c->span.status = SONDE_SPAN_ERROR;
	c->span.error = len >= 3 ? sonde_wire_le16(payload + 1) : 0;
	c->tx_final = 1;
}

/* First packet of a response or of the next result set in it. */
CONN_INLINE void conn_tx_first(struct sonde_conn *c, const sonde_u8 *payload, sonde_u32 len)
{
	switch (sonde_mysql_first_packet(payload, len)) {
	case SONDE_MYSQL_P_OK:
		if (c->tx != SONDE_TX_PREPARE) {
			conn_result_end(c, sonde_mysql_status(payload, len, conn_min(len, 12)));
			return;
		}
		c->span.error = sonde_wire_le16(payload + 1) | sonde_wire_le16(payload + 3) << 16;
		c->tx_defs = sonde_wire_le16(payload + 5) + sonde_wire_le16(payload + 7);
		c->tx = SONDE_TX_PREPARE_DEFS;
		if (!c->tx_defs || len < 9)
			c->tx_final = 1;
		return;
	case SONDE_MYSQL_P_ERR:
		conn_error(c, payload, len);
		return;
	case SONDE_MYSQL_P_EOF:
		if (c->tx != SONDE_TX_AUTH)
			conn_result_end(c, sonde_mysql_status(payload, len, conn_min(len, 12)));
		return;
	case SONDE_MYSQL_P_INFILE:
	case SONDE_MYSQL_P_PROGRESS:
		return;
	case SONDE_MYSQL_P_DATA:
		if (c->tx == SONDE_TX_AUTH)
			return;
		c->tx_defs = payload[0] == 0xfc ? sonde_wire_le16(payload + 1) : payload[0];
		c->tx = SONDE_TX_DEFS;
	}
}

CONN_INLINE void conn_tx_row(struct sonde_conn *c, const sonde_u8 *payload, sonde_u32 len)
{
	enum sonde_mysql_packet p = sonde_mysql_row_packet(payload, len);

	if (p == SONDE_MYSQL_P_ERR)
		conn_error(c, payload, len);
	else if (p == SONDE_MYSQL_P_EOF && c->tx == SONDE_TX_DEFS_END && len == 5)
		c->tx = SONDE_TX_ROWS;
	else if (p == SONDE_MYSQL_P_EOF)
		conn_result_end(c, sonde_mysql_status(payload, len, conn_min(len, 12)));
	else if (p == SONDE_MYSQL_P_DATA && c->tx == SONDE_TX_DEFS_END)
		c->tx = SONDE_TX_ROWS;
}

/* A packet of the response, by its head (up to 12 bytes of payload). */
CONN_INLINE void conn_tx_packet(struct sonde_conn *c, const sonde_u8 *payload, sonde_u32 len)
{
	switch (c->tx) {
	case SONDE_TX_FIRST:
	case SONDE_TX_PREPARE:
	case SONDE_TX_AUTH:
		conn_tx_first(c, payload, len);
		return;
	case SONDE_TX_DEFS:
		if (c->tx_defs)
			c->tx_defs--;
		if (!c->tx_defs)
			c->tx = SONDE_TX_DEFS_END;
		return;
	case SONDE_TX_PREPARE_DEFS:
		if (payload[0] != 0xfe || len != 5)
			c->tx_defs -= c->tx_defs ? 1 : 0;
		else if (!c->tx_defs)
			c->tx_final = 1;
		return;
	case SONDE_TX_STRING:
		c->tx_final = 1;
		return;
	}
	conn_tx_row(c, payload, len);
}

CONN_INLINE int conn_tx_mysql(struct sonde_conn_io *w, sonde_u32 have)
{
	struct sonde_conn *c = w->c;
	sonde_u32 len = sonde_wire_le24(c->tx_head), total = SONDE_MYSQL_HEADER + len;

	if (have < conn_min(total, 16))
		return 0; /* the rest of the head comes with the next send */
	if (have > total) {
		w->off -= have - total;
		have = total;
	}
	c->tx_have = 0;
	c->tx_left = total - have;
	if (len)
		conn_tx_packet(c, c->tx_head + SONDE_MYSQL_HEADER, len);
	return 0;
}

CONN_INLINE int conn_tx_api(struct sonde_conn_io *w, sonde_u32 have)
{
	struct sonde_conn *c = w->c;
	sonde_u32 status = sonde_wire_be16(c->tx_head);

	if (!c->handshaken && sonde_api_is_handshake(c->tx_head)) {
		c->handshaken = 1;
		c->tx_have = 0;
		c->span.bytes_out -= 4;
		w->off -= have - 4;
		if (w->off >= w->len && c->span.first_ns == w->now)
			c->span.first_ns = c->span.last_ns = 0; /* alone: the reply is yet to come */
		return 0;
	}
	if (have < SONDE_API_HEADER)
		return 0;
	c->handshaken = 1;
	if (!sonde_api_is_reply(c->tx_head)) {
		c->tx = SONDE_TX_LOST;
		return 1;
	}
	w->off -= have - SONDE_API_HEADER;
	c->tx_have = 0;
	c->tx_left = sonde_wire_be32(c->tx_head + 4);
	if (status == SONDE_API_IN_PROGRESS)
		return 0;
	c->span.status = status; /* 0 to 3 are enum sonde_span_status's own numbers */
	c->tx_final = 1;
	return 0;
}

/* This send goes to the open span, from the current offset. */
CONN_INLINE void conn_tx_begin(struct sonde_conn_io *w)
{
	struct sonde_ev_span *s = &w->c->span;

	if (!s->first_ns)
		s->first_ns = w->now;
	if (!s->request_end_ns)
		s->request_end_ns = w->now;
	s->last_ns = w->now;
	s->bytes_out += w->len - w->off;
	w->c->open = SONDE_OPEN_READ;
}

/* The current packet's last byte may have gone: is it the response's last? */
CONN_INLINE int conn_tx_end(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;

	if (c->tx_left || c->tx_have)
		return 0;
	/* With DEPRECATE_EOF nothing marks the end of a PREPARE's definitions but their number. */
	if (c->tx == SONDE_TX_PREPARE_DEFS && !c->tx_defs && w->off >= w->len)
		c->tx_final = 1;
	if (!c->tx_final)
		return 0;
	c->span.bytes_out -= w->len - w->off;
	conn_finish(c);
	if (c->open && w->off < w->len)
		conn_tx_begin(w);
	return 0;
}

static long conn_tx_step(sonde_u32 i, void *ctx)
{
	struct sonde_conn_io *w = ctx;
	struct sonde_conn *c = w->c;
	sonde_u32 left = w->len - w->off, have = c->tx_have & 15;
	sonde_u64 n;
	int err;

	(void)i;
	if (w->off >= w->len || !c->open)
		return 1;
	if (c->tx_left) {
		n = conn_min(left, c->tx_left);
		w->off += n;
		c->tx_left -= n;
		return conn_tx_end(w);
	}
	n = conn_min(16 - have, left);
	CONN_OPAQUE(n);
	if (n > 16 || w->off + n > w->seen || conn_env_read(c->tx_head + have, n, w->base + w->off)) {
		c->tx = SONDE_TX_LOST;
		return 1;
	}
	w->off += n;
	have += n;
	c->tx_have = have;
	if (have < 4)
		return 1;
	err = c->proto == SONDE_PROTO_MYSQL ? conn_tx_mysql(w, have) : conn_tx_api(w, have);
	return err ? err : conn_tx_end(w);
}

/* Where the walk is lost: does this send end with the end of a result set? */
CONN_INLINE void conn_tx_tail(struct sonde_conn_io *w)
{
	sonde_u8 tail[12] = {0};

	if (w->c->proto != SONDE_PROTO_MYSQL || w->len < 11 || w->seen < w->len)
		return;
	if (conn_env_read(tail, 11, w->base + w->len - 11))
		return;
	if ((sonde_mysql_tail_is_eof(tail + 2) && !(sonde_wire_le16(tail + 9) & SONDE_MYSQL_MORE)) ||
	    (sonde_mysql_tail_is_ok(tail) && !(sonde_wire_le16(tail + 7) & SONDE_MYSQL_MORE)))
		conn_finish(w->c);
}

/* A send on a connection that nothing is known of yet: the server may speak first. */
CONN_INLINE void conn_tx_probe(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u8 head[8] = {0};

	if (w->len < 4 || w->seen < 4 || conn_env_read(head, w->seen < 8 ? 4 : 8, w->base))
		return;
	if (w->seen >= 8 && sonde_mysql_is_greeting(head, 8)) {
		c->proto = SONDE_PROTO_MYSQL;
		c->flags |= SONDE_CONN_LOGIN;
	} else if (w->len == 4 && sonde_api_is_handshake(head)) {
		c->proto = SONDE_PROTO_SPHINXAPI;
		c->handshaken = 1;
	} else if (!(c->flags & SONDE_CONN_FRESH) && !c->seq) {
		conn_env_drop(SONDE_DROP_NO_ENTRY);
	}
}

/* Bytes that answer nothing. */
CONN_INLINE void conn_tx_unasked(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;

	if (c->flags & SONDE_CONN_LOGIN)
		return;
	if (c->proto == SONDE_PROTO_SPHINXAPI && !c->handshaken && w->len == 4)
		c->handshaken = 1;
	else
		conn_env_drop(c->seq ? SONDE_DROP_UNMATCHED : SONDE_DROP_NO_ENTRY);
}

/* The server wrote @w->len bytes. */
CONN_INLINE void conn_sent(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;

	if (c->flags & SONDE_CONN_DEAD)
		return;
	if (c->proto == SONDE_PROTO_UNKNOWN) {
		conn_tx_probe(w);
		return;
	}
	if (!c->open) {
		conn_tx_unasked(w);
		return;
	}
	conn_tx_begin(w);
	if (!w->seen) {
		conn_env_drop(SONDE_DROP_GAP);
		c->tx = SONDE_TX_LOST;
		return;
	}
	if (c->tx != SONDE_TX_LOST) {
		conn_env_loop(SONDE_CONN_PACKETS, conn_tx_step, w);
		if (w->off < w->len && c->open)
			c->tx = SONDE_TX_LOST;
		else if (w->off < w->len)
			conn_env_drop(SONDE_DROP_UNMATCHED);
	}
	if (c->open && c->tx == SONDE_TX_LOST)
		conn_tx_tail(w);
}

#endif
