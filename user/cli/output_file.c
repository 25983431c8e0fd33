// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What -o names. What is there already is replaced in one step, by a file that was written beside
 * it: whatever fails on the way, the old one is left. What the command reads is never replaced.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/output.h"
#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"

/* Written beside what it will replace; "" where the output is written in place. */
static char beside[PATH_MAX], target[PATH_MAX];

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	if (!strcmp(a, b))
		return true;
	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* A recording that is not finished, or is just being written, is several files. */
static int check_not_input(const struct sonde_args *args)
{
	static const char *const parts[] = {"", "-wal", "-shm", "-journal"};
	char name[PATH_MAX];

	for (size_t w = 0; w < args->n_words; w++) {
		for (size_t i = 0; i < SONDE_ARRAY_SIZE(parts); i++) {
			snprintf(name, sizeof(name), "%s%s", args->words[w], parts[i]);
			if (same_file(args->output, name))
				return sonde_err(EINVAL,
						 "-o %s is the recording that is read (%s); choose "
						 "another name",
						 args->output, name);
		}
	}
	return 0;
}

/* A file below these names is somebody's open file: there is no name to replace. */
static bool is_descriptor(const char *path)
{
	return !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6);
}

/* The old file's mode and, where that is allowed, its owner become the new one's. */
static FILE *take_over(int fd, const struct stat *old)
{
	if (fchown(fd, old->st_uid, old->st_gid))
		sonde_debug("%s becomes the caller's own: %s", target, strerror(errno));
	return fchmod(fd, old->st_mode & 0777) ? NULL : fdopen(fd, "w");
}

static FILE *open_beside(const char *path, const struct stat *old)
{
	char name[PATH_MAX];
	FILE *f;
	int fd;

	if (access(path, W_OK) || !realpath(path, target))
		return NULL;
	if (snprintf(name, sizeof(name), "%s.XXXXXX", target) >= (int)sizeof(name)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return NULL;
	f = take_over(fd, old);
	if (f) {
		memcpy(beside, name, sizeof(beside));
		return f;
	}
	unlink(name);
	close(fd);
	return NULL;
}

static FILE *open_existing(const char *path, bool overwrite)
{
	struct stat st;
	bool there = !stat(path, &st); /* else a link to nothing */

	if (there && !S_ISREG(st.st_mode))
		return fopen(path, "we"); /* a pipe or a device has nothing to lose */
	if (!overwrite) {
		errno = EEXIST;
		return NULL;
	}
	return there && !is_descriptor(path) ? open_beside(path, &st) : fopen(path, "we");
}

int sonde_output_open(FILE **out, const struct sonde_args *args)
{
	const char *path = args->output;
	FILE *f;
	int err;

	beside[0] = '\0';
	if (!path || !strcmp(path, "-")) {
		*out = stdout;
		return 0;
	}
	err = check_not_input(args);
	if (err)
		return err;
	f = fopen(path, "wxe");
	if (!f && errno == EEXIST)
		f = open_existing(path, args->overwrite);
	if (!f && errno == EEXIST)
		return sonde_err(EEXIST, "%s exists; --overwrite replaces it", path);
	if (!f)
		return sonde_err(errno, "cannot write to %s: %s", path, strerror(errno));
	*out = f;
	return 0;
}

/* Everything is on the disk before it takes the place of the old file. 0 or an errno. */
static int finish(FILE *f, bool replace)
{
	int cause = 0;

	if (ferror(f))
		cause = EIO;
	else if (fflush(f) == EOF || (replace && fsync(fileno(f))))
		cause = errno;
	if (fclose(f) == EOF && !cause)
		cause = errno;
	if (replace && !cause && rename(beside, target))
		cause = errno;
	return cause;
}

int sonde_output_close(FILE **out, const struct sonde_args *args, int err)
{
	FILE *f = *out;
	int cause;

	*out = NULL;
	if (f == stdout) {
		cause = sonde_output_flush();
		return err ? err : cause;
	}
	cause = finish(f, beside[0] && !err);
	if (beside[0] && (cause || err))
		unlink(beside);
	beside[0] = '\0';
	if (!cause)
		return err;
	cause = err < 0 ? -err : cause;
	return sonde_err(cause, "cannot write to %s: %s", args->output, strerror(cause));
}
