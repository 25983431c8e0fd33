/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What to call the place of a fault: the mapping that was touched, the code that touched it. Names
 * come from the target's mappings as they are now, so a mapping is named only where what is there
 * now is what was there at the fault.
 */
#ifndef SONDE_LENS_FAULT_WHERE_H
#define SONDE_LENS_FAULT_WHERE_H

#include "sonde/fault.h"
#include "target/mapkind.h"
#include "target/target.h"

/* One counter as the map held it. */
struct fault_by_entry {
	struct sonde_fault_by_key key;
	struct sonde_fault_by_sum sum;
};

/* Files of code and their names, kept from tick to tick: opening one is slow. */
struct fault_files {
	struct fault_file *f;
	size_t n, cap;
};
void fault_files_fini(struct fault_files *files);

/* A target's mappings and what they are, as of this tick. */
struct fault_where {
	struct fault_files *files; /* set by the caller */
	pid_t pid;
	struct sonde_maps maps;
	struct sonde_smaps smaps; /* the same without sizes: for sonde_mapkind() */
	enum sonde_map_kind *kinds;
};

/* @e: entries of that target, whose threads' stack pointers are known. 0 or -errno. */
int fault_where_read(struct fault_where *w, const struct sonde_target *t,
		     const struct fault_by_entry *e, size_t n);
void fault_where_fini(struct fault_where *w);

/* "stacks", "heap", a file, "unmapped since". */
void fault_where_mapping(const struct fault_where *w, const struct sonde_fault_by_sum *sum,
			 char *buf, size_t size);
/* "function (file.c:22)", "function in module" or "module+0xOFFSET". */
void fault_where_site(struct fault_where *w, uint64_t ip, char *buf, size_t size);

/* Is the mapping that was seen at the fault the one that is there now, of kind @kind? */
bool fault_where_same(const struct sonde_fault_by_sum *seen, const struct sonde_map *now,
		      enum sonde_map_kind kind);

#endif
