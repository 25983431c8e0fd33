/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The whole system's counters about huge pages, compaction and reclaim: context for one process's
 * figures, never its own. From /proc/vmstat and the per-size statistics in /sys.
 */
#ifndef SONDE_LENS_THP_SYSTEM_H
#define SONDE_LENS_THP_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One counter or level, by the kernel's name: "thp_fault_alloc", "2048kB.nr_anon". */
struct sonde_thp_value {
	char name[56];
	bool level;    /* goes up and down: pushed as it is, not as a difference                */
	uint64_t base; /* at attach                                                             */
	uint64_t now;
	bool told; /* differed once: pushed from then on                                    */
};

struct sonde_thp_system {
	struct sonde_thp_value *v;
	size_t n, cap;
	uint64_t sizes_read_ns; /* when the sizes that are switched off were read                */
};

/* Read everything; with @rebase the values become the base. 0 or -errno (nothing logged): -ENOENT
 * when there is neither. */
int sonde_thp_system_read(struct sonde_thp_system *s, uint64_t now_ns, bool rebase);
void sonde_thp_system_fini(struct sonde_thp_system *s);

/* One text in the format of /proc/vmstat. */
int sonde_thp_system_vmstat(struct sonde_thp_system *s, const char *text);

#endif
