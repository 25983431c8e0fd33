// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Queries, from the socket: when data was ready, when the server read it, when its answer was
 * handed to the kernel. State lives in socket storage: it is there only for sockets that a target
 * accepted (children inherit it from the listener), so everybody else's traffic costs one look-up.
 */
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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SONDE_QUERY_HANDLERS);
	__type(key, __u32);
	__type(value, struct sonde_query_handler);
} query_handlers SEC(".maps");

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
 * __tcp_transmit_skb()). An older time than the request's means that these bytes wait (cork, full
 * window).
 */
static __always_inline __u64 sent_ns(struct sonde_conn *c, struct sock *sk, __u64 now)
{
	__u64 sent = 0;

	if (c->flags & SONDE_CONN_UNIX)
		return now;
	if (bpf_core_field_exists(struct tcp_sock, tcp_wstamp_ns))
		sent = BPF_CORE_READ((struct tcp_sock *)sk, tcp_wstamp_ns);
	return sent > c->span.request_end_ns && sent >= c->span.last_ns && sent < now ? sent : now;
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(query_recv, struct sock *sk, int ret, int flags)
{
	struct sonde_conn_io w = {};
	struct sonde_conn *c;

	if (ret < 0 || flags & MSG_PEEK)
		return 0;
	c = conn_of(sk);
	if (!c)
		return 0;
	if (ret == 0) {
		conn_eof(c);
		return 0;
	}
	conn_io_init(&w, c, ret);
	conn_received(&w);
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
		return 0;
	}
	conn_io_init(&w, c, ret);
	w.now = sent_ns(c, sk, w.now);
	conn_sent(&w);
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

	if (c && c->open && gate_ready())
		conn_close(c, bpf_ktime_get_ns());
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
	if (c && c->open && gate_ready())
		conn_close(c, bpf_ktime_get_ns());
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
	return 0;
}

/* ---- handlers, from recipes: entry probes only ---- */

/* The argument registers, copied: the context takes no variable offset. */
struct handler_args {
	__u64 reg[4];
};

static __always_inline void handler_word(const struct handler_args *a,
					 const struct sonde_query_field *f, void *dst, __u32 size)
{
	if (f->arg >= 0 && bpf_probe_read_user(dst, size, (void *)(a->reg[f->arg & 3] + f->offset)))
		count_drop(SONDE_LENS_QUERY, SONDE_DROP_COPY_FAULT);
}

SEC("?uprobe")
int query_execute(struct pt_regs *ctx)
{
	struct task_span *t;
	__u64 id;

	if (!gate_current(&id))
		return 0;
	query_count(SONDE_QUERY_HANDLER_CALLS);
	t = span_current();
	if (t && !t->handler_ns)
		t->handler_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?uprobe")
int query_log(struct pt_regs *ctx)
{
	struct handler_args args = {{ctx->di, ctx->si, ctx->dx, ctx->cx}};
	__u32 slot = bpf_get_attach_cookie(ctx) >> 8;
	struct sonde_query_handler *h;
	struct task_span *t;
	__u64 id, us = 0, text = 0;

	if (!gate_current(&id))
		return 0;
	query_count(SONDE_QUERY_LOG_CALLS);
	t = span_current();
	h = bpf_map_lookup_elem(&query_handlers, &slot);
	if (!t || !h)
		return 0;
	t->hits++;
	if (h->wall_us.arg >= 0) {
		handler_word(&args, &h->wall_us, &us, sizeof(us));
		t->wall_ms = us / 1000;
	}
	handler_word(&args, &h->wall_ms, &t->wall_ms, sizeof(t->wall_ms));
	handler_word(&args, &h->found, &t->found, sizeof(t->found));
	if (h->index.arg < 0)
		return 0;
	text = args.reg[h->index.arg & 3] + h->index.offset;
	if (h->index.deref)
		handler_word(&args, &h->index, &text, sizeof(text));
	if (text && bpf_probe_read_user_str(t->index, sizeof(t->index), (void *)text) < 0)
		t->index[0] = 0;
	return 0;
}
