// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where the time of all queries went, in one line: the largest parts and their shares. The shares
 * of all parts add up to 1, so what is not named is the rest.
 */
#include <stdio.h>
#include <stdlib.h>

#include "model/span.h"
#include "show/summary.h"

enum { NAMED = 6 };
#define LEAST 0.005 /* a share below this is part of the rest */

/* A few words for each part, for a reader who does not know the table. */
static const char *const words[SONDE_PART__MAX] = {
	[SONDE_PART_QUEUED] = "queued",
	[SONDE_PART_USER] = "own code",
	[SONDE_PART_FAULT_BASE] = "page faults",
	[SONDE_PART_FAULT_MTHP] = "mTHP faults",
	[SONDE_PART_FAULT_PMD] = "huge page faults",
	[SONDE_PART_FAULT_COW] = "copy on write",
	[SONDE_PART_FAULT_FILE] = "file faults",
	[SONDE_PART_FAULT_SWAP] = "swapping in",
	[SONDE_PART_FAULT_OTHER] = "other faults",
	[SONDE_PART_RECLAIM] = "reclaim",
	[SONDE_PART_COMPACTION] = "compaction",
	[SONDE_PART_SYS_MADVISE] = "madvise",
	[SONDE_PART_SYS_MUNMAP] = "munmap",
	[SONDE_PART_SYS_MMAP] = "mmap",
	[SONDE_PART_SYS_BRK] = "brk",
	[SONDE_PART_SYS_OTHER] = "other kernel code",
	[SONDE_PART_RUNQUEUE] = "waiting for a CPU",
	[SONDE_PART_OFF_MMAP_LOCK] = "waiting for mmap_lock",
	[SONDE_PART_OFF_ALLOC_LOCK] = "waiting for the allocator",
	[SONDE_PART_OFF_LOCK] = "waiting for a lock",
	[SONDE_PART_OFF_IO] = "waiting for disk",
	[SONDE_PART_OFF_SOCKET] = "waiting for a socket",
	[SONDE_PART_OFF_SLEEP] = "asleep",
	[SONDE_PART_OFF_OTHER] = "waiting for something else",
	[SONDE_PART_UNATTRIBUTED] = "unattributed",
};

struct share {
	unsigned part;
	double share;
};

static int larger_first(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return (x->share < y->share) - (x->share > y->share);
}

static double part_of(const struct sonde_snapshot *s, unsigned part)
{
	const struct sonde_snap_metric *m;
	char name[64];

	snprintf(name, sizeof(name), "query.part.%s", sonde_part_name(part));
	m = sonde_snapshot_find_metric(s, name, "", 0);
	return m && m->present ? m->last : 0;
}

void sonde_summary_parts(FILE *out, const struct sonde_snapshot *s)
{
	struct share shares[SONDE_PART__MAX];
	double all = 0, rest = 1;

	for (unsigned p = 0; p < SONDE_PART__MAX; p++) {
		shares[p] = (struct share){p, part_of(s, p)};
		all += shares[p].share;
	}
	if (all <= 0)
		return;
	qsort(shares, SONDE_PART__MAX, sizeof(*shares), larger_first);
	fprintf(out, "  where it went  ");
	for (size_t i = 0; i < NAMED && shares[i].share >= LEAST * all; i++) {
		fprintf(out, "%s%s %.0f %%", i ? ", " : "", words[shares[i].part],
			100 * shares[i].share / all);
		rest -= shares[i].share / all;
	}
	if (rest >= LEAST)
		fprintf(out, ", the rest %.0f %%", 100 * rest);
	fputc('\n', out);
}
