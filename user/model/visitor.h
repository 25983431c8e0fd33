/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one way through: lenses push into a visitor while a session runs, the reader pushes a recording
 * into a visitor later. A writer, a snapshot, an exporter and a report are all visitors and cannot
 * tell where the data comes from. A NULL hook means "not taken".
 *
 * Every hook returns 0 or -errno; an error stops the source and is returned by it. What a hook is
 * given is borrowed for the call. Order: begin, start when the first interval begins (a source that does
 * not know when has none), then values in time order per series, tick after each interval, end last.
 * `drop` carries cumulative counts.
 */
#ifndef SONDE_MODEL_VISITOR_H
#define SONDE_MODEL_VISITOR_H

#include "model/hist.h"
#include "model/meta.h"
#include "model/metric.h"
#include "model/note.h"
#include "model/span.h"
#include "model/stack.h"
#include "sonde/drop.h"

struct sonde_drops {
	enum sonde_lens_id lens;
	enum sonde_drop cause;
	uint64_t count; /* cumulative */
	uint64_t ts_ns;
};

struct sonde_visitor {
	void *ctx;
	int (*begin)(void *ctx, const struct sonde_meta *meta);
	int (*start)(void *ctx, uint64_t ts_ns);
	int (*metric)(void *ctx, const struct sonde_metric *m);
	int (*hist)(void *ctx, const struct sonde_histrow *h);
	int (*span)(void *ctx, const struct sonde_span *s);
	int (*stack)(void *ctx, const struct sonde_stack *s);
	int (*stack_count)(void *ctx, const struct sonde_stack_count *c);
	int (*note)(void *ctx, const struct sonde_note *n);
	int (*drop)(void *ctx, const struct sonde_drops *d);
	int (*tick)(void *ctx, uint64_t ts_ns);
	int (*end)(void *ctx, const struct sonde_meta *meta);
};

/* Call a hook if the visitor has it: 0 where it has not. */
#define sonde_visit(v, hook, ...) ((v)->hook ? (v)->hook((v)->ctx, __VA_ARGS__) : 0)

/* A visitor that hands everything to each of @n others in order, stopping at the first error. */
struct sonde_fanout {
	const struct sonde_visitor *to[8];
	size_t n;
};
struct sonde_visitor sonde_fanout_visitor(struct sonde_fanout *f);

const char *sonde_lens_id_name(enum sonde_lens_id lens);
const char *sonde_drop_name(enum sonde_drop cause);
const char *sonde_drop_help(enum sonde_drop cause);
/* Are figures too low by these? An unknown cause counts as one that loses. */
bool sonde_drop_loses(enum sonde_drop cause);

#endif
