/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Thread pointers (the fs base) of another process's threads, without stopping it: glibc's dynamic
 * linker (2.34 and later) keeps all of them in two lists, whose place its libc describes for
 * debuggers.
 */
#ifndef SONDE_TARGET_HEAP_THREADS_H
#define SONDE_TARGET_HEAP_THREADS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/maps.h"

#define SONDE_THREADS_MAX 8192

struct sonde_threads {
	pid_t pid;
	uint64_t head[2]; /* of the lists, in the target */
	uint64_t node;	  /* offset of a list's node in a thread's descriptor */
	uint64_t *tp;	  /* the thread pointers, newest first */
	size_t n, cap;
	size_t split; /* so many of them are in the first list */
};

/* 0, or -EOPNOTSUPP with @why. */
int sonde_threads_init(struct sonde_threads *t, pid_t pid, const struct sonde_modules *mods,
		       char *why, size_t size);
/* Read the lists again: t->tp, t->n. 0, -EAGAIN (they were changing), -ESRCH. */
int sonde_threads_read(struct sonde_threads *t);
void sonde_threads_fini(struct sonde_threads *t);

#endif
