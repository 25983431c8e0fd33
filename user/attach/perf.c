// SPDX-License-Identifier: GPL-2.0-or-later
/* A BPF program on a perf event. No malloc: the guard child runs this too. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <bpf/bpf.h>

#include "attach/perf.h"
#include "core/mem.h"
#include "core/num.h"

int sonde_perf_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	int fd;

	attr->size = sizeof(*attr);
	fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int sonde_perf_link(int perf_fd, int prog_fd, uint64_t cookie)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = cookie);
	sonde_autoclose int perf = perf_fd;
	int link;

	/* Since 5.15, b89fbfbb854c ("bpf: Implement minimal BPF perf link"): carries a cookie and
	 * keeps the event alive by itself. */
	link = bpf_link_create(prog_fd, perf, BPF_PERF_EVENT, &opts);
	if (link < 0 && errno != EINVAL)
		return -errno;
	if (link < 0 && cookie)
		return -EOPNOTSUPP;
	if (link < 0 && ioctl(perf, PERF_EVENT_IOC_SET_BPF, prog_fd))
		return -errno;
	if (ioctl(perf, PERF_EVENT_IOC_ENABLE, 0)) {
		int err = -errno;

		if (link >= 0)
			close(link);
		return err;
	}
	return link >= 0 ? link : SONDE_TAKE_FD(perf);
}

int sonde_perf_number(int dir, const char *path, const char *prefix)
{
	sonde_autoclose int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	size_t skip = strlen(prefix);
	uint64_t value;
	char buf[64];
	ssize_t len;
	int err;

	if (fd < 0)
		return -errno;
	len = read(fd, buf, sizeof(buf) - 1);
	if (len <= 0)
		return len ? -errno : -EIO;
	buf[len] = 0;
	buf[strcspn(buf, "\n")] = 0;
	if (strncmp(buf, prefix, skip))
		return -EINVAL;
	err = sonde_parse_u64(buf + skip, &value);
	if (err)
		return err;
	return value > INT_MAX ? -ERANGE : (int)value;
}
