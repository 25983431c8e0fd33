/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 1: the byte counters that an allocator keeps for the current thread. Two loads from memory
 * that the thread's every malloc writes, so it is there; where it is not (paged out) the answer is
 * "not known".
 */
#ifndef SONDE_BPF_TLS_H
#define SONDE_BPF_TLS_H

#include "lib/base.bpf.h"
#include "sonde/tls.h"

/* Shared, filled by the alloc lens; see struct sonde_tls_place. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_MAX_TARGETS);
	__type(key, __u32);
	__type(value, struct sonde_tls_place);
} tls_places SEC(".maps");

/*
 * The thread pointer of the current thread. Up to date while it runs: who sets it (clone,
 * arch_prctl) writes it here as well; glibc never sets it by instruction.
 */
static __always_inline __u64 tls_pointer(struct task_struct *task)
{
	return BPF_CORE_READ(task, thread.fsbase);
}

/* What the current thread has counted so far. */
static __always_inline bool tls_read(const struct sonde_tls_place *place,
				     struct sonde_tls_bytes *out)
{
	__u64 at = tls_pointer(bpf_get_current_task_btf());

	return at &&
	       !bpf_probe_read_user(&out->allocated, sizeof(out->allocated),
				    (void *)(at + place->allocated)) &&
	       !bpf_probe_read_user(&out->freed, sizeof(out->freed), (void *)(at + place->freed));
}

/* The same for any process: false where it has no such counters. */
static __always_inline bool tls_now(struct sonde_tls_bytes *out)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct sonde_tls_place *place = bpf_map_lookup_elem(&tls_places, &tgid);

	return place && tls_read(place, out);
}

#endif
