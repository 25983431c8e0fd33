/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sum of byte counters that each thread of a process keeps for itself, over threads that come
 * and go. A reading names threads by key; the end of a thread is told apart, before or after the
 * reading that saw it last. Counters only grow, so of two readings of one thread the larger is the
 * later.
 *
 * The invariant: a thread is in the sum once, and the sum never falls.
 */
#ifndef SONDE_LENS_TLS_ACCOUNT_H
#define SONDE_LENS_TLS_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sonde/tls.h"

struct sonde_tls_entry {
	struct sonde_tls_thread t;
	uint32_t seen;	 /* the reading that saw it last */
	uint32_t missed; /* readings since, in which nothing told that it ended */
	bool ended;
};

struct sonde_tls_account {
	struct sonde_tls_entry *entries;
	size_t n, cap;
	uint32_t *slots; /* hash of the keys: index + 1 into entries */
	size_t n_slots;	 /* a power of two */
	uint32_t reading;
	struct sonde_tls_bytes gone; /* of threads that are no longer in entries */
	uint64_t n_ended, n_lost;
	uint32_t unread;
	uint64_t first_ns, last_ns; /* of this reading */
	uint32_t flags;		    /* of the first reading: enum sonde_tls_flag */
};

struct sonde_tls_sum {
	struct sonde_tls_bytes bytes;
	uint32_t threads; /* living                                                           */
	uint32_t unread;  /* of them, that could not be read now: their reading before counts */
	uint64_t ended;	  /* threads that ended                                               */
	uint64_t lost;	  /* of them, unread: what they did since their reading before is missing */
	uint32_t flags;	  /* at the first reading                                             */
	uint64_t skew_ns; /* between the first and the last living thread that was read       */
};

void sonde_tls_account_fini(struct sonde_tls_account *a);
/* A reading begins. */
void sonde_tls_account_begin(struct sonde_tls_account *a);
/* It sees a living thread. 0 or -ENOMEM. */
int sonde_tls_account_saw(struct sonde_tls_account *a, const struct sonde_tls_thread *t);
/* A thread ended. Those that ended before the reading finishes should be told before it does. */
int sonde_tls_account_ended(struct sonde_tls_account *a, const struct sonde_tls_thread *t);
/* The reading is over. 0 or -ENOMEM, then *out is as it was. */
int sonde_tls_account_finish(struct sonde_tls_account *a, struct sonde_tls_sum *out);

#endif
