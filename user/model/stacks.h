/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A visitor that remembers call stacks: what each is, what was counted for it last, and over time
 * what was live. Stacks of several processes that name the same functions are one site.
 */
#ifndef SONDE_MODEL_STACKS_H
#define SONDE_MODEL_STACKS_H

#include "model/visitor.h"

/* Meta rows that are there where allocations, page faults were to be counted by call site. */
#define SONDE_META_SITES	"alloc.sites"
#define SONDE_META_FAULT_STACKS "fault.stacks"

/* What was live from index @at of the table's times on. */
struct sonde_stack_point {
	uint32_t at;
	uint64_t live_calls, live_bytes;
};

struct sonde_stack_row {
	uint64_t id;
	struct sonde_stack_count last;
	enum sonde_stack_end end;
	bool defined, counted;
	struct sonde_frame *frames; /* strings owned here, innermost first */
	size_t n;
	struct sonde_stack_point *points;
	size_t n_points, cap_points;
};

/* The rows that name the same functions at the same places, whatever process they are of. */
struct sonde_site_group {
	const struct sonde_stack_row *row; /* one of them: its frames are everyone's */
	uint64_t calls, bytes, live_calls, live_bytes;
	double live_variance;
	bool has_live;
	double *live; /* bytes at each of the table's times; NULL unless asked for */
};

struct sonde_stack_table {
	struct sonde_stack_row *rows;
	size_t n, cap;
	uint32_t *slots; /* row number + 1, open addressing */
	size_t n_slots;
	uint64_t *times; /* at which something live was counted, ascending */
	size_t n_times, cap_times;
	uint32_t asked; /* a bit each lens that was to count by call site */
	struct sonde_visitor visitor; /* feed this */
};

void sonde_stack_table_init(struct sonde_stack_table *t);
void sonde_stack_table_fini(struct sonde_stack_table *t);
/* Sites of @lens, most bytes first. @series: with live bytes over time. *out heap, freed with the
 * fini. 0 or -ENOMEM. */
int sonde_site_groups(const struct sonde_stack_table *t, enum sonde_lens_id lens, bool series,
		      struct sonde_site_group **out, size_t *n);
/* Why a table without counts of these lenses has none: -ENODATA, logged with the remedy; @what needs
 * them, or "". */
int sonde_stack_table_empty(const struct sonde_stack_table *t, uint32_t lens_mask,
			    const char *what);
void sonde_site_groups_fini(struct sonde_site_group *groups, size_t n);

/* How a frame is called: its function, module and offset, or where the stack ends. Into @buf,
 * returned. */
const char *sonde_frame_text(char *buf, size_t size, const struct sonde_frame *f);

#endif
