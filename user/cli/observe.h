/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What stat, record and doctor share: from the command line to a session. */
#ifndef SONDE_CLI_OBSERVE_H
#define SONDE_CLI_OBSERVE_H

#include <stdio.h>

#include "cli/args.h"
#include "session/session.h"

/*
 * Fill @opts from @args and refuse what cannot go together: 0 or -EINVAL (logged). Borrows @args.
 * Sinks and on_tick are left to the caller.
 */
int sonde_observe_opts(const struct sonde_args *args, struct sonde_session_opts *opts);
/* The same without the checks: for looking at a plan that is not carried out. */
void sonde_observe_fill(const struct sonde_args *args, struct sonde_session_opts *opts);
/* Exit code of a session that ended with @err: refused consent is usage, --strict knows degraded.
 */
int sonde_observe_exit(const struct sonde_args *args, int err, bool degraded);

/* Before a session, to a person who waits: what takes the first second. */
void sonde_observe_say_start(void);

/* To be told to the user as soon as it is so: observing has begun. For opts->on_observing. */
void sonde_observe_say_observing(void *ctx, const struct sonde_target_list *targets,
				 uint64_t attach_ns);

/* A session shown on stdout, or written into args->output. Exit code or -errno (logged). */
int sonde_stat_session(const struct sonde_args *args, struct sonde_session_opts *opts);
int sonde_record_session(const struct sonde_args *args, struct sonde_session_opts *opts);

/* --dry-run: the plan, and everything that carrying it out would touch. 0 or -errno (logged). */
int sonde_observe_dry_run(const struct sonde_args *args, const struct sonde_session_opts *opts);

/* For a command's help: the lenses and what each costs. */
void sonde_observe_list_lenses(FILE *out);

#endif
