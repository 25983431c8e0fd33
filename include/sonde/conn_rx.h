/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The half of the connection state machine that follows what the server reads: which bytes are a
 * request's header, its body, or something else. Included by conn.h only.
 *
 * The invariant: either the stream is followed packet by packet, or the protocol is unknown again
 * and the next read that looks like a request is taken up (a gap is counted).
 */
#ifndef SONDE_CONN_RX_H
#define SONDE_CONN_RX_H

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

/* First byte of a MySQL request's body. */
CONN_INLINE int conn_mysql_command(struct sonde_conn_io *w, sonde_u8 command)
{
	struct sonde_conn *c = w->c;

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
	if (w->off + 4 > w->seen || conn_env_read(caps, 4, w->base + w->off))
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
	sonde_u8 command = w->command;
	sonde_u32 n;

	if (c->rx_command_due && c->rx_body != SONDE_BODY_OTHER) {
		if (!command && w->off < w->seen)
			conn_env_read(&command, 1, w->base + w->off);
		w->command = 0;
		if (conn_mysql_command(w, command))
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
		w->command = c->rx_head[4];
		conn_request(w, len);
		return 0;
	}
	/* Sequence 1 and more: login, a file for LOAD DATA, or the rest of a request over 16 MiB.
	 */
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

/*
 * Read up to @want bytes of a header, and where there is one the byte behind it: of a MySQL request
 * it is the command (0, which is none, where it is not there).
 */
CONN_INLINE int conn_rx_take(struct sonde_conn_io *w, sonde_u32 want)
{
	struct sonde_conn *c = w->c;
	sonde_u32 have = c->rx_have & 7, n = conn_min(want - conn_min(want, have), w->len - w->off);
	sonde_u64 size = n + (have + n == SONDE_MYSQL_HEADER && w->off + n < w->seen);

	c->rx_head[SONDE_MYSQL_HEADER] = 0;
	CONN_OPAQUE(size);
	if (size > SONDE_API_HEADER)
		return 1;
	if (size &&
	    (w->off + n > w->seen || conn_env_read(c->rx_head + have, size, w->base + w->off))) {
		conn_lose(c);
		return 1;
	}
	w->off += n;
	c->rx_have = have + n;
	return 0;
}

CONN_INLINE int conn_rx_head(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u32 want = conn_rx_want(c);

	if (conn_rx_take(w, want))
		return 1;
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

/* A header and what was read of the body behind it, or more of a body. */
static long conn_rx_step(sonde_u32 i, void *ctx)
{
	struct sonde_conn_io *w = ctx;

	(void)i;
	if (w->off >= w->len)
		return 1;
	if (w->c->rx == SONDE_RX_HEAD) {
		if (conn_rx_head(w))
			return 1;
		if (w->c->rx == SONDE_RX_HEAD || w->off >= w->len)
			return 0;
	}
	return conn_rx_body(w);
}

#endif
