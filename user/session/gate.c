// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The visitor that lenses push into. Before the heavier probes are attached values go to the
 * baseline snapshot only; after that they go on to the snapshot and the sinks, with counters
 * carried over generations and started at 0 when recording starts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "session/internal.h"

static struct rebase_row *rebase_get(struct rebase *r, const struct sonde_metric *m)
{
	const char *label = m->label ? m->label : "";
	char *copy;

	for (size_t i = 0; i < r->n; i++) {
		struct rebase_row *row = &r->rows[i];

		if (row->desc == m->desc && row->target == m->target && !strcmp(row->label, label))
			return row;
	}
	copy = strdup(label);
	if (!copy || SONDE_GROW(r->rows, r->n, r->cap)) {
		free(copy);
		return NULL;
	}
	r->rows[r->n] = (struct rebase_row){.desc = m->desc, .label = copy, .target = m->target};
	return &r->rows[r->n++];
}

void rebase_generation(struct rebase *r)
{
	for (size_t i = 0; i < r->n; i++) {
		r->rows[i].offset += r->rows[i].last;
		r->rows[i].last = 0;
	}
}

void rebase_fini(struct rebase *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->rows[i].label);
	free(r->rows);
	*r = (struct rebase){0};
}

static int gate_metric(void *ctx, const struct sonde_metric *m)
{
	struct session *s = ctx;
	struct sonde_metric copy = *m;

	if (m->desc->kind == SONDE_COUNTER && !m->absent) {
		struct rebase_row *row = rebase_get(&s->rebase, m);

		if (!row)
			return -ENOMEM;
		row->last = m->value;
		if (s->baseline)
			row->offset = -m->value; /* recording starts from here */
		copy.value = m->value + row->offset;
	}
	if (s->baseline)
		return sonde_visit(&s->base_snap.visitor, metric, m);
	return sonde_visit(&s->out, metric, &copy);
}

#define GATE(hook, type)                                                                           \
	static int gate_##hook(void *ctx, type arg)                                                \
	{                                                                                          \
		struct session *s = ctx;                                                           \
                                                                                                   \
		if (s->baseline)                                                                   \
			return sonde_visit(&s->base_snap.visitor, hook, arg);                      \
		return sonde_visit(&s->out, hook, arg);                                            \
	}

GATE(hist, const struct sonde_histrow *)
GATE(span, const struct sonde_span *)
GATE(stack, const struct sonde_stack *)

/* Notes and drops matter whenever they were made. */
static int gate_note(void *ctx, const struct sonde_note *n)
{
	struct session *s = ctx;

	if (n->level == SONDE_NOTE_DEGRADED)
		s->result->degraded = true;
	return sonde_visit(&s->out, note, n);
}

static int gate_drop(void *ctx, const struct sonde_drops *d)
{
	struct session *s = ctx;

	return sonde_visit(&s->out, drop, d);
}

void session_gate_init(struct session *s)
{
	s->fanout.to[s->fanout.n++] = &s->snap->visitor;
	for (size_t i = 0; i < s->opts->n_sinks && s->fanout.n < SONDE_ARRAY_SIZE(s->fanout.to);
	     i++)
		s->fanout.to[s->fanout.n++] = s->opts->sinks[i];
	s->out = sonde_fanout_visitor(&s->fanout);
	s->gate = (struct sonde_visitor){
		.ctx = s,
		.metric = gate_metric,
		.hist = gate_hist,
		.span = gate_span,
		.stack = gate_stack,
		.stack_count = gate_stack_count,
		.note = gate_note,
		.drop = gate_drop,
	};
	sonde_snapshot_init(&s->base_snap);
}
