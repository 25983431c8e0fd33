// SPDX-License-Identifier: GPL-2.0-or-later
/* Call stacks: a frame is stored once however many stacks share it. */
#include <errno.h>
#include <inttypes.h>

#include "core/mem.h"
#include "core/str.h"
#include "record/writer_impl.h"

struct frame_names {
	int64_t function, module, file;
};

static void bind_name(sqlite3_stmt *st, int at, int64_t id)
{
	if (id)
		sqlite3_bind_int64(st, at, id);
	else
		sqlite3_bind_null(st, at);
}

static int insert_frame(struct sonde_writer *w, const struct sonde_frame *f,
			const struct frame_names *n, uint32_t id)
{
	sqlite3_stmt *st = w->st[SONDE_ST_FRAME];

	sqlite3_bind_int64(st, 1, id);
	bind_name(st, 2, n->function);
	bind_name(st, 3, n->module);
	bind_name(st, 4, n->file);
	bind_name(st, 5, f->line);
	sqlite3_bind_int64(st, 6, (int64_t)f->offset);
	sqlite3_bind_int(st, 7, f->inlined);
	return sonde_writer_step(w, SONDE_ST_FRAME);
}

static int get_frame(struct sonde_writer *w, const struct sonde_frame *f, uint32_t *id)
{
	sonde_autostr struct sonde_str key = {0};
	struct frame_names n;
	bool added;
	int err = sonde_writer_name(w, f->function, &n.function);

	err = err ? err : sonde_writer_name(w, f->module, &n.module);
	err = err ? err : sonde_writer_name(w, f->file, &n.file);
	if (!err)
		err = sonde_str_addf(&key, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%u,%" PRIx64 ",%d",
				     n.function, n.module, n.file, f->line, f->offset, f->inlined);
	if (!err)
		err = sonde_intern_get(&w->frames, key.s, key.len, id, &added);
	return err || !added ? err : insert_frame(w, f, &n, *id);
}

static int put_frame(struct sonde_writer *w, uint64_t stack, size_t depth,
		     const struct sonde_frame *f)
{
	sqlite3_stmt *st = w->st[SONDE_ST_STACK_FRAME];
	uint32_t frame;
	int err = get_frame(w, f, &frame);

	if (err)
		return err;
	sqlite3_bind_int64(st, 1, (int64_t)stack);
	sqlite3_bind_int64(st, 2, (int64_t)depth);
	sqlite3_bind_int64(st, 3, frame);
	return sonde_writer_step(w, SONDE_ST_STACK_FRAME);
}

int sonde_writer_stack(void *ctx, const struct sonde_stack *s)
{
	struct sonde_writer *w = ctx;
	sqlite3_stmt *st = w->st[SONDE_ST_STACK];
	int err;

	sqlite3_bind_int64(st, 1, (int64_t)s->id);
	sqlite3_bind_int64(st, 2, s->target);
	sqlite3_bind_int(st, 3, (int)s->end);
	err = sonde_writer_step(w, SONDE_ST_STACK);
	for (size_t i = 0; i < s->n && !err; i++)
		err = put_frame(w, s->id, i, &s->frames[i]);
	return err;
}

int sonde_writer_stack_count(void *ctx, const struct sonde_stack_count *c)
{
	struct sonde_writer *w = ctx;
	sqlite3_stmt *st = w->st[SONDE_ST_STACK_COUNT];
	const uint64_t live[] = {c->live_calls, c->live_bytes, c->live_error};

	sqlite3_bind_int64(st, 1, (int64_t)c->stack);
	sqlite3_bind_int(st, 2, (int)c->lens);
	sqlite3_bind_int64(st, 3, sonde_writer_utc(w, c->ts_ns));
	sqlite3_bind_int64(st, 4, c->target);
	sqlite3_bind_int64(st, 5, (int64_t)c->calls);
	sqlite3_bind_int64(st, 6, (int64_t)c->bytes);
	for (int i = 0; i < 3; i++) {
		if (c->has_live)
			sqlite3_bind_int64(st, 7 + i, (int64_t)live[i]);
		else
			sqlite3_bind_null(st, 7 + i);
	}
	return sonde_writer_step(w, SONDE_ST_STACK_COUNT);
}
