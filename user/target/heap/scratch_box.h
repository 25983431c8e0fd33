/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The closed box that a scratch process runs in; see scratch.h. Inside target/heap only.
 *
 * The invariant: code of the target's files runs only after every step here has succeeded; a step
 * that the system does not allow ends the box, and says which.
 */
#ifndef SONDE_TARGET_HEAP_SCRATCH_BOX_H
#define SONDE_TARGET_HEAP_SCRATCH_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SONDE_BOX_FILES 48
#define SONDE_BOX_CPU_S 5 /* that it may use */

struct sonde_box_file {
	char name[16];	  /* absolute, in the root of the box; the first is executed */
	int fd;		  /* where it is copied from, or -1 and */
	const void *data; /* this, of @size bytes */
	size_t size;
};

struct sonde_box {
	struct sonde_box_file file[SONDE_BOX_FILES];
	size_t n;
	char *argv[8], *envp[4];
};

struct sonde_box_child {
	pid_t pid;
	int in, out, err; /* our ends of its standard streams */
};

/* Start it. 0, or -EOPNOTSUPP or -errno with @why. A step that fails after the start is told on the
 * stream err, and the child ends with status 126. */
int sonde_box_start(const struct sonde_box *box, struct sonde_box_child *out, char *why,
		    size_t size);

/* Leave the system calls that a loader and an allocator need, for this process and what it
 * executes. 0 or -errno. */
int sonde_box_restrict_calls(void);

#endif
