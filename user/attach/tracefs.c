// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A classic tracepoint is opened by a number that only tracefs tells. Where tracefs is not mounted
 * it is opened as a detached mount: it exists only through our fd, so the machine is left as it
 * was.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>

#include "attach/perf.h"
#include "attach/tracefs.h"
#include "core/mem.h"

static const char *const mount_points[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

static int open_detached(void)
{
	sonde_autoclose int fs = fsopen("tracefs", FSOPEN_CLOEXEC);
	int fd;

	if (fs < 0)
		return -errno;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		return -errno;
	fd = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

int sonde_tracefs_open(void)
{
	int denied = 0, err;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(mount_points); i++) {
		int fd = open(mount_points[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0) {
			if (errno == EACCES || errno == EPERM)
				denied = -errno;
			continue;
		}
		if (!faccessat(fd, "events/syscalls", R_OK, 0))
			return fd;
		if (errno == EACCES || errno == EPERM)
			denied = -errno;
		close(fd);
	}
	err = open_detached();
	return err < 0 && denied ? denied : err;
}

int sonde_tracefs_event_id(const char *event)
{
	sonde_autoclose int dir = sonde_tracefs_open();
	char path[256];

	if (dir < 0)
		return dir;
	snprintf(path, sizeof(path), "events/%s/id", event);
	return sonde_perf_number(dir, path, "");
}
