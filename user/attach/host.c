// SPDX-License-Identifier: GPL-2.0-or-later
/* The conditions of attaching anything at all; see host.h. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "attach/feature_probe.h"
#include "attach/host.h"
#include "attach/prog.h"
#include "core/err.h"

/* All lenses on a target of one thread took 78, short-lived ones included; a thread more is one
 * more. */
#define MIN_FILES 128

int sonde_host_files(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return 0;
	/* Links are fds: per-thread events and perf uprobes can take thousands. */
	if (lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
		getrlimit(RLIMIT_NOFILE, &lim);
	}
	if (lim.rlim_cur >= MIN_FILES)
		return 0;
	return sonde_err(
		EMFILE,
		"%d open files are needed and %lu allowed; raise the limit, for example by "
		"`ulimit -n 4096`",
		MIN_FILES, (unsigned long)lim.rlim_cur);
}

/* Without the kernel's types no object can be loaded. */
static int types_error(int err, const char *what)
{
	if (err == -ENOENT)
		return sonde_err(EOPNOTSUPP,
				 "cannot load %s: the types of this kernel cannot be had "
				 "(/sys/kernel/btf/vmlinux): %s",
				 what, sonde_feature_remedy(SONDE_FEAT_BTF));
	return sonde_err(err, "cannot load %s: the kernel's types cannot be read: %s%s", what,
			 strerror(-err),
			 err == -ENOMEM ? "; raise the limit on memory (`ulimit -v`, or the "
					  "cgroup's)"
					: "");
}

int sonde_host_no_types(const char *what)
{
	int err = sonde_kernel_btf_check();

	return types_error(err ? err : -EIO, what);
}

int sonde_host_check(void)
{
	int err = sonde_probe_HOST_PIDS();

	/* The programs compare the kernel's numbers with ours: silence, or another process. */
	if (err)
		return sonde_err(EOPNOTSUPP,
				 "running in a pid namespace of its own, where process numbers are "
				 "not the kernel's: %s",
				 sonde_feature_remedy(SONDE_FEAT_HOST_PIDS));
	return sonde_kernel_btf(&err) ? 0 : types_error(err, "any program");
}
