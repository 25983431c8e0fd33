/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 4, of the query lens: the connection state machine in the kernel. User memory is the
 * server's own buffer, found through the registers that the system call saved; a finished span goes
 * to the histograms, which are complete whatever the ring does, and then to the ring.
 */
#ifndef SONDE_BPF_CONN_H
#define SONDE_BPF_CONN_H

#include "lib/anatomy_query.bpf.h"
#include "lib/emit.bpf.h"
#include "lib/window.bpf.h"
#include <bpf/bpf_endian.h>
#include "sonde/handler.h"
#include "sonde/query.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SONDE_QUERY_ROW__MAX);
	__type(key, __u32);
	__type(value, struct sonde_query_hist);
} query_hists SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sonde_query_counts);
} query_counts SEC(".maps");

static __always_inline struct sonde_query_counts *query_counts_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&query_counts, &zero);
}

static __always_inline void query_add(enum sonde_query_counter which, __u64 more)
{
	struct sonde_query_counts *n = query_counts_here();

	if (n)
		__sync_fetch_and_add(&n->v[which], more);
}

static __always_inline void query_count(enum sonde_query_counter which)
{
	query_add(which, 1);
}

static __always_inline void query_hist(struct sonde_query_counts *counts, __u32 row, __u64 v)
{
	struct sonde_query_hist *h = bpf_map_lookup_elem(&query_hists, &row);
	__u64 i = sonde_hist_index(v);

	/* One 64-bit register is checked and used: 6.1 does not tie a shifted copy to its origin.
	 */
	__asm__ volatile("" : "+r"(i));
	if (!h || i >= SONDE_HIST_BUCKETS || row >= SONDE_QUERY_ROW__MAX)
		return;
	__sync_fetch_and_add(&counts->sum[row], v);
	__sync_fetch_and_add(&h->buckets[i], 1);
}

static __always_inline int conn_env_read(void *dst, __u32 size, __u64 src)
{
	return bpf_probe_read_user(dst, size, (const void *)src);
}

/* May the daemon's own handlers tell queries of a connection? */
static __always_inline bool conn_may_be_handled(void)
{
	return cfg.handlers && cfg.query_source != SONDE_SOURCE_SOCKET;
}

/* May the daemon's handlers tell what a socket cannot? Then whether anything is lost shows when the
 * connection ends: see handled_lost(). */
static __always_inline bool conn_has_handlers(void)
{
	return cfg.handlers && cfg.query_source == SONDE_SOURCE_AUTO;
}

static __always_inline void conn_env_drop(enum sonde_drop cause)
{
	if ((cause == SONDE_DROP_ENCRYPTED || cause == SONDE_DROP_UNDECODED) && conn_has_handlers())
		return;
	count_drop(SONDE_LENS_QUERY, cause);
}

#define conn_env_loop(n, step, walk) bpf_loop(n, step, walk, 0)
#define CONN_NOINLINE		     static __attribute__((noinline))
/* Not static: the verifier then checks it once, and not for every way that leads to it. */
#define CONN_GLOBAL __attribute__((noinline))

struct sonde_conn;
static __always_inline void conn_env_emit(struct sonde_conn *c);
static __always_inline void conn_env_open(struct sonde_conn *c);

#include "sonde/conn.h"

#define RUNS_AT_ONCE 256

/*
 * Was this connection given up? Then its programs run in vain, and no span tells how often: told
 * here, so that what they cost is known to some of them a connection.
 */
static __always_inline bool conn_is_dead(struct sonde_conn *c)
{
	struct sonde_query_counts *n;

	if (!(c->flags & SONDE_CONN_DEAD) || conn_may_be_handled())
		return false;
	if (++c->runs < RUNS_AT_ONCE)
		return true;
	n = query_counts_here();
	if (n)
		__sync_fetch_and_add(&n->v[SONDE_QUERY_RUNS], c->runs);
	c->runs = 0;
	return true;
}

/* What the thread did while it ran the query; another thread's doings are not known. */
static __always_inline void conn_collect_thread(struct sonde_ev_span *s)
{
	struct task_span *t = span_current();

	if (!t || t->conn != s->conn || t->seq != s->seq) {
		s->flags |= SONDE_SPAN_F_HOPPED;
		s->alloc_bytes = s->alloc_calls = s->faults = s->fault_ns = 0;
		s->handler_ns = s->found = 0;
		s->handler_wall_ms = s->handler_hits = 0;
		s->heap_allocated = s->heap_freed = 0;
		return;
	}
	span_slice_end(t);
	s->heap_allocated = t->heap.allocated;
	s->heap_freed = t->heap.freed;
	if (t->heap_known)
		s->flags |= SONDE_SPAN_F_HEAP;
	s->alloc_bytes = t->alloc_bytes;
	s->alloc_calls = t->alloc_calls;
	window_query(t->window, t->alloc_calls, t->alloc_bytes);
	t->window = 0;
	s->faults = t->faults;
	s->fault_ns = t->fault_ns;
	s->handler_ns = t->handler_ns;
	s->found = t->found;
	s->handler_wall_ms = t->wall_ms;
	s->handler_hits = t->hits;
	if (t->handler_ns || t->hits)
		s->flags |= SONDE_SPAN_F_HANDLER;
	if (t->index[0])
		__builtin_memcpy(s->index, t->index, sizeof(s->index));
	t->seq = 0;
}

/* The same at the query's end, and where its time went. */
static __always_inline void conn_collect(struct sonde_ev_span *s)
{
	anatomy_collect(s);
	if (cfg.anatomy) {
		query_add(SONDE_QUERY_ANATOMY_EVENTS, anatomy_end(s));
		anatomy_answered(s);
	}
	conn_collect_thread(s);
}

/* Is this request SQL, so that a statement handler should see it? */
static __always_inline bool conn_is_sql(const struct sonde_ev_span *s)
{
	return s->command ==
	       (s->proto == SONDE_PROTO_MYSQL ? SONDE_MYSQL_QUERY : SONDE_API_SPHINXQL);
}

static __always_inline void conn_count(struct sonde_conn *c, struct sonde_query_counts *n)
{
	const struct sonde_ev_span *s = &c->span;

	if (s->status == SONDE_SPAN_UNFINISHED) {
		__sync_fetch_and_add(&n->v[SONDE_QUERY_UNFINISHED], 1);
		return;
	}
	__sync_fetch_and_add(&n->v[SONDE_QUERY_SPANS], 1);
	__sync_fetch_and_add(&n->v[SONDE_QUERY_BYTES_IN], s->bytes_in);
	__sync_fetch_and_add(&n->v[SONDE_QUERY_BYTES_OUT], s->bytes_out);
	__sync_fetch_and_add(&n->v[SONDE_QUERY_RUNS], c->runs);
	c->runs = 0;
	if (s->flags & SONDE_SPAN_F_HEAP) {
		__sync_fetch_and_add(&n->v[SONDE_QUERY_HEAP_SPANS], 1);
		__sync_fetch_and_add(&n->v[SONDE_QUERY_HEAP_ALLOCATED], s->heap_allocated);
		__sync_fetch_and_add(&n->v[SONDE_QUERY_HEAP_FREED], s->heap_freed);
	}
	if (conn_is_sql(s))
		__sync_fetch_and_add(&n->v[SONDE_QUERY_TEXT_SPANS], 1);
	if (s->status == SONDE_SPAN_ERROR)
		__sync_fetch_and_add(&n->v[SONDE_QUERY_ERRORS], 1);
	if (s->status == SONDE_SPAN_NO_REPLY)
		__sync_fetch_and_add(&n->v[SONDE_QUERY_NO_REPLY], 1);
	else if (s->status == SONDE_SPAN_ABORTED)
		__sync_fetch_and_add(&n->v[SONDE_QUERY_ABORTED], 1);
	else
		__sync_fetch_and_add(&n->v[SONDE_QUERY_STATEMENTS], s->statements);
}

static __always_inline void conn_measure(const struct sonde_ev_span *s,
					 struct sonde_query_counts *n, __u64 duration)
{
	if (s->status >= SONDE_SPAN_NO_REPLY)
		return; /* not answered */
	if (s->flags & SONDE_SPAN_F_DISTURBED) {
		__sync_fetch_and_add(&n->v[SONDE_QUERY_DISTURBED], 1);
		return; /* its times are the probes' */
	}
	if (cfg.anatomy)
		anatomy_total(s);
	query_hist(n, sonde_query_class(s->proto, s->command), duration);
	if (!(s->flags & SONDE_SPAN_F_NO_WAIT))
		query_hist(n, SONDE_QUERY_ROW_WAIT, s->start_ns - s->arrival_ns);
	if (s->first_ns >= s->start_ns)
		query_hist(n, SONDE_QUERY_ROW_SERVICE, s->first_ns - s->start_ns);
	if (s->flags & SONDE_SPAN_F_HEAP)
		query_hist(n, SONDE_QUERY_ROW_ALLOCATED, s->heap_allocated);
}

static __always_inline void conn_env_emit(struct sonde_conn *c)
{
	struct sonde_ev_span *s = &c->span;
	struct sonde_query_counts *counts = query_counts_here();
	__u64 begin = s->arrival_ns ? s->arrival_ns : s->start_ns, duration;
	__u32 n = s->text_len;

	duration = s->last_ns > begin ? s->last_ns - begin : 0;
	if (s->status == SONDE_SPAN_UNFINISHED)
		duration = bpf_ktime_get_ns() - begin;
	if (!(s->flags & SONDE_SPAN_F_BY_HANDLER)) /* its thread's part was taken before */
		conn_collect(s);
	if (cfg.anatomy)
		anatomy_complete(s, duration);
	if (window_ended(begin, s->flags & SONDE_SPAN_F_HOPPED))
		s->flags |= SONDE_SPAN_F_DISTURBED;
	if (counts) {
		conn_count(c, counts);
		conn_measure(s, counts, duration);
	}
	if (!cfg.span_events)
		return;
	/* A PREPARE is always told: without it an EXECUTE has no text. */
	if (cfg.slower_than_ns && duration < cfg.slower_than_ns &&
	    !(s->proto == SONDE_PROTO_MYSQL && s->command == SONDE_MYSQL_PREPARE)) {
		query_count(SONDE_QUERY_SLOW_SKIPPED);
		return;
	}
	if (n > SONDE_TEXT_BYTES)
		n = SONDE_TEXT_BYTES;
	n += __builtin_offsetof(struct sonde_ev_span, text);
	s->h.kind = SONDE_EV_SPAN;
	s->h.lens = SONDE_LENS_QUERY;
	s->h.size = n;
	emit(SONDE_LENS_QUERY, s, n);
}

/* The reading thread runs the query from here: what other lenses see is charged to it. */
static __always_inline void conn_env_open(struct sonde_conn *c)
{
	struct sonde_ev_span *s = &c->span;
	struct task_span *t;
	__u64 id = bpf_get_current_pid_tgid();

	s->h.tgid = id >> 32;
	s->h.tid = (__u32)id;
	s->h.ts_ns = s->request_end_ns;
	/* Not where it is taken from the queue by who answered its predecessor, and another read
	 * it.
	 */
	if (!c->reader || c->reader == (__u32)id)
		anatomy_begin(s, c->prev_end_ns, s->request_end_ns);
	if (!cfg.per_query)
		return;
	t = bpf_task_storage_get(&span, bpf_get_current_task_btf(), 0,
				 BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		conn_env_drop(SONDE_DROP_MAP_FULL);
		return;
	}
	t->alloc_bytes = t->alloc_calls = t->faults = t->fault_ns = 0;
	t->handler_ns = t->found = 0;
	t->wall_ms = t->hits = 0;
	window_leave(t->window);
	t->window = window_join();
	t->index[0] = 0;
	t->begin_ns = s->request_end_ns;
	t->conn = s->conn;
	t->seq = s->seq;
	span_heap_reset(t);
	span_slice_begin(t);
}

/* ---- the other end ---- */

#define AF_UNIX	 1
#define AF_INET	 2
#define AF_INET6 10

/* Whom the connection is with; @sk may be any kernel address of a socket. */
static __always_inline void conn_peer(struct sonde_conn *c, struct sock *sk)
{
	struct sonde_ev_span *s = &c->span;

	s->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (s->family == AF_UNIX) {
		c->flags |= SONDE_CONN_UNIX;
		return;
	}
	s->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	s->peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (s->family == AF_INET)
		BPF_CORE_READ_INTO((__u32 *)s->peer_addr, sk, __sk_common.skc_daddr);
	else
		BPF_CORE_READ_INTO((struct in6_addr *)s->peer_addr, sk, __sk_common.skc_v6_daddr);
}

/* ---- the server's buffer ---- */

enum {
	NR_READ = 0,
	NR_WRITE = 1,
	NR_READV = 19,
	NR_WRITEV = 20,
	NR_SENDTO = 44,
	NR_RECVFROM = 45,
	NR_SENDMSG = 46,
	NR_RECVMSG = 47,
};

/* First piece of the iovec array at user address @iov. */
static __always_inline void conn_first_iovec(struct sonde_conn_io *w, __u64 iov)
{
	struct iovec v = {};

	if (bpf_probe_read_user(&v, sizeof(v), (const void *)iov))
		return;
	w->base = (__u64)v.iov_base;
	w->seen = v.iov_len < w->len ? v.iov_len : w->len;
}

/*
 * Where the bytes of a read or write of system call @nr are in user memory; @arg is its second
 * argument. What lies beyond the first iovec is not looked at; for a call that has no buffer
 * (sendfile, io_uring) w->seen stays 0.
 */
static __always_inline void conn_locate(struct sonde_conn_io *w, long nr, __u64 arg)
{
	struct user_msghdr m = {};

	switch (nr) {
	case NR_READ:
	case NR_WRITE:
	case NR_SENDTO:
	case NR_RECVFROM:
		w->base = arg;
		w->seen = w->len;
		return;
	case NR_READV:
	case NR_WRITEV:
		conn_first_iovec(w, arg);
		return;
	case NR_SENDMSG:
	case NR_RECVMSG:
		if (!bpf_probe_read_user(&m, sizeof(m), (const void *)arg))
			conn_first_iovec(w, (__u64)m.msg_iov);
	}
}

#endif
