// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * gperftools' page map: two levels over addresses of 48 bits, whose leaves point at spans. A span
 * begins with its first page's number and its length in pages; the class of its blocks is a byte
 * further down, 0 where the span is one block. The sizes of the classes depend on the build and on
 * variables of the environment, so their table is read too: it is the one run of rising sizes that
 * ends at 32 KiB or 256 KiB, the largest that is not given out in whole pages.
 */
#include <errno.h>

#include "core/mem.h"
#include "target/blocks/tcmalloc.h"

#define MIN_CLASSES 40
#define MAX_CLASSES 128
#define CLASS_AT    42 /* behind six words and a count of 16 bits, since 2.0 */
#define MAX_DATA    (32u << 20)

static const unsigned page_shifts[] = {13, 12, 14, 15, 16, 17, 18};
static const uint64_t largest[] = {32768, 262144};

struct span {
	uint64_t start, length, next, prev, objects, flags;
};

static bool is_largest(uint64_t bytes)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(largest); i++)
		if (bytes == largest[i])
			return true;
	return false;
}

static uint64_t entry(const void *table, size_t width, size_t i)
{
	return width == 4 ? ((const uint32_t *)table)[i] : ((const uint64_t *)table)[i];
}

/* How many classes a table at @t describes, the 0 at its front included; 0: it is none. */
static size_t count_classes(const void *t, size_t width, size_t max)
{
	size_t n = 1;

	if (entry(t, width, 0) || (entry(t, width, 1) != 8 && entry(t, width, 1) != 16))
		return 0;
	while (n < max && n < MAX_CLASSES && entry(t, width, n) > entry(t, width, n - 1) &&
	       entry(t, width, n) % 8 == 0)
		n++;
	return n >= MIN_CLASSES && is_largest(entry(t, width, n - 1)) ? n : 0;
}

static int take_classes(struct sonde_alloc_domain *d, const void *t, size_t width, size_t n)
{
	if (d->n_classes)
		return -ENOENT; /* two tables */
	for (size_t i = 0; i < n; i++)
		d->class_bytes[i] = entry(t, width, i);
	d->n_classes = (uint32_t)n;
	d->max_small = d->class_bytes[n - 1];
	return 0;
}

static int find_classes_in(const struct sonde_blocks *b, const struct sonde_range *r,
			   struct sonde_alloc_domain *d)
{
	size_t len = r->end - r->start;
	sonde_autofree uint8_t *data = len <= MAX_DATA ? malloc(len) : NULL;
	int err = data ? sonde_blocks_read(b, r->start, data, len) : -ENOMEM;

	for (size_t at = 0; !err && at + 8 * (MIN_CLASSES + 1) <= len; at += 4) {
		for (size_t width = 4; !err && width <= 8; width += 4) {
			size_t n = at % width ? 0
					      : count_classes(data + at, width, (len - at) / width);

			if (n)
				err = take_classes(d, data + at, width, n);
		}
	}
	return err == -EFAULT ? 0 : err;
}

void sonde_tcmalloc_sizes(struct sonde_alloc_domain *d)
{
	size_t class = 1;

	for (uint64_t i = 0; i < SONDE_BLOCK_SIZES; i++) {
		uint64_t size = i <= 128 ? i * 8 : (i - 120) * 128;

		while (class < d->n_classes && d->class_bytes[class] < size)
			class ++;
		d->size_bytes[i] = class < d->n_classes ? (uint32_t)d->class_bytes[class] : 0;
	}
}

static enum sonde_agreement check(const struct sonde_blocks *b, const struct sonde_alloc_domain *d,
				  uint64_t word, uint64_t page)
{
	struct span s;
	uint64_t number = page >> d->page_shift;
	uint8_t class;

	if (word % 8 || !sonde_blocks_in_heap(b, word) || sonde_blocks_read(b, word, &s, sizeof(s)))
		return SONDE_DISAGREES;
	/* Within a free span the words stay that earlier spans have left, whatever became of those.
	 */
	if (s.length >> 35 || number < s.start || number - s.start >= s.length)
		return SONDE_SAYS_NOTHING;
	class = (uint8_t)(s.flags >> 8 * (CLASS_AT - offsetof(struct span, flags)));
	if (class >= d->n_classes || d->class_bytes[class] > s.length << d->page_shift)
		return SONDE_DISAGREES;
	return class ? SONDE_AGREES : SONDE_SAYS_NOTHING;
}

int sonde_tcmalloc_learn(const struct sonde_blocks *b, struct sonde_alloc_domain *out)
{
	int err = 0;

	for (size_t i = 0; !err && i < b->data.n; i++)
		err = find_classes_in(b, &b->data.r[i], out);
	if (!err && !out->n_classes)
		err = -ENOENT;
	if (err)
		return err;
	sonde_tcmalloc_sizes(out);
	out->class_offset = CLASS_AT;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(page_shifts); i++) {
		out->page_shift = page_shifts[i];
		out->leaf_bits = (48 - page_shifts[i] + 1) / 2;
		err = sonde_blocks_find_root(b, out, check);
		if (err != -ENOENT)
			return err;
	}
	return err;
}
