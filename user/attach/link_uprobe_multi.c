// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One link for many probe sites of one file: entry, return, or both (session). Made with the system
 * call itself, since libbpf knows it only from 1.3 (multi) and 1.5 (session) on and Debian 12
 * has 1.1.
 *
 * The pid is a thread group: its every thread is seen, no other process is. Before commit
 * 46ba0e49b642
 * ("bpf: fix multi-uprobe PID filtering logic", 6.10) it was one thread; the feature probe takes
 * such kernels for lacking the link. Children that the target forks keep the breakpoints in their
 * copy of the text page and trap, filtered, until the link goes.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <linux/bpf.h>

#include "attach/link.h"

/* UAPI of 6.6: union bpf_attr as BPF_LINK_CREATE reads it for multi-uprobes. */
struct multi_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t cnt, multi_flags, pid, pad;
};
enum { MULTI_RETURN = 1 };

int sonde_link_uprobe_multi(const struct sonde_link_request *req)
{
	struct multi_attr attr;
	int fd;

	memset(&attr, 0, sizeof(attr));
	attr.prog_fd = (uint32_t)req->prog_fd;
	attr.attach_type = (uint32_t)sonde_link_attach_type(req->kind);
	attr.path = (uintptr_t)req->path;
	attr.offsets = (uintptr_t)req->offsets;
	attr.cookies = (uintptr_t)req->cookies;
	attr.cnt = req->n;
	attr.multi_flags = req->kind == SONDE_LINK_URETPROBE_MULTI ? MULTI_RETURN : 0;
	attr.pid = (uint32_t)req->pid;
	fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	return fd < 0 ? -errno : fd;
}
