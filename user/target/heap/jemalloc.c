// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * jemalloc 5: every thread counts, in thread-local storage, the bytes that it was handed and that
 * it gave back, for as long as it lives. Where the two counters lie follows from the code of malloc
 * and free (jemalloc_code.h). In a library the distance from the thread pointer is known only once
 * it is loaded: the dynamic linker writes it into a word of the library, which is read from the
 * process.
 *
 * The invariant: what is read here are the threads that live. Those that ended took their counters
 * along; who wants them reads each at its end (the alloc lens does, bpf/lib/threads.bpf.h).
 */
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/allocator.h"
#include "target/heap/heap.h"
#include "target/heap/inside/report.h"
#include "target/heap/jemalloc_arenas.h"
#include "target/heap/jemalloc_code.h"
#include "target/heap/remote.h"
#include "target/heap/threads.h"

#define FUNCTION_MAX 1024      /* bytes of code looked at */
#define DISTANCE_MAX (1 << 20) /* of a thread-local block from the thread pointer */
#define TSD_SIZE_MAX (1 << 16)

enum {
	S_WORD,
	S_ALLOCATED,
	S_FREED,
	S_ARENAS, /* 0: not learned */
	S_SMALL,
	S_SMALL_STEP,
	S_LARGE,
	S_LARGE_STEP,
	S_N_SMALL,
	S_N_LARGE,
	N_SLOTS
};

static const struct sonde_heap_slot slots[N_SLOTS] = {
	[S_WORD] = {"thread_block_word", 8},
	[S_ALLOCATED] = {"thread_allocated", 8},
	[S_FREED] = {"thread_deallocated", 8},
	[S_ARENAS] = {"arenas", 8},
	[S_SMALL] = {"arena.small", 8},
	[S_SMALL_STEP] = {"arena.small_step", 8},
	[S_LARGE] = {"arena.large", 8},
	[S_LARGE_STEP] = {"arena.large_step", 8},
	/* Told by the library. */
	[S_N_SMALL] = {"n_small", 0},
	[S_N_LARGE] = {"n_large", 0},
};

static const struct sonde_heap_field fields[] = {
	{.name = "bytes allocated by all threads"},
	{.name = "bytes deallocated by all threads"},
	{.name = "stats.allocated"},
};

struct state {
	pid_t pid;
	int64_t place[2]; /* from the thread pointer: allocated, deallocated */
	bool has_threads; /* its threads can be found in its memory; else only the kernel knows them
			   */
	struct sonde_threads threads;
	char why[128];
	uint64_t bias;
	struct sonde_jemalloc_arenas arenas;
};

/* The counter in the first of @names, under any prefix, that the file has. */
static int find_counter(struct sonde_elf *elf, const char *const *names,
			struct sonde_jemalloc_place *out)
{
	int err = -ENODATA;

	for (; *names; names++) {
		for (const char *const *p = sonde_alloc_prefixes; *p; p++) {
			uint8_t code[FUNCTION_MAX];
			struct sonde_sym sym;
			char name[64];
			size_t len;

			snprintf(name, sizeof(name), "%s%s", *p, *names);
			if (sonde_elf_find(elf, name, &sym))
				continue;
			len = sym.size && sym.size < sizeof(code) ? sym.size : sizeof(code);
			if (sonde_elf_code(elf, sym.offset, code, len))
				continue;
			err = sonde_jemalloc_counter(code, len, sym.value, out);
			if (!err)
				return 0;
		}
	}
	return err;
}

/*
 * In an executable nothing can be tried out, so a second witness is asked: the symbol of the
 * thread's block. The counters must lie inside it.
 */
static bool in_named_block(struct sonde_elf *elf, const struct sonde_jemalloc_place *p)
{
	uint64_t at, size, tls = sonde_elf_tls_size(elf);
	int64_t begin;
	char name[64];

	for (const char *const *prefix = sonde_alloc_prefixes; *prefix; prefix++) {
		snprintf(name, sizeof(name), "%stsd_tls", *prefix);
		if (sonde_elf_find_data(elf, name, &at, &size) || !size)
			continue;
		begin = (int64_t)at - (int64_t)tls;
		return p->offset >= begin && p->offset + 8 <= begin + (int64_t)size;
	}
	return false;
}

static int derive(struct sonde_elf *elf, struct sonde_heap_layout *out)
{
	static const char *const gets[] = {"malloc", "_Znwm", NULL};
	static const char *const gives[] = {"free", "sdallocx", "dallocx", NULL};
	struct sonde_jemalloc_place allocated, freed;
	int err = find_counter(elf, gets, &allocated);
	const char *where = "malloc";

	if (!err) {
		where = "free";
		err = find_counter(elf, gives, &freed);
	}
	if (err) {
		snprintf(out->why, sizeof(out->why),
			 "the code of its %s shows %s thread's byte counter at a fixed distance "
			 "from the "
			 "thread pointer (built without statistics, or its thread-local storage is "
			 "dynamic)",
			 where, err == -EEXIST ? "more than one" : "no");
		return -EOPNOTSUPP;
	}
	if (allocated.word != freed.word || allocated.offset == freed.offset ||
	    llabs(allocated.offset - freed.offset) > TSD_SIZE_MAX ||
	    (!allocated.word && (allocated.offset >= 0 || freed.offset >= 0)) ||
	    (allocated.word && !sonde_elf_is_writable(elf, allocated.word))) {
		snprintf(out->why, sizeof(out->why),
			 "its malloc and free disagree on where a thread's counters lie");
		return -EOPNOTSUPP;
	}
	out->v[S_WORD] = (int64_t)allocated.word;
	out->v[S_ALLOCATED] = allocated.offset;
	out->v[S_FREED] = freed.offset;
	out->named =
		!allocated.word && in_named_block(elf, &allocated) && in_named_block(elf, &freed);
	return 0;
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

/* What the dynamic linker wrote: how far below the thread pointer the library's block begins. */
static int read_distance(pid_t pid, uint64_t at, int64_t *out)
{
	int64_t v;
	int err = sonde_remote_read(pid, at, &v, sizeof(v));

	if (err)
		return err;
	if (v >= 0 || v < -DISTANCE_MAX || v & 7)
		return -EINVAL;
	*out = v;
	return 0;
}

static int learn(struct sonde_heap_layout *layout, pid_t pid, const struct sonde_modules *mods,
		 size_t m, char *why, size_t size)
{
	struct sonde_jemalloc_arenas a;
	int err = sonde_jemalloc_arenas_learn(pid, mods, m, layout->build_id, &a, why, size);

	if (err)
		return err;
	layout->v[S_ARENAS] = (int64_t)a.array;
	layout->v[S_SMALL] = a.small;
	layout->v[S_SMALL_STEP] = a.small_step;
	layout->v[S_LARGE] = a.large;
	layout->v[S_LARGE_STEP] = a.large_step;
	layout->v[S_N_SMALL] = a.n_small;
	layout->v[S_N_LARGE] = a.n_large;
	return 0;
}

static void take_arenas(struct state *s, const struct sonde_heap_layout *layout)
{
	s->arenas = (struct sonde_jemalloc_arenas){
		.array = (uint64_t)layout->v[S_ARENAS],
		.small = layout->v[S_SMALL],
		.small_step = layout->v[S_SMALL_STEP],
		.large = layout->v[S_LARGE],
		.large_step = layout->v[S_LARGE_STEP],
		.n_small = layout->v[S_N_SMALL],
		.n_large = layout->v[S_N_LARGE],
	};
}

static int attach(pid_t pid, const struct sonde_modules *mods, size_t m,
		  const struct sonde_heap_layout *layout, void **state, char *why, size_t size)
{
	struct state *s = calloc(1, sizeof(*s));
	uint64_t word = (uint64_t)layout->v[S_WORD];
	int64_t distance = 0;
	int err = s ? find_bias(&mods->m[m], &s->bias) : -ENOMEM;

	if (!err && word)
		err = read_distance(pid, s->bias + word, &distance);
	if (err) {
		snprintf(why, size, "where its threads' counters begin cannot be read: %s",
			 err == -EINVAL ? "that is no distance from the thread pointer"
					: strerror(-err));
		free(s);
		return err;
	}
	s->has_threads = !sonde_threads_init(&s->threads, pid, mods, s->why, sizeof(s->why));
	s->pid = pid;
	take_arenas(s, layout);
	s->place[0] = distance + layout->v[S_ALLOCATED];
	s->place[1] = distance + layout->v[S_FREED];
	*state = s;
	return 0;
}

static void detach(void *state)
{
	struct state *s = state;

	if (!s)
		return;
	sonde_threads_fini(&s->threads);
	free(s);
}

/* Both counters, over the threads that live. */
static int sums(struct state *s, uint64_t out[2], uint32_t *unread)
{
	uint64_t sum[2] = {0}, v[2];
	int err = s->has_threads ? sonde_threads_read(&s->threads) : -EOPNOTSUPP;

	*unread = 0;
	for (size_t i = 0; !err && i < s->threads.n; i++) {
		uint64_t tp = s->threads.tp[i];
		struct sonde_piece p[] = {{tp + (uint64_t)s->place[0], &v[0], 8},
					  {tp + (uint64_t)s->place[1], &v[1], 8}};
		int one = sonde_remote_readv(s->pid, p, 2);

		if (one == -ESRCH)
			return one;
		*unread += one != 0;
		for (int k = 0; !one && k < 2; k++)
			sum[k] += v[k];
	}
	if (!err)
		memcpy(out, sum, sizeof(sum));
	return err;
}

static int read_heap(void *state, const struct sonde_heap_budget *budget,
		     struct sonde_heap_reading *out, char *why, size_t size)
{
	struct state *s = state;
	uint64_t sum[2];
	uint32_t unread;
	int err;

	out->clean = true;
	if (s->arenas.array && !budget->no_bound &&
	    !sonde_jemalloc_arenas_read(s->pid, s->bias, &s->arenas,
					&out->bytes[SONDE_HEAP_LIVE])) {
		out->present |= 1u << SONDE_HEAP_LIVE;
		out->source = SONDE_HEAP_BOUND;
	}
	if (budget->no_threads)
		return 0;
	err = sums(s, sum, &unread);
	if (err) {
		snprintf(why, size, "%s",
			 s->has_threads ? "its list of threads was changing, or could not be read"
					: s->why);
		return err;
	}
	out->bytes[SONDE_HEAP_ALLOCATED] = sum[0];
	out->bytes[SONDE_HEAP_DEALLOCATED] = sum[1];
	out->present |= 1u << SONDE_HEAP_ALLOCATED | 1u << SONDE_HEAP_DEALLOCATED;
	out->threads = (uint32_t)s->threads.n;
	out->clean = !unread;
	return 0;
}

static int read_fields(void *state, uint64_t *out, uint32_t *told)
{
	struct state *s = state;
	uint32_t unread;
	int err = sums(s, out, &unread);

	*told = 3;
	if (!err && s->arenas.array) {
		err = sonde_jemalloc_arenas_read(s->pid, s->bias, &s->arenas, &out[2]);
		*told = 7;
	}
	return err ? err : unread ? -EFAULT : 0;
}

static bool places(void *state, int64_t out[2])
{
	const struct state *s = state;

	memcpy(out, s->place, sizeof(s->place));
	return true;
}

const struct sonde_heap_reader sonde_heap_reader_jemalloc = {
	.allocator = "jemalloc",
	.slots = slots,
	.n_slots = N_SLOTS,
	.inside = SONDE_INSIDE_JEMALLOC,
	.derive = derive,
	.learn = learn,
	.attach = attach,
	.read = read_heap,
	.detach = detach,
	.fields = read_fields,
	.places = places,
	.field = fields,
	.n_fields = SONDE_ARRAY_SIZE(fields),
};
