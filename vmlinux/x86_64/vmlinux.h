/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel types that sonde's BPF programs read, and no more: CO-RE relocates every field by name at
 * load, so only names and kinds matter here, not offsets. To look a type up on a running kernel:
 *
 *     bpftool btf dump file /sys/kernel/btf/vmlinux format c
 *
 * A type whose shape changed carries the first version with that shape in its name (type___v6_2).
 */
#ifndef SONDE_VMLINUX_H
#define SONDE_VMLINUX_H
#define __VMLINUX_H__ /* tells bpf_tracing.h that registers have the kernel's names */

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef int pid_t;
typedef unsigned int gfp_t;
typedef _Bool bool;

enum { false = 0, true = 1 };

/* UAPI constants that the programs use; values are ABI. */
enum bpf_map_type_sonde {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_F_CLONE = 1 << 9,
};
enum { BPF_F_CURRENT_CPU = 0xffffffffULL };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

/* The registers as BPF programs get them; uprobe contexts are read directly, without CO-RE. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs,
		flags, sp, ss;
};

/* The context of a raw tracepoint: its arguments, as many as the event has. */
struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

/* The context of a perf event: registers, the event's period and address. */
struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period;
	__u64 addr;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rw_semaphore {
	struct {
		long counter;
	} owner;
};

/* The tree of mappings, since 6.1 (d4af56c5c7c6). */
struct maple_tree {
	void *ma_root;
};
struct maple_pnode;
struct maple_range_64 {
	struct maple_pnode *parent;
	unsigned long pivot[15];
	void *slot[16];
};
struct maple_arange_64 {
	struct maple_pnode *parent;
	unsigned long pivot[9];
	void *slot[10];
};

/* `owner` is there with CONFIG_MEMCG. */
struct mm_struct {
	struct maple_tree mm_mt;
	unsigned long start_brk, brk;
	struct task_struct *owner;
	struct rw_semaphore mmap_lock;
};

struct vm_operations_struct;
struct vm_area_struct {
	unsigned long vm_start, vm_end;
	struct mm_struct *vm_mm;
	const unsigned long vm_flags;
	const struct vm_operations_struct *vm_ops;
	struct file *vm_file;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	unsigned long long sum_sched_runtime; /* of threads that have ended */
};

struct thread_struct {
	unsigned long fsbase;
};

struct file;
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};

struct sched_info {
	unsigned long long run_delay, last_arrival, last_queued;
};

struct rq {
	__u64 clock, clock_task;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
	u64 exec_start, sum_exec_runtime;
};

struct task_struct {
	struct files_struct *files;
	pid_t pid;
	pid_t tgid;
	struct task_struct *group_leader;
	struct mm_struct *mm;
	struct signal_struct *signal;
	char comm[16];
	unsigned int flags;
	int pagefault_disabled;
	unsigned int __state;
	unsigned in_iowait : 1;
	unsigned long nvcsw, nivcsw;
	unsigned long min_flt, maj_flt;
	struct sched_entity se;
	struct sched_info sched_info;
	__u64 start_boottime;
	struct thread_struct thread;
};

/* Up to 6.1 a task keeps changes of its mm's counters to itself, and adds them up now and then. */
struct task_rss_stat {
	int events;
	int count[4];
};
struct task_struct___v6_1 {
	struct task_rss_stat rss_stat;
};

struct task_struct___v5_11 {
	volatile long state;
};

struct page;

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	__be16 skc_dport;
	__u16 skc_num;
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_type;
	__u16 sk_protocol;
};

struct socket {
	struct sock *sk;
};

struct tcp_sock {
	__u64 tcp_wstamp_ns;
};

struct unix_address;
struct unix_sock {
	struct sock sk;
	struct unix_address *addr;
};

struct iovec {
	void *iov_base;
	unsigned long iov_len;
};

struct user_msghdr {
	void *msg_name;
	int msg_namelen;
	struct iovec *msg_iov;
	unsigned long msg_iovlen;
};

struct trace_event_raw_sys_enter {
	long int id;
	unsigned long args[6];
};

struct trace_event_raw_sys_exit {
	long int id;
	long int ret;
};

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
};
struct super_block {
	unsigned int s_dev;
	unsigned long s_magic;
};
struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
};
struct file {
	void *private_data;
	struct inode *f_inode;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

#pragma clang attribute pop

#endif
