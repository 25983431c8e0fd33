// SPDX-License-Identifier: GPL-2.0-or-later
/* Compare a reading by a derived layout with what the library says of itself; see confirm.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/heap/confirm.h"
#include "target/heap/scratch.h"

struct trial {
	const struct sonde_heap_layout *layout;
	struct sonde_scratch *scratch;
	struct sonde_modules mods; /* of the scratch process */
	void *state;		   /* of the reader, attached to it */
	uint64_t theirs[SONDE_REPORT_FIELDS], ours[SONDE_REPORT_FIELDS]; /* of the last state */
	uint32_t moved; /* fields that were seen non-zero and different from the state before */
	uint32_t seen, told;
};

/* The library in the scratch process: the same bytes were copied, so the same build-id. */
int sonde_heap_find_module(const struct sonde_modules *mods, const char *build_id, size_t *out)
{
	for (size_t i = 0; i < mods->n; i++) {
		struct sonde_elf *elf;
		char id[41];
		bool same;

		if (sonde_elf_try(&elf, mods->m[i].open_path, ""))
			continue;
		sonde_elf_build_id(elf, id, sizeof(id));
		same = !strcmp(id, build_id);
		sonde_elf_free(&elf);
		if (!same)
			continue;
		*out = i;
		return 0;
	}
	return -ENOENT;
}

static int attach(struct trial *t, char *why, size_t size)
{
	pid_t pid = sonde_scratch_pid(t->scratch);
	size_t lib;
	int err = sonde_modules_read(pid, &t->mods);

	if (err) {
		snprintf(why, size, "the scratch process cannot be looked into: %s",
			 strerror(-err));
		return err;
	}
	if (sonde_heap_find_module(&t->mods, t->layout->build_id, &lib)) {
		snprintf(why, size, "the scratch process did not load the library");
		return -EPROTO;
	}
	return t->layout->reader->attach(pid, &t->mods, lib, t->layout, &t->state, why, size);
}

static bool field_equal(const struct trial *t, const struct sonde_report *r,
			const struct sonde_heap_field *f, size_t i, uint64_t ours)
{
	uint64_t mine = f->change ? ours - t->ours[i] : ours;

	if (r->narrow & (1u << i))
		return (uint32_t)mine == (uint32_t)r->v[i];
	return mine == r->v[i];
}

static int compare(struct trial *t, const struct sonde_report *r, char *why, size_t size)
{
	const struct sonde_heap_reader *reader = t->layout->reader;
	uint64_t ours[SONDE_REPORT_FIELDS] = {0};
	int err = reader->fields(t->state, ours, &t->told);

	if (err) {
		snprintf(why, size, "state %u of the scratch process cannot be read: %s", r->state,
			 strerror(-err));
		return err == -ESRCH ? err : -EINVAL;
	}
	if (r->n != reader->n_fields) {
		snprintf(why, size, "the scratch process tells %u fields, not %zu", r->n,
			 reader->n_fields);
		return -EPROTO;
	}
	for (size_t i = 0; i < r->n; i++) {
		const struct sonde_heap_field *f = &reader->field[i];

		if (!(r->known & t->told & (1u << i)))
			continue;
		if (!field_equal(t, r, f, i, ours[i])) {
			snprintf(why, size,
				 "%s is %" PRId64 " by the library and %" PRId64
				 " from outside, in state %u of a scratch process",
				 f->name, (int64_t)r->v[i],
				 (int64_t)(f->change ? ours[i] - t->ours[i] : ours[i]), r->state);
			return -EINVAL;
		}
		if (r->v[i] && (!(t->seen & (1u << i)) || r->v[i] != t->theirs[i]))
			t->moved |= t->seen & (1u << i);
		if (r->v[i] && f->change)
			t->moved |= 1u << i;
		t->theirs[i] = r->v[i];
		t->seen |= 1u << i;
	}
	memcpy(t->ours, ours, sizeof(ours));
	return 0;
}

static int all_moved(const struct trial *t, char *why, size_t size)
{
	const struct sonde_heap_reader *reader = t->layout->reader;

	for (size_t i = 0; i < reader->n_fields; i++) {
		if (reader->field[i].may_stay || ((t->moved | ~t->told) & (1u << i)))
			continue;
		snprintf(why, size,
			 "%s did not move in the scratch process, so nothing is known of it",
			 reader->field[i].name);
		return -EINVAL;
	}
	return 0;
}

static int go_through(struct trial *t, char *why, size_t size)
{
	struct sonde_report r;
	int err;

	while (!(err = sonde_scratch_next(t->scratch, &r, why, size))) {
		if (!t->state)
			err = attach(t, why, size);
		if (!err)
			err = compare(t, &r, why, size);
		if (err)
			return err;
	}
	return err == -ENODATA ? all_moved(t, why, size) : err;
}

int sonde_heap_confirm(const struct sonde_heap_layout *layout, pid_t pid,
		       const struct sonde_modules *mods, size_t m, char *why, size_t size)
{
	struct trial t = {.layout = layout};
	int err = sonde_scratch_start(&t.scratch, pid, mods, m, layout->reader->inside, why, size);

	if (err)
		return err;
	err = go_through(&t, why, size);
	if (t.state)
		layout->reader->detach(t.state);
	sonde_modules_fini(&t.mods);
	sonde_scratch_free(&t.scratch);
	return err;
}
