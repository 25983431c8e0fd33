// SPDX-License-Identifier: GPL-2.0-or-later
/* Reading the fault lens's histogram map; see fault_read.h. */
#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>

#include "core/mem.h"
#include "lens/fault_read.h"

static int compare_keys(const struct sonde_fault_key *a, const struct sonde_fault_key *b)
{
	if (a->tgid != b->tgid)
		return a->tgid < b->tgid ? -1 : 1;
	if (a->series != b->series)
		return a->series < b->series ? -1 : 1;
	return a->bucket < b->bucket ? -1 : a->bucket > b->bucket;
}

int sonde_fault_entry_compare(const void *a, const void *b)
{
	return compare_keys(&((const struct sonde_fault_entry *)a)->key,
			    &((const struct sonde_fault_entry *)b)->key);
}

static int add_entry(struct sonde_fault_entries *to, const struct sonde_fault_key *key,
		     uint64_t count)
{
	int err = SONDE_GROW(to->e, to->n, to->cap);

	if (!err)
		to->e[to->n++] = (struct sonde_fault_entry){*key, count};
	return err;
}

int sonde_fault_entries_read(int fd, struct sonde_fault_entries *to)
{
	enum { BATCH = 4096 };
	sonde_autofree struct sonde_fault_key *keys = calloc(BATCH, sizeof(*keys));
	sonde_autofree uint64_t *counts = calloc(BATCH, sizeof(*counts));
	uint32_t cursor, *from = NULL, n;
	int err = 0, add_err = 0;

	to->n = 0;
	if (!keys || !counts)
		return -ENOMEM;
	while (!err && !add_err) {
		n = BATCH;
		err = bpf_map_lookup_batch(fd, from, &cursor, keys, counts, &n, NULL);
		if (err && err != -ENOENT)
			return err;
		for (uint32_t i = 0; i < n && !add_err; i++)
			add_err = add_entry(to, &keys[i], counts[i]);
		from = &cursor;
	}
	if (to->n)
		qsort(to->e, to->n, sizeof(*to->e), sonde_fault_entry_compare);
	return add_err;
}

void sonde_fault_entries_fini(struct sonde_fault_entries *e)
{
	free(e->e);
	*e = (struct sonde_fault_entries){};
}
