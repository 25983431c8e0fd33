/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tells glibc's large chunks from mappings that a program made itself, by the headers that malloc
 * wrote: reads 16 bytes of the target a chunk, from pages that are present.
 */
#ifndef SONDE_TARGET_MCHUNK_H
#define SONDE_TARGET_MCHUNK_H

#include <stdint.h>
#include <sys/types.h>

struct sonde_mchunk {
	pid_t pid;
	int pagemap;
	unsigned left; /* headers that may still be read */
};

/* 0 or -errno. */
int sonde_mchunk_init(struct sonde_mchunk *c, pid_t pid);
void sonde_mchunk_fini(struct sonde_mchunk *c);
/* How many bytes from @start on are chunks of malloc's, one behind the other, up to @end. */
uint64_t sonde_mchunk_covered(struct sonde_mchunk *c, uint64_t start, uint64_t end);

#endif
