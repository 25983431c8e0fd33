/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The ways of asking for a process, each as a list of pids. Inside target/ only. */
#ifndef SONDE_TARGET_SELECT_H
#define SONDE_TARGET_SELECT_H

#include <stddef.h>
#include <sys/types.h>

/* A set of pids in the order of addition. */
struct sonde_pids {
	pid_t *p;
	size_t n, cap;
};
int sonde_pids_add(struct sonde_pids *list, pid_t pid);
void sonde_pids_fini(struct sonde_pids *list);

/* Each appends to @out: 0 or -errno (logged); -ESRCH when nothing matches. */
int sonde_select_name(const char *name, struct sonde_pids *out);
int sonde_select_unit(const char *unit, struct sonde_pids *out);
int sonde_select_cgroup(const char *path, struct sonde_pids *out);

#endif
