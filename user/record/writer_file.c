// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The file a recording is written to: it comes to be, is locked, and may be taken away. Whoever
 * writes holds a flock() on it until the end, and nobody replaces a file whose lock he cannot have.
 * flock() and not fcntl(): SQLite's own locks are of that kind, and a process loses all of those
 * on a file when it closes any descriptor of it. So w->fd is closed only after SQLite's.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "core/err.h"
#include "core/mem.h"
#include "record/writer_impl.h"

enum { PAGE_BYTES = 4096, LOG_INDEX_BYTES = 32768 };

static const char *const companions[] = {"-wal", "-shm", "-journal"};

/* SQLite would replay a log that an earlier recording of this name left behind. */
static int clear_companions(const char *path, bool overwrite)
{
	char name[PATH_MAX];

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(companions); i++) {
		snprintf(name, sizeof(name), "%s%s", path, companions[i]);
		if (access(name, F_OK))
			continue;
		if (!overwrite)
			return sonde_err(
				EEXIST,
				"will not record to %s: %s is left from an earlier recording; "
				"remove it or choose another name",
				path, name);
		if (unlink(name))
			return sonde_err(errno, "cannot replace %s: %s", name, strerror(errno));
	}
	return 0;
}

/* Is @path still the name of what @fd has open? */
static bool names(const char *path, int fd)
{
	struct stat mine, there;

	return !fstat(fd, &mine) && mine.st_nlink && !stat(path, &there) &&
	       mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

/* A file system without such locks is recorded to all the same: the inode is watched as well. */
static int take(const char *path, int fd)
{
	if ((flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) || !names(path, fd))
		return sonde_err(EBUSY,
				 "will not record to %s: another sonde is recording to it; choose "
				 "another name",
				 path);
	return 0;
}

/* Take away what has the name. The lock is held until the caller has put its own file there. */
static int replace(const char *path, bool overwrite, int *lock)
{
	struct stat st;
	int err;

	if (lstat(path, &st))
		return 0;
	if (!overwrite)
		return sonde_err(EEXIST,
				 "will not record to %s: the file exists; choose another name or "
				 "give --overwrite",
				 path);
	if (!S_ISREG(st.st_mode))
		return sonde_err(EEXIST, "will not replace %s: it is not a regular file", path);
	*lock = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (*lock < 0)
		return sonde_err(errno, "cannot replace %s: %s", path, strerror(errno));
	err = take(path, *lock);
	if (!err && unlink(path))
		err = sonde_err(errno, "cannot replace %s: %s", path, strerror(errno));
	return err;
}

/* 0600: query texts and client addresses are nobody else's business. */
int sonde_writer_create(struct sonde_writer *w)
{
	sonde_autoclose int replaced = -1;
	int err = replace(w->path, w->opts.overwrite, &replaced);

	err = err ? err : clear_companions(w->path, w->opts.overwrite);
	if (err)
		return err;
	w->fd = open(w->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (w->fd < 0)
		return sonde_err(errno, "cannot create recording %s: %s", w->path, strerror(errno));
	return take(w->path, w->fd);
}

bool sonde_writer_has_file(const struct sonde_writer *w)
{
	return names(w->path, w->fd);
}

/* -1: it is not there. */
static off_t size_of(const struct sonde_writer *w, const char *ending)
{
	char name[PATH_MAX];
	struct stat st;

	snprintf(name, sizeof(name), "%s%s", w->path, ending);
	return stat(name, &st) ? -1 : st.st_size;
}

/*
 * SQLite writes on behind a hole and says that all is well. The log holds a header of 32 bytes, and
 * one of 24 before each page; the index of the log comes in pieces of 32 KiB.
 */
const char *sonde_writer_cut_off(struct sonde_writer *w)
{
	off_t log = w->checkpointer.logged
			    ? 32 + (off_t)w->checkpointer.logged * (PAGE_BYTES + 24)
			    : 0;
	struct stat st;

	if (fstat(w->fd, &st) || st.st_size < w->size)
		return "";
	w->size = st.st_size;
	if (!w->checkpointer.running)
		return NULL; /* no log yet, or none that is known */
	if (size_of(w, "-wal") < log)
		return "-wal";
	return size_of(w, "-shm") < LOG_INDEX_BYTES ? "-shm" : NULL;
}
