// SPDX-License-Identifier: GPL-2.0-or-later
/* Names of the targets' threads, from /proc; see threads.h. */
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "cli/threads.h"
#include "core/file.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "target/proc.h"

static void look_at(struct sonde_comm_watch *w, pid_t pid)
{
	pid_t *tids sonde_autofree = NULL;
	size_t n = 0;

	if (sonde_proc_threads(pid, &tids, &n))
		return;
	for (size_t i = 0; i < n && !w->seen; i++) {
		char comm[32];

		if (sonde_read_line(comm, sizeof(comm), "/proc/%d/task/%d/comm", pid, tids[i]))
			continue;
		w->looked = true;
		w->seen = !strcmp(comm, w->comm);
	}
}

void sonde_comm_watch_look(struct sonde_comm_watch *w, const struct sonde_snapshot *snap)
{
	char key[64];

	for (size_t i = 0; w->comm && !w->seen; i++) {
		const char *pid;
		uint64_t number;

		snprintf(key, sizeof(key), "target.%zu.pid", i);
		pid = sonde_meta_find(&snap->meta, key);
		if (!pid)
			return;
		if (!sonde_parse_u64(pid, &number))
			look_at(w, (pid_t)number);
	}
}

void sonde_comm_watch_end(struct sonde_comm_watch *w, const struct sonde_snapshot *snap)
{
	sonde_comm_watch_look(w, snap);
	if (w->comm && w->looked && !w->seen)
		sonde_warn("--comm: no thread was called '%s', so nothing of any was observed; the "
			   "names are in /proc/PID/task/*/comm",
			   w->comm);
}
