/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What was stored already: strings with the id they got, and bare 64-bit keys. Both only grow, by
 * the number of distinct members.
 */
#ifndef SONDE_RECORD_INTERN_H
#define SONDE_RECORD_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sonde_intern_slot {
	uint64_t hash;
	char *key; /* NULL: free. May hold NUL bytes */
	uint32_t len, id;
};

struct sonde_intern {
	struct sonde_intern_slot *slots;
	size_t n, cap; /* cap is 0 or a power of two */
};

void sonde_intern_fini(struct sonde_intern *in);
/* The id of @key, from 1 in order of first sight. *added says whether it is new. 0 or -ENOMEM. */
int sonde_intern_get(struct sonde_intern *in, const char *key, size_t len, uint32_t *id,
		     bool *added);

struct sonde_idset {
	uint64_t *slots; /* 0: free */
	size_t n, cap;
};

void sonde_idset_fini(struct sonde_idset *set);
/* Add @id (not 0): 1 if it is new, 0 if it was there, or -ENOMEM. */
int sonde_idset_add(struct sonde_idset *set, uint64_t id);

#endif
