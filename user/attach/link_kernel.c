// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Links to kernel tracepoints. tp_btf and raw_tp need no tracefs; a classic one needs only its
 * number, which the engine reads beforehand (tracefs.c).
 */
#include <errno.h>
#include <string.h>
#include <bpf/bpf.h>

#include "attach/link.h"
#include "attach/perf.h"

static int link_raw(const struct sonde_link_request *req)
{
	/* A tp_btf program carries its tracepoint since load: the name must then be absent. */
	const char *name = req->kind == SONDE_LINK_RAW_TP ? req->event : NULL;
	int fd = bpf_raw_tracepoint_open(name, req->prog_fd);

	return fd < 0 ? -errno : fd;
}

static int link_classic(const struct sonde_link_request *req)
{
	struct perf_event_attr attr;
	int fd;

	memset(&attr, 0, sizeof(attr));
	attr.type = PERF_TYPE_TRACEPOINT;
	attr.config = (uint64_t)req->event_id;
	attr.sample_period = 1;
	attr.disabled = 1;
	/* One event on one CPU serves all: the program is run by the tracepoint, on whatever CPU.
	 */
	fd = sonde_perf_open(&attr, -1, 0);
	if (fd < 0)
		return fd;
	return sonde_perf_link(fd, req->prog_fd, 0);
}

int sonde_link_kernel(const struct sonde_link_request *req)
{
	return req->kind == SONDE_LINK_TRACEPOINT ? link_classic(req) : link_raw(req);
}
