/* SPDX-License-Identifier: GPL-2.0-or-later */
/* jemalloc's tables; see jemalloc.c. */
#ifndef SONDE_TARGET_BLOCKS_JEMALLOC_H
#define SONDE_TARGET_BLOCKS_JEMALLOC_H

#include "target/blocks/blocks.h"

int sonde_jemalloc_learn(const struct sonde_blocks *b, struct sonde_alloc_domain *out);

/* Usable bytes by number of class into @bytes: how many there are, 232 or @max. */
size_t sonde_jemalloc_classes(uint64_t *bytes, size_t max);

/* For tests: what a leaf's word must hold. */
enum sonde_agreement sonde_jemalloc_check(const struct sonde_blocks *b,
					  const struct sonde_alloc_domain *d, uint64_t word,
					  uint64_t page);

#endif
