/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 2: the query that a thread runs. The query lens opens and closes it; other lenses charge
 * what they see to it; handler probes leave here what the daemon's own arguments say. Task storage,
 * so it dies with the thread and needs no key.
 */
#ifndef SONDE_BPF_SPAN_H
#define SONDE_BPF_SPAN_H

#include "lib/filter.bpf.h"
#include "lib/tls.bpf.h"

struct task_span {
	__u64 conn, seq; /* which query; seq 0: none open */
	__u64 begin_ns;
	__u64 alloc_bytes, alloc_calls; /* since begin, by this thread */
	__u64 faults, fault_ns;
	/* What the allocator's own counters gained; see span_slice_begin(). */
	struct sonde_tls_bytes heap, slice;
	__u32 heap_known; /* every slice so far was read at both ends */
	__u32 in_slice;
	__u64 handler_ns; /* entry of the statement handler, 0: none seen */
	__u64 found;
	__u32 wall_ms;
	__u32 window; /* that follows it: its calls are counted from begin to end; 0: none */
	__u32 hits;   /* times that the daemon's log function ran in this query */
	char index[SONDE_INDEX_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_span);
} span SEC(".maps");

/* The open query of the current thread, or NULL; nobody keeps it where nobody asked for spans. */
static __always_inline struct task_span *span_current(void)
{
	struct task_span *s;

	if (!cfg.per_query)
		return NULL;
	s = bpf_task_storage_get(&span, bpf_get_current_task_btf(), 0, 0);
	return s && s->seq ? s : NULL;
}

/*
 * Between these two the current thread runs the query of @t, and what its allocator counts is the
 * query's. A query that runs in pieces, on one thread or on several, is their sum: whoever sees it
 * stop and go on calls these there. One end that cannot be read, and the sum is not known.
 */
static __always_inline void span_slice_begin(struct task_span *t)
{
	t->in_slice = tls_now(&t->slice);
	t->heap_known &= t->in_slice;
}

static __always_inline void span_slice_end(struct task_span *t)
{
	struct sonde_tls_bytes now;

	if (!t->in_slice)
		return;
	t->in_slice = 0;
	if (!tls_now(&now)) {
		t->heap_known = 0;
		return;
	}
	t->heap.allocated += now.allocated - t->slice.allocated;
	t->heap.freed += now.freed - t->slice.freed;
}

static __always_inline void span_heap_reset(struct task_span *t)
{
	t->heap.allocated = t->heap.freed = 0;
	t->heap_known = 1;
	t->in_slice = 0;
}

#endif
