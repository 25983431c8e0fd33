// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where arenas keep their statistics, learned from a scratch process that goes through the states
 * of inside/report.h (SONDE_INSIDE_ARENAS). Every search must have exactly one answer; what repeats
 * must do so at one distance.
 */
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/heap/confirm.h"
#include "target/heap/jemalloc_arenas.h"
#include "target/heap/remote.h"
#include "target/heap/scratch.h"

#define PAGE	  4096ull
#define DATA_MAX  (64u << 20) /* of a library's writable data */
#define ARENA_MAX (256u << 10)
#define SMALL_MAX 128 /* small classes */

struct lesson {
	struct sonde_scratch *scratch;
	struct sonde_modules mods;
	uint64_t bias, from, to; /* the library's writable data, by its own addresses */
	uint64_t *before, *after;
	uint64_t arena; /* of the scratch process's own making */
	struct sonde_jemalloc_arenas out;
	char *why;
	size_t size;
};

static int fail(struct lesson *l, const char *what)
{
	snprintf(l->why, l->size, "%s", what);
	return -EOPNOTSUPP;
}

/* The library's writable data, from the first page of it to the last. */
static int find_data(struct lesson *l, const char *build_id)
{
	struct sonde_elf *elf;
	size_t m;
	int err = sonde_modules_read(sonde_scratch_pid(l->scratch), &l->mods);

	err = err ? err : sonde_heap_find_module(&l->mods, build_id, &m);
	err = err ? err : sonde_elf_try(&elf, l->mods.m[m].open_path, "");
	if (err)
		return err;
	err = sonde_elf_bias(elf, l->mods.m[m].text_start, l->mods.m[m].text_pgoff, &l->bias);
	for (uint64_t at = 0; at < DATA_MAX; at += PAGE) {
		/* The last byte of a page is data wherever its first is, and in the page where it
		 * begins. */
		if (!sonde_elf_is_writable(elf, at) && !sonde_elf_is_writable(elf, at + PAGE - 1))
			continue;
		l->from = l->to ? l->from : at;
		l->to = at + PAGE;
	}
	sonde_elf_free(&elf);
	return err ? err : l->to ? 0 : -ENOENT;
}

/* What is not mapped reads as 0. */
static int snapshot(const struct lesson *l, uint64_t **out)
{
	size_t n = (size_t)(l->to - l->from);
	uint64_t *p = calloc(1, n);

	if (!p)
		return -ENOMEM;
	for (size_t at = 0; at < n; at += PAGE) {
		int err = sonde_remote_read(sonde_scratch_pid(l->scratch), l->bias + l->from + at,
					    (char *)p + at, PAGE);

		if (err == -ESRCH) {
			free(p);
			return err;
		}
	}
	*out = p;
	return 0;
}

static bool is_pointer(uint64_t v)
{
	return v > 1 << 16 && v < 1ull << 47 && !(v & 7);
}

/* Two words beside each other that were 0 and point somewhere now: arenas @first and @first + 1. */
static int find_array(struct lesson *l, uint64_t first)
{
	size_t n = (size_t)(l->to - l->from) / 8, found = 0;

	for (size_t i = first; i + 1 < n; i++) {
		if (l->before[i] || l->before[i + 1] || !is_pointer(l->after[i]) ||
		    !is_pointer(l->after[i + 1]) || l->after[i] == l->after[i + 1] ||
		    !is_pointer(l->before[i - first]))
			continue;
		if (found)
			return fail(l, "several of its words may be the list of arenas");
		found = i;
	}
	if (!found)
		return fail(l, "its list of arenas was not found");
	l->out.array = l->from + 8 * (found - first);
	l->arena = l->after[found];
	return 0;
}

/* The arena's memory as far as it can be read, in words. */
static size_t read_arena(const struct lesson *l, uint64_t *buf)
{
	size_t n = 0;

	while (n < ARENA_MAX) {
		uint64_t at = l->arena + n, len = PAGE - (at & (PAGE - 1));

		if (n + len > ARENA_MAX ||
		    sonde_remote_read(sonde_scratch_pid(l->scratch), at, (char *)buf + n, len))
			break;
		n += len;
	}
	return n / 8;
}

/*
 * The words @a and, @apart words behind it, @b, and for small classes @c three behind: where in the
 * arena, in bytes; -1: nowhere or in several places.
 */
static int64_t find_pair(const uint64_t *mem, size_t n, uint64_t a, uint64_t b, uint64_t c)
{
	int64_t found = -1;

	for (size_t i = 0; i + 3 < n; i++) {
		if (mem[i] != a || mem[i + 1] != b || (c && mem[i + 3] != c))
			continue;
		if (found >= 0)
			return -1;
		found = (int64_t)i * 8;
	}
	return found;
}

/* Where class @i of @n is, at one distance from class to class. */
static int find_classes(struct lesson *l, const uint64_t *mem, size_t words, unsigned n,
			unsigned keep, bool small, int64_t *at, int64_t *step)
{
	int64_t first = 0, second = 0;

	for (unsigned i = 0; i < n; i++) {
		uint64_t now = keep + i, ever = now + SONDE_ARENAS_GONE;
		int64_t p = find_pair(mem, words, ever, SONDE_ARENAS_GONE, small ? now : 0);

		if (p < 0)
			return fail(l, "the counts of an arena's size classes were not found");
		first = i ? first : p;
		second = i == 1 ? p : second;
		if (i > 1 && p != first + i * (second - first))
			return fail(l, "an arena's size classes do not lie at one distance");
	}
	if (second <= first)
		return fail(l, "an arena's size classes lie in no order");
	*at = first;
	*step = second - first;
	return 0;
}

static int learn_small(struct lesson *l, const struct sonde_report *r, uint64_t *mem)
{
	int err;

	if (r->v[0] < 2 || r->v[0] > SMALL_MAX)
		return fail(l, "it has no such number of small size classes");
	err = find_classes(l, mem, read_arena(l, mem), (unsigned)r->v[0], SONDE_ARENAS_BINS, true,
			   &l->out.small, &l->out.small_step);
	l->out.small += 3 * 8; /* handed out, given back, asked for, in use */
	l->out.n_small = (int64_t)r->v[0];
	return err;
}

static int learn_large(struct lesson *l, const struct sonde_report *r, uint64_t *mem)
{
	l->out.n_large = (int64_t)r->v[0];
	return find_classes(l, mem, read_arena(l, mem), SONDE_ARENAS_LARGE_TRIED,
			    SONDE_ARENAS_LARGE, false, &l->out.large, &l->out.large_step);
}

static int take_state(struct lesson *l, const char *build_id, const struct sonde_report *r,
		      uint64_t *mem)
{
	int err;

	switch (r->state) {
	case 0:
		err = find_data(l, build_id);
		return err ? err : snapshot(l, &l->before);
	case 1:
		err = snapshot(l, &l->after);
		if (err)
			return err;
		return r->v[1] == r->v[0] + 1 && r->v[0] < 4096
			       ? find_array(l, r->v[0])
			       : fail(l, "it numbers its arenas in another way");
	case 2:
		return learn_small(l, r, mem);
	default:
		return learn_large(l, r, mem);
	}
}

int sonde_jemalloc_arenas_learn(pid_t pid, const struct sonde_modules *mods, size_t m,
				const char *build_id, struct sonde_jemalloc_arenas *out, char *why,
				size_t size)
{
	struct lesson l = {.why = why, .size = size};
	sonde_autofree uint64_t *mem = malloc(ARENA_MAX);
	struct sonde_report r;
	int err =
		mem ? sonde_scratch_start(&l.scratch, pid, mods, m, SONDE_INSIDE_ARENAS, why, size)
		    : -ENOMEM;

	if (err)
		return err;
	while (!(err = sonde_scratch_next(l.scratch, &r, why, size))) {
		err = take_state(&l, build_id, &r, mem);
		if (err)
			break;
	}
	sonde_scratch_free(&l.scratch);
	sonde_modules_fini(&l.mods);
	free(l.before);
	free(l.after);
	if (err != -ENODATA)
		return err;
	*out = l.out;
	return 0;
}
