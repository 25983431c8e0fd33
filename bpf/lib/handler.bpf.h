/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 5, of the query lens: the daemon's own handlers as the source of queries, for connections
 * that cannot be decoded or where it was asked for. A call of a handler begins a query; the socket
 * tells when its request was read and when its answer went, or the call's return ends it.
 *
 * Which connection a call serves is told by the socket: the one that was read last on the same
 * stack. A stack goes with its coroutine from thread to thread, so threads do not matter, nor does
 * a daemon's object that serves one connection after the other.
 *
 * The invariant: at most one call is followed on a connection. A call that never returns (its
 * function threw) is found out by the next one on its connection or its stack.
 */
#ifndef SONDE_BPF_HANDLER_H
#define SONDE_BPF_HANDLER_H

#include "lib/conn.bpf.h"
#include "lib/handlerargs.bpf.h"
#include "lib/stackconn.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct sonde_handled);
} handled SEC(".maps");

/* A new one's value, which is too large for the stack. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sonde_handled);
} handled_blank SEC(".maps");

/* Calls that a `ret` will end. Those that threw are the oldest, and go for newer ones. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct sonde_handler_call);
	__type(value, __u64); /* key of `handled` */
} handler_calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SONDE_QUERY_HANDLERS);
	__type(key, __u32);
	__type(value, struct sonde_query_handler);
} query_handlers SEC(".maps");

/* What the queries of coroutines that are left were charged so far, by the frame of the leaving
 * call. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct sonde_handler_call);
	__type(value, struct task_span);
} span_parked SEC(".maps");

/* Given by the layer above, which knows descriptors: the connection's id, 0: none. */
static __always_inline __u64 handler_fd_conn(__u32 tgid, __u32 fd);

/* ---- the life of a call ---- */

static __always_inline struct sonde_handled *handled_add(__u64 id)
{
	__u32 zero = 0;
	struct sonde_handled *blank = bpf_map_lookup_elem(&handled_blank, &zero);

	if (!blank || bpf_map_update_elem(&handled, &id, blank, BPF_ANY)) {
		conn_env_drop(SONDE_DROP_MAP_FULL);
		return NULL;
	}
	return bpf_map_lookup_elem(&handled, &id);
}

/* What the thread did so far goes to the query, which its thread keeps: more may follow. */
static __always_inline void handled_charge(struct sonde_handled *hc)
{
	struct task_span *t = span_current();
	__u64 entry_ns = hc->c.span.handler_ns;

	anatomy_collect(&hc->c.span);
	conn_collect_thread(&hc->c.span);
	hc->c.span.handler_ns = entry_ns; /* known on whichever thread it ends */
	hc->c.span.flags |= SONDE_SPAN_F_HANDLER;
	if (!t || t->conn != hc->c.span.conn || hc->c.span.flags & SONDE_SPAN_F_HOPPED)
		return;
	t->seq = hc->c.span.seq;
	span_slice_begin(t);
}

/* The thread has nothing more to do with the query. */
static __always_inline void handled_leave(struct sonde_handled *hc)
{
	struct task_span *t = span_current();

	anatomy_end(&hc->c.span);
	if (t && t->conn == hc->c.span.conn && t->seq == hc->c.span.seq) {
		span_slice_end(t);
		t->seq = 0;
	}
}

/* A connection that could not be decoded ends, and no handler was called for it either. */
static __always_inline void handled_lost(const struct sonde_conn *c, const struct sonde_handled *hc)
{
	bool secret = c->proto == SONDE_PROTO_MYSQL || sonde_wire_is_tls(c->rx_head);

	if (c->flags & SONDE_CONN_DEAD && !hc->c.seq && conn_has_handlers())
		count_drop(SONDE_LENS_QUERY, secret ? SONDE_DROP_ENCRYPTED : SONDE_DROP_UNDECODED);
}

/* The open call's query is over: answered, if anything was sent. */
static __always_inline void handled_finish(struct sonde_handled *hc)
{
	if (!hc->c.open)
		return;
	handled_leave(hc);
	if (hc->by_return && !hc->returned)
		hc->c.span.flags |= SONDE_SPAN_F_END_GUESSED;
	if (hc->c.span.first_ns || hc->c.span.status) {
		query_count(SONDE_QUERY_BY_HANDLER);
		if (hc->role == SONDE_ROLE_EXECUTE && !conn_is_sql(&hc->c.span))
			query_count(SONDE_QUERY_TEXT_SPANS);
		conn_finish(&hc->c);
		return;
	}
	conn_env_drop(SONDE_DROP_NO_END); /* its function threw, or the answer went unseen */
	hc->c.open = SONDE_OPEN_NONE;
}

/* A request of the protocol that is no query; the socket would not count it either. */
static __always_inline bool is_silent(const struct sonde_conn *c)
{
	return c->proto == SONDE_PROTO_MYSQL &&
	       (c->span.command == SONDE_MYSQL_QUIT || !c->span.command);
}

/* Is this entry a call within the one being followed? Then nothing was read since, and it lies
 * deeper in the same stack. Without a socket an answer may not be seen, so depth alone decides. */
static __always_inline bool is_nested(const struct sonde_handled *hc, __u64 sp)
{
	if (!hc->c.open || hc->more)
		return false;
	return sp < hc->sp && hc->sp - sp < STACK_FAR && (hc->by_return || !hc->c.span.first_ns);
}

/* The request that this call takes: when it came, from the socket. */
static __always_inline void handled_begin(struct sonde_handled *hc, __u64 id, __u64 sp, __u64 now,
					  const struct sonde_query_handler *h)
{
	struct sonde_conn *c = &hc->c;

	c->proto = h->proto;
	c->span.conn = id;
	conn_span_begin(c, hc->start_ns ? hc->start_ns : now, hc->arrival_ns);
	if (!hc->start_ns && !(id & SONDE_HANDLER_NO_SOCKET))
		c->span.flags |= SONDE_SPAN_F_PIPELINED; /* read together with the one before */
	c->span.flags |= SONDE_SPAN_F_BY_HANDLER;
	c->span.bytes_in = hc->bytes_in;
	c->span.request_end_ns = now;
	c->span.handler_ns = now;
	c->open = SONDE_OPEN_READ;
	hc->sp = sp;
	hc->by_return = h->end_return;
	hc->role = h->role;
	hc->start_ns = hc->arrival_ns = hc->bytes_in = 0;
	hc->more = hc->returned = 0;
}

/* Of MySQL's commands only these have a text; the words where it would be are other arguments. */
static __always_inline bool has_text(const struct sonde_ev_span *s)
{
	return s->proto != SONDE_PROTO_MYSQL || s->command == SONDE_MYSQL_QUERY ||
	       s->command == SONDE_MYSQL_PREPARE;
}

static __always_inline void handled_describe(struct sonde_handled *hc, const struct handler_args *a,
					     const struct sonde_query_handler *h)
{
	struct sonde_ev_span *s = &hc->c.span;
	__u32 command = h->proto == SONDE_PROTO_MYSQL ? SONDE_MYSQL_QUERY : 0, version = 0;
	struct task_span *t;

	field_read(a, &h->command, &command, sizeof(command));
	field_read(a, &h->version, &version, sizeof(version));
	s->command = command;
	s->version = version;
	if (is_silent(&hc->c)) {
		hc->c.open = SONDE_OPEN_NONE;
		return;
	}
	if (has_text(s))
		handler_text(s, a, h);
	if (h->proto == SONDE_PROTO_MYSQL && sonde_mysql_no_reply(command)) {
		s->status = SONDE_SPAN_NO_REPLY;
		handled_finish(hc);
		return;
	}
	conn_env_open(&hc->c);
	t = span_current();
	if (t)
		t->handler_ns = s->handler_ns;
}

/* Is this call one that the count of SQL requests on sockets should agree with? */
static __always_inline bool counts_as_statement(const struct handler_args *a,
						const struct sonde_query_handler *h)
{
	__u32 command = SONDE_MYSQL_QUERY;

	if (h->role != SONDE_ROLE_EXECUTE)
		return false;
	if (h->proto == SONDE_PROTO_MYSQL)
		field_read(a, &h->command, &command, sizeof(command));
	return command == SONDE_MYSQL_QUERY;
}

/* The connection that the call serves; 0: none is known. */
static __always_inline __u64 handler_conn(const struct handler_args *a,
					  const struct sonde_query_handler *h, __u32 tgid, __u64 sp)
{
	__u32 fd = ~0u;

	if (h->socket.kind == SONDE_FIELD_UNSAID)
		return stack_conn(tgid, sp);
	field_read(a, &h->socket, &fd, sizeof(fd));
	return handler_fd_conn(tgid, fd);
}

/* A call without a socket has its end where it returns; its frame's place makes it out. */
static __always_inline struct sonde_handled *handled_by_stack(const struct sonde_handler_call *key,
							      __u64 *id)
{
	struct sonde_handled *hc;

	*id = ((key->sp * 0x9e3779b97f4a7c15ull) >> 2 ^ (__u64)key->tgid << 40) >> 2 |
	      SONDE_HANDLER_NO_SOCKET;
	hc = bpf_map_lookup_elem(&handled, id);
	return hc ? hc : handled_add(*id);
}

/* A handler is entered: @key is its frame. */
static __always_inline void handler_enter(const struct handler_args *a,
					  const struct sonde_query_handler *h,
					  const struct sonde_handler_call *key)
{
	__u64 id = handler_conn(a, h, key->tgid, key->sp), now = bpf_ktime_get_ns();
	struct sonde_handled *hc = id ? bpf_map_lookup_elem(&handled, &id) : NULL;

	if (hc && hc->owned)
		return;
	if (!hc && h->end_return && cfg.query_source != SONDE_SOURCE_AUTO)
		hc = handled_by_stack(key, &id);
	if (!hc) {
		if (cfg.query_source == SONDE_SOURCE_HANDLER)
			conn_env_drop(SONDE_DROP_NO_ENTRY);
		return;
	}
	if (is_nested(hc, key->sp))
		return;
	handled_finish(hc);
	handled_begin(hc, id, key->sp, now, h);
	handled_describe(hc, a, h);
	if (is_silent(&hc->c) &&
	    hc->c.flags & SONDE_CONN_UNIX) { /* a QUIT: nobody tells of the close */
		bpf_map_delete_elem(&handled, &id);
		return;
	}
	if (hc->c.open && hc->by_return && bpf_map_update_elem(&handler_calls, key, &id, BPF_ANY))
		conn_env_drop(SONDE_DROP_MAP_FULL);
}

/* At a `ret` that a handler's call can end with; most are of other calls. */
static __always_inline void handler_leave(const struct sonde_handler_call *key)
{
	__u64 *found = bpf_map_lookup_elem(&handler_calls, key), id;
	struct sonde_handled *hc;

	if (!found)
		return;
	id = *found;
	bpf_map_delete_elem(&handler_calls, key);
	hc = bpf_map_lookup_elem(&handled, &id);
	if (!hc || !hc->c.open || hc->sp != key->sp)
		return;
	hc->c.span.last_ns = bpf_ktime_get_ns();
	if (!hc->c.span.first_ns)
		hc->c.span.first_ns = hc->c.span.last_ns;
	hc->returned = 1;
	handled_charge(hc);
	handled_finish(hc);
}

/* ---- what the socket tells of it ---- */

/* The socket's own machine follows this connection, so a handler's call is no news. */
static __always_inline void handled_owned(struct sonde_conn *c)
{
	struct sonde_handled *hc;
	__u64 id = c->span.conn;

	if (c->by_handler == SONDE_BY_SOCKET)
		return;
	hc = bpf_map_lookup_elem(&handled, &id);
	if (hc) /* else there is nothing that a call could take */
		hc->owned = 1;
	c->by_handler = SONDE_BY_SOCKET;
}

static __always_inline void handled_who(struct sonde_handled *hc, const struct sonde_conn *c)
{
	hc->c.span.family = c->span.family;
	hc->c.span.local_port = c->span.local_port;
	hc->c.span.peer_port = c->span.peer_port;
	__builtin_memcpy(hc->c.span.peer_addr, c->span.peer_addr, sizeof(c->span.peer_addr));
	hc->c.flags = c->flags & SONDE_CONN_UNIX;
}

/* The thread that reads a request works for it from here on, as far as one can know. */
static __always_inline void handled_clock(struct sonde_handled *hc, __u64 id, __u64 now)
{
	struct sonde_ev_span *s = &hc->c.span;

	if (hc->c.open)
		return;
	s->conn = id;
	s->seq = hc->c.seq + 1; /* what conn_span_begin() will give it */
	s->start_ns = now;
	s->arrival_ns = hc->arrival_ns;
	anatomy_end(s);
	anatomy_begin(s, hc->c.prev_end_ns, now);
}

/* Bytes that no machine follows: they may be a request that a handler will be called for. */
static __always_inline void handled_request(struct sonde_conn *c, __u64 arrival, __u64 now,
					    __u32 len)
{
	__u64 id = c->span.conn;
	struct sonde_handled *hc = bpf_map_lookup_elem(&handled, &id);

	if (!hc) {
		hc = handled_add(id);
		if (!hc)
			return;
	}
	c->by_handler = SONDE_BY_HANDLER;
	hc->c.runs += c->runs;
	c->runs = 0;
	hc->owned = 0;
	if (!hc->start_ns)
		handled_who(hc, c);
	/* An answer has begun, so this is the next request; else the call reads more of its own. */
	if (hc->c.open && !hc->by_return && hc->c.span.first_ns)
		handled_finish(hc);
	if (!hc->start_ns) {
		hc->start_ns = now;
		hc->arrival_ns = arrival;
		handled_clock(hc, id, now);
	}
	hc->bytes_in += len;
	hc->more = 1;
}

/* The server has read @len bytes, which arrived at @arrival (0: not known); its own machine was
 * told. */
static __always_inline void handler_saw_read(struct sonde_conn *c, __u64 arrival, __u64 now,
					     __u32 len)
{
	struct pt_regs *regs;
	__u64 pid;

	if (!conn_may_be_handled())
		return;
	pid = bpf_get_current_pid_tgid();
	regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	stack_remember(pid >> 32, regs->sp, c->span.conn);
	if (c->proto != SONDE_PROTO_UNKNOWN && !(c->flags & SONDE_CONN_DEAD))
		handled_owned(c);
	else
		handled_request(c, arrival, now, len);
}

/* What is followed on a connection whose queries handlers tell, or NULL. */
static __always_inline struct sonde_handled *handled_of(const struct sonde_conn *c)
{
	__u64 id = c->span.conn;

	if (!conn_may_be_handled() || c->by_handler != SONDE_BY_HANDLER)
		return NULL;
	return bpf_map_lookup_elem(&handled, &id);
}

static __always_inline void handler_saw_send(struct sonde_conn *c, __u64 now, __u32 len)
{
	struct sonde_handled *hc = handled_of(c);

	if (!hc)
		return;
	if (!hc->c.open) { /* what was read before this was no request for a handler: a login */
		anatomy_end(&hc->c.span);
		hc->start_ns = hc->arrival_ns = hc->bytes_in = 0;
		return;
	}
	if (now <= hc->c.span.handler_ns || now < hc->c.span.last_ns)
		now = bpf_ktime_get_ns(); /* the socket's own stamp is of bytes before */
	if (!hc->c.span.first_ns)
		hc->c.span.first_ns = now;
	hc->c.span.last_ns = now;
	hc->c.span.bytes_out += len;
	if (!hc->by_return)
		handled_charge(hc);
}

/* The connection ends, or will be read no more. */
static __always_inline void handler_saw_close(struct sonde_conn *c, __u64 now)
{
	__u64 id = c->span.conn;
	struct sonde_handled *hc;

	if (!conn_may_be_handled() || c->by_handler == SONDE_BY_NOBODY)
		return;
	hc = bpf_map_lookup_elem(&handled, &id);
	if (!hc)
		return;
	if (hc->c.open && !hc->c.span.first_ns) {
		hc->c.span.status = SONDE_SPAN_ABORTED;
		hc->c.span.last_ns = now;
	}
	handled_finish(hc);
	handled_lost(c, hc);
	c->by_handler = SONDE_BY_NOBODY;
	bpf_map_delete_elem(&handled, &id);
}

/* The client will send no more; what it asked may still be answered. */
static __always_inline void handler_saw_eof(struct sonde_conn *c)
{
	struct sonde_handled *hc = handled_of(c);
	__u64 id = c->span.conn;

	if (!hc)
		return;
	if (hc->c.open && !hc->by_return && hc->c.span.first_ns)
		handled_finish(hc);
	/* Nobody tells when a unix socket closes. */
	if (!hc->c.open && c->flags & SONDE_CONN_UNIX) {
		c->by_handler = SONDE_BY_NOBODY;
		bpf_map_delete_elem(&handled, &id);
	}
}

/* Recording is over, and the gate is closed. */
static __always_inline void handler_sweep(struct sonde_conn *c)
{
	struct sonde_handled *hc = handled_of(c);

	if (hc)
		handled_lost(c, hc);
	if (!hc || !hc->c.open)
		return;
	if (hc->by_return || !hc->c.span.first_ns) {
		hc->c.span.last_ns = 0;
		hc->c.span.status = SONDE_SPAN_UNFINISHED;
	}
	handled_finish(hc);
}

#endif
