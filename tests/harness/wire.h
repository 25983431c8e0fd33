/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The client's side of two protocols, just enough to ask and to know when an answer is complete:
 * MySQL text commands (SphinxQL) and SphinxAPI SEARCH. Invariant: a call returns only after the
 * whole answer was read, so that the times it took are those of one query and nothing else.
 */
#ifndef HARNESS_WIRE_H
#define HARNESS_WIRE_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define WIRE_BUFFER (64 * 1024)

enum wire_status { WIRE_OK, WIRE_ERROR, WIRE_WARNING, WIRE_RETRY, WIRE_BROKEN };

static const char *const wire_status_name[] = {"ok", "error", "warning", "retry", "broken"};

/* Bytes to send, built up. */
struct wire_out {
	uint8_t b[16384];
	size_t n;
};

struct wire {
	int fd;
	uint16_t port;		    /* our own TCP port, 0 on a unix socket */
	uint64_t first_ns, last_ns; /* of the answer being read: its first and latest bytes */
	uint64_t bytes_in;
	size_t at, have;
	uint8_t buf[WIRE_BUFFER];
};

static inline uint64_t wire_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void out_bytes(struct wire_out *o, const void *p, size_t n)
{
	if (o->n + n > sizeof(o->b))
		abort(); /* queries are bounded well below this */
	memcpy(o->b + o->n, p, n);
	o->n += n;
}

static inline void out_be16(struct wire_out *o, uint16_t v)
{
	out_bytes(o, (uint8_t[]){(uint8_t)(v >> 8), (uint8_t)v}, 2);
}

static inline void out_be32(struct wire_out *o, uint32_t v)
{
	out_be16(o, (uint16_t)(v >> 16));
	out_be16(o, (uint16_t)v);
}

static inline void out_be64(struct wire_out *o, uint64_t v)
{
	out_be32(o, (uint32_t)(v >> 32));
	out_be32(o, (uint32_t)v);
}

static inline void out_str(struct wire_out *o, const char *s)
{
	out_be32(o, (uint32_t)strlen(s));
	out_bytes(o, s, strlen(s));
}

/* HOST:PORT (HOST a numeric address) or the path of a unix socket. 0 or -errno. */
static inline int wire_socket(const char *where, int *fd)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET};
	const char *colon = strrchr(where, ':');
	bool local = where[0] == '/' || where[0] == '.';
	char host[64];
	int s, r;

	if (local) {
		if (strlen(where) >= sizeof(un.sun_path))
			return -ENAMETOOLONG;
		strcpy(un.sun_path, where);
	} else {
		if (!colon || (size_t)(colon - where) >= sizeof(host))
			return -EINVAL;
		memcpy(host, where, (size_t)(colon - where));
		host[colon - where] = '\0';
		in.sin_port = htons((uint16_t)atoi(colon + 1));
		if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
			return -EINVAL;
	}
	s = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -errno;
	r = local ? connect(s, (struct sockaddr *)&un, sizeof(un))
		  : connect(s, (struct sockaddr *)&in, sizeof(in));
	if (r) {
		r = -errno;
		close(s);
		return r;
	}
	*fd = s;
	return 0;
}

static inline int wire_connect(struct wire *w, const char *where)
{
	struct timeval limit = {.tv_sec = 30};
	struct sockaddr_in self;
	socklen_t len = sizeof(self);
	int one = 1, err;

	memset(w, 0, offsetof(struct wire, buf));
	err = wire_socket(where, &w->fd);
	if (err) {
		w->fd = -1;
		return err;
	}
	setsockopt(w->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(w->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!getsockname(w->fd, (struct sockaddr *)&self, &len) && self.sin_family == AF_INET)
		w->port = ntohs(self.sin_port);
	return 0;
}

static inline int wire_send(struct wire *w, const struct wire_out *o)
{
	size_t done = 0;

	while (done < o->n) {
		ssize_t n = send(w->fd, o->b + done, o->n - done, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	w->first_ns = w->last_ns = w->bytes_in = 0;
	return 0;
}

/* At least one more byte into the buffer; stamps the answer's times. 0, -ECONNRESET or -errno. */
static inline int wire_fill(struct wire *w)
{
	ssize_t n;

	w->at = w->have = 0;
	do {
		n = recv(w->fd, w->buf, sizeof(w->buf), 0);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n ? -errno : -ECONNRESET;
	w->last_ns = wire_now();
	if (!w->first_ns)
		w->first_ns = w->last_ns;
	w->bytes_in += (uint64_t)n;
	w->have = (size_t)n;
	return 0;
}

/* Read @n bytes; the first @keep of them into @to, the rest is skipped. */
static inline int wire_read(struct wire *w, void *to, size_t keep, size_t n)
{
	size_t done = 0;

	while (done < n) {
		size_t part = n - done;
		int err = w->at == w->have ? wire_fill(w) : 0;

		if (err)
			return err;
		if (part > w->have - w->at)
			part = w->have - w->at;
		if (done < keep)
			memcpy((uint8_t *)to + done, w->buf + w->at,
			       part < keep - done ? part : keep - done);
		w->at += part;
		done += part;
	}
	return 0;
}

/* ---- MySQL ---- */

struct mysql_packet {
	uint32_t len;
	uint8_t seq;
	uint8_t head[256]; /* the payload's first bytes */
};

static inline int mysql_read(struct wire *w, struct mysql_packet *p)
{
	uint8_t h[4];
	int err = wire_read(w, h, 4, 4);

	if (err)
		return err;
	p->len = h[0] | (uint32_t)h[1] << 8 | (uint32_t)h[2] << 16;
	p->seq = h[3];
	memset(p->head, 0, sizeof(p->head));
	return wire_read(w, p->head, sizeof(p->head) - 1, p->len);
}

static inline void mysql_header(struct wire_out *o, size_t payload, uint8_t seq)
{
	out_bytes(o,
		  (uint8_t[]){(uint8_t)payload, (uint8_t)(payload >> 8), (uint8_t)(payload >> 16),
			      seq},
		  4);
}

/* Protocol 4.1, long passwords, transactions, multi-statements and -results. */
static inline int mysql_login(struct wire *w)
{
	static const uint8_t caps[4] = {0x01, 0xa2, 0x03, 0x00};
	struct mysql_packet p;
	struct wire_out o = {.n = 0};
	uint8_t fixed[28] = {0};
	int err = mysql_read(w, &p);

	if (err)
		return err;
	if (p.head[0] == 0xff)
		return -ECONNREFUSED;
	fixed[3] = 0x01; /* largest packet 16 MiB */
	fixed[4] = 33;	 /* utf8 */
	mysql_header(&o, 4 + sizeof(fixed) + 6, 1);
	out_bytes(&o, caps, 4);
	out_bytes(&o, fixed, sizeof(fixed));
	out_bytes(&o, "root\0", 6); /* user, NUL, empty password */
	err = wire_send(w, &o);
	if (!err)
		err = mysql_read(w, &p);
	return err ? err : p.head[0] == 0xff ? -EACCES : 0;
}

static inline void mysql_query(struct wire_out *o, const char *sql)
{
	o->n = 0;
	mysql_header(o, strlen(sql) + 1, 0);
	out_bytes(o, "\x03", 1);
	out_bytes(o, sql, strlen(sql));
}

/* One EOF-terminated run of packets (columns, or rows); *more: another result set follows. */
static inline enum wire_status mysql_until_eof(struct wire *w, bool *more)
{
	struct mysql_packet p;

	for (;;) {
		if (mysql_read(w, &p))
			return WIRE_BROKEN;
		if (p.head[0] == 0xff)
			return WIRE_ERROR;
		if (p.head[0] == 0xfe && p.len < 9) {
			*more = p.head[3] & 0x08;
			return WIRE_OK;
		}
	}
}

static inline enum wire_status mysql_answer(struct wire *w, char *why, size_t room)
{
	enum wire_status st = WIRE_OK;
	struct mysql_packet p;
	bool more = true;

	while (more && st == WIRE_OK) {
		if (mysql_read(w, &p))
			return WIRE_BROKEN;
		more = false;
		if (p.head[0] == 0xff) {
			snprintf(why, room, "%s", (const char *)p.head + 9);
			return WIRE_ERROR;
		}
		if (p.head[0] == 0x00)
			return WIRE_OK;
		st = mysql_until_eof(w, &more);
		if (st == WIRE_OK)
			st = mysql_until_eof(w, &more);
	}
	return st;
}

/* ---- SphinxAPI ---- */

#define API_SEARCH	   0
#define API_PERSIST	   4
#define API_SEARCH_VERSION 0x119 /* what Sphinx 2.0 to 2.2 and Manticore all accept */

/* A search in the terms that both protocols can say. */
struct wire_search {
	const char *match;
	const char *index;
	const char *sort; /* an ORDER BY clause, NULL: by relevance */
	bool filter;
	uint32_t gid_low, gid_high;
	uint32_t limit;
	uint32_t max_matches; /* best matches kept; 0: the usual 1000 */
};

static inline int api_login(struct wire *w)
{
	struct wire_out o = {.n = 0};
	uint8_t hello[4];
	int err;

	out_be32(&o, 1);
	out_be16(&o, API_PERSIST);
	out_be16(&o, 0);
	out_be32(&o, 4);
	out_be32(&o, 1);
	err = wire_send(w, &o);
	return err ? err : wire_read(w, hello, 4, 4);
}

static inline void api_filter(struct wire_out *o, const struct wire_search *s)
{
	out_be32(o, s->filter ? 1 : 0);
	if (!s->filter)
		return;
	out_str(o, "gid");
	out_be32(o, 1); /* a range */
	out_be64(o, s->gid_low);
	out_be64(o, s->gid_high);
	out_be32(o, 0); /* include */
}

static inline void api_body(struct wire_out *o, const struct wire_search *s)
{
	out_be32(o, 0); /* offset */
	out_be32(o, s->limit);
	out_be32(o, 6); /* match mode: extended */
	out_be32(o, 0); /* ranker: proximity and BM25 */
	out_be32(o, s->sort ? 4 : 0);
	out_str(o, s->sort ? s->sort : "");
	out_str(o, s->match);
	out_be32(o, 0); /* weights */
	out_str(o, s->index);
	out_be32(o, 1); /* 64-bit ids, no range */
	out_be64(o, 0);
	out_be64(o, 0);
	api_filter(o, s);
	out_be32(o, 0); /* group function and attribute */
	out_str(o, "");
	out_be32(o, s->max_matches ? s->max_matches : 1000);
	out_str(o, "@group desc");
	for (int i = 0; i < 3; i++)
		out_be32(o, 0); /* cutoff, retry count, retry delay */
	out_str(o, "");		/* distinct */
	for (int i = 0; i < 4; i++)
		out_be32(o, 0); /* anchor, index weights, time limit, field weights */
	out_str(o, "");		/* comment */
	out_be32(o, 0);		/* overrides */
	out_str(o, "*");
}

static inline void api_search(struct wire_out *o, const struct wire_search *s)
{
	static _Thread_local struct wire_out body;

	body.n = 0;
	out_be32(&body, 0); /* not from a master */
	out_be32(&body, 1); /* one query */
	api_body(&body, s);
	o->n = 0;
	out_be16(o, API_SEARCH);
	out_be16(o, API_SEARCH_VERSION);
	out_be32(o, (uint32_t)body.n);
	out_bytes(o, body.b, body.n);
}

static inline uint32_t wire_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The reply's own status, then that of its one query. */
static inline enum wire_status api_answer(struct wire *w, char *why, size_t room)
{
	static const enum wire_status meaning[] = {WIRE_OK, WIRE_ERROR, WIRE_RETRY, WIRE_WARNING};
	uint8_t head[8], body[256] = {0};
	uint32_t len, status, inner;

	if (wire_read(w, head, 8, 8))
		return WIRE_BROKEN;
	status = wire_be32(head) >> 16;
	len = wire_be32(head + 4);
	if (wire_read(w, body, sizeof(body) - 1, len) || status > 3)
		return WIRE_BROKEN;
	inner = len >= 4 ? wire_be32(body) : 0;
	if (status) {
		snprintf(why, room, "%s", (const char *)body + 4);
		return meaning[status];
	}
	if (inner)
		snprintf(why, room, "%s", (const char *)body + 8);
	return inner == 0 ? WIRE_OK : inner == 3 ? WIRE_WARNING : WIRE_ERROR;
}

#endif
