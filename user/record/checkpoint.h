/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Moves what was committed from the -wal file into the recording, and makes it durable, on a thread
 * of its own: it waits for the disk, which the thread that drains the event ring must not.
 */
#ifndef SONDE_RECORD_CHECKPOINT_H
#define SONDE_RECORD_CHECKPOINT_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>

struct sonde_checkpointer {
	sqlite3 *db; /* the thread's own connection */
	int pages;
	int logged; /* pages in the log after the writer's last commit; its thread only */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool running, wanted, stop;
};

/* Start for the database of @path, which @writer has open: from now on a commit that leaves @pages
 * in the log asks for a checkpoint. Without a thread SQLite does them within the commit. */
void sonde_checkpointer_start(struct sonde_checkpointer *c, const char *path, sqlite3 *writer,
			      int pages);
/* Waits for a checkpoint that is under way. Nothing if it was never started. */
void sonde_checkpointer_stop(struct sonde_checkpointer *c);

#endif
