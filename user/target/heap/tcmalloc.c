// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * gperftools' heap, by three system calls whatever its size: the page heap's words and all central
 * lists in one piece; the thread caches; and the page heap's words again. They must not have moved
 * meanwhile, and the page heap must not have been locked, else it is read anew.
 */
#include <errno.h>
#include <stdio.h>

#include "core/mem.h"
#include "target/heap/inside/report.h"
#include "target/heap/remote.h"
#include "target/heap/tcmalloc_layout.h"

#define TRIES	    8
#define CACHES_MAX  8192
#define CACHE_BYTES (64 << 20) /* more than a thread's cache may hold */
#define SLOTS_MAX   64	       /* of a transfer cache */

/* The fields of a report (inside/main.c: tell_tcmalloc). */
enum {
	R_ALLOCATED,
	R_HEAP,
	R_FREE,
	R_UNMAPPED,
	R_THREAD,
	R_CENTRAL,
	R_TRANSFER,
	R_PHYSICAL,
	R_FIELDS,
};

static const struct sonde_heap_field fields[R_FIELDS] = {
	[R_ALLOCATED] = {"generic.current_allocated_bytes"},
	[R_HEAP] = {"generic.heap_size"},
	[R_FREE] = {"tcmalloc.pageheap_free_bytes"},
	[R_UNMAPPED] = {"tcmalloc.pageheap_unmapped_bytes"},
	[R_THREAD] = {"tcmalloc.current_total_thread_cache_bytes"},
	[R_CENTRAL] = {"tcmalloc.central_cache_free_bytes"},
	[R_TRANSFER] = {"tcmalloc.transfer_cache_free_bytes"},
	[R_PHYSICAL] = {"generic.total_physical_bytes"},
};

struct page_heap {
	uint64_t system, free, unmapped, metadata;
	uint32_t lock;
};

struct tc_heap {
	pid_t pid;
	uint64_t bias;
	int64_t v[TC_SLOTS];
	uint32_t classes;
	int32_t size[TC_CLASSES_MAX], batch[TC_CLASSES_MAX];
	uint64_t pages[TC_CLASSES_MAX];
	uint8_t *central; /* as last read */
	uint64_t *cache;  /* addresses of thread caches, in their order */
	size_t caches, cap;
};

struct tc_figures {
	struct page_heap page;
	uint64_t thread, central, transfer, live;
	bool clean;
};

static uint64_t at(const struct tc_heap *h, enum sonde_tcmalloc_slot slot)
{
	return h->bias + (uint64_t)h->v[slot];
}

static void tc_detach(void *state)
{
	struct tc_heap *h = state;

	free(h->central);
	free(h->cache);
	free(h);
}

static int read_classes(struct tc_heap *h)
{
	int err = sonde_remote_read(h->pid, at(h, TC_CLASSES), &h->classes, 4);

	if (err)
		return err;
	if (h->classes < TC_CLASSES_MIN || h->classes > TC_CLASSES_MAX)
		return -EINVAL;
	return sonde_remote_readv(h->pid,
				  (struct sonde_piece[]){
					  {at(h, TC_CLASS_SIZE), h->size, 4 * h->classes},
					  {at(h, TC_BATCH), h->batch, 4 * h->classes},
					  {at(h, TC_CLASS_PAGES), h->pages, 8 * h->classes},
				  },
				  3);
}

static uint64_t list_word(const struct tc_heap *h, uint32_t class, enum sonde_tcmalloc_slot field)
{
	uint64_t v;

	memcpy(&v, h->central + (uint64_t)h->v[TC_STRIDE] * class + h->v[field], sizeof(v));
	return v;
}

/* Each central list knows its class: that alone pins where the array is and how far apart they are.
 */
static bool classes_fit(const struct tc_heap *h)
{
	for (uint32_t i = 1; i < h->classes; i++)
		if (h->size[i] <= h->size[i - 1] || h->size[i] > TC_CLASS_SIZE_MAX ||
		    h->batch[i] < 2 || h->batch[i] > 65536 || h->pages[i] < 1 ||
		    h->pages[i] > 1024 || (uint32_t)list_word(h, i, TC_CLASS) != i)
			return false;
	return true;
}

static bool layout_fits(const int64_t *v)
{
	static const enum sonde_tcmalloc_slot in_list[] = {TC_COUNTER, TC_SPANS, TC_USED_SLOTS,
							   TC_CLASS};

	if (v[TC_STRIDE] < 64 || v[TC_STRIDE] > TC_STRIDE_MAX || v[TC_PAGE_SHIFT] < 12 ||
	    v[TC_PAGE_SHIFT] > 20 || v[TC_THREAD_SIZE] <= 0 || v[TC_THREAD_NEXT] <= 0)
		return false;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(in_list); i++)
		if (v[in_list[i]] < 0 || v[in_list[i]] + 8 > v[TC_STRIDE])
			return false;
	return true;
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

static int prepare(struct tc_heap *h)
{
	size_t len;
	int err = layout_fits(h->v) ? read_classes(h) : -EINVAL;

	if (err)
		return err;
	len = (size_t)h->v[TC_STRIDE] * h->classes;
	h->central = malloc(len);
	if (!h->central)
		return -ENOMEM;
	err = sonde_remote_read(h->pid, at(h, TC_CENTRAL), h->central, len);
	return err ? err : classes_fit(h) ? 0 : -EINVAL;
}

static int tc_attach(pid_t pid, const struct sonde_modules *mods, size_t m,
		     const struct sonde_heap_layout *layout, void **state, char *why, size_t size)
{
	struct tc_heap *h = calloc(1, sizeof(*h));
	int err = -ENOMEM;

	if (h) {
		h->pid = pid;
		memcpy(h->v, layout->v, sizeof(h->v));
		err = find_bias(&mods->m[m], &h->bias);
	}
	if (!err)
		err = prepare(h);
	if (err) {
		snprintf(why, size, "its central lists are not where the code says: %s",
			 strerror(-err));
		if (h)
			tc_detach(h);
		return err;
	}
	*state = h;
	return 0;
}

/* ---- one reading ---- */

static size_t page_pieces(const struct tc_heap *h, struct page_heap *p, struct sonde_piece *out)
{
	out[0] = (struct sonde_piece){at(h, TC_LOCK), &p->lock, 4};
	out[1] = (struct sonde_piece){at(h, TC_SYSTEM), &p->system, 8};
	out[2] = (struct sonde_piece){at(h, TC_FREE), &p->free, 8};
	out[3] = (struct sonde_piece){at(h, TC_UNMAPPED), &p->unmapped, 8};
	out[4] = (struct sonde_piece){at(h, TC_METADATA), &p->metadata, 8};
	return 5;
}

/* Objects in the lists and the tail of each span, and in batches on their way between threads. */
static void sum_central(const struct tc_heap *h, struct tc_figures *f)
{
	for (uint32_t i = 1; i < h->classes; i++) {
		uint64_t count = list_word(h, i, TC_COUNTER), spans = list_word(h, i, TC_SPANS);
		uint64_t span = h->pages[i] << h->v[TC_PAGE_SHIFT], size = (uint64_t)h->size[i];
		uint32_t slots = (uint32_t)list_word(h, i, TC_USED_SLOTS);

		if (count > f->page.system / 8 || spans > f->page.system >> 12 ||
		    slots > SLOTS_MAX) {
			f->clean = false;
			continue;
		}
		f->central += size * count + spans * (span % size);
		f->transfer += size * slots * (uint64_t)h->batch[i];
	}
}

static int list_caches(struct tc_heap *h, uint64_t head)
{
	h->caches = 0;
	while (head) {
		int err = h->caches == CACHES_MAX || (head & 7)
				  ? -EAGAIN
				  : SONDE_GROW(h->cache, h->caches, h->cap);

		if (err)
			return err;
		h->cache[h->caches++] = head;
		err = sonde_remote_read(h->pid, head + (uint64_t)h->v[TC_THREAD_NEXT], &head, 8);
		if (err)
			return err;
	}
	return 0;
}

/* Sizes and links of the caches known; *same: they still form the list. */
static int read_caches(struct tc_heap *h, struct tc_figures *f, bool *same)
{
	size_t n = h->caches ? h->caches : 1;
	struct sonde_piece *p = calloc(2 * n, sizeof(*p));
	uint64_t *next = calloc(n, sizeof(*next));
	int32_t *size = calloc(n, sizeof(*size));
	int64_t sum = 0;
	int err = p && next && size ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < h->caches; i++) {
		p[2 * i] = (struct sonde_piece){h->cache[i] + (uint64_t)h->v[TC_THREAD_SIZE],
						&size[i], 4};
		p[2 * i + 1] = (struct sonde_piece){h->cache[i] + (uint64_t)h->v[TC_THREAD_NEXT],
						    &next[i], 8};
	}
	if (!err)
		err = sonde_remote_readv(h->pid, p, 2 * h->caches);
	for (size_t i = 0; !err && i < h->caches; i++) {
		if (next[i] != (i + 1 < h->caches ? h->cache[i + 1] : 0))
			*same = false;
		if (size[i] > CACHE_BYTES || size[i] < -CACHE_BYTES)
			f->clean = false;
		else
			sum += size[i];
	}
	if (!err)
		f->thread = sum > 0 ? (uint64_t)sum : 0;
	free(p);
	free(next);
	free(size);
	return err;
}

static int sum_caches(struct tc_heap *h, struct tc_figures *f, uint64_t head, uint32_t count)
{
	bool same = count == h->caches && (count ? h->cache[0] == head : !head);
	int err = same ? read_caches(h, f, &same) : 0;

	if (err == -EFAULT)
		same = false;
	else if (err)
		return err;
	if (same)
		return 0;
	same = true;
	err = list_caches(h, head);
	if (!err)
		err = read_caches(h, f, &same);
	f->clean &= same && !err && h->caches == count;
	return err == -EAGAIN || err == -EFAULT ? 0 : err;
}

static int read_once(struct tc_heap *h, struct tc_figures *f)
{
	struct page_heap after;
	struct sonde_piece p[8];
	uint64_t head = 0;
	uint32_t count = 0;
	size_t n;
	int err;

	*f = (struct tc_figures){.clean = true};
	n = page_pieces(h, &f->page, p);
	p[n++] = (struct sonde_piece){at(h, TC_THREAD_HEAPS), &head, 8};
	p[n++] = (struct sonde_piece){at(h, TC_THREAD_COUNT), &count, 4};
	/* In one piece: 4 times cheaper than two words of each list. */
	p[n++] = (struct sonde_piece){at(h, TC_CENTRAL), h->central,
				      (size_t)h->v[TC_STRIDE] * h->classes};
	err = sonde_remote_readv(h->pid, p, n);
	if (err)
		return err;
	sum_central(h, f);
	err = sum_caches(h, f, head, count);
	if (err)
		return err;
	err = sonde_remote_readv(h->pid, p, page_pieces(h, &after, p));
	if (err)
		return err;
	/* Metadata grows with every list of caches; the rest must hold still. */
	f->clean &= !f->page.lock && !after.lock && after.system == f->page.system &&
		    after.free == f->page.free && after.unmapped == f->page.unmapped;
	return 0;
}

/* The figures add up or they are none. */
static int read_figures(struct tc_heap *h, struct tc_figures *f)
{
	for (int i = 0; i < TRIES; i++) {
		uint64_t used;
		int err = read_once(h, f);

		if (err)
			return err;
		used = f->page.free + f->page.unmapped + f->thread + f->central + f->transfer;
		if (used > f->page.system)
			f->clean = false;
		f->live = used > f->page.system ? 0 : f->page.system - used;
		if (f->clean)
			break;
	}
	return f->page.free + f->page.unmapped > f->page.system ? -EIO : 0;
}

static int tc_read(void *state, const struct sonde_heap_budget *budget,
		   struct sonde_heap_reading *r, char *why, size_t size)
{
	struct tc_heap *h = state;
	struct tc_figures f;
	int err = read_figures(h, &f);
	const struct {
		enum sonde_heap_figure figure;
		uint64_t bytes;
	} figures[] = {
		{SONDE_HEAP_LIVE, f.live},
		{SONDE_HEAP_SYSTEM, f.page.system},
		{SONDE_HEAP_FREE_PAGES, f.page.free},
		{SONDE_HEAP_FREE_CENTRAL, f.central},
		{SONDE_HEAP_FREE_TRANSFER, f.transfer},
		{SONDE_HEAP_FREE_THREAD, f.thread},
		{SONDE_HEAP_UNMAPPED, f.page.unmapped},
		{SONDE_HEAP_METADATA, f.page.metadata},
	};

	(void)budget; /* it costs the same at any size */
	if (err) {
		snprintf(why, size, "its page heap cannot be read: %s", strerror(-err));
		return err;
	}
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(figures); i++) {
		r->bytes[figures[i].figure] = figures[i].bytes;
		r->present |= 1u << figures[i].figure;
	}
	r->source = SONDE_HEAP_COUNTED;
	r->clean = f.clean;
	r->threads = (uint32_t)h->caches;
	return 0;
}

static int tc_fields(void *state, uint64_t *out, uint32_t *told)
{
	struct tc_heap *h = state;
	struct tc_figures f;
	int err = read_figures(h, &f);

	if (err)
		return err;
	if (!f.clean)
		return -EIO; /* it is at rest: nothing may be amiss */
	out[R_ALLOCATED] = f.live;
	out[R_HEAP] = f.page.system;
	out[R_FREE] = f.page.free;
	out[R_UNMAPPED] = f.page.unmapped;
	out[R_THREAD] = f.thread;
	out[R_CENTRAL] = f.central;
	out[R_TRANSFER] = f.transfer;
	out[R_PHYSICAL] = f.page.metadata + f.page.system - f.page.unmapped;
	*told = (1u << R_FIELDS) - 1;
	return 0;
}

const struct sonde_heap_reader sonde_heap_reader_tcmalloc = {
	.allocator = "tcmalloc (gperftools)",
	.slots = sonde_tcmalloc_slots,
	.n_slots = TC_SLOTS,
	.derive = sonde_tcmalloc_derive,
	.attach = tc_attach,
	.read = tc_read,
	.detach = tc_detach,
	.fields = tc_fields,
	.field = fields,
	.n_fields = R_FIELDS,
	.inside = SONDE_INSIDE_TCMALLOC,
};
