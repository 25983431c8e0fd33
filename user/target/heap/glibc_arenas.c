// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The ring of arenas and their top chunks; see glibc_walk.h. The ring only ever grows, so all
 * arenas known are read with one call, and followed only where a link is new.
 *
 * A top chunk moves whenever it is cut: its header is believed only if the arena still points to it
 * after the header was read, which one call can tell, as its pieces are read in order.
 */
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/heap/glibc_walk.h"
#include "target/heap/remote.h"

#define TOP_TRIES 6

int glibc_arenas_init(struct glibc_arenas *s, pid_t pid, uint64_t bias,
		      const struct sonde_heap_layout *layout, char *why, size_t size)
{
	const int64_t *v = layout->v;
	struct glibc_arenas made = {.pid = pid, .bias = bias};
	int err;

	memcpy(made.v, v, sizeof(made.v));
	made.image_size = (size_t)v[GLIBC_SYSTEM_MEM] + 8;
	if (v[GLIBC_FAST] <= 0 || v[GLIBC_FAST] >= v[GLIBC_TOP] ||
	    v[GLIBC_TOP] - v[GLIBC_FAST] > 8 * 64 || v[GLIBC_NEXT] >= v[GLIBC_SYSTEM_MEM] ||
	    v[GLIBC_SYSTEM_MEM] > 0x8000 || v[GLIBC_TOP] + 16 * GLIBC_BINS > v[GLIBC_NEXT]) {
		snprintf(why, size, "the arena's fields overlap");
		return -EINVAL;
	}
	err = glibc_arenas_copy(s, &made);
	if (err)
		snprintf(why, size, "out of memory");
	return err;
}

int glibc_arenas_copy(struct glibc_arenas *s, const struct glibc_arenas *like)
{
	struct glibc_arenas made = {
		.pid = like->pid, .bias = like->bias, .image_size = like->image_size};

	memcpy(made.v, like->v, sizeof(made.v));
	made.a = calloc(1, sizeof(*made.a));
	made.image = malloc(made.image_size);
	if (!made.a || !made.image) {
		glibc_arenas_fini(&made);
		return -ENOMEM;
	}
	made.cap = made.image_cap = made.n = 1;
	made.a[0].at = made.bias + (uint64_t)made.v[GLIBC_MAIN_ARENA];
	*s = made;
	return 0;
}

void glibc_arenas_fini(struct glibc_arenas *s)
{
	free(s->a);
	free(s->image);
	*s = (struct glibc_arenas){0};
}

static uint64_t word(const struct glibc_arenas *s, size_t arena, int64_t offset)
{
	uint64_t v;

	memcpy(&v, s->image + arena * s->image_size + offset, sizeof(v));
	return v;
}

static int add_arena(struct glibc_arenas *s, uint64_t at)
{
	int err;

	if (s->n == GLIBC_ARENAS_MAX || !at || (at & 15))
		return -EIO;
	err = SONDE_GROW(s->a, s->n, s->cap);
	if (!err && s->cap > s->image_cap) {
		uint8_t *p = reallocarray(s->image, s->cap, s->image_size);

		if (!p)
			return -ENOMEM;
		s->image = p;
		s->image_cap = s->cap;
	}
	if (err)
		return err;
	s->a[s->n] = (struct glibc_arena){.at = at};
	err = sonde_remote_read(s->pid, at, s->image + s->n * s->image_size, s->image_size);
	if (!err)
		s->n++;
	return err;
}

static int read_known(struct glibc_arenas *s, struct glibc_totals *out)
{
	struct sonde_piece *p = calloc(s->n + 2, sizeof(*p));
	uint32_t n_mmaps = 0;
	int err;

	if (!p)
		return -ENOMEM;
	p[0] = (struct sonde_piece){s->bias + (uint64_t)s->v[GLIBC_MMAPPED_MEM], &out->mmapped, 8};
	p[1] = (struct sonde_piece){s->bias + (uint64_t)s->v[GLIBC_N_MMAPS], &n_mmaps, 4};
	for (size_t i = 0; i < s->n; i++)
		p[i + 2] = (struct sonde_piece){s->a[i].at, s->image + i * s->image_size,
						s->image_size};
	err = sonde_remote_readv(s->pid, p, s->n + 2);
	free(p);
	out->n_mmaps = n_mmaps;
	return err;
}

/* From the first link that differs from what is known, follow the ring back to its begin. */
static int follow_ring(struct glibc_arenas *s)
{
	for (size_t i = 0; i < s->n; i++) {
		uint64_t next = word(s, i, s->v[GLIBC_NEXT]);
		int err = 0;

		if (next == (i + 1 < s->n ? s->a[i + 1].at : s->a[0].at))
			continue;
		s->n = i + 1;
		while (!err && next != s->a[0].at) {
			err = add_arena(s, next);
			next = err ? 0 : word(s, s->n - 1, s->v[GLIBC_NEXT]);
		}
		return err == -EFAULT ? -EIO : err;
	}
	return 0;
}

/* An arena that was not used yet has none: its top is 0, or its own list of unsorted chunks. */
static bool has_top(const struct glibc_arenas *s, const struct glibc_arena *a)
{
	return a->top && a->top != a->at + (uint64_t)s->v[GLIBC_TOP];
}

static bool top_fits(const struct glibc_arena *a, uint64_t header)
{
	uint64_t size = header & ~7ull;

	return !(a->top & 15) && !(size & 15) && size >= 16 && size <= a->system_mem;
}

/* What is read of one top: its header, and after it where the top is by then. */
struct top_look {
	uint64_t header, top, system_mem;
};

static void look_at(const struct glibc_arenas *s, const struct glibc_arena *a, struct top_look *l,
		    struct sonde_piece p[3])
{
	p[0] = (struct sonde_piece){a->top + 8, &l->header, 8};
	p[1] = (struct sonde_piece){a->at + (uint64_t)s->v[GLIBC_TOP], &l->top, 8};
	p[2] = (struct sonde_piece){a->at + (uint64_t)s->v[GLIBC_SYSTEM_MEM], &l->system_mem, 8};
}

static bool take_look(struct glibc_arena *a, const struct top_look *l)
{
	if (l->top == a->top && l->system_mem == a->system_mem && top_fits(a, l->header)) {
		a->top_size = l->header & ~7ull;
		a->end = a->top + a->top_size;
		return true;
	}
	if (l->system_mem != a->system_mem)
		a->end = 0;
	a->top = l->top;
	a->system_mem = l->system_mem;
	return false;
}

/*
 * One by one, those that moved. A top that never holds still ends where it ended before, as long as
 * the arena has not grown.
 */
static int read_top(struct glibc_arenas *s, struct glibc_arena *a, struct glibc_totals *out)
{
	uint64_t first = a->top;
	bool moved = false;

	for (int i = 0; i < TOP_TRIES; i++) {
		struct top_look l = {0};
		struct sonde_piece p[3];
		int err;

		if (!has_top(s, a)) {
			a->top_size = 0;
			return 0;
		}
		look_at(s, a, &l, p);
		err = sonde_remote_readv(s->pid, p, 3);
		if (err == -ESRCH)
			return err;
		if (err)
			break;
		if (take_look(a, &l))
			return 0;
		moved |= a->top != first;
	}
	out->clean = false;
	if (!moved)
		out->top = (struct glibc_break){
			.at = a->top, .arena = (uint32_t)(a - s->a), .found = true, .is_top = true};
	a->top_size = a->end > a->top && a->end - a->top <= a->system_mem ? a->end - a->top : 0;
	return 0;
}

/* All by one call, as long as none has gone meanwhile; then one by one. */
static int read_all_tops(struct glibc_arenas *s, struct glibc_totals *out)
{
	struct sonde_piece *p = calloc(3 * s->n, sizeof(*p));
	struct top_look *l = calloc(s->n, sizeof(*l));
	size_t n = 0;
	int err = p && l ? 0 : -ENOMEM;
	bool all = false;

	for (size_t i = 0; !err && i < s->n; i++)
		if (has_top(s, &s->a[i]))
			look_at(s, &s->a[i], &l[i], &p[3 * n++]);
	if (!err && n)
		all = !sonde_remote_readv(s->pid, p, 3 * n);
	for (size_t i = 0; !err && i < s->n; i++) {
		struct glibc_arena *a = &s->a[i];

		if (!has_top(s, a))
			a->top_size = 0;
		else if (!all || !take_look(a, &l[i]))
			err = read_top(s, a, out);
	}
	free(p);
	free(l);
	return err;
}

static int read_tops(struct glibc_arenas *s, struct glibc_totals *out)
{
	int err;

	for (size_t i = 0; i < s->n; i++) {
		struct glibc_arena *a = &s->a[i];
		uint64_t system_mem = word(s, i, s->v[GLIBC_SYSTEM_MEM]);

		if (system_mem != a->system_mem)
			a->end = 0;
		a->system_mem = system_mem;
		a->top = word(s, i, s->v[GLIBC_TOP]);
	}
	err = read_all_tops(s, out);
	for (size_t i = 0; !err && i < s->n; i++) {
		out->system += s->a[i].system_mem;
		out->tops += s->a[i].top_size;
	}
	out->main_top = s->a[0].top_size;
	return err;
}

int glibc_arenas_read(struct glibc_arenas *s, struct glibc_totals *out)
{
	struct glibc_totals t = {.clean = true};
	int err = read_known(s, &t);

	if (!err)
		err = follow_ring(s);
	if (!err)
		err = read_tops(s, &t);
	if (!err)
		*out = t;
	return err;
}
