// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Checkpoints off the writer's thread; see checkpoint.h. A passive checkpoint never makes a writer
 * or a reader wait, and the writer starts its log over once everything in it was moved.
 */
#include <signal.h>

#include "core/log.h"
#include "record/checkpoint.h"

static void *run(void *ctx)
{
	struct sonde_checkpointer *c = ctx;

	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		if (!c->wanted) {
			pthread_cond_wait(&c->wake, &c->lock);
			continue;
		}
		c->wanted = false;
		pthread_mutex_unlock(&c->lock);
		/* What fails here (a full disk) the writer meets itself: its log goes on growing.
		 */
		sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int after_commit(void *ctx, sqlite3 *db, const char *name, int pages)
{
	struct sonde_checkpointer *c = ctx;

	(void)db;
	(void)name;
	c->logged = pages;
	if (pages < c->pages)
		return SQLITE_OK;
	pthread_mutex_lock(&c->lock);
	c->wanted = true;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	return SQLITE_OK;
}

/* Signals are for the thread that waits for them. */
static int start_thread(struct sonde_checkpointer *c)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&c->thread, NULL, run, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

void sonde_checkpointer_start(struct sonde_checkpointer *c, const char *path, sqlite3 *writer,
			      int pages)
{
	int rc = sqlite3_open_v2(path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

	/* A connection that never read does not know of the log, and checkpoints nothing. */
	if (!rc)
		rc = sqlite3_exec(c->db, "SELECT count(*) FROM meta", NULL, NULL, NULL);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->wake, NULL);
	c->pages = pages;
	c->running = !rc && !start_thread(c);
	if (c->running) {
		sqlite3_wal_hook(writer, after_commit, c);
		return;
	}
	sonde_debug("no thread for checkpoints: they are part of the commits");
	sqlite3_wal_autocheckpoint(writer, pages);
}

void sonde_checkpointer_stop(struct sonde_checkpointer *c)
{
	if (c->running) {
		pthread_mutex_lock(&c->lock);
		c->stop = true;
		pthread_cond_signal(&c->wake);
		pthread_mutex_unlock(&c->lock);
		pthread_join(c->thread, NULL);
		c->running = false;
	}
	sqlite3_close(c->db);
	c->db = NULL;
}
