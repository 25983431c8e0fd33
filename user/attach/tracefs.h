/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The numbers of classic tracepoints, wherever tracefs is, mounted or not. */
#ifndef SONDE_ATTACH_TRACEFS_H
#define SONDE_ATTACH_TRACEFS_H

/*
 * Directory fd of tracefs: the mounted one, or a detached mount that nobody else sees
 * (fsopen, 5.2). Caller closes. -errno; -EPERM/-EACCES when only the right is missing.
 */
int sonde_tracefs_open(void);
/* Number of @event ("syscalls/sys_enter_recvfrom"), > 0, or -errno (-ENOENT: this kernel lacks it).
 */
int sonde_tracefs_event_id(const char *event);

#endif
