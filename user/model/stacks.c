// SPDX-License-Identifier: GPL-2.0-or-later
/* Call stacks remembered; see stacks.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "model/stacks.h"

static uint32_t *slot_of(const struct sonde_stack_table *t, uint32_t *slots, size_t n, uint64_t id)
{
	size_t i = (id * 0x9e3779b97f4a7c15ull >> 20) & (n - 1);

	while (slots[i] && t->rows[slots[i] - 1].id != id)
		i = (i + 1) & (n - 1);
	return &slots[i];
}

static int grow(struct sonde_stack_table *t)
{
	size_t n = t->n_slots ? t->n_slots * 2 : 256;
	uint32_t *slots;

	if (t->n * 2 < t->n_slots)
		return 0;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		*slot_of(t, slots, n, t->rows[i].id) = (uint32_t)i + 1;
	free(t->slots);
	t->slots = slots;
	t->n_slots = n;
	return 0;
}

static struct sonde_stack_row *row_of(struct sonde_stack_table *t, uint64_t id)
{
	uint32_t *slot;

	if (grow(t))
		return NULL;
	slot = slot_of(t, t->slots, t->n_slots, id);
	if (!*slot) {
		if (SONDE_GROW(t->rows, t->n, t->cap))
			return NULL;
		t->rows[t->n++] = (struct sonde_stack_row){.id = id};
		*slot = (uint32_t)t->n;
	}
	return &t->rows[*slot - 1];
}

static void free_frames(struct sonde_stack_row *row)
{
	for (size_t i = 0; i < row->n; i++) {
		free((char *)row->frames[i].function);
		free((char *)row->frames[i].module);
		free((char *)row->frames[i].file);
	}
	free(row->frames);
	row->frames = NULL;
	row->n = 0;
}

static int copy_frames(struct sonde_stack_row *row, const struct sonde_stack *s)
{
	free_frames(row);
	row->frames = calloc(s->n ? s->n : 1, sizeof(*row->frames));
	if (!row->frames)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		struct sonde_frame *f = &row->frames[i];

		*f = s->frames[i];
		f->function = strdup(f->function);
		f->module = strdup(f->module);
		f->file = strdup(f->file);
		row->n = i + 1;
		if (!f->function || !f->module || !f->file)
			return -ENOMEM;
	}
	return 0;
}

static int on_stack(void *ctx, const struct sonde_stack *s)
{
	struct sonde_stack_row *row = row_of(ctx, s->id);

	if (!row || copy_frames(row, s))
		return -ENOMEM;
	row->end = s->end;
	row->defined = true;
	return 0;
}

static int on_count(void *ctx, const struct sonde_stack_count *c)
{
	struct sonde_stack_table *t = ctx;
	struct sonde_stack_row *row = row_of(t, c->stack);

	if (!row)
		return -ENOMEM;
	row->last = *c;
	row->counted = true;
	if (!c->has_live)
		return 0;
	if (!t->n_times || t->times[t->n_times - 1] != c->ts_ns) {
		if (SONDE_GROW(t->times, t->n_times, t->cap_times))
			return -ENOMEM;
		t->times[t->n_times++] = c->ts_ns;
	}
	if (SONDE_GROW(row->points, row->n_points, row->cap_points))
		return -ENOMEM;
	row->points[row->n_points++] = (struct sonde_stack_point){(uint32_t)(t->n_times - 1),
								  c->live_calls, c->live_bytes};
	return 0;
}

static bool was_asked(const struct sonde_meta *meta, const char *row, const char *option)
{
	const char *command = sonde_meta_find(meta, "command");

	/* Recordings that were made before the row have only their command line. */
	return sonde_meta_find(meta, row) || (command && strstr(command, option));
}

static int on_begin(void *ctx, const struct sonde_meta *meta)
{
	struct sonde_stack_table *t = ctx;

	t->asked = (uint32_t)was_asked(meta, SONDE_META_SITES, " --sites") << SONDE_LENS_ALLOC |
		   (uint32_t)was_asked(meta, SONDE_META_FAULT_STACKS, " --fault-by stack")
			   << SONDE_LENS_FAULT;
	return 0;
}

int sonde_stack_table_empty(const struct sonde_stack_table *t, uint32_t lens_mask, const char *what)
{
	uint32_t asked = t->asked & lens_mask;
	bool allocs = asked & 1u << SONDE_LENS_ALLOC, faults = asked & 1u << SONDE_LENS_FAULT;

	if (asked)
		return sonde_err(ENODATA,
				 "%sno %s%s%s was seen in this time, by any call site; record for "
				 "longer, or when the target is busy",
				 what, allocs ? "allocation" : "", allocs && faults ? " or " : "",
				 faults ? "page fault" : "");
	return sonde_err(ENODATA,
			 "%snothing was counted by call site here; record with --alloc-mode exact "
			 "--sites -d TIME, or page faults with --fault-by stack",
			 what);
}

void sonde_stack_table_init(struct sonde_stack_table *t)
{
	*t = (struct sonde_stack_table){
		.visitor = {
			.ctx = t, .begin = on_begin, .stack = on_stack, .stack_count = on_count}};
}

void sonde_stack_table_fini(struct sonde_stack_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free_frames(&t->rows[i]);
		free(t->rows[i].points);
	}
	free(t->rows);
	free(t->slots);
	free(t->times);
}

static int compare_frames(const struct sonde_frame *a, const struct sonde_frame *b)
{
	int d = strcmp(a->function, b->function);

	d = d ? d : strcmp(a->module, b->module);
	d = d ? d : (a->offset > b->offset) - (a->offset < b->offset);
	return d ? d : (int)a->inlined - (int)b->inlined;
}

/* By what they are, so that equals are neighbours. Without frames: each end by itself. */
static int by_frames(const void *a, const void *b)
{
	const struct sonde_stack_row *x = *(const struct sonde_stack_row *const *)a;
	const struct sonde_stack_row *y = *(const struct sonde_stack_row *const *)b;

	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	if (x->defined != y->defined)
		return x->defined ? 1 : -1;
	for (size_t i = 0; i < x->n; i++) {
		int d = compare_frames(&x->frames[i], &y->frames[i]);

		if (d)
			return d;
	}
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	const struct sonde_site_group *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return (x->calls < y->calls) - (x->calls > y->calls);
}

/* What a row held at each time: its last point's from there on. */
static void add_series(const struct sonde_stack_table *t, const struct sonde_stack_row *row,
		       double *live)
{
	size_t p = 0;
	double now = 0;

	for (size_t i = 0; i < t->n_times; i++) {
		while (p < row->n_points && row->points[p].at <= i)
			now = (double)row->points[p++].live_bytes;
		live[i] += now;
	}
}

static int add_row(const struct sonde_stack_table *t, struct sonde_site_group *g, bool series,
		   const struct sonde_stack_row *row)
{
	double error = (double)row->last.live_error;

	g->row = row;
	g->calls += row->last.calls;
	g->bytes += row->last.bytes;
	g->has_live |= row->last.has_live;
	if (row->last.has_live) {
		g->live_calls += row->last.live_calls;
		g->live_bytes += row->last.live_bytes;
		g->live_variance += error * error;
	}
	if (!series)
		return 0;
	if (!g->live)
		g->live = calloc(t->n_times ? t->n_times : 1, sizeof(*g->live));
	if (!g->live)
		return -ENOMEM;
	add_series(t, row, g->live);
	return 0;
}

int sonde_site_groups(const struct sonde_stack_table *t, enum sonde_lens_id lens, bool series,
		      struct sonde_site_group **out, size_t *n)
{
	sonde_autofree const struct sonde_stack_row **rows = calloc(t->n + 1, sizeof(*rows));
	struct sonde_site_group *groups = calloc(t->n + 1, sizeof(*groups));
	size_t n_rows = 0, n_groups = 0;
	int err = rows && groups ? 0 : -ENOMEM;

	for (size_t i = 0; i < t->n && !err; i++)
		if (t->rows[i].counted && t->rows[i].last.lens == lens)
			rows[n_rows++] = &t->rows[i];
	if (!err)
		qsort(rows, n_rows, sizeof(*rows), by_frames);
	for (size_t i = 0; i < n_rows && !err; i++) {
		if (!i || by_frames(&rows[i - 1], &rows[i]))
			n_groups++;
		err = add_row(t, &groups[n_groups - 1], series, rows[i]);
	}
	if (err) {
		sonde_site_groups_fini(groups, n_groups);
		return err;
	}
	qsort(groups, n_groups, sizeof(*groups), by_bytes);
	*out = groups;
	*n = n_groups;
	return 0;
}

void sonde_site_groups_fini(struct sonde_site_group *groups, size_t n)
{
	for (size_t i = 0; groups && i < n; i++)
		free(groups[i].live);
	free(groups);
}

const char *sonde_frame_text(char *buf, size_t size, const struct sonde_frame *f)
{
	const char *slash = strrchr(f->module, '/');
	const char *base = slash ? slash + 1 : f->module;

	if (*f->function)
		snprintf(buf, size, "%s", f->function);
	else if (*base)
		snprintf(buf, size, "%s+0x%" PRIx64, base, f->offset);
	else
		snprintf(buf, size, "0x%" PRIx64, f->offset);
	return buf;
}
