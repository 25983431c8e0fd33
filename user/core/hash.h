/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FNV-1a of 64 bits (Fowler, Noll, Vo: isthe.com/chongo/tech/comp/fnv), for tables in memory and for
 * ids that reach a recording: it may never change.
 */
#ifndef SONDE_CORE_HASH_H
#define SONDE_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_FNV1A_BASIS 0xcbf29ce484222325ull

/* @h goes on over @n bytes; begin with SONDE_FNV1A_BASIS. */
static inline uint64_t sonde_fnv1a(uint64_t h, const void *bytes, size_t n)
{
	for (const unsigned char *p = bytes; n--; p++)
		h = (h ^ *p) * 0x100000001b3ull;
	return h;
}

#endif
