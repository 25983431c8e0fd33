// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The recipe for gperftools' tcmalloc. Its methods and the list of thread caches are exported by
 * name; the rest follows from the functions that make its statistics: GetNumericProperty() and the
 * local function that it has collect them.
 *
 * The invariant: exactly one candidate fits each rule, else the file is refused with the rule's
 * name.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/heap/code.h"
#include "target/heap/tcmalloc_layout.h"

#define PROPERTY   "_ZN22TCMallocImplementation18GetNumericPropertyEPKcPm"
#define TC_LENGTH  "_ZN8tcmalloc15CentralFreeList9tc_lengthEv"
#define OVERHEAD   "_ZN8tcmalloc15CentralFreeList13OverheadBytesEv"
#define STATS	   "_ZN8tcmalloc11ThreadCache14GetThreadStatsEPmS1_"
#define METADATA   "_ZN8tcmalloc21metadata_system_bytesEv"
#define HEAPS	   "_ZN8tcmalloc11ThreadCache13thread_heaps_E"
#define HEAP_COUNT "_ZN8tcmalloc11ThreadCache18thread_heap_count_E"
#define PAGE_LOCK  "_ZN8tcmalloc6Static14pageheap_lock_E"
#define CENTRAL	   "_ZN8tcmalloc6Static14central_cache_E"
#define SIZE_MAP   "_ZN8tcmalloc6Static8sizemap_E"

#define CALLS_MIN   4	 /* as often GetNumericProperty() has statistics collected, at least */
#define ARM_MAX	    10	 /* instructions after such a call that compute a property          */
#define EXTRACT_MAX 1000 /* instructions of the function that collects statistics */

const struct sonde_heap_slot sonde_tcmalloc_slots[TC_SLOTS] = {
	[TC_CENTRAL] = {"central_cache", 8},
	[TC_STRIDE] = {"central_cache.stride", 8},
	[TC_COUNTER] = {"counter", 8},
	[TC_SPANS] = {"num_spans", 8},
	[TC_USED_SLOTS] = {"used_slots", 4},
	[TC_CLASS] = {"size_class", 8},
	[TC_CLASSES] = {"num_size_classes", 4},
	[TC_CLASS_SIZE] = {"class_to_size", 4},
	[TC_BATCH] = {"num_objects_to_move", 4},
	[TC_CLASS_PAGES] = {"class_to_pages", 8},
	[TC_PAGE_SHIFT] = {"page_shift", 1},
	[TC_SYSTEM] = {"system_bytes", 8},
	[TC_FREE] = {"free_bytes", 8},
	[TC_UNMAPPED] = {"unmapped_bytes", 8},
	[TC_METADATA] = {"metadata_bytes", 8},
	[TC_THREAD_HEAPS] = {"thread_heaps", 8},
	[TC_THREAD_COUNT] = {"thread_heap_count", 4},
	[TC_THREAD_SIZE] = {"thread.size", 4},
	[TC_THREAD_NEXT] = {"thread.next", 8},
	[TC_LOCK] = {"pageheap_lock", 0}, /* by its own name, and only looked at for being held */
};

struct recipe {
	struct sonde_elf *elf;
	struct sonde_heap_layout *out;
	struct sonde_function property, extract;
	/* Slots of the collected statistics, as byte offsets within them. */
	int64_t system, rest[2];
	uint64_t size_map;
};

static int __attribute__((format(printf, 2, 3))) refuse(struct recipe *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->out->why, sizeof(r->out->why), fmt, ap);
	va_end(ap);
	return -EOPNOTSUPP;
}

static int only(struct recipe *r, const struct sonde_set *s, enum sonde_tcmalloc_slot slot)
{
	if (s->n != 1)
		return refuse(r, "%zu candidates for %s", s->n, sonde_tcmalloc_slots[slot].name);
	r->out->v[slot] = (int64_t)s->v[0];
	return 0;
}

static int find(struct recipe *r, const char *name, struct sonde_function *f)
{
	int err = sonde_function_find(r->elf, name, f);

	if (err && err != -ENOMEM)
		return refuse(r, "the library has no function %s", name);
	return err;
}

/* A register that is stepped by the size of a central list, from an address in writable data. */
static size_t find_steps(const struct recipe *r, const struct sonde_function *f, uint64_t *address,
			 int64_t *stride, int *reg)
{
	size_t found = 0;

	if (f->n > EXTRACT_MAX)
		return 0;
	for (size_t i = 0; i < f->n; i++) {
		const struct sonde_code *add = &f->code[i];

		if (add->op != SONDE_OP_ADD || add->mem || !add->has_imm || add->imm <= 0x80 ||
		    add->imm >= TC_STRIDE_MAX)
			continue;
		for (size_t k = 0; k < f->n; k++) {
			const struct sonde_code *lea = &f->code[k];

			if (lea->op != SONDE_OP_LEA || lea->reg[0] != add->reg[0] ||
			    !sonde_elf_is_writable(r->elf, lea->rip))
				continue;
			*address = lea->rip;
			*stride = add->imm;
			*reg = add->reg[0];
			found++;
		}
	}
	return found;
}

/* ExtractStats(): what GetNumericProperty() calls again and again, and goes through the central
 * lists. */
static int find_extract(struct recipe *r)
{
	const struct sonde_function *f = &r->property;
	struct sonde_set seen = {0};
	size_t found = 0;

	for (size_t i = 0; i < f->n; i++) {
		uint64_t to = f->code[i].op == SONDE_OP_CALL ? f->code[i].to : 0, address;
		struct sonde_function callee;
		size_t calls = 0;
		int64_t stride;
		int reg;

		if (!to || sonde_set_has(&seen, to))
			continue;
		if (seen.n == SONDE_SET_MAX)
			break; /* it has a dozen: this is another function, or means harm */
		sonde_set_add(&seen, to);
		for (size_t k = 0; k < f->n; k++)
			calls += f->code[k].op == SONDE_OP_CALL && f->code[k].to == to;
		if (calls < CALLS_MIN || sonde_function_at(r->elf, to, &callee))
			continue;
		if (find_steps(r, &callee, &address, &stride, &reg) == 1 && !found++)
			r->extract = callee;
		else
			sonde_function_free(&callee);
	}
	return found == 1 ? 0
			  : refuse(r, "%zu candidates for the function that collects statistics",
				   found);
}

/* One arm of GetNumericProperty(): which statistics are added and which subtracted, up to the
 * store. */
struct arm {
	int64_t first; /* loaded first */
	int64_t minus[8];
	size_t n, n_minus;
};

static void read_arm(const struct sonde_function *f, size_t from, struct arm *a)
{
	*a = (struct arm){.first = -1};
	for (size_t i = from; i < f->n && i < from + ARM_MAX; i++) {
		const struct sonde_code *c = &f->code[i];

		if (c->mem && c->mem_first && !c->stack)
			return;
		if (!c->mem || !c->stack || c->mem_first)
			continue;
		a->n++;
		if (a->first < 0)
			a->first = c->disp;
		if (c->op == SONDE_OP_SUB && a->n_minus < SONDE_ARRAY_SIZE(a->minus))
			a->minus[a->n_minus++] = c->disp;
	}
}

/*
 * generic.current_allocated_bytes uses six statistics, more than any other: bytes of the system
 * less those of threads, central lists, transfer caches, and, further on in the page heap's part,
 * free and unmapped.
 */
static int find_formula(struct recipe *r)
{
	size_t found = 0;

	for (size_t i = 0; i < r->property.n; i++) {
		const struct sonde_code *c = &r->property.code[i];
		size_t beyond = 0;
		struct arm a;

		if (c->op != SONDE_OP_CALL || c->to != r->extract.start)
			continue;
		read_arm(&r->property, i + 1, &a);
		if (a.n != 6)
			continue;
		for (size_t k = 0; k < a.n_minus; k++)
			if (a.minus[k] > a.first && beyond++ < 2)
				r->rest[beyond - 1] = a.minus[k];
		if (beyond != 2)
			continue;
		r->system = a.first;
		found++;
	}
	return found == 1 ? 0
			  : refuse(r, "%zu candidates for the formula of allocated bytes", found);
}

static int find_central(struct recipe *r)
{
	struct sonde_set counter = {0}, classes = {0};
	uint64_t central = 0;
	int64_t stride = 0;
	int reg = SONDE_NO_REG, err;

	if (find_steps(r, &r->extract, &central, &stride, &reg) != 1)
		return refuse(r, "no candidate for central_cache");
	r->out->v[TC_CENTRAL] = (int64_t)central;
	r->out->v[TC_STRIDE] = stride;
	for (size_t i = 0; i < r->extract.n; i++) {
		const struct sonde_code *c = &r->extract.code[i];
		int64_t disp = sonde_code_load(c, 0, stride);

		if (disp >= 0 && c->base == reg)
			sonde_set_add(&counter, (uint64_t)disp);
		if (c->op == SONDE_OP_CMP && c->rip && c->width == 32 &&
		    sonde_elf_is_writable(r->elf, c->rip))
			sonde_set_add(&classes, c->rip);
	}
	err = only(r, &counter, TC_COUNTER);
	return err ? err : only(r, &classes, TC_CLASSES);
}

/* Follow loads from data to where they are stored in what is collected. */
static int find_page_heap(struct recipe *r)
{
	const struct {
		int64_t at;
		enum sonde_tcmalloc_slot slot;
	} wanted[] = {
		{r->system, TC_SYSTEM},
		{r->rest[0], TC_FREE},
		{r->rest[1], TC_UNMAPPED},
	};
	struct sonde_set from[SONDE_ARRAY_SIZE(wanted)] = {0};
	const struct sonde_function *f = &r->extract;
	int err = 0;

	for (size_t i = 0; i < f->n; i++) {
		const struct sonde_code *store = &f->code[i];
		size_t k = i;

		if (store->op != SONDE_OP_MOV || !store->mem_first || store->stack || store->rip ||
		    store->reg[1] == SONDE_NO_REG)
			continue;
		/* The last load into that register. */
		while (k-- > 0 && f->code[k].reg[0] != store->reg[1])
			;
		if (k == SIZE_MAX || f->code[k].op != SONDE_OP_MOV || !f->code[k].rip ||
		    f->code[k].mem_first || f->code[k].width != 64)
			continue;
		for (size_t w = 0; w < SONDE_ARRAY_SIZE(wanted); w++)
			if (store->disp == wanted[w].at &&
			    sonde_elf_is_writable(r->elf, f->code[k].rip))
				sonde_set_add(&from[w], f->code[k].rip);
	}
	for (size_t w = 0; w < SONDE_ARRAY_SIZE(wanted) && !err; w++)
		err = only(r, &from[w], wanted[w].slot);
	return err;
}

/* What a method of a central list shows: the size map's address, arrays in it, and fields of the
 * list. */
struct method {
	struct sonde_set map, scale4, scale8, factor, small, shift;
};

static int read_method(struct recipe *r, const char *name, struct method *m)
{
	struct sonde_function f;
	int err = find(r, name, &f);

	*m = (struct method){0};
	if (err)
		return err;
	for (size_t i = 0; i < f.n; i++) {
		const struct sonde_code *c = &f.code[i];
		int64_t small = sonde_code_load(c, 0, 0x20);

		if (c->op == SONDE_OP_LEA && c->rip)
			sonde_set_add(&m->map, c->rip);
		if (c->mem && !c->mem_first && c->index != SONDE_NO_REG && c->scale == 4)
			sonde_set_add(&m->scale4, (uint64_t)c->disp);
		if (c->mem && !c->mem_first && c->index != SONDE_NO_REG && c->scale == 8)
			sonde_set_add(&m->scale8, (uint64_t)c->disp);
		if (c->op == SONDE_OP_IMUL && c->mem)
			sonde_set_add(&m->factor, (uint64_t)c->disp);
		if (c->op == SONDE_OP_SHL && c->has_imm)
			sonde_set_add(&m->shift, (uint64_t)c->imm);
		if (small >= 0)
			sonde_set_add(&m->small, (uint64_t)small);
	}
	sonde_function_free(&f);
	return 0;
}

/* tc_length() is objects in the transfer cache, OverheadBytes() what spans leave unused at their
 * end. */
static int find_size_map(struct recipe *r)
{
	int64_t *v = r->out->v;
	struct method length, over;
	int err = read_method(r, TC_LENGTH, &length);

	err = err ? err : read_method(r, OVERHEAD, &over);
	err = err ? err : only(r, &length.factor, TC_USED_SLOTS);
	err = err ? err : only(r, &length.scale4, TC_BATCH);
	err = err ? err : only(r, &over.factor, TC_SPANS);
	err = err ? err : only(r, &over.scale8, TC_CLASS_PAGES);
	err = err ? err : only(r, &over.scale4, TC_CLASS_SIZE);
	err = err ? err : only(r, &over.shift, TC_PAGE_SHIFT);
	err = err ? err : only(r, &over.small, TC_CLASS);
	if (err)
		return err;
	if (length.map.n != 1 || over.map.n != 1 || length.map.v[0] != over.map.v[0] ||
	    length.small.n != 1 || length.small.v[0] != over.small.v[0])
		return refuse(r, "two functions of the library disagree on its size map");
	r->size_map = over.map.v[0];
	v[TC_BATCH] += (int64_t)r->size_map;
	v[TC_CLASS_PAGES] += (int64_t)r->size_map;
	v[TC_CLASS_SIZE] += (int64_t)r->size_map;
	if (v[TC_PAGE_SHIFT] < 12 || v[TC_PAGE_SHIFT] > 20)
		return refuse(r, "pages of 2^%d bytes", (int)v[TC_PAGE_SHIFT]);
	return 0;
}

/* The statistics take an object's size from the same table. */
static int check_class_size(struct recipe *r)
{
	for (size_t i = 0; i < r->extract.n; i++)
		if (r->extract.code[i].op == SONDE_OP_LEA &&
		    (int64_t)r->extract.code[i].rip == r->out->v[TC_CLASS_SIZE])
			return 0;
	return refuse(r, "two functions of the library disagree on the sizes of classes");
}

static int find_thread_caches(struct recipe *r)
{
	struct sonde_set size = {0}, next = {0};
	struct sonde_function f;
	int err = find(r, STATS, &f);

	if (err)
		return err;
	for (size_t i = 0; i < f.n; i++) {
		const struct sonde_code *c = &f.code[i];
		int64_t disp = sonde_code_load(c, 0x40, TC_STRIDE_MAX);

		if (disp >= 0)
			sonde_set_add(&next, (uint64_t)disp);
		if (c->op == SONDE_OP_MOVSXD && c->mem && !c->rip && c->disp > 0x40)
			sonde_set_add(&size, (uint64_t)c->disp);
	}
	sonde_function_free(&f);
	err = only(r, &size, TC_THREAD_SIZE);
	return err ? err : only(r, &next, TC_THREAD_NEXT);
}

static int find_metadata(struct recipe *r)
{
	struct sonde_set from = {0};
	struct sonde_function f;
	int err = find(r, METADATA, &f);

	if (err)
		return err;
	for (size_t i = 0; i < f.n; i++)
		if (f.code[i].op == SONDE_OP_MOV && f.code[i].rip && f.code[i].width == 64 &&
		    sonde_elf_is_writable(r->elf, f.code[i].rip))
			sonde_set_add(&from, f.code[i].rip);
	sonde_function_free(&f);
	return only(r, &from, TC_METADATA);
}

static int take_named(struct recipe *r)
{
	static const struct {
		const char *name;
		enum sonde_tcmalloc_slot slot;
	} named[] = {
		{HEAPS, TC_THREAD_HEAPS},
		{HEAP_COUNT, TC_THREAD_COUNT},
		{PAGE_LOCK, TC_LOCK},
	};
	uint64_t at, size;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(named); i++) {
		if (sonde_elf_find_data(r->elf, named[i].name, &at, &size))
			return refuse(r, "the library has no symbol %s", named[i].name);
		r->out->v[named[i].slot] = (int64_t)at;
	}
	return 0;
}

/* A static program's symbols name what the code was searched for: both must agree. */
static int check_names(struct recipe *r)
{
	uint64_t central, map, size;

	if (sonde_elf_find_data(r->elf, CENTRAL, &central, &size) ||
	    sonde_elf_find_data(r->elf, SIZE_MAP, &map, &size))
		return 0;
	if ((int64_t)central != r->out->v[TC_CENTRAL] || map != r->size_map)
		return refuse(r, "code and symbols disagree on the central lists");
	r->out->named = true;
	return 0;
}

int sonde_tcmalloc_derive(struct sonde_elf *elf, struct sonde_heap_layout *out)
{
	struct recipe *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->elf = elf;
	r->out = out;
	err = find(r, PROPERTY, &r->property);
	err = err ? err : find_extract(r);
	err = err ? err : find_formula(r);
	err = err ? err : find_central(r);
	err = err ? err : find_page_heap(r);
	err = err ? err : find_size_map(r);
	err = err ? err : check_class_size(r);
	err = err ? err : find_thread_caches(r);
	err = err ? err : find_metadata(r);
	err = err ? err : take_named(r);
	err = err ? err : check_names(r);
	sonde_function_free(&r->property);
	sonde_function_free(&r->extract);
	free(r);
	return err;
}
