/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What glibc's threads keep in caches of their own: malloc's own statistics count that as used.
 * Inside target/heap only.
 */
#ifndef SONDE_TARGET_HEAP_GLIBC_TCACHE_H
#define SONDE_TARGET_HEAP_GLIBC_TCACHE_H

#include "target/heap/glibc_layout.h"
#include "target/heap/threads.h"

struct glibc_tcache {
	pid_t pid;
	bool known;  /* the threads can be found */
	bool broken; /* the layout cannot be right */
	struct sonde_threads threads;
	int64_t tp_offset; /* of the word that points to a thread's cache */
	uint64_t counts;
	size_t width;
};

/* Where the threads cannot be found, reading fails and the rest goes on without. */
void glibc_tcache_init(struct glibc_tcache *c, pid_t pid, const struct sonde_modules *mods,
		       uint64_t bias, const struct sonde_heap_layout *layout);
void glibc_tcache_fini(struct glibc_tcache *c);
/* Bytes of all chunks in all caches: 0, -EOPNOTSUPP, -EAGAIN, -ESRCH or -EFAULT. */
int glibc_tcache_read(struct glibc_tcache *c, uint64_t *bytes);

#endif
