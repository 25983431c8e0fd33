/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 6, of the query lens: the same state machine fed by system calls, for kernels without the
 * socket tracepoints (before 6.3). Connections are known by (process, descriptor) instead of by
 * socket, and when data became ready is not known at all.
 *
 * The invariant: an entry lives from accept (or the seeding) to close; a descriptor that was not
 * accepted by the target is never in the map, so its outgoing connections are not looked at.
 */
#ifndef SONDE_BPF_SYSCALL_H
#define SONDE_BPF_SYSCALL_H

#include "lib/handler.bpf.h"

#define NR_CLOSE       3
#define NR_ACCEPT      43
#define NR_ACCEPT4     288
#define SYS_MSG_PEEK   2
#define SYS_EPIPE      32
#define SYS_ECONNRESET 104

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64); /* tgid << 32 | descriptor */
	__type(value, struct sonde_conn);
} conn_fds SEC(".maps");

/* A new connection's value, which is too large for the stack. Never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sonde_conn);
} conn_blank SEC(".maps");

/* The system call that this thread is in. */
struct sys_call {
	__u64 key, arg; /* arg: the second argument, a buffer or an address */
	__u32 nr;	/* NR + 1, 0: none that matters */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sys_call);
} query_calls SEC(".maps");

static __always_inline struct sonde_conn *conn_fd_add(__u64 key, __u8 flags)
{
	__u32 zero = 0;
	struct sonde_conn *blank = bpf_map_lookup_elem(&conn_blank, &zero), *c;

	if (!blank || bpf_map_update_elem(&conn_fds, &key, blank, BPF_ANY)) {
		conn_env_drop(SONDE_DROP_MAP_FULL);
		return NULL;
	}
	c = bpf_map_lookup_elem(&conn_fds, &key);
	if (!c)
		return NULL;
	/* No cookie without the socket: the time it was first seen is as unique. */
	c->span.conn = bpf_ktime_get_ns();
	c->flags = flags;
	if (cfg.handlers && cfg.query_source == SONDE_SOURCE_HANDLER)
		c->flags |= SONDE_CONN_DEAD; /* its bytes are not looked at */
	return c;
}

static __always_inline bool is_read(long nr)
{
	return nr == NR_READ || nr == NR_READV || nr == NR_RECVFROM || nr == NR_RECVMSG;
}

/* A system call on descriptor @fd begins; @arg is its second argument. */
static __always_inline void sys_enter(long nr, __u32 fd, __u64 arg)
{
	struct sys_call *call;
	__u64 id, key;

	if (!gate_current(&id))
		return;
	key = (id >> 32) << 32 | fd;
	if (nr != NR_ACCEPT && nr != NR_ACCEPT4 && !bpf_map_lookup_elem(&conn_fds, &key))
		return;
	call = bpf_task_storage_get(&query_calls, bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call) {
		conn_env_drop(SONDE_DROP_MAP_FULL);
		return;
	}
	call->key = key;
	call->arg = arg;
	call->nr = nr + 1;
}

/*
 * Calls of three arguments and more. A program that reads beyond a tracepoint's own arguments is
 * refused there (trace_event_get_offsets() in perf_event_set_bpf_prog()), so recvfrom's flags have
 * a program of their own.
 */
SEC("?tracepoint/syscalls/sys_enter_read")
int query_sys_enter(struct trace_event_raw_sys_enter *ctx)
{
	if (ctx->id != NR_RECVMSG || !(ctx->args[2] & SYS_MSG_PEEK))
		sys_enter(ctx->id, ctx->args[0], ctx->args[1]);
	return 0;
}

SEC("?tracepoint/syscalls/sys_enter_recvfrom")
int query_sys_recvfrom(struct trace_event_raw_sys_enter *ctx)
{
	if (!(ctx->args[3] & SYS_MSG_PEEK))
		sys_enter(ctx->id, ctx->args[0], ctx->args[1]);
	return 0;
}

/* The socket behind a descriptor of the current process, by its own table. */
static __always_inline struct sock *sys_socket(__u32 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file **table = BPF_CORE_READ(task, files, fdt, fd), *file = NULL;
	struct socket *socket;

	if (bpf_probe_read_kernel(&file, sizeof(file), table + fd) || !file)
		return NULL;
	socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, sk);
}

static __always_inline __u64 handler_fd_conn(__u32 tgid, __u32 fd)
{
	__u64 key = (__u64)tgid << 32 | fd;
	struct sonde_conn *c = bpf_map_lookup_elem(&conn_fds, &key);
	struct sock *sk;

	if (c)
		return c->span.conn;
	sk = sys_socket(fd);
	return sk ? BPF_CORE_READ(sk, __sk_common.skc_cookie.counter) : 0;
}

static __always_inline void sys_accepted(__u64 key)
{
	struct sonde_conn *c = conn_fd_add(key, SONDE_CONN_FRESH);
	struct sock *sk = sys_socket((__u32)key);

	if (c && sk)
		conn_peer(c, sk);
}

static __always_inline void sys_moved(const struct sys_call *call, long nr, long ret)
{
	struct sonde_conn *c = bpf_map_lookup_elem(&conn_fds, &call->key);
	struct sonde_conn_io w = {};

	if (!c)
		return;
	c->runs += conn_is_dead(c) ? 1 : 2;
	if (ret <= 0) {
		if (is_read(nr) && ret == 0) {
			conn_eof(c);
			handler_saw_eof(c);
		} else if (ret == -SYS_EPIPE || ret == -SYS_ECONNRESET) {
			conn_abort(c);
			handler_saw_close(c, bpf_ktime_get_ns());
		}
		return;
	}
	w.c = c;
	w.now = bpf_ktime_get_ns();
	w.len = ret;
	w.text_bytes = cfg.text_bytes;
	conn_locate(&w, nr, call->arg);
	if (is_read(nr)) {
		c->reader = (__u32)bpf_get_current_pid_tgid();
		conn_received(&w);
		handler_saw_read(c, 0, w.now, ret);
	} else {
		conn_sent(&w);
		handler_saw_send(c, w.now, ret);
	}
}

SEC("?tracepoint/syscalls/sys_exit_recvfrom")
int query_sys_exit(struct trace_event_raw_sys_exit *ctx)
{
	struct sys_call *call =
		bpf_task_storage_get(&query_calls, bpf_get_current_task_btf(), 0, 0);
	long nr, ret = ctx->ret;

	if (!call || !call->nr)
		return 0;
	nr = call->nr - 1;
	call->nr = 0;
	if (nr != NR_ACCEPT && nr != NR_ACCEPT4)
		sys_moved(call, nr, ret);
	else if (ret >= 0)
		sys_accepted((call->key >> 32) << 32 | (__u32)ret);
	return 0;
}

SEC("?tracepoint/syscalls/sys_enter_close")
int query_sys_close(struct trace_event_raw_sys_enter *ctx)
{
	struct sonde_conn *c;
	__u64 id, key;

	if (!gate_current(&id))
		return 0;
	key = (id >> 32) << 32 | (__u32)ctx->args[0];
	c = bpf_map_lookup_elem(&conn_fds, &key);
	if (!c)
		return 0;
	conn_abort(c);
	handler_saw_close(c, bpf_ktime_get_ns());
	bpf_map_delete_elem(&conn_fds, &key);
	return 0;
}

#endif
