// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Walk all free lists of all arenas at once, in lockstep: each round reads the current chunk of
 * every list with as few calls as possible, and a doubly linked list is walked from both ends,
 * which halves the rounds and survives one break. A direction that strays stops and the other goes
 * on to where they meet; where both stopped the list is begun again, a few times, and then the most
 * that was seen counts.
 *
 * Tried and worse while a target allocates: to begin a list again at its first broken link. It
 * never ends clean, and its error is three times as large.
 */
#include <errno.h>

#include "core/mem.h"
#include "target/heap/glibc_walk.h"
#include "target/heap/remote.h"

#define LIST_TRIES 3
#define UNSORTED   1
#define PASSED	   4  /* so many neighbours may be taken out at once behind a walk */
#define SMALL_BINS 64 /* below, a bin holds chunks of one size: 16 bytes times its number */

enum { FORWARD, BACKWARD, WAYS };

enum way_state {
	GOING = 0,
	HOME,  /* came to the list's end: it alone saw all of it */
	STUCK, /* what it read did not fit */
};

struct way {
	enum way_state state;
	uint64_t cur;	       /* the chunk to read next */
	uint64_t last;	       /* the last chunk that counted */
	uint64_t seen[PASSED]; /* the last few, in a ring */
	uint64_t bytes, n;
};

struct list {
	uint64_t sentinel; /* address of the list's end, as chunks link to it */
	uint32_t arena;
	uint16_t bin; /* fast bins: the index */
	bool fast, done;
	uint8_t tries;
	struct way way[WAYS];
	uint64_t first[PASSED]; /* chunks that it began with */
	uint64_t stop[PASSED];	/* it ends before these, where they are not 0 */
	uint64_t bytes, n;	/* the outcome */
	uint64_t known;		/* of arrivals: what the walk before found of bytes */
	uint64_t stuck[WAYS];	/* where the try before ended */
	bool moved;		/* not each try ended there */
	bool lost;		/* no try came to an end */
};

/* A chunk as the allocator sees it. */
struct chunk {
	uint64_t prev_size, size, fd, bk;
};

struct walk {
	struct glibc_arenas *s;
	struct list *list;
	size_t n;
	/* Of a round: what is read for whom. */
	uint64_t *at;
	struct chunk *chunk;
	bool *ok;
	uint64_t nodes;
	bool clean;
};

static uint64_t word(const struct glibc_arenas *s, size_t arena, uint64_t offset)
{
	uint64_t v;

	memcpy(&v, s->image + arena * s->image_size + offset, sizeof(v));
	return v;
}

static void begin(struct list *l, uint64_t first, uint64_t last)
{
	l->way[FORWARD] = (struct way){.cur = first};
	l->way[BACKWARD] = (struct way){.cur = last};
	if (l->fast)
		l->way[BACKWARD].state = STUCK; /* it has one direction only */
}

static void add_fast(struct walk *w, size_t arena)
{
	const int64_t *v = w->s->v;
	size_t n = (size_t)(v[GLIBC_TOP] - v[GLIBC_FAST]) / 8;

	for (size_t i = 0; i < n; i++) {
		uint64_t offset = (uint64_t)v[GLIBC_FAST] + 8 * i;
		struct list l = {
			.sentinel = w->s->a[arena].at + offset,
			.arena = (uint32_t)arena,
			.bin = (uint16_t)i,
			.fast = true,
		};

		begin(&l, word(w->s, arena, offset), 0);
		if (l.way[FORWARD].cur)
			w->list[w->n++] = l;
	}
}

static void add_bins(struct walk *w, size_t arena)
{
	for (size_t i = 1; i <= GLIBC_BINS; i++) {
		uint64_t offset = (uint64_t)w->s->v[GLIBC_TOP] + 16 * (i - 1);
		struct list l = {
			.sentinel = w->s->a[arena].at + offset,
			.arena = (uint32_t)arena,
			.bin = (uint16_t)i,
		};
		uint64_t first = word(w->s, arena, offset + 16);

		begin(&l, first, word(w->s, arena, offset + 24));
		/* All are 0 in an arena that nobody used yet, none in another. */
		if (first != l.sentinel && (first || w->s->a[arena].top))
			w->list[w->n++] = l;
	}
}

static bool size_fits(const struct walk *w, const struct list *l, uint64_t size)
{
	if ((size & 15) || size < GLIBC_CHUNK_MIN || size > w->s->a[l->arena].system_mem)
		return false;
	if (l->fast)
		return size == GLIBC_CHUNK_MIN + (uint64_t)GLIBC_CHUNK_STEP * l->bin;
	if (l->bin == UNSORTED)
		return true;
	return l->bin < SMALL_BINS ? size == 16u * l->bin : size >= 16u * SMALL_BINS;
}

/*
 * Does the chunk link back to where we come from? If what lay between was taken out meanwhile it
 * links to a chunk passed before, or to the list's end. A chunk that was taken itself and put
 * elsewhere, be it the other end of this list, links to strangers: to follow it would skip what
 * lies between.
 */
static bool links_back(const struct list *l, const struct way *y, uint64_t back)
{
	if (back == l->sentinel)
		return true;
	for (size_t i = 0; i < PASSED && i < y->n; i++)
		if (y->seen[i] == back)
			return true;
	return false;
}

static bool chunk_fits(const struct walk *w, const struct list *l, int d, const struct chunk *c)
{
	const struct way *y = &l->way[d];
	uint64_t back = d == FORWARD ? c->bk : c->fd;

	if ((y->cur & 15) || !size_fits(w, l, c->size & ~7ull))
		return false;
	/* Every chunk takes at least its minimum of what the arena has. */
	if (y->n > w->s->a[l->arena].system_mem / GLIBC_CHUNK_MIN)
		return false;
	return l->fast || links_back(l, y, back);
}

static bool in_arena(const struct walk *w, const struct list *l, uint64_t p)
{
	uint64_t at = w->s->a[l->arena].at;

	return p >= at && p - at < w->s->image_size;
}

static bool is_stop(const struct list *l, uint64_t p)
{
	for (size_t i = 0; i < PASSED; i++)
		if (l->stop[i] && l->stop[i] == p)
			return true;
	return false;
}

static void step(struct walk *w, struct list *l, int d, const struct chunk *c, bool ok)
{
	struct way *y = &l->way[d];
	uint64_t next;

	if (!ok || !chunk_fits(w, l, d, c)) {
		y->state = STUCK;
		return;
	}
	if (d == FORWARD && y->n < PASSED)
		l->first[y->n] = y->cur;
	y->seen[y->n++ % PASSED] = y->cur;
	y->bytes += c->size & ~7ull;
	y->last = y->cur;
	w->nodes++;
	next = d == FORWARD ? c->fd : c->bk;
	if (l->fast && w->s->v[GLIBC_SAFE_LINK])
		next ^= (y->cur + 16) >> 12;
	if ((l->fast ? !next : next == l->sentinel) || is_stop(l, next))
		y->state = HOME;
	else if (in_arena(w, l, next))
		y->state = STUCK; /* strayed into another list */
	y->cur = next;
}

/* Both are about to read the same chunk: one of them will do. */
static bool at_same(const struct list *l)
{
	return l->way[FORWARD].state == GOING && l->way[BACKWARD].state == GOING &&
	       l->way[FORWARD].cur == l->way[BACKWARD].cur;
}

static bool reached(const struct way *y, const struct way *other)
{
	return y->state == GOING && other->state != HOME && other->n && y->cur == other->last;
}

static void finish(struct list *l, uint64_t bytes, uint64_t n)
{
	l->bytes = bytes;
	l->n = n;
	l->done = true;
}

/* Did this try end where the ones before did? */
static void note_stuck(struct list *l)
{
	for (int d = 0; d < WAYS; d++) {
		l->moved |= l->tries && l->stuck[d] != l->way[d].cur;
		l->stuck[d] = l->way[d].cur;
	}
}

static int begin_again(struct walk *w, struct list *l)
{
	const struct way *y = l->way;
	uint64_t bytes = y[FORWARD].bytes + y[BACKWARD].bytes, ends[2] = {0};
	int err;

	if (bytes > l->bytes) {
		l->bytes = bytes;
		l->n = y[FORWARD].n + y[BACKWARD].n;
	}
	note_stuck(l);
	if (l->tries++ == LIST_TRIES) {
		l->done = l->lost = true;
		w->clean = false;
		return 0;
	}
	err = sonde_remote_read(w->s->pid, l->fast ? l->sentinel : l->sentinel + 16, ends,
				l->fast ? 8 : 16);
	if (err)
		return err;
	begin(l, ends[0], ends[1]);
	if ((!ends[0] && l->fast) || ends[0] == l->sentinel)
		finish(l, 0, 0); /* it is empty by now */
	return 0;
}

/* @same: the round read one chunk for both. */
static int settle(struct walk *w, struct list *l, bool same)
{
	const struct way *f = &l->way[FORWARD], *b = &l->way[BACKWARD];

	if ((same && f->state != STUCK) || reached(f, b) || reached(b, f))
		finish(l, f->bytes + b->bytes, f->n + b->n);
	else if (f->state == GOING || b->state == GOING)
		return 0;
	/* They passed each other, where the chunk between them was taken: each saw all of it. */
	else if (f->state == HOME && (b->state == STUCK || f->n >= b->n))
		finish(l, f->bytes, f->n);
	else if (b->state == HOME)
		finish(l, b->bytes, b->n);
	else if (f->state == STUCK && b->state == STUCK)
		return begin_again(w, l);
	return 0;
}

/* One chunk further in every list; *going: lists that are not done. */
static int advance(struct walk *w, size_t *going)
{
	size_t n = 0, left = 0;
	int err;

	for (size_t i = 0; i < w->n; i++) {
		struct list *l = &w->list[i];

		for (int d = 0; d < WAYS && !l->done; d++)
			if (l->way[d].state == GOING && !(d == BACKWARD && at_same(l)))
				w->at[n++] = l->way[d].cur;
	}
	err = sonde_remote_each(w->s->pid, w->at, n, w->chunk, sizeof(*w->chunk), w->ok);
	n = 0;
	for (size_t i = 0; i < w->n && !err; i++) {
		struct list *l = &w->list[i];
		bool same = at_same(l);

		if (l->done)
			continue;
		for (int d = 0; d < WAYS; d++) {
			if (l->way[d].state != GOING || (d == BACKWARD && same))
				continue;
			step(w, l, d, &w->chunk[n], w->ok[n]);
			n++;
		}
		err = settle(w, l, same);
		left += !l->done;
	}
	*going = left;
	return err == -EFAULT ? -EIO : err;
}

static void sum(const struct walk *w, struct glibc_free *out)
{
	for (size_t i = 0; i < w->n; i++) {
		const struct list *l = &w->list[i];
		uint64_t bytes = l->bytes, n = l->n;

		if (!l->done) { /* cut off by the budget: what both ways saw, perhaps twice */
			bytes = l->way[FORWARD].bytes;
			n = l->way[FORWARD].n;
		}
		out->bytes += bytes;
		if (l->fast) {
			out->fast_bytes += bytes;
			out->fast_chunks += n;
		} else {
			out->chunks += n;
		}
	}
}

static void find_break(const struct walk *w, struct glibc_break *out)
{
	for (size_t i = 0; i < w->n && !out->found; i++) {
		const struct list *l = &w->list[i];

		if (l->lost && !l->moved)
			*out = (struct glibc_break){
				.at = l->stuck[FORWARD], .arena = l->arena, .found = true};
	}
}

static int make_round(struct walk *w)
{
	w->at = calloc(WAYS * w->n + 1, sizeof(*w->at));
	w->chunk = calloc(WAYS * w->n + 1, sizeof(*w->chunk));
	w->ok = calloc(WAYS * w->n + 1, sizeof(*w->ok));
	return w->at && w->chunk && w->ok ? 0 : -ENOMEM;
}

static void drop(struct walk *w)
{
	free(w->list);
	free(w->at);
	free(w->chunk);
	free(w->ok);
}

static int make(struct walk *w, struct glibc_arenas *s)
{
	size_t fast = (size_t)(s->v[GLIBC_TOP] - s->v[GLIBC_FAST]) / 8;
	size_t n = s->n * (GLIBC_BINS + fast);

	*w = (struct walk){.s = s, .clean = true};
	w->list = calloc(n, sizeof(*w->list));
	if (!w->list)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		add_fast(w, i);
		add_bins(w, i);
	}
	return make_round(w);
}

static bool stopped(const struct glibc_arenas *s)
{
	return s->stop && __atomic_load_n(s->stop, __ATOMIC_ACQUIRE);
}

static int go(struct walk *w, uint64_t max_nodes, size_t *going)
{
	int err = 0;

	*going = w->n;
	while (!err && *going && (!max_nodes || w->nodes < max_nodes))
		err = stopped(w->s) ? -EINTR : advance(w, going);
	return err;
}

/* The list of that bin in the walk before, NULL: it was empty. Both go by arena and bin. */
static const struct list *same_list(const struct walk *before, const struct list *l, size_t *from)
{
	for (size_t i = *from; i < before->n; i++) {
		if (before->list[i].sentinel != l->sentinel)
			continue;
		*from = i + 1;
		return &before->list[i];
	}
	return NULL;
}

/*
 * Lists that may have got chunks since the walk before. Small bins and the unsorted one get them at
 * their begin: what lies before the chunks that the walk before began with is new, and most lists
 * begin as they did. Large bins are sorted by size and get them anywhere: they are walked again.
 * Fast bins are short.
 */
static int make_arrivals(struct walk *w, const struct walk *before)
{
	size_t n = 0, from = 0;
	int err = make(w, before->s);

	for (size_t i = 0; !err && i < w->n; i++) {
		struct list *l = &w->list[i];
		const struct list *old = same_list(before, l, &from);

		if (l->fast)
			continue;
		if (l->bin >= SMALL_BINS) {
			l->known = old ? old->bytes : 0;
		} else {
			if (old && old->first[0] == l->way[FORWARD].cur)
				continue;
			l->way[BACKWARD].state = STUCK;
			if (old)
				memcpy(l->stop, old->first, sizeof(l->stop));
		}
		l->tries = LIST_TRIES;
		w->list[n++] = *l;
	}
	w->n = n;
	return err;
}

static int find_arrivals(const struct walk *before, uint64_t max_nodes, struct glibc_free *out)
{
	struct walk w;
	size_t going = 0;
	int err = make_arrivals(&w, before);

	if (!err)
		err = go(&w, max_nodes, &going);
	for (size_t i = 0; !err && i < w.n; i++)
		if (w.list[i].bytes > w.list[i].known)
			out->arrived += w.list[i].bytes - w.list[i].known;
	out->nodes += w.nodes;
	drop(&w);
	return err;
}

/* Nothing happened meanwhile: the arenas are to the bit what they were. */
static bool unchanged(const struct glibc_arenas *s, const uint8_t *image, size_t n)
{
	return image && s->n == n && !memcmp(image, s->image, n * s->image_size);
}

int glibc_walk(struct glibc_arenas *s, uint64_t max_nodes, struct glibc_totals *after,
	       struct glibc_free *out)
{
	struct glibc_free f = {0};
	struct walk w;
	size_t going = 0, n = s->n;
	sonde_autofree uint8_t *image = malloc(n * s->image_size);
	int err = make(&w, s);

	if (image)
		memcpy(image, s->image, n * s->image_size);
	if (!err)
		err = go(&w, max_nodes, &going);
	if (!err) {
		sum(&w, &f);
		f.nodes = w.nodes;
		f.clean = w.clean;
		find_break(&w, &f.broken);
		f.whole = !going && !f.broken.found;
		err = glibc_arenas_read(s, after);
	}
	if (!err && f.whole && !unchanged(s, image, n))
		err = find_arrivals(&w, max_nodes, &f);
	if (!err)
		*out = f;
	drop(&w);
	return err;
}
