/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 1: counters and histograms by (process, series); see sonde/series.h. A lens declares the
 * two maps, preallocated (its programs may run where nothing can be allocated), and hands them in.
 */
#ifndef SONDE_BPF_SERIES_H
#define SONDE_BPF_SERIES_H

#include "lib/base.bpf.h"
#include "sonde/series.h"

static __always_inline void series_sum(void *sums, enum sonde_lens_id lens,
				       const struct sonde_series_key *key, __u64 ns, __u64 bytes)
{
	struct sonde_series_sum *sum = bpf_map_lookup_elem(sums, key), none = {};

	if (!sum) {
		bpf_map_update_elem(sums, key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(sums, key);
	}
	if (!sum) {
		count_drop(lens, SONDE_DROP_MAP_FULL);
		return;
	}
	__sync_fetch_and_add(&sum->count, 1);
	__sync_fetch_and_add(&sum->ns, ns);
	if (bytes)
		__sync_fetch_and_add(&sum->bytes, bytes);
}

static __always_inline void series_bucket(void *hist, enum sonde_lens_id lens,
					  struct sonde_series_key *key, __u64 ns)
{
	__u64 *n, none = 0;

	key->bucket = sonde_hist_index(ns);
	n = bpf_map_lookup_elem(hist, key);
	if (!n) {
		bpf_map_update_elem(hist, key, &none, BPF_NOEXIST);
		n = bpf_map_lookup_elem(hist, key);
	}
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		count_drop(lens, SONDE_DROP_MAP_FULL);
}

#endif
