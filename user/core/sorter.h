/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sorts any number of records in a fixed amount of memory: what does not fit is kept, sorted, in an
 * unnamed temporary file and merged in the end. Records of equal keys stay in the order they came.
 */
#ifndef SONDE_CORE_SORTER_H
#define SONDE_CORE_SORTER_H

#include <stddef.h>
#include <stdint.h>

/* Compared from the first number to the last. */
struct sonde_sort_key {
	uint64_t k[4];
};

struct sonde_sort_record {
	struct sonde_sort_key key;
	const void *data; /* aligned to 8 bytes; borrowed until the next call */
	size_t len;
};

struct sonde_sorter;

/* Keeps at most about @memory bytes of records (a larger one alone too). 0 or -ENOMEM. */
int sonde_sorter_new(struct sonde_sorter **out, size_t memory);
void sonde_sorter_free(struct sonde_sorter **s);
/* A copy of the record is kept. 0, or -errno (logged where the temporary file is the cause). */
int sonde_sorter_add(struct sonde_sorter *s, const struct sonde_sort_key *key, const void *data,
		     size_t len);
/* After the last add: 1 and the next record in order, 0 when there is none, or -errno (logged as
 * above). */
int sonde_sorter_next(struct sonde_sorter *s, struct sonde_sort_record *out);
/* How many sorted pieces had to go to the temporary file. */
size_t sonde_sorter_runs(const struct sonde_sorter *s);

#endif
