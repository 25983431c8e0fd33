/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A whole reading of glibc's heap, free lists included: at once, or by a thread of its own while
 * the caller goes on. Inside target/heap only.
 */
#ifndef SONDE_TARGET_HEAP_GLIBC_MEASURE_H
#define SONDE_TARGET_HEAP_GLIBC_MEASURE_H

#include <pthread.h>

#include "target/heap/glibc_walk.h"

struct glibc_measure {
	struct glibc_totals totals; /* in the middle of the time that it took */
	struct glibc_free lists;
	uint64_t nodes; /* of all walks that it took */
	bool clean;
	uint64_t began_ns, ended_ns;
};

/* @totals: of the arenas as they were read just before. 0 or what glibc_walk() says. */
int glibc_measure(struct glibc_arenas *s, uint64_t max_nodes, const struct glibc_totals *totals,
		  struct glibc_measure *out);

struct glibc_background {
	pthread_t thread;
	bool running, done, stop;
	struct glibc_arenas arenas; /* its own */
	uint64_t max_nodes;
	struct glibc_measure result;
	int err;
};

/* Begin one, unless one is running. 0 or -errno. */
int glibc_background_begin(struct glibc_background *b, const struct glibc_arenas *like,
			   uint64_t max_nodes);
/* The outcome of one that has ended since: 0 with *out, -EAGAIN: none, or how it failed. */
int glibc_background_take(struct glibc_background *b, struct glibc_measure *out);
/* Ends one that is running. */
void glibc_background_fini(struct glibc_background *b);

#endif
