/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What /proc/PID says: parents, threads, memory, sockets. Each reader is one pass over one file. */
#ifndef SONDE_TARGET_PROC_H
#define SONDE_TARGET_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sonde_proc_stat {
	pid_t pid, ppid;
	char comm[16];
	char state;
	uint64_t minflt, majflt;       /* whole thread group                                       */
	uint64_t utime_ns, stime_ns;   /* whole thread group                                       */
	uint32_t threads;
	uint64_t start_ticks;
	bool kernel_thread;	       /* PF_KTHREAD                                               */
};
/* Is /proc there, and of our own pid namespace? Without it every process looks gone. 0 or -errno
 * (logged). */
int sonde_proc_mounted(void);

/* 0, or -ESRCH (gone), or -errno; nothing logged. */
int sonde_proc_stat(pid_t pid, struct sonde_proc_stat *out);
/* The same of a text, for tests and fuzzing: 0 or -EINVAL. */
int sonde_proc_stat_parse(const char *text, struct sonde_proc_stat *out);

/* CPU time of the whole thread group, threads that have ended and system time included, as the scheduler
 * counts it (its clock, CLOCK_PROCESS_CPUTIME_ID of another process): ns, no ticks. Also of a process that
 * has exited and was not yet waited for. 0, or -ESRCH (gone), or -errno; nothing logged. */
int sonde_proc_cpu(pid_t pid, uint64_t *ns);

/* Bytes, from /proc/PID/status; exact since 6.16, within percpu drift before. Absent rows: -1. */
struct sonde_proc_mem {
	int64_t rss, rss_anon, rss_file, rss_shmem, swap, pte, hwm, hugetlb, vsize, locked;
	int thp_enabled; /* 1, 0, or -1 where the kernel does not say                              */
};
int sonde_proc_mem(pid_t pid, struct sonde_proc_mem *out);
int sonde_proc_mem_parse(const char *text, struct sonde_proc_mem *out);

/* RSS alone from statm in bytes: 6 us, the cheapest. 0 or -errno. */
int sonde_proc_rss(pid_t pid, uint64_t *rss_bytes);

/* Bytes of code mapped, of the program and its libraries, from /proc/PID/status. 0 or -errno. */
int sonde_proc_code(pid_t pid, uint64_t *bytes);

/* From smaps_rollup: walks page tables (33 ms per 2 GiB of base pages); *took_ns says how long. */
struct sonde_proc_rollup {
	int64_t rss, pss, anonymous, anon_huge, lazyfree, shmem_pmd, file_pmd, swap;
};
int sonde_proc_rollup(pid_t pid, struct sonde_proc_rollup *out, uint64_t *took_ns);

/* Thread ids or children of a process, sorted. *out heap, caller frees. */
int sonde_proc_threads(pid_t pid, pid_t **out, size_t *n);
int sonde_proc_descendants(pid_t pid, pid_t **out, size_t *n);
/* Every pid on the system, sorted. */
int sonde_proc_all(pid_t **out, size_t *n);

/* A socket of the process. */
struct sonde_proc_sock {
	int fd;
	uint64_t inode;
	uint16_t family;     /* AF_INET, AF_INET6, AF_UNIX; 0 if it could not be matched           */
	bool listening, connected;
	uint8_t local[16], peer[16];
	uint16_t local_port, peer_port;
	char path[108];	     /* AF_UNIX listeners; "@name" when abstract                           */
};
/* All sockets, by /proc/PID/fd joined with the target's own /proc/PID/net tables. Caller frees. */
int sonde_proc_sockets(pid_t pid, struct sonde_proc_sock **out, size_t *n);

/* The join alone, for tests and fuzzing: fill the sockets whose inode a row of @text has. @file: which
 * table it is ("tcp", "tcp6", "unix"). Sorted by descriptor afterwards. */
int sonde_proc_sockets_join(struct sonde_proc_sock *socks, size_t n, const char *file,
			    const char *text);

/* Environment variable's value into @buf: 0, -ENOENT, -errno. Only allocator variables are read. */
int sonde_proc_env(pid_t pid, const char *name, char *buf, size_t size);

/* Monotonic age of the process in ns, 0 if unknown. */
uint64_t sonde_proc_age_ns(pid_t pid);

#endif
