// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Links and maps in /proc are open to whoever may ptrace the process: the same user, or one with
 * CAP_SYS_PTRACE in the process's user namespace; a security module may refuse even those. Being
 * root therefore is not enough, and the advice depends on what is missing.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "target/access.h"

bool sonde_access_denied(pid_t pid)
{
	char link[64], to[8];

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	return readlink(link, to, sizeof(to)) < 0 && (errno == EACCES || errno == EPERM);
}

const char *sonde_access_reason(bool is_root, uint64_t caps)
{
	bool may_trace = caps & UINT64_C(1) << CAP_SYS_PTRACE;

	if (!is_root && !may_trace)
		return "belongs to another user; run sonde as root, or as that user with --passive";
	if (!may_trace)
		return "may not be looked into: this root lacks CAP_SYS_PTRACE; run sonde with it, "
		       "outside of the container";
	return "may not be looked into, not even with CAP_SYS_PTRACE: the system protects it (a "
	       "security module, or a user namespace that is not below ours)";
}

void sonde_access_denial(char *buf, size_t size)
{
	sonde_autofree char *text = NULL;
	const char *row = NULL;
	uint64_t caps = 0;

	if (!sonde_read_file("/proc/self/status", &text, NULL))
		row = strstr(text, "\nCapEff:");
	if (row && sscanf(row, "\nCapEff: %" SCNx64, &caps) != 1)
		caps = 0;
	snprintf(buf, size, "%s", sonde_access_reason(geteuid() == 0, caps));
}
