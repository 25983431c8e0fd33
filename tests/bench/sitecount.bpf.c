// SPDX-License-Identifier: GPL-2.0-or-later
/* Counts hits by the cookie of the link; see sitecount.c. */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

SEC("uprobe")
int count(void *ctx)
{
	__u32 key = (__u32)bpf_get_attach_cookie(ctx);
	__u64 *n = bpf_map_lookup_elem(&hits, &key);

	if (n)
		__sync_fetch_and_add(n, 1);
	return 0;
}
