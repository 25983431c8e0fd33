// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * glibc's heap. What costs microseconds is read each time: what the arenas took from the system,
 * less their tops, is an upper bound of what is live. How much lies free in lists takes up to a
 * microsecond a free chunk, so that is walked as often as the budget allows, and what it gave is
 * subtracted meanwhile.
 */
#include <errno.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/mem.h"
#include "target/heap/glibc_measure.h"
#include "target/heap/glibc_tcache.h"
#include "target/heap/inside/report.h"

/* What a scratch process has in lists; a library that means harm could have them never end. */
#define FIELD_NODES	100000
#define BROKEN_AFTER_NS (50 * SONDE_NS_PER_MS)

/* The fields of a report (inside/main.c: tell_glibc). */
enum {
	R_ARENA,
	R_ORDBLKS,
	R_SMBLKS,
	R_HBLKS,
	R_HBLKHD,
	R_FSMBLKS,
	R_UORDBLKS,
	R_FORDBLKS,
	R_KEEPCOST,
	R_CACHED,
	R_FIELDS,
};

static const struct sonde_heap_field fields[R_FIELDS] = {
	[R_ARENA] = {"arena"},	     [R_ORDBLKS] = {"ordblks"},
	[R_SMBLKS] = {"smblks"},     [R_HBLKS] = {"hblks"},
	[R_HBLKHD] = {"hblkhd"},     [R_FSMBLKS] = {"fsmblks"},
	[R_UORDBLKS] = {"uordblks"}, [R_FORDBLKS] = {"fordblks"},
	[R_KEEPCOST] = {"keepcost"}, [R_CACHED] = {"bytes in thread caches", .change = true},
};

struct glibc_heap {
	struct glibc_arenas arenas;
	struct glibc_tcache cache;
	bool walked;  /* the last walk saw everything: */
	bool unclean; /* a check failed in it */
	uint64_t in_lists, lists_ns, next_walk_ns;
	struct glibc_break broken; /* where the last walk ended too early: */
	uint64_t broken_ns;	   /* since when */
	bool background;	   /* walks are too long to wait for */
	struct glibc_background walker;
};

static void glibc_detach(void *state)
{
	struct glibc_heap *h = state;

	glibc_background_fini(&h->walker);
	glibc_arenas_fini(&h->arenas);
	glibc_tcache_fini(&h->cache);
	free(h);
}

static int find_bias(const struct sonde_module *m, uint64_t *bias)
{
	struct sonde_elf *elf;
	int err = sonde_elf_try(&elf, m->open_path, "");

	if (err)
		return err;
	err = sonde_elf_bias(elf, m->text_start, m->text_pgoff, bias);
	sonde_elf_free(&elf);
	return err;
}

static int glibc_attach(pid_t pid, const struct sonde_modules *mods, size_t m,
			const struct sonde_heap_layout *layout, void **state, char *why,
			size_t size)
{
	struct glibc_heap *h = calloc(1, sizeof(*h));
	struct glibc_totals t;
	uint64_t bias = 0;
	int err = h ? find_bias(&mods->m[m], &bias) : -ENOMEM;

	snprintf(why, size, "%s", err ? strerror(-err) : "");
	if (!err)
		err = glibc_arenas_init(&h->arenas, pid, bias, layout, why, size);
	if (err) {
		free(h);
		return err;
	}
	/* The ring must close and every top must fit, before anything is made of it. */
	err = glibc_arenas_read(&h->arenas, &t);
	if (err) {
		snprintf(why, size,
			 "its arenas cannot be read: %s; they are damaged or it is just starting "
			 "or ending: try again",
			 strerror(-err));
		glibc_detach(h);
		return err;
	}
	glibc_tcache_init(&h->cache, pid, mods, bias, layout);
	*state = h;
	return 0;
}

static void put(struct sonde_heap_reading *r, enum sonde_heap_figure f, uint64_t bytes)
{
	r->bytes[f] = bytes;
	r->present |= 1u << f;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static void keep_break(struct glibc_heap *h, const struct glibc_measure *m)
{
	const struct glibc_break *b = &m->lists.broken;

	if (!b->found || !h->broken.found || b->at != h->broken.at || b->arena != h->broken.arena)
		h->broken_ns = m->ended_ns;
	h->broken = *b;
}

/* Again at the same place, later than a thread that has lost its CPU within malloc() is back. */
static void tell_break(const struct glibc_heap *h, struct sonde_heap_reading *r)
{
	if (!h->broken.found)
		return;
	r->clean = false;
	if (h->lists_ns >= h->broken_ns + BROKEN_AFTER_NS)
		snprintf(r->broken, sizeof(r->broken),
			 "%s of arena %u is broken at 0x%llx (heap corruption?)",
			 h->broken.is_top ? "top" : "list", h->broken.arena,
			 (unsigned long long)h->broken.at);
}

/* A measurement is what bounds are improved by until the next. */
static void keep(struct glibc_heap *h, const struct sonde_heap_budget *budget,
		 const struct glibc_measure *m)
{
	uint64_t took = m->ended_ns - m->began_ns;

	keep_break(h, m);
	h->walked = m->lists.whole;
	h->unclean = !m->clean;
	h->in_lists = m->lists.bytes;
	h->lists_ns = m->ended_ns;
	h->next_walk_ns =
		budget->share > 0 ? m->ended_ns + (uint64_t)((double)took / budget->share) : 0;
	/* Too long to wait for, or short enough again: with room between, so that it does not
	 * change each time. */
	if (!m->lists.whole && !m->lists.broken.found)
		h->background = true;
	else if (m->nodes < budget->max_nodes / 2)
		h->background = false;
}

/* One that ended meanwhile; else begin the next when it is time. */
static void go_on_in_background(struct glibc_heap *h, const struct sonde_heap_budget *budget,
				struct sonde_heap_reading *r)
{
	struct glibc_measure m;
	int err = glibc_background_take(&h->walker, &m);

	if (!err) {
		keep(h, budget, &m);
		r->nodes = m.nodes;
		r->clean &= m.clean;
		r->walk_ns = m.ended_ns - m.began_ns;
	}
	if (budget->background_nodes && !budget->cheap_only && h->background &&
	    r->at_ns >= h->next_walk_ns)
		glibc_background_begin(&h->walker, &h->arenas, budget->background_nodes);
}

/* What lies in lists: walked now, some time ago, or not known (0). */
static int find_lists(struct glibc_heap *h, const struct sonde_heap_budget *budget,
		      struct glibc_totals *t, struct sonde_heap_reading *r, uint64_t *bytes)
{
	struct glibc_measure m;
	bool now = !budget->cheap_only && r->at_ns >= h->next_walk_ns &&
		   !(h->background && budget->background_nodes);
	int err = now ? glibc_measure(&h->arenas, budget->max_nodes, t, &m) : 0;

	if (err)
		return err;
	if (now) {
		keep(h, budget, &m);
		*t = m.totals;
		r->nodes = m.nodes;
		r->clean &= m.clean;
		r->walk_ns = m.ended_ns - m.began_ns;
	}
	go_on_in_background(h, budget, r);
	tell_break(h, r);
	r->unsure = h->walked && h->unclean;
	*bytes = h->walked ? h->in_lists : 0;
	if (!h->walked) {
		r->source = SONDE_HEAP_BOUND;
	} else if (now) {
		r->source = SONDE_HEAP_COUNTED;
	} else {
		r->source = SONDE_HEAP_COMBINED;
		r->age_ns = less(r->at_ns, h->lists_ns) + 1;
	}
	return 0;
}

static int glibc_read(void *state, const struct sonde_heap_budget *budget,
		      struct sonde_heap_reading *r, char *why, size_t size)
{
	struct glibc_heap *h = state;
	uint64_t lists = 0, cached = 0;
	struct glibc_totals t;
	int err = glibc_arenas_read(&h->arenas, &t);

	r->clean = !err && t.clean;
	if (!err)
		err = find_lists(h, budget, &t, r, &lists);
	if (err) {
		snprintf(why, size,
			 "its arenas cannot be read: %s; they are damaged or it is about to "
			 "replace its program: observe it for longer",
			 strerror(-err));
		return err;
	}
	r->arenas = (uint32_t)h->arenas.n;
	if (!glibc_tcache_read(&h->cache, &cached)) {
		put(r, SONDE_HEAP_FREE_THREAD, cached);
		r->threads = (uint32_t)h->cache.threads.n;
	}
	put(r, SONDE_HEAP_SYSTEM, t.system + t.mmapped);
	put(r, SONDE_HEAP_MMAPPED, t.mmapped);
	put(r, SONDE_HEAP_FREE_PAGES, t.tops);
	if (r->source != SONDE_HEAP_BOUND)
		put(r, SONDE_HEAP_FREE_CENTRAL, lists);
	put(r, SONDE_HEAP_LIVE, less(less(t.system, t.tops), lists + cached) + t.mmapped);
	return 0;
}

static int glibc_fields(void *state, uint64_t *out, uint32_t *told)
{
	struct glibc_heap *h = state;
	struct glibc_totals t, after;
	struct glibc_free f;
	uint64_t cached = 0;
	int err = glibc_arenas_read(&h->arenas, &t);

	if (!err)
		err = glibc_walk(&h->arenas, FIELD_NODES, &after, &f);
	if (!err && (!t.clean || !f.clean || !f.whole))
		err = -EIO; /* it is at rest: nothing may be amiss */
	*told = (1u << R_FIELDS) - 1;
	if (!err)
		err = glibc_tcache_read(&h->cache, &cached);
	/* Before 2.34 its threads cannot be found: then nothing is made of their caches. */
	if (err == -EOPNOTSUPP) {
		*told &= ~(1u << R_CACHED);
		err = 0;
	}
	if (err)
		return err;
	out[R_ARENA] = t.system;
	out[R_ORDBLKS] = h->arenas.n + f.chunks; /* each arena's top is one */
	out[R_SMBLKS] = f.fast_chunks;
	out[R_HBLKS] = t.n_mmaps;
	out[R_HBLKHD] = t.mmapped;
	out[R_FSMBLKS] = f.fast_bytes;
	out[R_FORDBLKS] = t.tops + f.bytes;
	out[R_UORDBLKS] = t.system - out[R_FORDBLKS];
	out[R_KEEPCOST] = t.main_top;
	out[R_CACHED] = cached;
	return 0;
}

const struct sonde_heap_reader sonde_heap_reader_glibc = {
	.allocator = "glibc",
	.slots = sonde_glibc_slots,
	.n_slots = GLIBC_SLOTS,
	.derive = sonde_glibc_derive,
	.attach = glibc_attach,
	.read = glibc_read,
	.detach = glibc_detach,
	.fields = glibc_fields,
	.field = fields,
	.n_fields = R_FIELDS,
	.inside = SONDE_INSIDE_GLIBC,
};
