/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 1: windows. What a trap costs is charged to the window by the program that it runs, so that
 * a window is closed by the very hit that uses up its allowance, whatever user space is doing.
 */
#ifndef SONDE_BPF_WINDOW_H
#define SONDE_BPF_WINDOW_H

#include "lib/base.bpf.h"
#include "sonde/window.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sonde_window);
} window SEC(".maps");

/* A program that was interrupted is not charged for the interruption. */
#define WINDOW_RUN_MAX_NS 20000

/* NULL where there are no windows at all: the verifier then deletes what depends on it. */
static __always_inline struct sonde_window *window_get(void)
{
	__u32 zero = 0;

	return cfg.windows ? bpf_map_lookup_elem(&window, &zero) : NULL;
}

static __always_inline void window_add(__u64 *counter, __u64 n)
{
	__sync_fetch_and_add(counter, n);
}

/* A hit that began at @begin_ns, on an instruction of kind @insn. Two CPUs may both find that the
 * allowance is used up: they write the same. */
static __always_inline void window_pay(struct sonde_window *w, __u32 insn, __u64 begin_ns)
{
	__u64 now = bpf_ktime_get_ns(), run = now - begin_ns, cost;

	if (run > WINDOW_RUN_MAX_NS)
		run = WINDOW_RUN_MAX_NS;
	window_add(&w->hits[insn & 1], 1);
	window_add(&w->cost_ns, w->trap_ns[insn & 1] + run);
	cost = *(volatile __u64 *)&w->cost_ns;
	if (w->phase == SONDE_WINDOW_OPEN && cost >= w->finish_at_ns) {
		w->finish_ns = now;
		w->cut = 1;
		w->phase = SONDE_WINDOW_FINISH;
	}
	if (w->phase == SONDE_WINDOW_FINISH && cost >= w->allowance_ns) {
		w->closed_ns = now;
		w->phase = SONDE_WINDOW_CLOSED;
	}
}

/* ---- queries ---- */

/* A query begins: the window that follows it, or 0. */
static __always_inline __u32 window_join(void)
{
	struct sonde_window *w = window_get();

	if (!w || w->phase != SONDE_WINDOW_OPEN)
		return 0;
	window_add(&w->joined, 1);
	if (w->join_most && *(volatile __u64 *)&w->joined >= w->join_most) {
		w->finish_ns = bpf_ktime_get_ns();
		w->phase = SONDE_WINDOW_FINISH;
	}
	return w->id;
}

/* A query that window @id follows will not be followed to its end: its thread begins another. */
static __always_inline void window_leave(__u32 id)
{
	struct sonde_window *w = id ? window_get() : NULL;

	if (w && w->id == id)
		window_add(&w->left, 1);
}

/* A query ends that its own thread answered; @id: the window that follows it. */
static __always_inline void window_query(__u32 id, __u64 calls, __u64 bytes)
{
	struct sonde_window *w = id ? window_get() : NULL;

	if (!w || w->id != id)
		return;
	window_add(&w->left, 1);
	if (w->phase != SONDE_WINDOW_OPEN && w->phase != SONDE_WINDOW_FINISH)
		return; /* some of its calls were no longer counted */
	window_add(&w->queries, 1);
	window_add(&w->calls, calls);
	window_add(&w->bytes, bytes);
}

/* A query ends that began at @begin_ns. Did it overlap what a window disturbs? */
static __always_inline bool window_ended(__u64 begin_ns, bool hopped)
{
	struct sonde_window *w = window_get();
	bool open;

	if (!w)
		return false;
	open = w->phase == SONDE_WINDOW_OPEN || w->phase == SONDE_WINDOW_FINISH;
	if (open) {
		window_add(&w->ended_open, 1);
		if (hopped)
			window_add(&w->hopped, 1);
	}
	if (w->disturbed)
		return true;
	window_add(&w->ended_outside, 1);
	return w->end_ns > begin_ns;
}

#endif
