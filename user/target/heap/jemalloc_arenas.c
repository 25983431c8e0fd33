// SPDX-License-Identifier: GPL-2.0-or-later
/* Adds up what arenas have handed out; see jemalloc_arenas.h. */
#include <errno.h>

#include "core/mem.h"
#include "target/heap/jemalloc_arenas.h"
#include "target/heap/remote.h"

#define ARENAS_MAX  4095 /* MALLCTL_ARENAS_ALL is the number after the last */
#define CLASSES_MAX 236	 /* the last that 64 bits can tell: see class_bytes() */
#define SPAN_MAX    (1 << 20)

/*
 * Bytes of class @i, small classes first: 8, then four steps of 16, then four steps between each
 * power of two and the next. So for pages of 4 KiB and a quantum of 16 bytes; a build with others
 * is refused by its scratch process, whose sums would differ.
 */
static uint64_t class_bytes(unsigned i)
{
	unsigned group = (i - 5) / 4, step = (i - 5) % 4 + 1;

	if (i < 5)
		return i ? 16ull * i : 8;
	return (64ull << group) + (16ull << group) * step;
}

/* The bytes from the first class's count to behind the last one's. */
static size_t span(int64_t n, int64_t step, size_t last)
{
	return (size_t)((n - 1) * step) + last;
}

/* The numbers come from a library that may be anybody's. */
static bool sane(const struct sonde_jemalloc_arenas *a)
{
	if (a->n_small < 1 || a->n_small > CLASSES_MAX || a->n_large < 1 ||
	    a->n_large > CLASSES_MAX - a->n_small)
		return false;
	if (a->small_step < 8 || a->small_step > SPAN_MAX || a->large_step < 16 ||
	    a->large_step > SPAN_MAX)
		return false;
	return a->small > 0 && a->large > 0 && a->small < SPAN_MAX && a->large < SPAN_MAX &&
	       span(a->n_small, a->small_step, 8) < SPAN_MAX &&
	       span(a->n_large, a->large_step, 16) < SPAN_MAX;
}

static uint64_t word(const char *buf, int64_t at)
{
	uint64_t v;

	memcpy(&v, buf + at, sizeof(v));
	return v;
}

/* What one arena has handed out, from the two pieces of it that @buf holds. */
static uint64_t arena_bytes(const struct sonde_jemalloc_arenas *a, const char *small,
			    const char *large)
{
	uint64_t sum = 0;

	for (int64_t i = 0; i < a->n_small; i++)
		sum += word(small, i * a->small_step) * class_bytes((unsigned)i);
	for (int64_t i = 0; i < a->n_large; i++) {
		uint64_t in = word(large, i * a->large_step);
		uint64_t out = word(large, i * a->large_step + 8);

		if (in > out) /* a thread may be between the two */
			sum += (in - out) * class_bytes((unsigned)(a->n_small + i));
	}
	return sum;
}

int sonde_jemalloc_arenas_read(pid_t pid, uint64_t bias, const struct sonde_jemalloc_arenas *a,
			       uint64_t *bytes)
{
	size_t n_small, n_large;
	sonde_autofree uint64_t *arenas = calloc(ARENAS_MAX, sizeof(*arenas));
	sonde_autofree char *buf = NULL;
	uint64_t sum = 0;
	int err;

	if (!a->array || !sane(a))
		return -EINVAL;
	n_small = span(a->n_small, a->small_step, 8);
	n_large = span(a->n_large, a->large_step, 16);
	buf = malloc(n_small + n_large);
	if (!buf || !arenas)
		return -ENOMEM;
	err = sonde_remote_read(pid, bias + a->array, arenas, ARENAS_MAX * sizeof(*arenas));
	if (!err && !arenas[0]) /* the first is made before any block is handed out */
		return -EINVAL;
	for (size_t i = 0; i < ARENAS_MAX && !err; i++) {
		struct sonde_piece p[] = {{arenas[i] + (uint64_t)a->small, buf, n_small},
					  {arenas[i] + (uint64_t)a->large, buf + n_small, n_large}};

		if (!arenas[i])
			continue;
		err = sonde_remote_readv(pid, p, 2);
		if (!err)
			sum += arena_bytes(a, buf, buf + n_small);
	}
	if (!err)
		*bytes = sum;
	return err;
}
