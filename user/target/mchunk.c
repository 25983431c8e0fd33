// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Is a mapping made of glibc's large chunks alone? malloc gives each request above its threshold
 * (128 KiB, growing to 32 MiB) a mapping that begins with the chunk's header; neighbours merge.
 * Headers are read only from pages that are present, so that looking brings no page in.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/uio.h>

#include "core/mem.h"
#include "target/mchunk.h"

#define PAGE	   4096ull /* x86-64 */
#define IS_MMAPPED 2u	   /* glibc: malloc/malloc.c */
#define FLAGS	   7u
#define PM_PRESENT (1ull << 63) /* Documentation/admin-guide/mm/pagemap.rst */
#define MAX_CHUNKS 4096u

void sonde_mchunk_fini(struct sonde_mchunk *c)
{
	if (c->pagemap >= 0)
		close(c->pagemap);
	*c = (struct sonde_mchunk){.pagemap = -1};
}

int sonde_mchunk_init(struct sonde_mchunk *c, pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*c = (struct sonde_mchunk){.pid = pid, .pagemap = fd, .left = MAX_CHUNKS};
	return 0;
}

static bool read_header(struct sonde_mchunk *c, uint64_t at, uint64_t header[2])
{
	struct iovec to = {header, 16}, from = {(void *)at, 16}; /* NOLINT: an address over there */
	uint64_t entry;

	if (!c->left)
		return false;
	c->left--;
	if (pread(c->pagemap, &entry, sizeof(entry), (off_t)(at / PAGE * sizeof(entry))) !=
		    (ssize_t)sizeof(entry) ||
	    !(entry & PM_PRESENT))
		return false;
	return process_vm_readv(c->pid, &to, 1, &from, 1, 0) == 16;
}

uint64_t sonde_mchunk_covered(struct sonde_mchunk *c, uint64_t start, uint64_t end)
{
	uint64_t at = start, header[2];

	while (at < end) {
		uint64_t size;

		if (!read_header(c, at, header))
			break;
		size = header[1] & ~(uint64_t)FLAGS;
		/* A chunk of an aligned request counts its lead in the first word: not followed. */
		if (header[0] || (header[1] & FLAGS) != IS_MMAPPED || !size || size % PAGE ||
		    size > end - at)
			break;
		at += size;
	}
	return at - start;
}
