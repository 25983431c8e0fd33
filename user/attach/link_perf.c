// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Links through perf events: one uprobe a site, and software events for page faults.
 *
 * A perf uprobe opened for a pid filters by that task's address space, not by thread: the program
 * runs for every thread of the process, those started later included, and for no other process (the
 * kernel's uprobe_perf_filter() compares mm; tests/bpf/attach.bats counts it on a multi-threaded
 * target beside a twin process of the same file). So the plain pid is the right filter, and nobody
 * else traps. Returns are not filtered up to 6.12: with two targets of one file each one's return
 * programs run for both, so they must look whose it is (gate_is_target() in bpf/lib/filter.bpf.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "attach/link.h"
#include "attach/perf.h"
#include "core/mem.h"

#define UPROBE_PMU "/sys/bus/event_source/devices/uprobe/"

int sonde_link_uprobe_perf(const struct sonde_link_request *req)
{
	int type = sonde_perf_number(AT_FDCWD, UPROBE_PMU "type", "");
	int bit = sonde_perf_number(AT_FDCWD, UPROBE_PMU "format/retprobe", "config:");
	struct perf_event_attr attr;
	int fd;

	if (type < 0)
		return type == -ENOENT ? -EOPNOTSUPP : type;
	if (bit < 0)
		return bit;
	if (req->n != 1)
		return -EINVAL;
	memset(&attr, 0, sizeof(attr));
	attr.type = (uint32_t)type;
	attr.config = req->kind == SONDE_LINK_URETPROBE_PERF ? 1ull << bit : 0;
	attr.config1 = (uintptr_t)req->path;
	attr.config2 = req->offsets[0];
	attr.disabled = 1;
	fd = sonde_perf_open(&attr, req->pid > 0 ? req->pid : -1, req->pid > 0 ? -1 : 0);
	if (fd < 0)
		return fd;
	return sonde_perf_link(fd, req->prog_fd, req->cookies ? req->cookies[0] : 0);
}

static const struct {
	const char *name;
	int config;
} sw_events[] = {
	{"minor-faults", PERF_COUNT_SW_PAGE_FAULTS_MIN},
	{"major-faults", PERF_COUNT_SW_PAGE_FAULTS_MAJ},
};

int sonde_perf_sw_config(const char *event)
{
	for (size_t i = 0; event && i < SONDE_ARRAY_SIZE(sw_events); i++)
		if (!strcmp(event, sw_events[i].name))
			return sw_events[i].config;
	return -EINVAL;
}

/* Per thread with `inherit`, so that threads it starts later are seen too; or a whole CPU (pid -1).
 */
int sonde_link_perf_sw(const struct sonde_link_request *req)
{
	struct perf_event_attr attr;
	int config = sonde_perf_sw_config(req->event);
	int fd;

	if (config < 0)
		return config;
	memset(&attr, 0, sizeof(attr));
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = (uint64_t)config;
	attr.sample_period = 1;
	attr.inherit = req->pid > 0;
	fd = sonde_perf_open(&attr, req->pid, req->pid > 0 ? -1 : req->cpu);
	if (fd < 0)
		return fd;
	return sonde_perf_link(fd, req->prog_fd, 0);
}
