// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Queries, from the socket: when data was ready, when the server read it, when its answer was
 * handed to the kernel. State lives in socket storage: it is there only for sockets that a target
 * accepted (children inherit it from the listener), so everybody else's traffic costs one look-up.
 */
#include "lib/anatomy_hooks.bpf.h"
#include "lib/syscall.bpf.h"

#define SOCK_STREAM   1
#define MSG_PEEK      2
#define TCP_FIN_WAIT1 4
#define TCP_LAST_ACK  9
#define TCP_LISTEN    10
#define EPIPE	      32
#define ECONNRESET    104

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct sonde_conn);
} conn SEC(".maps");

/* Ports that a target listens on; an accepted TCP socket has its listener's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u16);
	__type(value, __u8);
} query_ports SEC(".maps");

/* Addresses (struct unix_address *) that a target listens on; an accepted socket shares its
 * listener's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u64);
	__type(value, __u8);
} query_unix SEC(".maps");

static __always_inline __u64 unix_address(struct sock *sk)
{
	return (__u64)BPF_CORE_READ((struct unix_sock *)sk, addr);
}

/* Did a listener that we know of accept this socket? */
static __always_inline bool server_side(struct sock *sk)
{
	__u16 port = sk->__sk_common.skc_num;
	__u64 addr;

	if (sk->sk_type != SOCK_STREAM)
		return false;
	if (sk->__sk_common.skc_family != AF_UNIX)
		return bpf_map_lookup_elem(&query_ports, &port);
	addr = unix_address(sk);
	return addr && bpf_map_lookup_elem(&query_unix, &addr);
}

static __always_inline bool known_family(struct sock *sk)
{
	__u16 family = sk->__sk_common.skc_family;

	return family == AF_INET || family == AF_INET6 || family == AF_UNIX;
}

/* Fill what stays the same for the connection's life. */
static __always_inline void conn_identify(struct sonde_conn *c, struct sock *sk)
{
	c->flags &= ~SONDE_CONN_LISTENER;
	if (cfg.handlers && cfg.query_source == SONDE_SOURCE_HANDLER)
		c->flags |= SONDE_CONN_DEAD; /* its bytes are not looked at */
	c->span.conn = bpf_get_socket_cookie(sk);
	conn_peer(c, sk);
}

/* gate_current(), without its look-up of the process where the connection's last reader was the
 * same. */
static __always_inline bool gate_conn(const struct sonde_conn *c, __u64 *id)
{
	struct sonde_control *ctl = gate_control();

	if (!c || !ctl || ctl->only_tid || ctl->only_comm)
		return gate_current(id);
	*id = bpf_get_current_pid_tgid();
	return (c->span.h.tgid == *id >> 32 && ctl->ready) || gate_current(id);
}

/* State of a socket that the current thread reads or writes, if it is a connection to a target and
 * was not given up: a server of another protocol pays one look-up. */
static __always_inline struct sonde_conn *conn_of(struct sock *sk)
{
	struct sonde_conn *c = bpf_sk_storage_get(&conn, sk, 0, 0);
	__u64 id;

	if (c ? conn_is_dead(c) : !known_family(sk))
		return NULL;
	if (!gate_conn(c, &id)) {
		/* Between the gate's closing and the sweep: the answer comes too late. */
		if (c && c->open && !gate_ready())
			conn_unfinished(c);
		if (c && c->span.conn)
			conn_suspend(c);
		return NULL;
	}
	if (!c) {
		if (!server_side(sk))
			return NULL;
		c = bpf_sk_storage_get(&conn, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!c)
			count_drop(SONDE_LENS_QUERY, SONDE_DROP_MAP_FULL);
	}
	if (c && !c->span.conn)
		conn_identify(c, sk);
	if (c)
		c->runs++;
	return c;
}

static __always_inline void conn_io_init(struct sonde_conn_io *w, struct sonde_conn *c, int ret)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());

	w->c = c;
	w->now = bpf_ktime_get_ns();
	w->len = ret;
	w->text_bytes = cfg.text_bytes;
	conn_locate(w, regs->orig_ax, regs->si);
}

/*
 * When the bytes left. The tracepoint comes after the peer was woken, and on a busy machine the
 * server may be preempted in between; TCP notes when it last transmitted (tcp_wstamp_ns, set in
 * __tcp_transmit_skb()). A time not later than the request's, or than that of the answer's bytes before,
 * means that these bytes wait (Nagle, cork, full window).
 */
static __always_inline __u64 sent_ns(struct sonde_conn *c, struct sock *sk, __u64 now)
{
	__u64 sent = 0;

	if (c->flags & SONDE_CONN_UNIX)
		return now;
	if (bpf_core_field_exists(struct tcp_sock, tcp_wstamp_ns))
		sent = BPF_CORE_READ((struct tcp_sock *)sk, tcp_wstamp_ns);
	return sent > c->span.request_end_ns && sent > c->span.last_ns && sent < now ? sent : now;
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(query_recv, struct sock *sk, int ret, int flags)
{
	struct sonde_conn_io w = {};
	struct sonde_conn *c;
	__u64 arrival;

	if (ret < 0 || flags & MSG_PEEK)
		return 0;
	c = conn_of(sk);
	if (!c)
		return 0;
	if (ret == 0) {
		conn_eof(c);
		handler_saw_eof(c);
		return 0;
	}
	conn_io_init(&w, c, ret);
	arrival = c->ready_ns ? c->ready_ns : c->last_ready_ns;
	c->reader = (__u32)bpf_get_current_pid_tgid();
	conn_received(&w);
	if (c->open == SONDE_OPEN_READING) /* the rest of the request is yet to be read */
		anatomy_begin(&c->span, c->prev_end_ns, w.now);
	handler_saw_read(c, arrival, w.now, ret);
	return 0;
}

SEC("?tp_btf/sock_send_length")
int BPF_PROG(query_send, struct sock *sk, int ret, int flags)
{
	struct sonde_conn_io w = {};
	struct sonde_conn *c;

	if (ret <= 0 && ret != -EPIPE && ret != -ECONNRESET)
		return 0;
	c = conn_of(sk);
	if (!c)
		return 0;
	if (ret < 0) {
		conn_close(c, bpf_ktime_get_ns());
		handler_saw_close(c, bpf_ktime_get_ns());
		return 0;
	}
	conn_io_init(&w, c, ret);
	w.now = sent_ns(c, sk, w.now);
	conn_sent(&w);
	if (c->open && c->tx == SONDE_TX_LOST) /* this may turn out to have been the end */
		anatomy_collect(&c->span);
	else if (c->open)
		c->span.flags &= ~SONDE_SPAN_F_PARTS;
	handler_saw_send(c, w.now, ret);
	return 0;
}

/* Softirq, or the sender's context for unix sockets: the current task is anybody. */
SEC("?tp_btf/sk_data_ready")
int BPF_PROG(query_ready, const struct sock *sk)
{
	struct sonde_conn *c = bpf_sk_storage_get(&conn, (void *)sk, 0, 0);
	__u64 now;

	if (!c || conn_is_dead(c) || sk->__sk_common.skc_state == TCP_LISTEN || !gate_ready())
		return 0;
	c->runs++;
	now = bpf_ktime_get_ns();
	if (!c->ready_ns)
		c->ready_ns = now;
	c->last_ready_ns = now;
	return 0;
}

/* The socket goes for good: what was open will not be answered. Any context. */
SEC("?tp_btf/tcp_destroy_sock")
int BPF_PROG(query_close, struct sock *sk)
{
	struct sonde_conn *c = bpf_sk_storage_get(&conn, sk, 0, 0);

	if (!c || !gate_ready())
		return 0;
	if (c->open)
		conn_close(c, bpf_ktime_get_ns());
	handler_saw_close(c, bpf_ktime_get_ns());
	return 0;
}

/* Remember what its children will be known by. */
static __always_inline void seed_address(struct sock *sk)
{
	__u16 port = sk->__sk_common.skc_num;
	__u8 one = 1;
	__u64 addr;

	if (sk->__sk_common.skc_family == AF_UNIX) {
		addr = unix_address(sk);
		bpf_map_update_elem(&query_unix, &addr, &one, BPF_ANY);
	} else {
		bpf_map_update_elem(&query_ports, &port, &one, BPF_ANY);
	}
}

static __always_inline void seed_listener(struct sock *sk)
{
	struct sonde_conn *c;

	seed_address(sk);
	if (sk->__sk_common.skc_family == AF_UNIX)
		return; /* a unix socket's children are made afresh, not cloned */
	c = bpf_sk_storage_get(&conn, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (c)
		c->flags = SONDE_CONN_FRESH | SONDE_CONN_LISTENER;
	else
		count_drop(SONDE_LENS_QUERY, SONDE_DROP_MAP_FULL);
}

/*
 * The server closes its end, or dies with it open: nothing more will be sent. The socket itself
 * goes when the client has acknowledged that, which may take 40 ms and come after sonde saw the
 * process exit.
 */
SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(query_shut, struct sock *sk, int old_state, int new_state)
{
	struct sonde_conn *c;

	if (new_state != TCP_FIN_WAIT1 && new_state != TCP_LAST_ACK)
		return 0;
	c = bpf_sk_storage_get(&conn, sk, 0, 0);
	if (!c || !gate_ready())
		return 0;
	if (c->open)
		conn_close(c, bpf_ktime_get_ns());
	handler_saw_close(c, bpf_ktime_get_ns());
	return 0;
}

/* A target begins to listen: no query is sent to it before this. Every change of a TCP state comes
 * here, so the question comes first that all but a few answer with no. */
SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(query_listen, struct sock *sk, int old_state, int new_state)
{
	__u64 id;

	if (new_state != TCP_LISTEN || !gate_current(&id))
		return 0;
	if (known_family(sk) && sk->sk_type == SOCK_STREAM)
		seed_listener(sk);
	return 0;
}

/*
 * Walk the target's sockets: mark its listeners, then (a second run) the connections they accepted
 * before. Outgoing connections of the daemon have a port of their own and are left alone.
 */
static __always_inline struct sock *seed_socket(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;
	__u32 tgid;

	if (!task || !file)
		return NULL;
	tgid = task->tgid;
	if (!bpf_map_lookup_elem(&targets, &tgid))
		return NULL;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return NULL;
	sk = socket->sk;
	return sk && known_family(sk) && sk->sk_type == SOCK_STREAM ? sk : NULL;
}

SEC("?iter/task_file")
int query_seed(struct bpf_iter__task_file *ctx)
{
	struct sock *sk = seed_socket(ctx);

	if (!sk)
		return 0;
	if (sk->__sk_common.skc_state == TCP_LISTEN)
		seed_listener(sk);
	else if (server_side(sk))
		bpf_sk_storage_get(&conn, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

/* The same where connections are known by descriptor. */
SEC("?iter/task_file")
int query_seed_fd(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct sock *sk = seed_socket(ctx);
	struct sonde_conn *c;
	__u64 key;

	if (!sk || !task)
		return 0;
	if (sk->__sk_common.skc_state == TCP_LISTEN) {
		seed_address(sk);
		return 0;
	}
	key = (__u64)task->tgid << 32 | ctx->fd;
	if (!server_side(sk) || bpf_map_lookup_elem(&conn_fds, &key))
		return 0;
	c = conn_fd_add(key, 0);
	if (c)
		conn_identify(c, sk);
	return 0;
}

/*
 * Recording is over, and the gate is closed: what is open on the targets' sockets will not be
 * followed to its end. Sockets of a process that is gone went by query_shut.
 */
SEC("?iter/task_file")
int query_sweep(struct bpf_iter__task_file *ctx)
{
	struct sock *sk = seed_socket(ctx);
	struct sonde_conn *c;

	if (!sk)
		return 0;
	c = bpf_sk_storage_get(&conn, sk, 0, 0);
	if (c && c->open)
		conn_unfinished(c);
	if (c)
		handler_sweep(c);
	return 0;
}

/* ---- handlers, from recipes: entry probes only ---- */

/* Entered where the probe sits; its frame is known by where the return address is. */
static __always_inline struct sonde_query_handler *
handler_at(struct pt_regs *ctx, __u64 id, struct handler_args *args, struct sonde_handler_call *key)
{
	__u32 slot = bpf_get_attach_cookie(ctx) >> 8;
	struct sonde_query_handler *h = bpf_map_lookup_elem(&query_handlers, &slot);

	if (!h)
		return NULL;
	*args = (struct handler_args){{ctx->di, ctx->si, ctx->dx, ctx->cx}};
	key->sp = ctx->sp + h->sp_delta;
	key->tgid = id >> 32;
	key->pad = 0;
	return h;
}

SEC("?uprobe")
int query_execute(struct pt_regs *ctx)
{
	struct sonde_query_handler *h;
	struct sonde_handler_call key;
	struct handler_args args;
	struct task_span *t;
	__u64 id;

	if (!gate_current(&id))
		return 0;
	query_count(SONDE_QUERY_ENTRY_HITS);
	h = handler_at(ctx, id, &args, &key);
	if (!h)
		return 0;
	if (counts_as_statement(&args, h))
		query_count(SONDE_QUERY_HANDLER_CALLS);
	t = span_current();
	if (t && !t->handler_ns)
		t->handler_ns = bpf_ktime_get_ns();
	if (conn_may_be_handled())
		handler_enter(&args, h, &key);
	return 0;
}

/* On the instructions themselves, so rsp is where the return address is. */
SEC("?uprobe")
int query_ret(struct pt_regs *ctx)
{
	struct sonde_handler_call key = {.sp = ctx->sp};
	__u64 id;

	if (!gate_current(&id))
		return 0;
	query_count(SONDE_QUERY_RETURN_HITS);
	key.tgid = id >> 32;
	handler_leave(&key);
	return 0;
}

/*
 * The coroutine on this stack is left: what its query was charged waits with the stack until the
 * same call returns, on whichever thread that is.
 */
SEC("?uprobe")
int query_yield(struct pt_regs *ctx)
{
	struct sonde_handler_call key;
	struct handler_args args;
	struct task_span *t;
	__u64 id;

	if (!gate_current(&id))
		return 0;
	query_count(SONDE_QUERY_YIELD_HITS);
	t = span_current();
	if (!t || !handler_at(ctx, id, &args, &key))
		return 0;
	anatomy_set_aside(bpf_ktime_get_ns());
	span_slice_end(t);
	if (bpf_map_update_elem(&span_parked, &key, t, BPF_ANY))
		count_drop(SONDE_LENS_QUERY, SONDE_DROP_MAP_FULL);
	t->seq = 0;
	return 0;
}

SEC("?uprobe")
int query_resume(struct pt_regs *ctx)
{
	struct sonde_handler_call key = {.sp = ctx->sp};
	struct task_span *parked, *t;
	__u64 id;

	if (!gate_current(&id) || !cfg.per_query)
		return 0;
	query_count(SONDE_QUERY_RESUME_HITS);
	key.tgid = id >> 32;
	parked = bpf_map_lookup_elem(&span_parked, &key);
	if (!parked)
		return 0;
	t = bpf_task_storage_get(&span, bpf_get_current_task_btf(), 0,
				 BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (t) {
		*t = *parked;
		anatomy_take_up(t->conn, t->seq, bpf_ktime_get_ns());
		span_slice_begin(t);
	} else {
		count_drop(SONDE_LENS_QUERY, SONDE_DROP_MAP_FULL);
	}
	bpf_map_delete_elem(&span_parked, &key);
	return 0;
}

SEC("?uprobe")
int query_log(struct pt_regs *ctx)
{
	struct sonde_query_handler *h;
	struct sonde_handler_call key;
	struct handler_args args;
	struct task_span *t;
	__u64 id, us = 0, text;

	if (!gate_current(&id))
		return 0;
	query_count(SONDE_QUERY_LOG_CALLS);
	t = span_current();
	h = handler_at(ctx, id, &args, &key);
	if (!t || !h)
		return 0;
	t->hits++;
	if (h->wall_us.kind) {
		field_read(&args, &h->wall_us, &us, sizeof(us));
		t->wall_ms = us / 1000;
	}
	field_read(&args, &h->wall_ms, &t->wall_ms, sizeof(t->wall_ms));
	field_read(&args, &h->found, &t->found, sizeof(t->found));
	text = field_address(&args, &h->index);
	if (text && bpf_probe_read_user_str(t->index, sizeof(t->index), (void *)text) < 0)
		t->index[0] = 0;
	return 0;
}
