/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process observed. A target is one thread group, identified by pid and start time (a pid alone
 * may be reused). Everything here is read from /proc and from the target's own files; nothing stops
 * it, traces it or writes to it.
 */
#ifndef SONDE_TARGET_TARGET_H
#define SONDE_TARGET_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sonde_allocator; /* target/allocator.h */
struct sonde_daemon;	/* target/daemon.h    */

#define SONDE_BUILD_ID_HEX 41 /* 20 bytes in hex and the NUL; longer ids are cut */

struct sonde_target {
	pid_t pid;
	int pidfd;	      /* -1 where the kernel has none (before 5.3)                    */
	uint64_t start_ticks; /* field 22 of /proc/PID/stat                                  */
	char comm[16];
	char *exe; /* path as the target sees it, " (deleted)" kept               */
	char build_id[SONDE_BUILD_ID_HEX]; /* of the executable, "" if it has none               */
	bool exe_deleted;
	/* Its program began while it was observed: when, CLOCK_MONOTONIC; 0: before, or an earlier
	 * generation of probes has counted it. */
	uint64_t begun_ns;
	bool new_program; /* it is what the next generation is made for                   */
	bool is_child;	  /* added by --children, not named by the user                  */
	bool gone;	  /* exited or was replaced; kept so that indexes stay            */
	const struct sonde_allocator *allocator; /* NULL: not recognised                          */
	char allocator_version[32];	   /* "" if it cannot be known                       */
	const struct sonde_daemon *daemon; /* NULL: not a daemon that sonde knows            */
};

/* Indexes are stable for the whole session: a target that went stays, marked gone. */
struct sonde_target_list {
	struct sonde_target *t;
	size_t n, cap;
};

/*
 * Open @pid: check that it exists, is a user process, alive and readable; fill everything above.
 * Logs one sentence with the cause. -ESRCH no such process, kernel thread or zombie; -EACCES
 * another user's without the privilege; -EOPNOTSUPP a 32-bit program.
 */
int sonde_target_open(struct sonde_target *t, pid_t pid);
void sonde_target_fini(struct sonde_target *t);
/* Re-read exe, build-id, allocator and daemon (after an exec). */
int sonde_target_refresh(struct sonde_target *t);
/* Still the same process? */
bool sonde_target_alive(const struct sonde_target *t);

/* Append an opened target; the list owns it from then. 0 or -errno; @t is emptied. */
int sonde_target_list_add(struct sonde_target_list *list, struct sonde_target *t);
void sonde_target_list_fini(struct sonde_target_list *list);
/* Index by pid among those not gone, or -1. */
ssize_t sonde_target_list_find(const struct sonde_target_list *list, pid_t pid);

/* What the user asked for; NULL or 0 where not given. */
struct sonde_target_query {
	const pid_t *pids;
	size_t n_pids;
	const char *name;   /* exact comm or basename of the executable                           */
	const char *unit;   /* systemd unit: every process of its cgroup                          */
	const char *cgroup; /* path below the cgroup mount, or absolute                           */
	bool children;	    /* descendants of each target as well                                 */
};

/*
 * Find and open what the query names. By name: the process that owns listening sockets wins over a
 * watchdog parent of the same name, which is named in a message; several independent daemons of one
 * name are an error that lists them. -ESRCH (logged) when there is none.
 */
int sonde_target_select(const struct sonde_target_query *q, struct sonde_target_list *out);

#endif
