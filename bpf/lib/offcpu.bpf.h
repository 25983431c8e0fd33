/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layer 2: what a thread that leaves its CPU waits for, from the system call that it is in and the
 * kernel's own marks. Shared by the stall lens and by the anatomy of queries, so that both say the
 * same of the same wait.
 */
#ifndef SONDE_BPF_OFFCPU_H
#define SONDE_BPF_OFFCPU_H

#include "lib/books.bpf.h"
#include "sonde/stall.h"

/* contention_begin's flags (include/trace/events/lock.h). */
#define LCB_F_SPIN  (1u << 0)
#define LCB_F_MUTEX (1u << 5)

#define S_IFMT	 0170000
#define S_IFSOCK 0140000
#define S_IFIFO	 0010000

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SONDE_MAX_TARGETS);
	__type(key, __u32); /* tgid */
	__type(value, struct sonde_stall_range);
} stall_ranges SEC(".maps");

/* What a system call waits for; BY_FD: what its first argument is. */
enum {
	CALL_OTHER,
	CALL_BY_FD,
	CALL_POLL,
	CALL_SELECT,
	CALL_SOCKET,
	CALL_SLEEP,
	CALL_FUTEX,
	CALL_IO
};

#define STALL_NR_MAX 512
static const __u8 stall_calls[STALL_NR_MAX] = {
	[0] = CALL_BY_FD,    /* read              */
	[1] = CALL_BY_FD,    /* write             */
	[2] = CALL_IO,	     /* open              */
	[7] = CALL_POLL,     /* poll              */
	[17] = CALL_BY_FD,   /* pread64           */
	[18] = CALL_BY_FD,   /* pwrite64          */
	[19] = CALL_BY_FD,   /* readv             */
	[20] = CALL_BY_FD,   /* writev            */
	[23] = CALL_SELECT,  /* select            */
	[26] = CALL_IO,	     /* msync             */
	[35] = CALL_SLEEP,   /* nanosleep         */
	[40] = CALL_BY_FD,   /* sendfile          */
	[42] = CALL_SOCKET,  /* connect           */
	[43] = CALL_SOCKET,  /* accept            */
	[44] = CALL_SOCKET,  /* sendto            */
	[45] = CALL_SOCKET,  /* recvfrom          */
	[46] = CALL_SOCKET,  /* sendmsg           */
	[47] = CALL_SOCKET,  /* recvmsg           */
	[73] = CALL_IO,	     /* flock             */
	[74] = CALL_IO,	     /* fsync             */
	[75] = CALL_IO,	     /* fdatasync         */
	[77] = CALL_IO,	     /* ftruncate         */
	[82] = CALL_IO,	     /* rename            */
	[87] = CALL_IO,	     /* unlink            */
	[162] = CALL_IO,     /* sync              */
	[202] = CALL_FUTEX,  /* futex             */
	[208] = CALL_IO,     /* io_getevents      */
	[230] = CALL_SLEEP,  /* clock_nanosleep   */
	[232] = CALL_SOCKET, /* epoll_wait       */
	[257] = CALL_IO,     /* openat           */
	[263] = CALL_IO,     /* unlinkat         */
	[264] = CALL_IO,     /* renameat         */
	[270] = CALL_SELECT, /* pselect6         */
	[271] = CALL_POLL,   /* ppoll            */
	[275] = CALL_BY_FD,  /* splice           */
	[277] = CALL_IO,     /* sync_file_range  */
	[281] = CALL_SOCKET, /* epoll_pwait      */
	[285] = CALL_IO,     /* fallocate        */
	[288] = CALL_SOCKET, /* accept4          */
	[295] = CALL_BY_FD,  /* preadv           */
	[296] = CALL_BY_FD,  /* pwritev          */
	[299] = CALL_SOCKET, /* recvmmsg         */
	[306] = CALL_IO,     /* syncfs           */
	[307] = CALL_SOCKET, /* sendmmsg         */
	[316] = CALL_IO,     /* renameat2        */
	[326] = CALL_IO,     /* copy_file_range  */
	[327] = CALL_BY_FD,  /* preadv2          */
	[328] = CALL_BY_FD,  /* pwritev2         */
	[333] = CALL_IO,     /* io_pgetevents    */
	[426] = CALL_IO,     /* io_uring_enter   */
	[437] = CALL_IO,     /* openat2          */
	[441] = CALL_SOCKET, /* epoll_pwait2     */
	[449] = CALL_FUTEX,  /* futex_waitv      */
	[455] = CALL_FUTEX,  /* futex_wait       */
};

/* ---- what a blocked thread waits for ---- */

static __always_inline __u8 fd_cause(struct task_struct *task, __u32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **slots = BPF_CORE_READ(table, fd), *file = NULL;
	__u16 kind;

	if (fd >= BPF_CORE_READ(table, max_fds) ||
	    bpf_probe_read_kernel(&file, sizeof(file), &slots[fd]) || !file)
		return SONDE_STALL_OTHER;
	kind = BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT;
	if (kind == S_IFSOCK)
		return SONDE_STALL_SOCKET;
	return kind == S_IFIFO ? SONDE_STALL_PIPE : SONDE_STALL_IO;
}

static __always_inline __u8 futex_cause(struct task_struct *task, __u64 address)
{
	__u32 tgid = task->tgid;
	struct sonde_stall_range *r = bpf_map_lookup_elem(&stall_ranges, &tgid);

	if (!r)
		return SONDE_STALL_FUTEX;
	if (address >= r->from && address < r->to)
		return SONDE_STALL_ALLOC_LOCK;
	if (r->align && (address & (r->align - 1)) < SONDE_STALL_ARENA_HEAD)
		return SONDE_STALL_ALLOC_LOCK;
	return SONDE_STALL_FUTEX;
}

static __always_inline __u8 call_cause(struct task_struct *task, const struct pt_regs *regs)
{
	long nr = (long)regs->orig_ax;

	/* -1: an exception or an interrupt brought it here. */
	if (nr < 0 || nr >= STALL_NR_MAX)
		return SONDE_STALL_OTHER;
	switch (stall_calls[nr]) {
	case CALL_BY_FD:
		return fd_cause(task, (__u32)regs->di);
	case CALL_POLL: /* of no descriptor: a sleep */
		return regs->si ? SONDE_STALL_SOCKET : SONDE_STALL_SLEEP;
	case CALL_SELECT:
		return regs->di ? SONDE_STALL_SOCKET : SONDE_STALL_SLEEP;
	case CALL_SOCKET:
		return SONDE_STALL_SOCKET;
	case CALL_SLEEP:
		return SONDE_STALL_SLEEP;
	case CALL_FUTEX:
		return futex_cause(task, regs->di);
	case CALL_IO:
		return SONDE_STALL_IO;
	}
	return SONDE_STALL_OTHER;
}

/* bpf_task_pt_regs() is of 5.15 (dd6e10fbd9fb); before it the system call is not known. */
enum bpf_func_id___stall { BPF_FUNC_task_pt_regs___stall = 175 };

static __always_inline __u8 cause_of(struct task_struct *task)
{
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		return SONDE_STALL_IO;
	if (!bpf_core_enum_value_exists(enum bpf_func_id___stall, BPF_FUNC_task_pt_regs___stall))
		return SONDE_STALL_OTHER;
	return call_cause(task, (const struct pt_regs *)bpf_task_pt_regs(task));
}

/* A mutex spins first and says so; other spinning is a spin lock, which nobody sleeps on. */
static __always_inline bool is_sleeping_lock(__u32 flags)
{
	return (flags & (LCB_F_SPIN | LCB_F_MUTEX)) != LCB_F_SPIN;
}

/* Which of them it is, of a thread of a process. */
static __always_inline __u8 lock_cause(struct task_struct *task, void *lock)
{
	return (__u64)lock == (__u64)&task->mm->mmap_lock ? SONDE_STALL_MMAP_LOCK
							  : SONDE_STALL_KERNEL_LOCK;
}

#endif
