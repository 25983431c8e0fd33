/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the allocators' descriptions share: finding a version in the constants of a file. */
#ifndef SONDE_TARGET_ALLOCATORS_TEXT_H
#define SONDE_TARGET_ALLOCATORS_TEXT_H

#include <stdio.h>

#include "target/allocator.h"
#include "target/elf.h"

/* The run of @accept that follows the first @marker that one follows, into @buf; "" if there is
 * none. */
void sonde_alloc_text_after(struct sonde_elf *elf, const char *marker, const char *accept,
			    char *buf, size_t size);

#endif
