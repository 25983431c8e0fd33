/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the allocators' descriptions share: what the constants of a file tell. */
#ifndef SONDE_TARGET_ALLOCATORS_TEXT_H
#define SONDE_TARGET_ALLOCATORS_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "target/allocator.h"
#include "target/elf.h"

/* The run of @accept that follows the first @marker that one follows, into @buf; "" if there is
 * none. */
void sonde_alloc_text_after(struct sonde_elf *elf, const char *marker, const char *accept,
			    char *buf, size_t size);

/* Do the constants hold this text? A program that an allocator is built into keeps its messages
 * when its names are stripped. */
bool sonde_alloc_has_text(struct sonde_elf *elf, const char *text);

#endif
