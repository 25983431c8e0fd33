/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A BPF program on a perf event: what uprobes by perf, software events and classic tracepoints
 * share. */
#ifndef SONDE_ATTACH_PERF_H
#define SONDE_ATTACH_PERF_H

#include <stdint.h>
#include <sys/types.h>
#include <linux/perf_event.h>

/* perf_event_open(2) with close-on-exec: fd or -errno. */
int sonde_perf_open(struct perf_event_attr *attr, pid_t pid, int cpu);

/*
 * Link the program to the event and enable it; takes over @perf_fd in either case. The fd to close
 * for detaching, or -errno. -EOPNOTSUPP: a cookie on a kernel before 5.15.
 */
int sonde_perf_link(int perf_fd, int prog_fd, uint64_t cookie);

/* The number (below 2^31) in a file of sysfs or tracefs, after @prefix. -errno. */
int sonde_perf_number(int dir, const char *path, const char *prefix);

#endif
