/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server-side connection as a state machine over what was received and sent: it cuts the byte
 * streams into requests and responses and assembles one span per query. The BPF programs drive it
 * with user memory, the unit tests and the fuzzer with plain buffers, so it is tested without a
 * kernel.
 *
 * The invariant: at most one span is being assembled (`open`); each one that was opened is emitted
 * exactly once, or dropped by cause. Requests that arrive before their predecessor was answered
 * wait, without text, in a short queue.
 *
 * The includer defines, before including this file:
 *   int  conn_env_read(void *dst, u32 size, u64 src)     0, or negative when the bytes cannot be
 * read void conn_env_emit(struct sonde_conn *c)             c->span is complete void
 * conn_env_open(struct sonde_conn *c)             this thread has read a whole request void
 * conn_env_drop(enum sonde_drop cause) conn_env_loop(n, step, walk) bpf_loop(): at most n steps,
 * until one returns 1 CONN_NOINLINE                                        attribute of the larger
 * functions
 */
#ifndef SONDE_CONN_H
#define SONDE_CONN_H

#include "conn_state.h"
#include "drop.h"
#include "wire.h"

/* One read or write that the server made: @len bytes moved, @seen of them contiguous at @base. */
struct sonde_conn_io {
	struct sonde_conn *c;
	sonde_u64 base, now;
	sonde_u32 len, seen, off, text_bytes;
	sonde_u32 window, window_len; /* which bytes of a send are in tx_window */
	sonde_u32 command;	      /* the byte behind a MySQL header that was just read, or 0 */
};

#define CONN_INLINE static inline __attribute__((always_inline))

/* Hide a 64-bit size's origin from the compiler, so that the bound tested next is the register
 * used. */
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

	/* What the thread did (alloc_bytes to handler_hits) is filled when the span ends. */
	s->request_end_ns = s->first_ns = s->last_ns = s->bytes_in = s->bytes_out = 0;
	s->request_len = s->text_len = s->error = s->flags = 0;
	s->command = s->version = 0;
	s->status = SONDE_SPAN_OK;
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
	c->tx = c->flags & SONDE_CONN_UNSURE || c->proto == SONDE_PROTO_HTTP ? SONDE_TX_LOST
									     : SONDE_TX_FIRST;
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
	return c->proto == SONDE_PROTO_MYSQL
		       ? sonde_mysql_no_reply(command)
		       : c->proto == SONDE_PROTO_SPHINXAPI && command == SONDE_API_PERSIST;
}

/* Not queries: they end a connection, or prolong it. */
CONN_INLINE bool conn_is_silent(const struct sonde_conn *c, sonde_u16 command)
{
	return c->proto == SONDE_PROTO_MYSQL
		       ? command == SONDE_MYSQL_QUIT
		       : c->proto == SONDE_PROTO_SPHINXAPI && command == SONDE_API_PERSIST;
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
	c->span.bytes_in = q.len + (c->proto == SONDE_PROTO_MYSQL  ? SONDE_MYSQL_HEADER + 1
				    : c->proto == SONDE_PROTO_HTTP ? 0
								   : SONDE_API_HEADER);
	c->open = SONDE_OPEN_READ;
	if (c->tx != SONDE_TX_LOST && c->proto == SONDE_PROTO_MYSQL)
		c->tx = conn_mysql_layout(q.command);
	conn_env_open(c);
}

/* The open span is over: hand it out, and go on with the queue. */
CONN_GLOBAL int conn_finish(struct sonde_conn *c)
{
	if (!c || !c->open)
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

CONN_NOINLINE int conn_abort(struct sonde_conn *c)
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

/* The connection closed at @now with a query open: that is when the query ended. */
CONN_INLINE void conn_close(struct sonde_conn *c, sonde_u64 now)
{
	if (c->open && !(c->tx == SONDE_TX_LOST && c->span.first_ns))
		c->span.last_ns = now;
	conn_abort(c);
}

/* Nobody will see how this goes on. What waits behind the open query was not begun. */
CONN_INLINE void conn_unfinished(struct sonde_conn *c)
{
	c->queued = 0;
	if (c->tx == SONDE_TX_LOST && c->span.first_ns) {
		c->span.flags |= SONDE_SPAN_F_END_GUESSED;
	} else {
		c->span.last_ns = 0;
		c->span.status = SONDE_SPAN_UNFINISHED;
	}
	conn_finish(c);
}

/* The client will send no more: a request that was not read whole never will be. */
CONN_INLINE void conn_eof(struct sonde_conn *c)
{
	if (c->open == SONDE_OPEN_READING ||
	    (c->open && c->tx == SONDE_TX_LOST && c->span.first_ns))
		conn_abort(c);
}

#include "conn_rx.h"
#include "conn_tx.h"
#include "conn_http.h"

/* ---- what the environment calls ---- */

/* The server read @w->len bytes. */
CONN_INLINE void conn_received(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u64 ready = c->ready_ns;

	c->ready_ns = 0;
	if (c->flags & SONDE_CONN_DEAD)
		return;
	c->arrival_ns = ready ? ready : c->last_ready_ns;
	if (c->proto == SONDE_PROTO_UNKNOWN) {
		c->rx_have = 0;
		if (conn_http_method(w))
			c->proto = SONDE_PROTO_HTTP;
	}
	if (c->proto == SONDE_PROTO_HTTP) {
		conn_http_received(w);
		return;
	}
	if (!w->seen && c->rx == SONDE_RX_HEAD) {
		conn_lose(c);
		return;
	}
	conn_env_loop(2 * SONDE_CONN_QUEUE + 4, conn_rx_step, w);
	if (w->off < w->len && !(c->flags & SONDE_CONN_DEAD) && c->proto != SONDE_PROTO_UNKNOWN)
		conn_lose(c);
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
	if (c->proto == SONDE_PROTO_HTTP) {
		conn_http_sent(w);
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
