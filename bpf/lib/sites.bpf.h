/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 3, of the alloc lens: what each call stack allocates, and what of it is still live. A block
 * is followed from its allocation to its free by its address, in a bounded map; when that fills up
 * only blocks of a sample are followed, chosen by a hash of the address, so that allocation and
 * free agree.
 *
 * The invariant: bytes and calls of all stacks add up to those of the functions. A block enters the
 * map after it was handed out and leaves it before it is given back, so that an address never has
 * two.
 */
#ifndef SONDE_BPF_SITES_H
#define SONDE_BPF_SITES_H

#define STACK_LENS SONDE_LENS_ALLOC
#include "lib/stack.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct sonde_live_block);
} live_blocks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sonde_site_control);
} site_control SEC(".maps");

/* How deep calls of operator new nest in each other: one is made within another only by a handler.
 */
#define SITE_AWAITS 8 /* a power of two */

/* A call whose pointer will be seen at a `ret`, where the stack pointer is the same again. */
struct site_await {
	__u64 ra_at, ra; /* its return address, and where that lies */
	struct sonde_live_block asked;
};

/* What a thread's call of the allocator asked for, until its pointer is known; and the block that
 * it gave to realloc. */
struct site_call {
	struct sonde_live_block asked, old;
	__u64 old_key; /* 0: none, or not followed */
	/* Calls of operator new that have not ended, innermost last: numbers [oldest, next). */
	struct site_await awaits[SITE_AWAITS];
	__u32 oldest, next;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct site_call);
} site_calls SEC(".maps");

static __always_inline struct site_call *site_call(__u64 flags)
{
	return bpf_task_storage_get(&site_calls, bpf_get_current_task_btf(), 0, flags);
}

static __always_inline bool site_followed(__u64 ptr)
{
	__u32 zero = 0;
	struct sonde_site_control *c = bpf_map_lookup_elem(&site_control, &zero);

	return ptr && c && sonde_live_sampled(ptr, c->shift & 31);
}

/* Live blocks and bytes of a stack, by a block more (sign 1) or less (-1). */
static __always_inline void site_count_live(const struct sonde_live_block *b, __s64 sign)
{
	struct sonde_stack_value *v = stack_find(b->stack);
	__u64 units = b->bytes >> 4;

	if (!v)
		return;
	if (units > 1u << 31)
		units = 1u << 31;
	__sync_fetch_and_add(&v->live_calls, sign);
	__sync_fetch_and_add(&v->live_bytes, sign * b->bytes);
	__sync_fetch_and_add(&v->live_squares, sign * units * units);
}

/* A call for @bytes by the function whose return address lies at @ra_at. */
static __always_inline void site_asked(struct pt_regs *ctx, __u64 ra_at, __u32 target, __u64 bytes)
{
	struct site_call *call = site_call(BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct sonde_stack_value *v;
	__u64 key;

	v = stack_of(ctx, ra_at, target, &key);
	if (call) {
		call->asked.stack = key;
		call->asked.bytes = bytes;
		call->old_key = 0;
	} else {
		count_drop(SONDE_LENS_ALLOC, SONDE_DROP_MAP_FULL);
	}
	if (!v) {
		count_drop(SONDE_LENS_ALLOC, SONDE_DROP_MAP_FULL);
		return;
	}
	__sync_fetch_and_add(&v->calls, 1);
	__sync_fetch_and_add(&v->bytes, bytes);
}

/* More blocks than the map holds: from now on one in twice as many is followed, and user space
 * thins out those that are there. Once for each thinning. */
static __always_inline void site_crowded(__u64 ptr)
{
	__u32 zero = 0;
	struct sonde_site_control *c = bpf_map_lookup_elem(&site_control, &zero);

	if (!c)
		return;
	if (c->shift == c->purged && c->shift < 31)
		c->shift = c->purged + 1;
	if (sonde_live_sampled(ptr, c->shift & 31))
		count_drop(SONDE_LENS_ALLOC, SONDE_DROP_MAP_FULL);
}

static __always_inline void site_follow(__u64 key, __u64 ptr, const struct sonde_live_block *b)
{
	struct sonde_live_block *known;
	long err = bpf_map_update_elem(&live_blocks, &key, b, BPF_NOEXIST);

	if (err == -17) { /* EEXIST: its free was not seen */
		known = bpf_map_lookup_elem(&live_blocks, &key);
		if (known)
			site_count_live(known, -1);
		err = bpf_map_update_elem(&live_blocks, &key, b, BPF_ANY);
	}
	if (err)
		site_crowded(ptr);
	else
		site_count_live(b, 1);
}

/* The call gave @ptr. */
static __always_inline void site_got(__u32 target, __u64 ptr)
{
	struct site_call *call;

	if (!site_followed(ptr))
		return;
	call = site_call(0);
	if (call && call->asked.stack)
		site_follow(SONDE_LIVE_KEY(ptr, target), ptr, &call->asked);
}

/* @ptr is about to be given back. Its block into @out. */
static __always_inline bool site_forget(__u32 target, __u64 ptr, struct sonde_live_block *out)
{
	__u64 key = SONDE_LIVE_KEY(ptr, target);
	struct sonde_live_block *b;

	if (!site_followed(ptr))
		return false;
	b = bpf_map_lookup_elem(&live_blocks, &key);
	if (!b)
		return false;
	*out = *b;
	if (bpf_map_delete_elem(&live_blocks, &key))
		return false;
	site_count_live(out, -1);
	return true;
}

static __always_inline void site_freed(__u32 target, __u64 ptr)
{
	struct sonde_live_block b;

	site_forget(target, ptr, &b);
}

/* realloc is given @ptr: if it succeeds the block is gone by its return, and its address perhaps
 * another's, so it goes now and comes back if the call fails. After site_asked(). */
static __always_inline void site_lent(__u32 target, __u64 ptr)
{
	struct site_call *call = site_call(0);
	struct sonde_live_block b;

	if (!site_forget(target, ptr, &b) || !call)
		return;
	call->old = b;
	call->old_key = SONDE_LIVE_KEY(ptr, target);
}

static __always_inline void site_failed(void)
{
	struct site_call *call = site_call(0);

	if (call && call->old_key)
		site_follow(call->old_key, call->old_key & ((1ull << 48) - 1), &call->old);
}

static __always_inline struct site_await *site_await(struct site_call *call, __u32 number)
{
	return &call->awaits[number & (SITE_AWAITS - 1)];
}

/* Room for one more. More than there is room for are calls that threw, each deeper than the one
 * before: the place of the outermost's return address holds something else by now. */
static __always_inline void site_make_room(struct site_call *call)
{
	const struct site_await *a = site_await(call, call->oldest);
	__u64 ra;

	if (call->next - call->oldest < SITE_AWAITS)
		return;
	if (!stack_read(a->ra_at, &ra) || ra == a->ra)
		count_drop(SONDE_LENS_ALLOC, SONDE_DROP_MAP_FULL);
	call->oldest++;
}

/*
 * The call that site_asked() was told of last will be seen at its end. Those from which the stack
 * has been unwound meanwhile, by an exception, never end: they are the ones whose return address
 * lay at this place or below. False: its end cannot be told.
 */
static __always_inline bool site_awaits(__u64 ra_at)
{
	struct site_call *call = site_call(0);
	struct site_await *a;

	if (!call)
		return false;
	for (int i = 0; i < SITE_AWAITS; i++)
		if (call->next != call->oldest && site_await(call, call->next - 1)->ra_at <= ra_at)
			call->next--;
	site_make_room(call);
	a = site_await(call, call->next);
	if (!stack_read(ra_at, &a->ra))
		return false;
	a->ra_at = ra_at;
	a->asked = call->asked;
	call->next++;
	return true;
}

/*
 * At a `ret` with the stack pointer @ra_at, which gives @ptr. The return address tells a call of
 * operator new from one of another function that ends here too and happens to have the stack of a
 * call that was thrown out of.
 */
static __always_inline void site_returned(__u32 target, __u64 ra_at, __u64 ptr)
{
	struct site_call *call = site_call(0);
	struct site_await *a;
	__u64 ra;

	if (!call)
		return;
	for (int i = 0; i < SITE_AWAITS; i++)
		if (call->next != call->oldest && site_await(call, call->next - 1)->ra_at < ra_at)
			call->next--;
	if (call->next == call->oldest)
		return;
	a = site_await(call, call->next - 1);
	if (a->ra_at != ra_at || !stack_read(ra_at, &ra) || a->ra != ra)
		return;
	call->next--;
	if (site_followed(ptr) && a->asked.stack)
		site_follow(SONDE_LIVE_KEY(ptr, target), ptr, &a->asked);
}

#endif
