/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * --comm: is there any thread of that name? One that does not exist is observed as silence, and a name
 * may come later than sonde, so it is looked for each interval until found.
 */
#ifndef SONDE_CLI_THREADS_H
#define SONDE_CLI_THREADS_H

#include <stdbool.h>

#include "model/snapshot.h"

struct sonde_comm_watch {
	const char *comm; /* NULL: nothing to look for */
	bool seen;
	bool looked; /* at one thread at least: without, nothing can be said */
};

void sonde_comm_watch_look(struct sonde_comm_watch *w, const struct sonde_snapshot *snap);
/* At the end: a warning if it never was there. */
void sonde_comm_watch_end(struct sonde_comm_watch *w, const struct sonde_snapshot *snap);

#endif
