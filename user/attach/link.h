/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Making one link. A request is plain data and every maker is free of malloc, so that the guard
 * child, which is forked from a process that may have threads, can run it. A link is an fd: to
 * close it is to detach.
 */
#ifndef SONDE_ATTACH_LINK_H
#define SONDE_ATTACH_LINK_H

#include "attach/hook.h"

struct sonde_link_request {
	enum sonde_link_kind kind;
	int prog_fd;
	const char *event; /* kernel kinds                                                  */
	int event_id;	   /* TRACEPOINT: its number, read from tracefs beforehand          */
	int cpu;	   /* PERF_SW with pid -1                                           */
	pid_t pid;	   /* uprobe kinds: thread group; PERF_SW: thread, or -1            */
	const char *path;  /* uprobe kinds                                                  */
	const uint64_t *offsets, *cookies; /* n of each; perf kinds take one site a request */
	uint32_t n;
	/* For messages: what, to what. Borrowed. */
	const char *program, *place;
};

/* The link's fd, or -errno (nothing logged: the guard child has no stderr). */
int sonde_link_create(const struct sonde_link_request *req);

/* By family; sonde_link_create() picks. */
int sonde_link_uprobe_multi(const struct sonde_link_request *req);
int sonde_link_uprobe_perf(const struct sonde_link_request *req);
int sonde_link_kernel(const struct sonde_link_request *req);
int sonde_link_perf_sw(const struct sonde_link_request *req);

/* What a program must be loaded as for links of @kind: its expected attach type, or -1 for "as its
 * section says". Each type accepts exactly its own kind of link (measured on 6.18: all nine pairs).
 */
int sonde_link_attach_type(enum sonde_link_kind kind);
bool sonde_link_is_uprobe(enum sonde_link_kind kind);
bool sonde_link_is_return(enum sonde_link_kind kind);
/* The return side of a pair whose entry side is @kind; NONE if it has none. */
enum sonde_link_kind sonde_link_return_of(enum sonde_link_kind kind);
/* "session", "multi", "perf", or NULL for kernel kinds. */
const char *sonde_link_family(enum sonde_link_kind kind);
/* What a kernel must have for @kind, whatever the hook says. */
enum sonde_feature sonde_link_feature(enum sonde_link_kind kind);

/* Configuration value of a perf software event by name, or -EINVAL. */
int sonde_perf_sw_config(const char *event);

#endif
