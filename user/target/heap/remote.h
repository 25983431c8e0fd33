/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads of another process's memory, many small ones a system call. Invariant: a piece that could
 * not be read whole is never taken for one that was.
 */
#ifndef SONDE_TARGET_HEAP_REMOTE_H
#define SONDE_TARGET_HEAP_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sonde_piece {
	uint64_t at;
	void *to;
	size_t len;
};

/* One piece: 0, -ESRCH (gone), -EFAULT, or -errno. */
int sonde_remote_read(pid_t pid, uint64_t at, void *to, size_t len);
/* All of them: 0, or the first error. */
int sonde_remote_readv(pid_t pid, const struct sonde_piece *p, size_t n);
/* @n pieces of @len bytes each from @at[i] to @to + i * @len; ok[i] says whether it could be read.
 * 0, or -ESRCH. */
int sonde_remote_each(pid_t pid, const uint64_t *at, size_t n, void *to, size_t len, bool *ok);

#endif
