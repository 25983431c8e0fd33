/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scratch process: the target's own dynamic linker and libraries, read through /proc, copied into
 * an empty root and run with a small program of ours that brings its heap into known states and
 * says what the allocator itself reports. What a container's file system holds is untrusted: it
 * runs as nobody, in user, mount, pid, network, ipc and uts namespaces of its own, with nothing in
 * its root but those files, few system calls, and limits of time and memory.
 *
 * The invariant: it never outlives the call that frees it, nor its time limit.
 */
#ifndef SONDE_TARGET_HEAP_SCRATCH_H
#define SONDE_TARGET_HEAP_SCRATCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/heap/inside/report.h"
#include "target/maps.h"

struct sonde_scratch;

/*
 * Start one that loads module @lib of @mods, and what that needs of the other modules, as @pid has
 * them mapped. @what: one of SONDE_INSIDE_*. 0, or -EOPNOTSUPP with @why, or -errno with @why.
 */
int sonde_scratch_start(struct sonde_scratch **out, pid_t pid, const struct sonde_modules *mods,
			size_t lib, char what, char *why, size_t size);
/* Its pid here, as for /proc and process_vm_readv. */
pid_t sonde_scratch_pid(const struct sonde_scratch *s);
/* Wait for its next state; it stays there until the next call. 0, -ENODATA after the last, or
 * -errno with
 * @why (what it said on stderr, or how it ended). */
int sonde_scratch_next(struct sonde_scratch *s, struct sonde_report *out, char *why, size_t size);
void sonde_scratch_free(struct sonde_scratch **s);

#endif
