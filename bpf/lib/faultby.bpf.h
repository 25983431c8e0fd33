/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 3, of the fault lens: faults and their time by thread, by mapping and by instruction. What
 * a number stands for is user space's affair (user/lens/fault_where.c), but what a mapping is can
 * be seen at the fault only. The map is preallocated: its programs run inside perf events.
 */
#ifndef SONDE_BPF_FAULTBY_H
#define SONDE_BPF_FAULTBY_H

#include "lib/faultclass.bpf.h"

/* User space makes it small where nobody asked for it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_FAULT_BY_ENTRIES);
	__type(key, struct sonde_fault_by_key);
	__type(value, struct sonde_fault_by_sum);
} fault_by SEC(".maps");

static __always_inline void charge_key(const struct sonde_fault_by_key *key,
				       struct sonde_fault_by_sum *first, __u64 ns)
{
	struct sonde_fault_by_sum *sum = bpf_map_lookup_elem(&fault_by, key);

	if (!sum) {
		if (key->by == SONDE_FAULT_BY_THREAD)
			bpf_get_current_comm(first->comm, sizeof(first->comm));
		bpf_map_update_elem(&fault_by, key, first, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&fault_by, key);
	}
	if (!sum) {
		count_drop(SONDE_LENS_FAULT, SONDE_DROP_MAP_FULL);
		return;
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->ns, ns);
}

static __always_inline void charge_by(const struct sonde_fault_thread *f, __u32 tgid, __u32 by,
				      __u64 id, __u64 ns)
{
	struct sonde_fault_by_key key = {.tgid = tgid, .by = by, .id = id};
	struct sonde_fault_by_sum first = {.address = f->address, .sp = f->sp};

	if (fault_cfg.by & 1u << by)
		charge_key(&key, &first, ns);
}

/*
 * Mappings come and go between two readings of user space, and the next one is likely put where the
 * last was: so each is a key of its own, by its extent and its file as they are at the fault.
 */
static __always_inline void charge_mapping(const struct sonde_fault_thread *f, __u32 tgid, __u64 ns)
{
	struct sonde_fault_by_key key = {.tgid = tgid, .by = SONDE_FAULT_BY_MAPPING};
	struct sonde_fault_by_sum first = {.address = f->address, .sp = f->sp};
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;

	if (!(fault_cfg.by & 1u << SONDE_FAULT_BY_MAPPING))
		return;
	if (mm && bpf_core_field_exists(mm->mm_mt))
		mapping_read(mm, f->address, &first);
	key.id = f->address >> SONDE_FAULT_BLOCK_SHIFT;
	if (first.start) /* odd multipliers without a pattern, of xxHash */
		key.id = (first.start >> 12) * 0x9e3779b185ebca87 +
			 (first.end >> 12) * 0xc2b2ae3d27d4eb4f + first.inode * 0x165667b19e3779f9 +
			 first.own;
	charge_key(&key, &first, ns);
}

#endif
