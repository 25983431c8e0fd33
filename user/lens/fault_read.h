/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fault lens's histogram map, read whole: a sparse histogram is its entries in key order, so
 * what a tick added is found by walking two readings side by side.
 */
#ifndef SONDE_LENS_FAULT_READ_H
#define SONDE_LENS_FAULT_READ_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/fault.h"

/* One bucket of one series as the map held it. */
struct sonde_fault_entry {
	struct sonde_fault_key key;
	uint64_t count;
};

struct sonde_fault_entries {
	struct sonde_fault_entry *e; /* sorted by key */
	size_t n, cap;
};

/* Order of qsort(3): process, series, bucket. */
int sonde_fault_entry_compare(const void *a, const void *b);
/* Read the whole of map @fd into @to, sorted. 0 or -errno, nothing logged. */
int sonde_fault_entries_read(int fd, struct sonde_fault_entries *to);
void sonde_fault_entries_fini(struct sonde_fault_entries *e);

#endif
