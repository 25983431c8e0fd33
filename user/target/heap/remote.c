// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * process_vm_readv, batched. A call stops at the first piece that cannot be read, so what it
 * returns says how many pieces before that are whole.
 */
#include <errno.h>
#include <sys/uio.h>

#include "core/mem.h"
#include "target/heap/remote.h"

#define BATCH 512 /* of at most UIO_MAXIOV (1024) */

int sonde_remote_read(pid_t pid, uint64_t at, void *to, size_t len)
{
	struct sonde_piece p = {at, to, len};

	return sonde_remote_readv(pid, &p, 1);
}

static int read_batch(pid_t pid, const struct sonde_piece *p, size_t n)
{
	struct iovec local[BATCH], remote[BATCH];
	size_t want = 0;
	ssize_t got;

	for (size_t i = 0; i < n; i++) {
		local[i] = (struct iovec){p[i].to, p[i].len};
		remote[i] = (struct iovec){(void *)p[i].at, p[i].len};
		want += p[i].len;
	}
	got = process_vm_readv(pid, local, n, remote, n, 0);
	if (got < 0)
		return -errno;
	return (size_t)got == want ? 0 : -EFAULT;
}

int sonde_remote_readv(pid_t pid, const struct sonde_piece *p, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i += BATCH)
		err = read_batch(pid, p + i, n - i < BATCH ? n - i : BATCH);
	return err;
}

int sonde_remote_each(pid_t pid, const uint64_t *at, size_t n, void *to, size_t len, bool *ok)
{
	struct iovec local[BATCH], remote[BATCH];

	for (size_t i = 0; i < n;) {
		size_t m = n - i < BATCH ? n - i : BATCH, whole;
		ssize_t got;

		for (size_t k = 0; k < m; k++) {
			local[k] = (struct iovec){(char *)to + (i + k) * len, len};
			remote[k] = (struct iovec){(void *)at[i + k], len};
		}
		got = process_vm_readv(pid, local, m, remote, m, 0);
		if (got < 0 && errno != EFAULT)
			return -errno;
		whole = got < 0 ? 0 : (size_t)got / len;
		memset(ok + i, true, whole * sizeof(*ok));
		i += whole;
		if (whole < m)
			ok[i++] = false; /* the one that stopped it */
	}
	return 0;
}
