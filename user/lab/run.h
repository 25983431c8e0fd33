/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A command under a setting: huge pages by prctl, allocator by LD_PRELOAD, environment. Everything
 * is checked before anything is started, set in the child before its exec, and looked at again in
 * the process that came of it. Nothing of the system is changed.
 */
#ifndef SONDE_LAB_RUN_H
#define SONDE_LAB_RUN_H

#include "session/session.h"

enum sonde_run_thp {
	SONDE_RUN_THP_SYSTEM = 0, /* as the system's settings say */
	SONDE_RUN_THP_OFF,	  /* none, even where the program asks for them */
	SONDE_RUN_THP_ADVISED,	  /* only where the program asks for them (Linux 6.18) */
};

struct sonde_run_setting {
	enum sonde_run_thp thp;
	const char *alloc;	/* "system", "jemalloc", "tcmalloc" or a path; NULL: system */
	const char *alloc_conf; /* the allocator's own settings, or NULL */
	const char *const *env; /* NAME=VALUE, added to the environment */
	size_t n_env;
	bool keep; /* the command runs on when the session ends */
};

struct sonde_run;

/* Borrows @setting's strings. 0 or -errno (logged): -EINVAL what is not a setting, -ENOENT an
 * allocator that is not installed. Free with sonde_run_free. */
int sonde_run_new(struct sonde_run **out, const struct sonde_run_setting *setting);
/* How a session starts its command so; borrows @run. */
struct sonde_session_start sonde_run_start(struct sonde_run *run);
void sonde_run_free(struct sonde_run **run);

/* The library that will be preloaded, "" for the program's own allocator. */
const char *sonde_run_library(const struct sonde_run *run);

#endif
