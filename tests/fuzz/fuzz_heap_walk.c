// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Arenas and free lists of a target that means harm, or is in the middle of changing them: links
 * into themselves, sizes without sense, rings that never close. Whatever is read, a walk ends,
 * within bounds.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "fuzz/fuzz_target.h"
#include "target/heap/glibc_walk.h"

#define ARENAS	 3
#define CHUNKS	 64
#define SYSTEM	 (1u << 16)
#define NODE_MAX ((uint64_t)4 * ARENAS * 137 * 2 * (SYSTEM / 32 + 1))

/* glibc 2.36's struct malloc_state, as far as it is read. */
struct arena {
	uint64_t head[2];
	uint64_t fast[10], top, remainder, bins[254];
	uint64_t map[2], next, next_free, attached, system_mem;
};

struct chunk {
	uint64_t prev_size, size, fd, bk;
};

static struct {
	struct arena arena[ARENAS];
	uint64_t mmapped, n_mmaps;
	struct chunk chunk[ARENAS][CHUNKS] __attribute__((aligned(16)));
	struct chunk top[ARENAS];
} heap __attribute__((aligned(16)));

static const struct sonde_heap_layout layout = {
	.v = {[GLIBC_NEXT] = offsetof(struct arena, next),
	      [GLIBC_SYSTEM_MEM] = offsetof(struct arena, system_mem),
	      [GLIBC_FAST] = offsetof(struct arena, fast),
	      [GLIBC_TOP] = offsetof(struct arena, top),
	      [GLIBC_SAFE_LINK] = 0},
};

static uint64_t sentinel(const struct arena *a, size_t bin)
{
	return (uint64_t)&a->top + 16 * (bin - 1);
}

/* Half of the chunks in the unsorted list, the others in the small bin of 512 bytes. */
static void build_arena(size_t i)
{
	struct arena *a = &heap.arena[i];

	*a = (struct arena){.system_mem = SYSTEM, .top = (uint64_t)&heap.top[i]};
	a->next = (uint64_t)&heap.arena[(i + 1) % ARENAS];
	heap.top[i].size = 4096 | 1;
	for (size_t bin = 1; bin <= GLIBC_BINS; bin++)
		a->bins[2 * (bin - 1)] = a->bins[2 * (bin - 1) + 1] = sentinel(a, bin);
	for (size_t k = 0; k < CHUNKS; k++) {
		struct chunk *c = &heap.chunk[i][k];
		size_t bin = k % 2 ? 1 : 32;
		uint64_t *ends = &a->bins[2 * (bin - 1)];
		uint64_t first = ends[0];

		*c = (struct chunk){.size = 512 | 1, .fd = first, .bk = sentinel(a, bin)};
		ends[0] = (uint64_t)c;
		if (first == sentinel(a, bin))
			ends[1] = (uint64_t)c;
		else
			((struct chunk *)first)->bk = (uint64_t)c;
	}
}

static uint64_t odd_value(void)
{
	const uint64_t odd[] = {0,
				1,
				8,
				UINT64_MAX,
				(uint64_t)&heap.arena[fuzz_below(ARENAS)],
				sentinel(&heap.arena[fuzz_below(ARENAS)], 1 + fuzz_below(127)),
				(uint64_t)&heap.chunk[fuzz_below(ARENAS)][fuzz_below(CHUNKS)],
				(uint64_t)&heap.top[0],
				512 | 1,
				1ull << fuzz_below(63)};

	return odd[fuzz_below(sizeof(odd) / sizeof(odd[0]))];
}

static void damage(void)
{
	uint64_t *words = (uint64_t *)&heap;

	for (uint64_t n = fuzz_below(8); n; n--)
		words[fuzz_below(sizeof(heap) / 8)] = odd_value();
}

static void walk(uint64_t max_nodes)
{
	struct sonde_heap_layout l = layout;
	struct glibc_arenas s;
	struct glibc_totals t, after;
	struct glibc_free f;
	char why[128];
	int err;

	l.v[GLIBC_MAIN_ARENA] = (int64_t)(uint64_t)&heap.arena[0];
	l.v[GLIBC_MMAPPED_MEM] = (int64_t)(uint64_t)&heap.mmapped;
	l.v[GLIBC_N_MMAPS] = (int64_t)(uint64_t)&heap.n_mmaps;
	assert(!glibc_arenas_init(&s, getpid(), 0, &l, why, sizeof(why)));
	err = glibc_arenas_read(&s, &t);
	assert(!err || err == -EIO || err == -EFAULT);
	if (!err)
		err = glibc_walk(&s, max_nodes, &after, &f);
	assert(!err || err == -EIO || err == -EFAULT);
	assert(err || f.nodes <= NODE_MAX);
	glibc_arenas_fini(&s);
}

/* The undamaged heap is read to the byte. */
static void check_whole(void)
{
	struct sonde_heap_layout l = layout;
	struct glibc_arenas s;
	struct glibc_totals t, after;
	struct glibc_free f;
	char why[128];

	l.v[GLIBC_MAIN_ARENA] = (int64_t)(uint64_t)&heap.arena[0];
	l.v[GLIBC_MMAPPED_MEM] = (int64_t)(uint64_t)&heap.mmapped;
	l.v[GLIBC_N_MMAPS] = (int64_t)(uint64_t)&heap.n_mmaps;
	assert(!glibc_arenas_init(&s, getpid(), 0, &l, why, sizeof(why)));
	assert(!glibc_arenas_read(&s, &t) && t.clean);
	assert(t.system == ARENAS * SYSTEM && t.tops == ARENAS * 4096);
	assert(!glibc_walk(&s, 0, &after, &f) && f.clean && f.whole);
	assert(f.chunks == ARENAS * CHUNKS && f.bytes == f.chunks * 512 && !f.arrived);
	glibc_arenas_fini(&s);
}

int main(int argc, char **argv)
{
	unsigned long n = fuzz_iterations(argc, argv, 3000);

	for (unsigned long i = 0; i < n; i++) {
		for (size_t a = 0; a < ARENAS; a++)
			build_arena(a);
		if (!i)
			check_whole();
		damage();
		walk(i % 3 ? 0 : fuzz_below(100));
	}
	printf("%lu damaged heaps\n", n);
	return 0;
}
