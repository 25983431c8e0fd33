/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A small child that holds uprobe links. They exist in no other process, so its death is their end:
 * when sonde is killed (the parent-death signal); and, for links that slow the target, when sonde
 * is stopped or frozen (no heartbeat: a timer) or must not take longer (a deadline).
 */
#ifndef SONDE_ATTACH_GUARD_H
#define SONDE_ATTACH_GUARD_H

#include "attach/link.h"

struct sonde_guard {
	pid_t pid; /* 0: none */
	int sock;
	size_t n_links;
};

/*
 * Fork the child and have it make the links of @reqs. @beat_ns: how long it lives without a
 * heartbeat;
 * @max_ns: at most; 0: no such limit. 0; or -errno with *failed the index of the refused request
 * (SIZE_MAX: the child itself failed), nothing logged. The parent-death signal is bound to the
 * calling thread: call from one that lives as long as the observation.
 */
int sonde_guard_start(const struct sonde_link_request *reqs, size_t n, uint64_t beat_ns,
		      uint64_t max_ns, struct sonde_guard *out, size_t *failed);
/*
 * The same, for a child that does something while it holds the links, and then exits: @body, which
 * must not allocate and returns when @sock has ended.
 */
int sonde_guard_run(const struct sonde_link_request *reqs, size_t n, uint64_t max_ns,
		    void (*body)(void *arg, int sock), void *arg, struct sonde_guard *out,
		    size_t *failed);
void sonde_guard_beat(struct sonde_guard *g);
bool sonde_guard_alive(struct sonde_guard *g);
/* Tell the child to exit, without waiting: several may be leaving at once. */
void sonde_guard_dismiss(struct sonde_guard *g);
/* Have the child exit, which closes the links, and wait for that. */
void sonde_guard_stop(struct sonde_guard *g);

#endif
