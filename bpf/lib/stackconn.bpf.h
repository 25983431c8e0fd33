/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 2, of the query lens: which connection a stack serves, by the socket that was read last on
 * it. A stack goes with its coroutine from thread to thread, and a thread has one as well.
 *
 * The invariant: of several reads in reach the nearest in address is taken. A call and its own read
 * have the same caller, so they are nearer to one another than to any frame of another stack.
 */
#ifndef SONDE_BPF_STACKCONN_H
#define SONDE_BPF_STACKCONN_H

#include "lib/tls.bpf.h"

#define STACK_BLOCK_BITS 13	   /* reads are remembered one for each 8 KiB of stack */
#define STACK_NEAR	 2	   /* blocks to either side in which a call's own read may lie */
#define STACK_FAR	 (1 << 20) /* no further apart than this are two frames of a thread */
#define THREAD_STACK	 (8 << 20) /* of a thread, by default */

struct stack_block {
	__u64 block;
	__u32 tgid, pad;
};

/* The last socket that was read with the stack pointer in this block. */
struct stack_read {
	__u64 conn, sp;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct stack_block);
	__type(value, struct stack_read);
} stack_reads SEC(".maps");

/* The same by thread, for a call whose frame is far from its read. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct stack_read);
} thread_reads SEC(".maps");

static __always_inline __u64 distance(__u64 a, __u64 b)
{
	return a > b ? a - b : b - a;
}

static __always_inline void stack_remember(__u32 tgid, __u64 sp, __u64 conn)
{
	struct stack_block key = {.block = sp >> STACK_BLOCK_BITS, .tgid = tgid};
	struct stack_read now = {.conn = conn, .sp = sp}, *r;

	r = bpf_map_lookup_elem(&stack_reads, &key);
	if (r)
		*r = now;
	else
		bpf_map_update_elem(&stack_reads, &key, &now, BPF_ANY);
	r = bpf_task_storage_get(&thread_reads, bpf_get_current_task_btf(), 0,
				 BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (r)
		*r = now;
}

/*
 * Is @sp on the current thread's own stack, and not on a coroutine's? A thread's local storage lies
 * at the top of its stack; the first thread's stack lies above everything that was mapped.
 */
static __always_inline bool on_thread_stack(__u64 sp)
{
	__u64 top = tls_pointer(bpf_get_current_task_btf()), id = bpf_get_current_pid_tgid();

	if (id >> 32 == (__u32)id)
		return sp > top;
	return sp < top && top - sp < THREAD_STACK;
}

/* The connection of the read that was made nearest to @sp, 0: none. */
static __always_inline __u64 stack_conn(__u32 tgid, __u64 sp)
{
	struct stack_block key = {.block = (sp >> STACK_BLOCK_BITS) - STACK_NEAR, .tgid = tgid};
	__u64 best = ~0ull, conn = 0;
	struct stack_read *r;

	for (int i = 0; i < 2 * STACK_NEAR + 1; i++, key.block++) {
		r = bpf_map_lookup_elem(&stack_reads, &key);
		if (r && distance(r->sp, sp) < best) {
			best = distance(r->sp, sp);
			conn = r->conn;
		}
	}
	if (conn)
		return conn;
	r = bpf_task_storage_get(&thread_reads, bpf_get_current_task_btf(), 0, 0);
	return r && distance(r->sp, sp) < STACK_FAR && on_thread_stack(sp) ? r->conn : 0;
}

#endif
