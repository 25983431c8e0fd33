// SPDX-License-Identifier: GPL-2.0-or-later
/* One process in /proc: state, memory, environment. Vanished processes are -ESRCH throughout. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <inttypes.h>
#include <time.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/file.h"
#include "core/mem.h"
#include "target/proc.h"

#define PF_KTHREAD 0x00200000u /* include/linux/sched.h */

int sonde_proc_mounted(void)
{
	if (!access("/proc/self/stat", F_OK))
		return 0;
	return sonde_err(ENOENT, "/proc is not mounted, and all that is known of a process is read "
				 "there; mount -t proc proc /proc");
}

static int gone(int err)
{
	return err == -ENOENT ? -ESRCH : err;
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
	return ticks * (SONDE_NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* Everything behind the command, which may itself hold blanks and parentheses: the last ")" ends
 * it. */
int sonde_proc_stat_parse(const char *text, struct sonde_proc_stat *out)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	struct sonde_proc_stat s = {0};
	unsigned flags;
	size_t len;

	if (!open || !close || close < open || sscanf(text, "%d", &s.pid) != 1)
		return -EINVAL;
	len = (size_t)(close - open - 1);
	if (len >= sizeof(s.comm))
		len = sizeof(s.comm) - 1;
	memcpy(s.comm, open + 1, len);
	if (sscanf(close + 1,
		   " %c %d %*d %*d %*d %*d %u %" SCNu64 " %*u %" SCNu64 " %*u %" SCNu64 " %" SCNu64
		   " %*d %*d %*d %*d %u %*d %" SCNu64,
		   &s.state, &s.ppid, &flags, &s.minflt, &s.majflt, &s.utime_ns, &s.stime_ns,
		   &s.threads, &s.start_ticks) != 9)
		return -EINVAL;
	s.utime_ns = ticks_to_ns(s.utime_ns);
	s.stime_ns = ticks_to_ns(s.stime_ns);
	s.kernel_thread = flags & PF_KTHREAD;
	*out = s;
	return 0;
}

int sonde_proc_stat(pid_t pid, struct sonde_proc_stat *out)
{
	sonde_autofree char *text = NULL;
	int err = sonde_read_filef(&text, NULL, "/proc/%d/stat", pid);

	return err ? gone(err) : sonde_proc_stat_parse(text, out);
}

int sonde_proc_cpu(pid_t pid, uint64_t *ns)
{
	struct timespec ts;
	clockid_t clock;
	int err = clock_getcpuclockid(pid, &clock);

	if (err)
		return gone(-err);
	if (clock_gettime(clock, &ts))
		return errno == EINVAL ? -ESRCH : -errno;
	*ns = (uint64_t)ts.tv_sec * SONDE_NS_PER_SEC + (uint64_t)ts.tv_nsec;
	return 0;
}

/* Value of row @name in "Name:   123 kB" text, in its own unit, or -1. */
static int64_t row(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		int64_t value;

		if (!strncmp(line, name, len) && line[len] == ':')
			return sscanf(line + len + 1, " %" SCNd64, &value) == 1 ? value : -1;
	}
	return -1;
}

static int64_t row_bytes(const char *text, const char *name)
{
	int64_t kib = row(text, name);

	return kib < 0 || kib > INT64_MAX / 1024 ? -1 : kib * 1024;
}

int sonde_proc_mem_parse(const char *text, struct sonde_proc_mem *out)
{
	*out = (struct sonde_proc_mem){
		.rss = row_bytes(text, "VmRSS"),
		.rss_anon = row_bytes(text, "RssAnon"),
		.rss_file = row_bytes(text, "RssFile"),
		.rss_shmem = row_bytes(text, "RssShmem"),
		.swap = row_bytes(text, "VmSwap"),
		.pte = row_bytes(text, "VmPTE"),
		.hwm = row_bytes(text, "VmHWM"),
		.hugetlb = row_bytes(text, "HugetlbPages"),
		.vsize = row_bytes(text, "VmSize"),
		.locked = row_bytes(text, "VmLck"),
		.thp_enabled = (int)row(text, "THP_enabled"),
	};
	return 0;
}

int sonde_proc_mem(pid_t pid, struct sonde_proc_mem *out)
{
	sonde_autofree char *text = NULL;
	int err = sonde_read_filef(&text, NULL, "/proc/%d/status", pid);

	return err ? gone(err) : sonde_proc_mem_parse(text, out);
}

int sonde_proc_rss(pid_t pid, uint64_t *rss_bytes)
{
	char path[64], buf[128];
	sonde_autoclose int fd = -1;
	uint64_t pages;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return gone(-errno);
	n = read(fd, buf, sizeof(buf) - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	if (sscanf(buf, "%*u %" SCNu64, &pages) != 1)
		return -EINVAL;
	*rss_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

int sonde_proc_code(pid_t pid, uint64_t *bytes)
{
	sonde_autofree char *text = NULL;
	int err = sonde_read_filef(&text, NULL, "/proc/%d/status", pid);
	int64_t exe, lib;

	if (err)
		return gone(err);
	exe = row_bytes(text, "VmExe");
	lib = row_bytes(text, "VmLib");
	if (exe < 0 || lib < 0)
		return -EINVAL; /* a process that is exiting has no memory any more */
	*bytes = (uint64_t)(exe + lib);
	return 0;
}

int sonde_proc_rollup(pid_t pid, struct sonde_proc_rollup *out, uint64_t *took_ns)
{
	sonde_autofree char *text = NULL;
	uint64_t begin = sonde_mono_ns();
	int err = sonde_read_filef(&text, NULL, "/proc/%d/smaps_rollup", pid);

	if (err)
		return gone(err);
	*took_ns = sonde_mono_ns() - begin;
	*out = (struct sonde_proc_rollup){
		.rss = row_bytes(text, "Rss"),
		.pss = row_bytes(text, "Pss"),
		.anonymous = row_bytes(text, "Anonymous"),
		.anon_huge = row_bytes(text, "AnonHugePages"),
		.lazyfree = row_bytes(text, "LazyFree"),
		.shmem_pmd = row_bytes(text, "ShmemPmdMapped"),
		.file_pmd = row_bytes(text, "FilePmdMapped"),
		.swap = row_bytes(text, "Swap"),
	};
	return 0;
}

int sonde_proc_env(pid_t pid, const char *name, char *buf, size_t size)
{
	size_t len, name_len = strlen(name);
	sonde_autofree char *text = NULL;
	int err = sonde_read_filef(&text, &len, "/proc/%d/environ", pid);

	if (err)
		return gone(err);
	for (const char *p = text; p < text + len; p += strlen(p) + 1) {
		if (strncmp(p, name, name_len) || p[name_len] != '=')
			continue;
		snprintf(buf, size, "%s", p + name_len + 1);
		return 0;
	}
	return -ENOENT;
}

uint64_t sonde_proc_age_ns(pid_t pid)
{
	struct sonde_proc_stat s;
	struct timespec ts;
	uint64_t now, start;

	/* start_ticks counts from boot, the time asleep included. */
	if (sonde_proc_stat(pid, &s) || clock_gettime(CLOCK_BOOTTIME, &ts))
		return 0;
	now = (uint64_t)ts.tv_sec * SONDE_NS_PER_SEC + (uint64_t)ts.tv_nsec;
	start = ticks_to_ns(s.start_ticks);
	return now > start ? now - start : 0;
}
