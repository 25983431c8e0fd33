// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The system calls left to a scratch process: what a dynamic linker, an allocator and threads need.
 * All else fails with EPERM; clone3 with ENOSYS, so that the C library falls back to clone, whose
 * flags a filter can see: threads, never processes.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "core/mem.h"
#include "target/heap/scratch_box.h"

static const int allowed[] = {
	SYS_read,
	SYS_write,
	SYS_close,
	SYS_openat,
	SYS_open,
	SYS_pread64,
	SYS_lseek,
	SYS_fstat,
	SYS_stat,
	SYS_newfstatat,
	SYS_statx,
	SYS_access,
	SYS_faccessat,
	SYS_faccessat2,
	SYS_readlink,
	SYS_readlinkat,
	SYS_mmap,
	SYS_munmap,
	SYS_mprotect,
	SYS_mremap,
	SYS_madvise,
	SYS_brk,
	SYS_arch_prctl,
	SYS_set_tid_address,
	SYS_futex,
	SYS_rseq,
	SYS_set_robust_list,
	SYS_prlimit64,
	SYS_getrlimit,
	SYS_getrandom,
	SYS_sched_yield,
	SYS_sched_getaffinity,
	SYS_getcpu,
	SYS_getpid,
	SYS_gettid,
	SYS_uname,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	SYS_sysinfo,
	SYS_clock_gettime,
	SYS_clock_getres,
	SYS_gettimeofday,
	SYS_nanosleep,
	SYS_clock_nanosleep,
	SYS_poll,
	SYS_pause,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_sigaltstack,
	SYS_execve,
	SYS_exit,
	SYS_exit_group,
	SYS_mincore,
};

#define DATA(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* Where the value is @k, what follows decides; else skip it. */
#define UNLESS(k, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), 0, (skip))
#define ANSWER(what)	BPF_STMT(BPF_RET | BPF_K, (what))
#define REFUSE(code)	ANSWER(SECCOMP_RET_ERRNO | (code))

int sonde_box_restrict_calls(void)
{
	static const struct sock_filter head[] = {
		DATA(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		ANSWER(SECCOMP_RET_KILL_THREAD),
		DATA(nr),
		UNLESS(SYS_clone3, 1),
		REFUSE(ENOSYS),
		UNLESS(SYS_clone, 4),
		DATA(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
		ANSWER(SECCOMP_RET_ALLOW),
		REFUSE(EPERM),
	};
	struct sock_filter code[SONDE_ARRAY_SIZE(head) + 2 * SONDE_ARRAY_SIZE(allowed) + 1];
	struct sock_fprog prog = {.filter = code};
	size_t n = SONDE_ARRAY_SIZE(head);

	memcpy(code, head, sizeof(head));
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(allowed); i++) {
		code[n++] = (struct sock_filter)UNLESS(allowed[i], 1);
		code[n++] = (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)REFUSE(EPERM);
	prog.len = (unsigned short)n;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) ? -errno : 0;
}
