/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 0: shared maps, the configuration and the account of drops. The maps are created once, from
 * shared.bpf.c, and every other object gets them by bpf_map__reuse_fd(); the declarations here must
 * therefore be the only ones. Nothing below this layer.
 */
#ifndef SONDE_BPF_BASE_H
#define SONDE_BPF_BASE_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "sonde/config.h"
#include "sonde/drop.h"
#include "sonde/event.h"
#include "sonde/hist.h"
#include "sonde/limits.h"

char LICENSE[] SEC("license") = "GPL";

/* Fixed at load by the engine; the verifier removes what it switches off. */
const volatile struct sonde_config cfg SEC(".rodata.sonde_cfg") = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SONDE_RING_BYTES);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SONDE_DROP_ROWS);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sonde_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_MAX_TARGETS);
	__type(key, __u32);
	__type(value, struct sonde_target_slot);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SONDE_LENS__MAX);
	__type(key, __u32);
	__type(value, struct sonde_guard_slot);
} guards SEC(".maps");

/* Atomic: uprobe programs can be preempted by another thread's on the same CPU. */
static __always_inline void count_drop(enum sonde_lens_id lens, enum sonde_drop cause)
{
	__u32 row = sonde_drop_row(lens, cause);
	__u64 *n = bpf_map_lookup_elem(&drops, &row);

	if (n)
		__sync_fetch_and_add(n, 1);
}

#endif
