/* SPDX-License-Identifier: GPL-2.0-or-later */
/* gperftools' tables; see tcmalloc.c. */
#ifndef SONDE_TARGET_BLOCKS_TCMALLOC_H
#define SONDE_TARGET_BLOCKS_TCMALLOC_H

#include "target/blocks/blocks.h"

int sonde_tcmalloc_learn(const struct sonde_blocks *b, struct sonde_alloc_domain *out);

/* Usable bytes by index of size, from the classes: for tests too. */
void sonde_tcmalloc_sizes(struct sonde_alloc_domain *d);

#endif
