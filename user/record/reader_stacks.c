// SPDX-License-Identifier: GPL-2.0-or-later
/* Call stacks of a recording. What is stored is not trusted: ends are known ones, depths bounded.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/mem.h"
#include "record/reader_impl.h"
#include "record/schema.h"

#define FRAMES_MAX 4096 /* inlining included */

static struct sonde_frame frame_of(const struct sonde_replay *v, sqlite3_stmt *st)
{
	return (struct sonde_frame){
		.function = sonde_replay_name(v, st, 0),
		.module = sonde_replay_name(v, st, 1),
		.file = sonde_replay_name(v, st, 2),
		.line = (uint32_t)sqlite3_column_int64(st, 3),
		.offset = (uint64_t)sqlite3_column_int64(st, 4),
		.inlined = sqlite3_column_int(st, 5),
	};
}

static int load_frames(struct sonde_replay *v, int64_t stack, struct sonde_frame **frames,
		       size_t *n)
{
	struct sonde_frame *list = NULL;
	size_t len = 0, cap = 0;
	int rc;

	sqlite3_bind_int64(v->frames, 1, stack);
	while ((rc = sqlite3_step(v->frames)) == SQLITE_ROW) {
		if (len >= FRAMES_MAX || SONDE_GROW(list, len, cap)) {
			rc = len >= FRAMES_MAX ? SQLITE_CORRUPT : SQLITE_NOMEM;
			break;
		}
		list[len++] = frame_of(v, v->frames);
	}
	sqlite3_reset(v->frames);
	if (rc != SQLITE_DONE) {
		free(list);
		return sonde_reader_fail(v->r, rc);
	}
	*frames = list;
	*n = len;
	return 0;
}

int sonde_replay_stack(struct sonde_replay *v, sqlite3_stmt *st)
{
	sonde_autofree struct sonde_frame *frames = NULL;
	struct sonde_stack s = {
		.id = (uint64_t)sqlite3_column_int64(st, 1),
		.target = (uint32_t)sqlite3_column_int64(st, 2),
		.end = (enum sonde_stack_end)sqlite3_column_int(st, 3),
	};
	int err = load_frames(v, (int64_t)s.id, &frames, &s.n);

	s.frames = frames;
	return err ? err : v->to->stack(v->to->ctx, &s);
}

int sonde_replay_stack_count(struct sonde_replay *v, sqlite3_stmt *st)
{
	struct sonde_stack_count c = {
		.ts_ns = sonde_replay_mono(v, sqlite3_column_int64(st, 0)),
		.lens = (enum sonde_lens_id)sqlite3_column_int(st, 1),
		.stack = (uint64_t)sqlite3_column_int64(st, 2),
		.target = (uint32_t)sqlite3_column_int64(st, 3),
		.calls = (uint64_t)sqlite3_column_int64(st, 4),
		.bytes = (uint64_t)sqlite3_column_int64(st, 5),
		.has_live = sqlite3_column_type(st, 7) != SQLITE_NULL,
		.live_calls = (uint64_t)sqlite3_column_int64(st, 6),
		.live_bytes = (uint64_t)sqlite3_column_int64(st, 7),
		.live_error = (uint64_t)sqlite3_column_int64(st, 8),
	};
	int err = sonde_replay_check_counts(v, st, 4, 8);

	return err ? err : v->to->stack_count(v->to->ctx, &c);
}
