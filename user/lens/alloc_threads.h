/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The byte counters that an allocator keeps for each thread, read for a whole process: the kernel
 * side of the alloc lens's counters mode (bpf/lib/threads.bpf.h).
 *
 * The invariant: what a thread counted is in the sum from its first byte to its last, or the sum
 * says how many threads ended unread.
 */
#ifndef SONDE_LENS_ALLOC_THREADS_H
#define SONDE_LENS_ALLOC_THREADS_H

#include "lens/lens.h"
#include "lens/tls_account.h"

struct sonde_alloc_threads;

#define SONDE_ALLOC_THREADS_HOOK "alloc.threads"

/*
 * May this target's allocator count by thread? Yes too where it is not known, and for a program
 * that began under observation: it may replace itself by another.
 */
bool sonde_alloc_threads_wanted(const struct sonde_target *t);
/* What the two programs need attached. 0 or -ENOMEM. */
int sonde_alloc_threads_hooks(struct sonde_hook_list *hooks);

/*
 * After load. 0, or -EOPNOTSUPP with the reason in @why: the plan has no iterator, since this
 * kernel cannot read another thread's memory from one.
 */
int sonde_alloc_threads_new(struct sonde_alloc_threads **out, struct bpf_object *obj, char *why,
			    size_t size);
void sonde_alloc_threads_free(struct sonde_alloc_threads **t);

/*
 * Everything is attached: does reading work on a thread of our own, and is a thread's memory still
 * there when the kernel tells of its end (not before 6.16, where it ends first)? 0 or -errno
 * (logged).
 */
int sonde_alloc_threads_test(struct sonde_alloc_threads *t);
/* By that test: are the ends of threads read? */
bool sonde_alloc_threads_reads_ends(const struct sonde_alloc_threads *t);

/* Count process @pid from now on, whose counters lie at @place (confirmed). Again: its place has
 * changed, as after an exec, and its account begins anew. 0 or -errno (logged). */
int sonde_alloc_threads_add(struct sonde_alloc_threads *t, pid_t pid,
			    const struct sonde_tls_place *place);
void sonde_alloc_threads_del(struct sonde_alloc_threads *t, pid_t pid);

/* What the counters of @pid began with, if it was forked from a process that was counted then. */
bool sonde_alloc_threads_forked(const struct sonde_alloc_threads *t, pid_t pid,
				struct sonde_tls_bytes *out);

/* Read them now. 0, -ESRCH (gone: *out is the sum at its end), or -errno (logged). */
int sonde_alloc_threads_read(struct sonde_alloc_threads *t, pid_t pid, struct sonde_tls_sum *out);

/* Was it, or was the reading held up each time it was tried: then what threads did meanwhile may be
 * in it half. */
bool sonde_alloc_threads_in_one_go(const struct sonde_tls_sum *sum);

#endif
