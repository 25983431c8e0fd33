/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fields of a span as exports name them: one table, from which CSV's header and cells and
 * JSON's keys and values derive, so that a field has one name and one unit everywhere.
 */
#ifndef SONDE_EXPORT_COLUMNS_H
#define SONDE_EXPORT_COLUMNS_H

#include <stddef.h>

#include "model/span.h"

enum sonde_cell_kind {
	SONDE_CELL_ABSENT = 0,
	SONDE_CELL_COUNT = 1, /* a number                                  */
	SONDE_CELL_TIME = 2,  /* a monotonic time, exported as RFC 3339    */
	SONDE_CELL_ID = 3,    /* 64 bits, exported as 0x and 16 hex digits */
	SONDE_CELL_TEXT = 4,
};

struct sonde_cell {
	enum sonde_cell_kind kind;
	uint64_t number;
	const char *text; /* borrowed from the span, or from @scratch */
};

enum sonde_column_group {
	SONDE_COLUMN_QUERY = 0,
	SONDE_COLUMN_ANATOMY = 1, /* a part of the duration, or faults of a class */
};

struct sonde_column {
	const char *name;
	enum sonde_column_group group;
	struct sonde_cell (*get)(const struct sonde_span *s, char *scratch);
};

#define SONDE_CELL_SCRATCH 128

extern const struct sonde_column sonde_span_columns[];
extern const size_t sonde_span_column_count;

/* "0x00000000000000ff" into @buf (at least 19 bytes), returned. */
const char *sonde_fmt_id(char *buf, size_t size, uint64_t id);
/* The shortest decimal that reads back as @v, into @buf (at least 32 bytes), returned. */
const char *sonde_fmt_double(char *buf, size_t size, double v);

#endif
