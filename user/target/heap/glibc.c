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
#include "target/heap/glibc_tcache.h"
#include "target/heap/glibc_walk.h"
#include "target/heap/inside/report.h"

#define WALKS	      3	  /* of one reading, at most */
#define ARRIVED_SHARE 100 /* 1 % of what is used may come to lists while they are walked */

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
	/* The last walk that saw everything. */
	bool walked;
	struct glibc_free lists;
	uint64_t lists_ns, next_walk_ns;
};

static void glibc_detach(void *state)
{
	struct glibc_heap *h = state;

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
		snprintf(why, size, "its arenas cannot be read: %s", strerror(-err));
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

/*
 * What went to or from the lists during the walk is in the difference of the totals before and
 * after it, so the middle of both is what fits the walk. Where more came to lists meanwhile than
 * may be overlooked it is walked once more.
 */
static int walk(struct glibc_heap *h, const struct sonde_heap_budget *budget,
		struct glibc_totals *t, struct sonde_heap_reading *r)
{
	uint64_t began = sonde_mono_ns(), limit = 0;
	struct glibc_totals after = *t;
	struct glibc_free lists = {0};

	for (int i = 0; i < WALKS && lists.arrived >= limit; i++) {
		int err;

		if (i && budget->max_nodes && r->nodes > budget->max_nodes / 2)
			break;
		*t = after;
		err = glibc_walk(&h->arenas, budget->max_nodes, &after, &lists);
		if (err)
			return err;
		r->nodes += lists.nodes;
		limit = (t->system - t->tops) / ARRIVED_SHARE + 1;
	}
	h->lists_ns = sonde_mono_ns();
	h->next_walk_ns =
		budget->share > 0
			? h->lists_ns + (uint64_t)((double)(h->lists_ns - began) / budget->share)
			: 0;
	r->clean &= lists.clean && after.clean && lists.arrived < limit;
	t->system = (t->system + after.system) / 2;
	t->tops = (t->tops + after.tops) / 2;
	t->mmapped = (t->mmapped + after.mmapped) / 2;
	h->lists = lists;
	h->walked = lists.whole;
	return 0;
}

/* What of the bound lies in lists, and what that makes of it. */
static uint64_t free_in_lists(struct glibc_heap *h, bool walked, struct sonde_heap_reading *r)
{
	if (walked) {
		r->source = h->lists.whole ? SONDE_HEAP_COUNTED : SONDE_HEAP_BOUND;
		return h->lists.bytes;
	}
	if (!h->walked) {
		r->source = SONDE_HEAP_BOUND;
		return 0;
	}
	r->source = SONDE_HEAP_COMBINED;
	r->age_ns = less(r->at_ns, h->lists_ns);
	return h->lists.bytes;
}

static int glibc_read(void *state, const struct sonde_heap_budget *budget,
		      struct sonde_heap_reading *r, char *why, size_t size)
{
	struct glibc_heap *h = state;
	struct glibc_totals t;
	uint64_t lists, cached = 0;
	bool walks;
	int err = glibc_arenas_read(&h->arenas, &t);

	if (err)
		goto out;
	r->clean = t.clean;
	walks = !budget->cheap_only && r->at_ns >= h->next_walk_ns;
	if (walks)
		err = walk(h, budget, &t, r);
	if (err)
		goto out;
	lists = free_in_lists(h, walks, r);
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
out:
	if (err)
		snprintf(why, size, "its arenas cannot be read: %s", strerror(-err));
	return err;
}

static int glibc_fields(void *state, uint64_t *out, uint32_t *told)
{
	struct glibc_heap *h = state;
	struct glibc_totals t, after;
	struct glibc_free f;
	uint64_t cached = 0;
	int err = glibc_arenas_read(&h->arenas, &t);

	if (!err)
		err = glibc_walk(&h->arenas, 0, &after, &f);
	if (!err && (!t.clean || !f.clean))
		err = -EIO; /* it is at rest: nothing may be amiss */
	if (!err)
		err = glibc_tcache_read(&h->cache, &cached);
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
	*told = (1u << R_FIELDS) - 1;
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
