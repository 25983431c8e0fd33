/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * HTTP/1.1 on a connection. Headers are not walked: a request begins with a read that begins with a
 * method, and its answer has ended when the next request is read, with the last bytes that were
 * sent before. Without pipelining that is exact, whatever the body's framing (Content-Length,
 * chunks, the connection's end, no body at all), and it costs a look at 12 bytes. Included by
 * conn.h only.
 *
 * The invariant: a request of which a read shows the begin is one span, also when it is pipelined.
 */
#ifndef SONDE_CONN_HTTP_H
#define SONDE_CONN_HTTP_H

/* The method with which this read begins, or none. */
CONN_INLINE sonde_u16 conn_http_method(const struct sonde_conn_io *w)
{
	sonde_u8 head[SONDE_HTTP_HEADER] = {0};

	if (w->seen < sizeof(head) || conn_env_read(head, sizeof(head), w->base))
		return SONDE_HTTP_NONE;
	return sonde_http_method(head);
}

CONN_INLINE void conn_http_begin(struct sonde_conn_io *w, sonde_u16 method)
{
	struct sonde_conn *c = w->c;

	conn_span_begin(c, w->now, c->arrival_ns);
	c->span.command = method;
	conn_copy_text(w, w->len, w->seen);
	c->open = SONDE_OPEN_READ;
	c->span.request_end_ns = w->now;
	conn_env_open(c);
}

/* Asked before the one before was answered: it waits its turn. */
CONN_INLINE void conn_http_queue(struct sonde_conn_io *w, sonde_u16 method)
{
	if (w->c->queued >= SONDE_CONN_QUEUE)
		conn_env_drop(SONDE_DROP_NO_END);
	else
		conn_enqueue(w, method, 0, w->len);
}

/* The server read @w->len bytes. */
CONN_INLINE void conn_http_received(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u16 method = conn_http_method(w);

	if (!method) {
		if (!c->open) {
			conn_env_drop(SONDE_DROP_GAP);
		} else if (c->span.first_ns) {
			c->span.bytes_in += w->len; /* of a body that was answered before its end */
		} else {
			conn_copy_text(w, w->len, w->seen);
			c->span.request_end_ns = w->now;
		}
		return;
	}
	if (c->open && c->span.first_ns)
		conn_finish_guessed(c);
	if (c->open)
		conn_http_queue(w, method);
	else
		conn_http_begin(w, method);
}

/* The server wrote @w->len bytes; sendfile's cannot be looked at, and need not be. */
CONN_INLINE void conn_http_sent(struct sonde_conn_io *w)
{
	struct sonde_conn *c = w->c;
	sonde_u8 head[SONDE_HTTP_STATUS] = {0};
	sonde_u32 status = 0;

	if (w->seen >= sizeof(head) && !conn_env_read(head, sizeof(head), w->base))
		status = sonde_http_status(head);
	if (status && c->open && c->span.first_ns)
		conn_finish_guessed(c); /* the next one's answer, or one to nothing that was seen */
	if (!c->open) {
		conn_tx_unasked(w);
		return;
	}
	if (status >= 100 && status < 200 && status != 101)
		return; /* go on, says the server: the answer is yet to come */
	conn_tx_begin(w);
	if (status >= 400) {
		c->span.status = SONDE_SPAN_ERROR;
		c->span.error = status;
	}
	if (status == 101) { /* another protocol from here */
		conn_finish(c);
		conn_give_up(c, SONDE_DROP_UNDECODED);
	}
}

#endif
