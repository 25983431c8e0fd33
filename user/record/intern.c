// SPDX-License-Identifier: GPL-2.0-or-later
/* Hash tables with linear probing, at most half full; see intern.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "record/intern.h"

void sonde_intern_fini(struct sonde_intern *in)
{
	for (size_t i = 0; i < in->cap; i++)
		free(in->slots[i].key);
	free(in->slots);
	*in = (struct sonde_intern){0};
}

/* The slot that holds the key, or the free one where it belongs. */
static struct sonde_intern_slot *probe(struct sonde_intern_slot *slots, size_t cap, uint64_t hash,
				       const char *key, size_t len)
{
	size_t i = hash & (cap - 1);

	while (slots[i].key &&
	       !(slots[i].hash == hash && slots[i].len == len && !memcmp(slots[i].key, key, len)))
		i = (i + 1) & (cap - 1);
	return &slots[i];
}

static int intern_grow(struct sonde_intern *in)
{
	size_t cap = in->cap ? in->cap * 2 : 64;
	struct sonde_intern_slot *slots;

	if (in->n * 2 < in->cap)
		return 0;
	slots = calloc(cap, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < in->cap; i++) {
		struct sonde_intern_slot *s = &in->slots[i];

		if (s->key)
			*probe(slots, cap, s->hash, s->key, s->len) = *s;
	}
	free(in->slots);
	in->slots = slots;
	in->cap = cap;
	return 0;
}

int sonde_intern_get(struct sonde_intern *in, const char *key, size_t len, uint32_t *id,
		     bool *added)
{
	uint64_t hash = sonde_fnv1a(SONDE_FNV1A_BASIS, key, len);
	struct sonde_intern_slot *slot;
	char *copy;
	int err = intern_grow(in);

	if (err)
		return err;
	slot = probe(in->slots, in->cap, hash, key, len);
	*added = !slot->key;
	if (!slot->key) {
		copy = malloc(len + 1);
		if (!copy)
			return -ENOMEM;
		memcpy(copy, key, len);
		copy[len] = '\0';
		*slot = (struct sonde_intern_slot){hash, copy, (uint32_t)len, (uint32_t)++in->n};
	}
	*id = slot->id;
	return 0;
}

void sonde_idset_fini(struct sonde_idset *set)
{
	free(set->slots);
	*set = (struct sonde_idset){0};
}

static uint64_t *idset_probe(uint64_t *slots, size_t cap, uint64_t id)
{
	size_t i = (id * 0x9e3779b97f4a7c15ull >> 32) & (cap - 1);

	while (slots[i] && slots[i] != id)
		i = (i + 1) & (cap - 1);
	return &slots[i];
}

static int idset_grow(struct sonde_idset *set)
{
	size_t cap = set->cap ? set->cap * 2 : 64;
	uint64_t *slots;

	if (set->n * 2 < set->cap)
		return 0;
	slots = calloc(cap, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < set->cap; i++)
		if (set->slots[i])
			*idset_probe(slots, cap, set->slots[i]) = set->slots[i];
	free(set->slots);
	set->slots = slots;
	set->cap = cap;
	return 0;
}

int sonde_idset_add(struct sonde_idset *set, uint64_t id)
{
	uint64_t *slot;
	int err = idset_grow(set);

	if (err)
		return err;
	slot = idset_probe(set->slots, set->cap, id);
	if (*slot == id)
		return 0;
	*slot = id;
	set->n++;
	return 1;
}
