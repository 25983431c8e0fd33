/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The half of the connection state machine that follows what the server writes: where a response
 * ends. MySQL's packets are walked by their headers, rows unread; a long result is known by its
 * tail; SphinxAPI's replies say their length. Included by conn.h only.
 *
 * The invariant: a response is over exactly once, and what nothing marks as its end is never called
 * one before the next request comes.
 */
#ifndef SONDE_CONN_TX_H
#define SONDE_CONN_TX_H

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
			c->span.first_ns = c->span.last_ns =
				0; /* alone: the reply is yet to come */
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

/*
 * The next @n bytes of the send, up to 16, into tx_head. Where no head is half read they come from
 * a window that is read at once, since reading user memory is the dearest part of a short step.
 */
CONN_INLINE int conn_tx_peek(struct sonde_conn_io *w, sonde_u32 have, sonde_u64 n)
{
	struct sonde_conn *c = w->c;
	sonde_u64 size;
	sonde_u32 at;

	if (have)
		return conn_env_read(c->tx_head + have, n, w->base + w->off);
	if (w->off + n > w->window + w->window_len || !w->window_len) {
		size = conn_min(SONDE_CONN_WINDOW, w->seen - w->off);
		CONN_OPAQUE(size);
		if (size > SONDE_CONN_WINDOW || conn_env_read(c->tx_window, size, w->base + w->off))
			return -1;
		w->window = w->off;
		w->window_len = size;
	}
	at = (w->off - w->window) & (SONDE_CONN_WINDOW - 1);
	__builtin_memcpy(c->tx_head, c->tx_window + at, 16);
	return 0;
}

/* A packet's head, with which its rest becomes known. Non-zero: stop. */
CONN_INLINE int conn_tx_head(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u32 have = c->tx_have & 15;
	sonde_u64 n = conn_min(16 - have, w->len - w->off);

	CONN_OPAQUE(n);
	if (n > 16 || w->off + n > w->seen || conn_tx_peek(w, have, n)) {
		c->tx = SONDE_TX_LOST;
		return 1;
	}
	w->off += n;
	have += n;
	c->tx_have = have;
	if (have < 4)
		return 1;
	return c->proto == SONDE_PROTO_MYSQL ? conn_tx_mysql(w, have) : conn_tx_api(w, have);
}

/* One packet, or what there is of it. */
static long conn_tx_step(sonde_u32 i, void *ctx)
{
	struct sonde_conn_io *w = ctx;
	struct sonde_conn *c = w->c;
	sonde_u32 n;

	(void)i;
	if (w->off >= w->len || !c->open)
		return 1;
	if (!c->tx_left && conn_tx_head(w))
		return 1;
	n = conn_min(w->len - w->off, c->tx_left);
	w->off += n;
	c->tx_left -= n;
	return conn_tx_end(w);
}

/* Where the walk is lost: does this send end with the end of a result set? */
CONN_INLINE void conn_tx_tail(struct sonde_conn_io *w)
{
	sonde_u8 tail[12] = {0};

	if (w->c->proto != SONDE_PROTO_MYSQL || w->len < 11 || w->seen < w->len)
		return;
	if (conn_env_read(tail, 11, w->base + w->len - 11))
		return;
	if ((sonde_mysql_tail_is_eof(tail + 2) &&
	     !(sonde_wire_le16(tail + 9) & SONDE_MYSQL_MORE)) ||
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

#endif
