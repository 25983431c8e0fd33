// SPDX-License-Identifier: GPL-2.0-or-later
/* The search for an allocator's tables; see blocks.h. */
#include <errno.h>
#include <sys/uio.h>

#include "core/mem.h"
#include "target/allocator.h"
#include "target/blocks/blocks.h"

#define MAX_DATA   (32u << 20) /* bytes of .data and .bss that are searched */
#define TRIES	   3
#define MAX_KEYS   64	/* entries of the first level that are tried */
#define MAX_PAGES  2048 /* of one mapping that are looked up */
#define MIN_AGREE  2	/* a process that has just begun has two kinds of blocks */
#define ENOUGH	   256	/* pages that were asked */
#define MIN_SHARE  10	/* that many agree for each that does not: the heap is moving */
#define WORD	   sizeof(uint64_t)
#define USER_LIMIT (1ull << 47)

int sonde_blocks_read(const struct sonde_blocks *b, uint64_t at, void *to, size_t len)
{
	struct iovec local = {to, len}, remote = {(void *)at, len}; /* NOLINT: an address there */
	ssize_t n = process_vm_readv(b->pid, &local, 1, &remote, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EFAULT;
}

/* Ranges are in the order of their addresses, as maps are. */
static bool contains(const struct sonde_range_list *l, uint64_t at)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (at >= l->r[mid].end)
			low = mid + 1;
		else if (at < l->r[mid].start)
			high = mid;
		else
			return true;
	}
	return false;
}

bool sonde_blocks_in_heap(const struct sonde_blocks *b, uint64_t at)
{
	return contains(&b->heap, at);
}

static int add_range(struct sonde_range_list *l, const struct sonde_map *m)
{
	if (SONDE_GROW(l->r, l->n, l->cap))
		return -ENOMEM;
	l->r[l->n++] = (struct sonde_range){m->start, m->end};
	return 0;
}

static bool of_module(const struct sonde_map *map, const struct sonde_module *m)
{
	return map->inode == m->inode &&
	       ((uint64_t)map->dev_major << 32 | map->dev_minor) == m->dev;
}

/* A .bss beyond the file's last page is an anonymous mapping right behind it. */
static int sort_maps(struct sonde_blocks *b, const struct sonde_maps *maps,
		     const struct sonde_module *m)
{
	uint64_t bss = 0;
	int err = 0;

	for (size_t i = 0; !err && i < maps->n; i++) {
		const struct sonde_map *map = &maps->m[i];
		bool own = map->inode ? of_module(map, m) : map->start == bss;

		if (!map->w || map->shared)
			continue;
		if (own) {
			err = add_range(&b->data, map);
			bss = map->end;
		}
		/* Small programs built in one piece have their heap right behind their data. */
		if (!map->inode)
			err = err ? err : add_range(&b->heap, map);
	}
	return err;
}

static void blocks_fini(struct sonde_blocks *b)
{
	free(b->data.r);
	free(b->heap.r);
}

int sonde_blocks_learn(pid_t pid, const struct sonde_allocator *a, const struct sonde_module *m,
		       struct sonde_alloc_domain *out)
{
	struct sonde_blocks b = {.pid = pid};
	sonde_autofree struct sonde_alloc_domain *d = calloc(1, sizeof(*d));
	struct sonde_maps maps = {0};
	int err;

	if (!a->learn)
		return -EOPNOTSUPP;
	err = d ? sonde_maps_read(pid, &maps) : -ENOMEM;
	if (err)
		return err;
	err = sort_maps(&b, &maps, m);
	/* The process runs on: a table that was being changed is looked at again. */
	for (int i = 0; !err && i < TRIES; i++) {
		memset(d, 0, sizeof(*d));
		err = a->learn(&b, d);
		if (err != -ENOENT || i == TRIES - 1)
			break;
		err = 0;
	}
	if (!err)
		*out = *d;
	sonde_maps_fini(&maps);
	blocks_fini(&b);
	return err;
}

/* ---- the first level ---- */

struct search {
	const struct sonde_blocks *b;
	struct sonde_alloc_domain *d;
	sonde_page_check check;
	uint64_t keys[MAX_KEYS]; /* indexes into the first level that the heap's addresses have */
	size_t n_keys;
	uint64_t best;
	unsigned best_agree;
	bool ambiguous;
	uint64_t *leaf; /* MAX_PAGES words */
};

static void add_key(struct search *s, uint64_t key)
{
	for (size_t i = 0; i < s->n_keys; i++)
		if (s->keys[i] == key)
			return;
	if (s->n_keys < MAX_KEYS)
		s->keys[s->n_keys++] = key;
}

static unsigned key_shift(const struct search *s)
{
	return s->d->page_shift + s->d->leaf_bits;
}

static void list_keys(struct search *s)
{
	for (size_t i = 0; i < s->b->heap.n; i++) {
		const struct sonde_range *r = &s->b->heap.r[i];
		uint64_t last = (r->end - 1) >> key_shift(s);

		for (uint64_t k = r->start >> key_shift(s); k <= last && k < USER_LIMIT; k++) {
			add_key(s, k);
			if (s->n_keys == MAX_KEYS)
				return;
		}
	}
}

/* How the pages of @r, as far as they belong to @key, agree with @leaf. */
static void ask_range(struct search *s, uint64_t leaf, uint64_t key, const struct sonde_range *r,
		      unsigned *agree, unsigned *differ)
{
	uint64_t first = key << key_shift(s), last = (key + 1) << key_shift(s), n;
	uint64_t page_bytes = 1ull << s->d->page_shift;

	first = r->start > first ? r->start : first;
	first = (first + page_bytes - 1) & -page_bytes;
	last = r->end < last ? r->end : last;
	if (first >= last)
		return;
	n = (last - first) / page_bytes;
	n = n > MAX_PAGES ? MAX_PAGES : n;
	leaf += ((first >> s->d->page_shift) & ((1ull << s->d->leaf_bits) - 1)) * WORD;
	if (sonde_blocks_read(s->b, leaf, s->leaf, n * WORD))
		return;
	for (uint64_t i = 0; i < n && *agree < ENOUGH && *differ < ENOUGH; i++) {
		enum sonde_agreement a =
			s->leaf[i] ? s->check(s->b, s->d, s->leaf[i], first + i * page_bytes)
				   : SONDE_SAYS_NOTHING;

		*agree += a == SONDE_AGREES;
		*differ += a == SONDE_DISAGREES;
	}
}

/* Could @root be the array? It would have @leaf at @key. */
static void try_root(struct search *s, uint64_t root, uint64_t key, uint64_t leaf)
{
	unsigned agree = 0, differ = 0;

	for (size_t i = 0; i < s->b->heap.n && agree < ENOUGH && differ < ENOUGH; i++)
		ask_range(s, leaf, key, &s->b->heap.r[i], &agree, &differ);
	if (agree < MIN_AGREE || differ * MIN_SHARE > agree)
		return;
	s->ambiguous |= s->best && s->best != root;
	if (agree > s->best_agree) {
		s->best_agree = agree;
		s->best = root;
	}
}

/* The array has an entry for every key that an address of 48 bits can have. */
static bool fits(const struct search *s, uint64_t root)
{
	uint64_t bytes = WORD << (48 - key_shift(s));

	return contains(&s->b->data, root) && contains(&s->b->data, root + bytes - 1);
}

static int search_range(struct search *s, const struct sonde_range *r)
{
	size_t len = r->end - r->start;
	sonde_autofree uint64_t *words = len <= MAX_DATA ? malloc(len) : NULL;
	int err;

	if (!words)
		return len <= MAX_DATA ? -ENOMEM : 0;
	err = sonde_blocks_read(s->b, r->start, words, len);
	if (err)
		return err == -EFAULT ? 0 : err;
	for (size_t i = 0; i < len / WORD; i++) {
		if (!words[i] || words[i] % WORD || !contains(&s->b->heap, words[i]))
			continue;
		for (size_t k = 0; k < s->n_keys; k++) {
			uint64_t root = r->start + i * WORD - s->keys[k] * WORD;

			if (root % WORD == 0 && fits(s, root))
				try_root(s, root, s->keys[k], words[i]);
		}
	}
	return 0;
}

int sonde_blocks_find_root(const struct sonde_blocks *b, struct sonde_alloc_domain *d,
			   sonde_page_check check)
{
	sonde_autofree uint64_t *leaf = malloc(MAX_PAGES * WORD);
	struct search s = {.b = b, .d = d, .check = check, .leaf = leaf};
	int err = leaf ? 0 : -ENOMEM;

	list_keys(&s);
	for (size_t i = 0; !err && i < b->data.n; i++)
		err = search_range(&s, &b->data.r[i]);
	if (err)
		return err;
	if (!s.best || s.ambiguous)
		return -ENOENT;
	d->root = s.best;
	return 0;
}
