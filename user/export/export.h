/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An exporter is a visitor that writes one format of other tools. Each is one file and one line in
 * exporters.def. It cannot tell a recording from a live session, and it says what it leaves out.
 *
 *   sonde_export_open(&x, "csv", &opts, stdout);
 *   sonde_reader_visit(r, &filter, sonde_export_visitor(x));
 *   sonde_export_close(&x);
 */
#ifndef SONDE_EXPORT_EXPORT_H
#define SONDE_EXPORT_EXPORT_H

#include <stdio.h>

#include "core/clock.h"
#include "core/str.h"
#include "model/visitor.h"

enum sonde_export_takes {
	SONDE_TAKES_SPAN = 1 << 0,
	SONDE_TAKES_METRIC = 1 << 1,
	SONDE_TAKES_HIST = 1 << 2,
	SONDE_TAKES_NOTE = 1 << 3,
	SONDE_TAKES_DROP = 1 << 4,
	SONDE_TAKES_META = 1 << 5,
	SONDE_TAKES_STACK = 1 << 6,
};

struct sonde_export_opts {
	bool series;	    /* metrics over time instead of spans, where a format is either */
	uint32_t lens_mask; /* whose call stacks; 0: the allocator's, or else page faults' */
};

struct sonde_export {
	const struct sonde_exporter *exporter;
	struct sonde_export_opts opts;
	FILE *out;
	struct sonde_clockpair clock; /* set from begin's meta */
	struct sonde_visitor visitor; /* ctx is this struct    */
	void *priv;
	struct sonde_stack_table *stacks;
	const char *remark; /* said once all is written, unless that failed */
	/* The frame's own. */
	int (*format_begin)(void *ctx, const struct sonde_meta *meta);
};

struct sonde_exporter {
	const char *name;    /* as in --to NAME                         */
	const char *summary; /* one line for help                       */
	const char *suffix;  /* ".csv"                                  */
	unsigned takes;	     /* enum sonde_export_takes                 */
	/*
	 * Set x->visitor's hooks (ctx stays), and priv. The frame reads the clock before the
	 * format's begin, and says degraded notes on stderr where the format takes none. 0 or
	 * -errno (logged).
	 */
	int (*open)(struct sonde_export *x);
	/* Finish the output and free priv. Optional. */
	int (*close)(struct sonde_export *x);
};

extern const struct sonde_exporter *const sonde_exporters[];
extern const size_t sonde_exporter_count;
/* NULL if there is none of that name. */
const struct sonde_exporter *sonde_exporter_find(const char *name);

/* 0 or -errno (logged): -EINVAL for an unknown format. @out stays the caller's. */
int sonde_export_open(struct sonde_export **out, const char *format,
		      const struct sonde_export_opts *opts, FILE *f);
const struct sonde_visitor *sonde_export_visitor(struct sonde_export *x);
/* Flush and free. 0 or -errno as sonde_export_put. */
int sonde_export_close(struct sonde_export **x);
/*
 * For exporters: write @line out and clear it. 0, or -errno not logged where the output could not
 * be written: whoever opened it knows its name, and whether a reader that went away matters.
 */
int sonde_export_put(struct sonde_export *x, struct sonde_str *line);
struct sonde_stack_table;
/* For exporters that write stacks when all is known: gather them in @t. */
void sonde_export_take_stacks(struct sonde_export *x, struct sonde_stack_table *t);
struct sonde_site_group;
/* What was gathered, of one lens: *out as sonde_site_groups makes it, *lens whose it is. 0 or
 * -errno (logged): -ENODATA where nothing was. */
int sonde_export_groups(struct sonde_export *x, enum sonde_lens_id *lens,
			struct sonde_site_group **out, size_t *n);
/* UTC ns of a monotonic time. */
uint64_t sonde_export_utc(const struct sonde_export *x, uint64_t mono_ns);

#endif
