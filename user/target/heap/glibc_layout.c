// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The recipe for glibc's malloc. Three exported functions (mallinfo2, malloc_trim, malloc_stats) go
 * through all arenas, so what all three name is the arena ring; the local function that the first
 * and the last share counts one arena, and so names every field that counting needs.
 *
 * The invariant: exactly one candidate fits each rule, else the file is refused with the rule's
 * name.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/heap/code.h"
#include "target/heap/glibc_layout.h"

#define ARENA_MAX   0x4000 /* bytes of struct malloc_state, at most */
#define COUNTER_MAX 200	   /* instructions of the function that counts one arena */

const struct sonde_heap_slot sonde_glibc_slots[GLIBC_SLOTS] = {
	[GLIBC_MAIN_ARENA] = {"main_arena", 8},
	[GLIBC_NEXT] = {"next", 8},
	[GLIBC_SYSTEM_MEM] = {"system_mem", 8},
	[GLIBC_FAST] = {"fastbins", 8},
	[GLIBC_TOP] = {"top", 8},
	[GLIBC_N_MMAPS] = {"n_mmaps", 4},
	[GLIBC_MMAPPED_MEM] = {"mmapped_mem", 8},
	[GLIBC_SAFE_LINK] = {"safe_link", 0},
	[GLIBC_TCACHE_SLOT] = {"tcache.slot", 8},
	[GLIBC_TCACHE_TP] = {"tcache.tp", 8},
	[GLIBC_TCACHE_COUNTS] = {"tcache.counts", 2},
	[GLIBC_TCACHE_WIDTH] = {"tcache.width", 0},
};

/* The functions that go through all arenas. */
enum { F_INFO, F_TRIM, F_STATS, FUNCTIONS };

struct recipe {
	struct sonde_elf *elf;
	struct sonde_heap_layout *out;
	struct sonde_function f[FUNCTIONS], count; /* count: of one arena */
	struct sonde_set taken[FUNCTIONS];	   /* writable addresses that are taken */
	struct sonde_set loads[FUNCTIONS];	   /* displacements within an arena     */
	struct sonde_set calls[FUNCTIONS];
};

static int __attribute__((format(printf, 2, 3))) refuse(struct recipe *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->out->why, sizeof(r->out->why), fmt, ap);
	va_end(ap);
	return -EOPNOTSUPP;
}

static int find_functions(struct recipe *r)
{
	static const char *const names[FUNCTIONS][2] = {
		[F_INFO] = {"mallinfo2", "mallinfo"}, /* the first is of 2.33 */
		[F_TRIM] = {"malloc_trim", NULL},
		[F_STATS] = {"malloc_stats", NULL},
	};

	for (size_t i = 0; i < FUNCTIONS; i++) {
		int err = sonde_function_find(r->elf, names[i][0], &r->f[i]);

		if (err && names[i][1])
			err = sonde_function_find(r->elf, names[i][1], &r->f[i]);
		if (err == -ENOMEM)
			return err;
		if (err)
			return refuse(r, "the C library has no function %s", names[i][0]);
	}
	return 0;
}

static void collect(struct recipe *r, size_t which)
{
	const struct sonde_function *f = &r->f[which];

	for (size_t i = 0; i < f->n; i++) {
		const struct sonde_code *c = &f->code[i];
		int64_t disp = sonde_code_load(c, 0xff, ARENA_MAX);

		if (c->op == SONDE_OP_LEA && c->rip && sonde_elf_is_writable(r->elf, c->rip))
			sonde_set_add(&r->taken[which], c->rip);
		if (disp >= 0)
			sonde_set_add(&r->loads[which], (uint64_t)disp);
		if (c->op == SONDE_OP_CALL && c->to && sonde_elf_is_code(r->elf, c->to))
			sonde_set_add(&r->calls[which], c->to);
	}
}

/* The ring: the one writable address that all take, and the one displacement that all follow. */
static int find_ring(struct recipe *r)
{
	uint64_t arena, next;
	size_t n;

	for (size_t i = 0; i < FUNCTIONS; i++)
		collect(r, i);
	n = sonde_set_common(r->taken, FUNCTIONS, &arena);
	if (n != 1)
		return refuse(r, "%zu candidates for main_arena in the C library's code", n);
	n = sonde_set_common(r->loads, FUNCTIONS, &next);
	if (n != 1)
		return refuse(r, "%zu candidates for the arenas' link", n);
	r->out->v[GLIBC_MAIN_ARENA] = (int64_t)arena;
	r->out->v[GLIBC_NEXT] = (int64_t)next;
	return 0;
}

/* Counts one arena: takes main_arena's address, and loads a field close behind the link. */
static bool is_counter(const struct recipe *r, const struct sonde_function *f)
{
	int64_t next = r->out->v[GLIBC_NEXT];
	bool takes = false, loads = false;

	for (size_t i = 0; i < f->n; i++) {
		const struct sonde_code *c = &f->code[i];

		loads |= sonde_code_load(c, next, next + 0x80) >= 0;
		takes |= c->op == SONDE_OP_LEA && (int64_t)c->rip == r->out->v[GLIBC_MAIN_ARENA];
	}
	return takes && loads && f->n < COUNTER_MAX;
}

static int find_counter(struct recipe *r)
{
	size_t found = 0;

	for (size_t i = 0; i < r->calls[F_INFO].n; i++) {
		uint64_t to = r->calls[F_INFO].v[i];
		struct sonde_function f;

		if (!sonde_set_has(&r->calls[F_STATS], to) || sonde_function_at(r->elf, to, &f))
			continue;
		if (is_counter(r, &f) && !found++)
			r->count = f;
		else
			sonde_function_free(&f);
	}
	return found == 1
		       ? 0
		       : refuse(r, "%zu candidates for the function that counts one arena", found);
}

/* Only one member, into a slot. */
static int only(struct recipe *r, const struct sonde_set *s, enum sonde_glibc_slot slot)
{
	if (s->n != 1)
		return refuse(r, "%zu candidates for %s", s->n, sonde_glibc_slots[slot].name);
	r->out->v[slot] = (int64_t)s->v[0];
	return 0;
}

static void add_load(struct sonde_set *s, const struct sonde_code *c, int64_t low, int64_t high)
{
	int64_t disp = sonde_code_load(c, low, high);

	if (disp >= 0)
		sonde_set_add(s, (uint64_t)disp);
}

static void add_lea(struct sonde_set *s, const struct sonde_code *c, int64_t low, int64_t high)
{
	if (c->op == SONDE_OP_LEA && !c->rip && !c->stack && c->base != SONDE_NO_REG &&
	    c->index == SONDE_NO_REG && c->disp > low && c->disp < high)
		sonde_set_add(s, (uint64_t)c->disp);
}

static int find_fields(struct recipe *r)
{
	struct sonde_set memory = {0}, fast = {0}, top = {0}, end = {0}, wide = {0}, narrow = {0};
	int64_t next = r->out->v[GLIBC_NEXT];
	int err;

	for (size_t i = 0; i < r->count.n; i++) {
		const struct sonde_code *c = &r->count.code[i];

		add_load(&memory, c, next, next + 0x80);
		add_load(&top, c, 0x4f, 0x100);
		add_lea(&fast, c, 0, 0x20);
		add_lea(&end, c, 0x400, next);
		if (c->op == SONDE_OP_SHR && c->has_imm && c->imm == 12)
			r->out->v[GLIBC_SAFE_LINK] = 1;
		/* Loads of either width come as vector instructions too: any mnemonic will do. */
		if (c->rip && c->op != SONDE_OP_LEA && sonde_elf_is_writable(r->elf, c->rip))
			sonde_set_add(c->width == 64 ? &wide : &narrow, c->rip);
	}
	err = only(r, &memory, GLIBC_SYSTEM_MEM);
	err = err ? err : only(r, &top, GLIBC_TOP);
	err = err ? err : only(r, &fast, GLIBC_FAST);
	err = err ? err : only(r, &narrow, GLIBC_N_MMAPS);
	err = err ? err : only(r, &wide, GLIBC_MMAPPED_MEM);
	if (err)
		return err;
	if (end.n != 1 || (int64_t)end.v[0] != r->out->v[GLIBC_TOP] + 16 * GLIBC_BINS)
		return refuse(r, "the arena does not have %d bins", GLIBC_BINS);
	return 0;
}

/* malloc_stats() prints the bytes of mappings, so it names them too. */
static int check_mapped(struct recipe *r)
{
	const struct sonde_function *f = &r->f[F_STATS];

	for (size_t i = 0; i < f->n; i++)
		if ((int64_t)f->code[i].rip == r->out->v[GLIBC_MMAPPED_MEM])
			return 0;
	return refuse(r, "malloc_stats does not name what seemed to be the bytes of mappings");
}

/*
 * The thread's cache: what malloc() first loads from beside the thread pointer, at an offset that a
 * word of the GOT holds, or, in a static program, that stands in the instruction.
 */
static void find_cache(struct recipe *r, const struct sonde_function *f)
{
	struct {
		int reg;
		uint64_t from;
	} got[16];
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		const struct sonde_code *c = &f->code[i];

		if (c->op == SONDE_OP_MOV && c->rip && !c->mem_first && n < SONDE_ARRAY_SIZE(got)) {
			got[n].reg = c->reg[0];
			got[n++].from = c->rip;
		}
		if (c->op != SONDE_OP_MOV || !c->fs || c->mem_first || c->width != 64)
			continue;
		if (c->base == SONDE_NO_REG) {
			r->out->v[GLIBC_TCACHE_TP] = c->disp;
			return;
		}
		for (size_t k = n; k-- > 0;) {
			if (got[k].reg != c->base)
				continue;
			r->out->v[GLIBC_TCACHE_SLOT] = (int64_t)got[k].from;
			return;
		}
		return;
	}
}

/* Its counters: an array of small numbers, indexed by the size's class. */
static int find_cache_fields(struct recipe *r)
{
	struct sonde_set counts = {0};
	struct sonde_function f;
	int width = 0;

	if (sonde_function_find(r->elf, "malloc", &f))
		return refuse(r, "the C library has no function malloc");
	find_cache(r, &f);
	for (size_t i = 0; i < f.n; i++) {
		const struct sonde_code *c = &f.code[i];

		if (c->op != SONDE_OP_MOVZX || !c->mem || c->index == SONDE_NO_REG ||
		    c->width != 8u * (unsigned)c->scale)
			continue;
		sonde_set_add(&counts, (uint64_t)c->disp);
		width = c->scale;
	}
	sonde_function_free(&f);
	if (!r->out->v[GLIBC_TCACHE_SLOT] && !r->out->v[GLIBC_TCACHE_TP])
		return refuse(r, "malloc does not show where a thread's cache is");
	r->out->v[GLIBC_TCACHE_WIDTH] = width;
	return only(r, &counts, GLIBC_TCACHE_COUNTS);
}

/* A static program's symbols name what the code was searched for: both must agree. */
static int check_names(struct recipe *r)
{
	uint64_t at, size;

	if (sonde_elf_find_data(r->elf, "main_arena", &at, &size))
		return 0;
	if ((int64_t)at != r->out->v[GLIBC_MAIN_ARENA])
		return refuse(r, "code and symbols disagree on main_arena");
	r->out->named = true;
	return 0;
}

int sonde_glibc_derive(struct sonde_elf *elf, struct sonde_heap_layout *out)
{
	struct recipe *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->elf = elf;
	r->out = out;
	err = find_functions(r);
	err = err ? err : find_ring(r);
	err = err ? err : find_counter(r);
	err = err ? err : find_fields(r);
	err = err ? err : check_mapped(r);
	err = err ? err : find_cache_fields(r);
	err = err ? err : check_names(r);
	for (size_t i = 0; i < FUNCTIONS; i++)
		sonde_function_free(&r->f[i]);
	sonde_function_free(&r->count);
	free(r);
	return err;
}
