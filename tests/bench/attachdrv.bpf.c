// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The smallest lens that can be counted: each program adds to one slot of `counts`, by kind of
 * link. Slots 0 to 15 are entries by cookie, 16 to 31 returns by cookie.
 */
#include "lib/emit.bpf.h"

enum { SLOT_RETURN = 16, SLOT_TP_BTF = 32, SLOT_RAW_TP, SLOT_CLASSIC, SLOT_FAULT, SLOT_FILES };

extern __u64 *bpf_session_cookie(void) __ksym __weak;
extern bool bpf_session_is_return(void) __ksym __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

/* Addresses whose faults count. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} range SEC(".maps");

static __always_inline void add(__u32 slot)
{
	__u64 *n = bpf_map_lookup_elem(&counts, &slot);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline int add_ours(__u32 slot)
{
	__u64 id;

	if (gate_current(&id))
		add(slot);
	return 0;
}

SEC("?uprobe")
int drv_entry(struct pt_regs *ctx)
{
	return add_ours(bpf_get_attach_cookie(ctx) & 15);
}

SEC("?uprobe")
int drv_return(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	return gate_is_target(cookie >> 4) ? add_ours(SLOT_RETURN + (cookie & 15)) : 0;
}

SEC("?uprobe")
int drv_session(struct pt_regs *ctx)
{
	__u32 slot = bpf_get_attach_cookie(ctx) & 15;
	__u64 *carried = bpf_session_cookie();

	if (!bpf_session_is_return()) {
		*carried = slot + 1;
		return add_ours(slot);
	}
	/* What the entry left must be what the return finds. */
	return *carried == slot + 1 ? add_ours(SLOT_RETURN + slot) : 0;
}

SEC("?tp_btf/task_rename")
int BPF_PROG(drv_rename, struct task_struct *task, const char *comm)
{
	return add_ours(SLOT_TP_BTF);
}

SEC("?raw_tp/task_rename")
int drv_rename_raw(void *ctx)
{
	return add_ours(SLOT_RAW_TP);
}

SEC("?tp/syscalls/sys_enter_prctl")
int drv_prctl(void *ctx)
{
	count_drop(SONDE_LENS_THP, SONDE_DROP_MAP_FULL);
	return add_ours(SLOT_CLASSIC);
}

struct fault_ctx {
	struct pt_regs regs;
	__u64 sample_period, addr;
};

SEC("?perf_event")
int drv_fault(struct fault_ctx *ctx)
{
	__u32 zero = 0, one = 1;
	__u64 *lo = bpf_map_lookup_elem(&range, &zero), *hi = bpf_map_lookup_elem(&range, &one);

	if (!lo || !hi || ctx->addr < *lo || ctx->addr >= *hi)
		return 0;
	return add_ours(SLOT_FAULT);
}

SEC("?iter/task_file")
int drv_files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 tgid;

	if (!task || !ctx->file)
		return 0;
	tgid = task->tgid;
	if (task->pid == task->tgid && bpf_map_lookup_elem(&targets, &tgid))
		add(SLOT_FILES);
	return 0;
}

/* Refused by every verifier: a number is no pointer. */
SEC("?raw_tp/task_rename")
int drv_bad(void *ctx)
{
	return *(int *)bpf_ktime_get_ns();
}
