/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which files make a process what it is besides its program: the configuration that its command
 * line names, and the index that it has open. Two servers are told alike or not by hashes of them:
 * of the configuration's bytes, and of the index files' names and sizes, whose bytes would take too
 * long.
 */
#ifndef SONDE_TARGET_FILES_H
#define SONDE_TARGET_FILES_H

#include <stdint.h>
#include <sys/types.h>

#include "core/str.h"
#include "target/daemon.h"

struct sonde_target_files {
	struct sonde_str config; /* paths as the process sees them, ", " between; "": none found  */
	uint64_t config_hash;	 /* FNV-1a of 64 bits */
	size_t index_files;
	uint64_t index_bytes, index_hash;
};

/*
 * Configuration is what an argument names that is a regular file of at most 4 MiB and either
 * follows an option such as --config or ends in .conf; else where @daemon (may be NULL) looks by
 * itself. What it includes in turn is not read. Files are opened within the process's root. 0 or
 * -ENOMEM: what cannot be read is not there.
 */
int sonde_target_files_read(pid_t pid, const struct sonde_daemon *daemon,
			    struct sonde_target_files *out);
void sonde_target_files_fini(struct sonde_target_files *f);

#endif
