// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * See tls_account.h. Entries lie in an array, in no order; a table of their indexes by hash of the
 * key is made anew when a reading has removed some.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "lens/tls_account.h"

/* Its end is told within the reading after it at the latest: the tracepoint comes before the kernel
 * takes the thread off its lists. */
#define MISSED_MAX 2

void sonde_tls_account_fini(struct sonde_tls_account *a)
{
	free(a->entries);
	free(a->slots);
	*a = (struct sonde_tls_account){0};
}

static size_t hash(const struct sonde_tls_account *a, const struct sonde_tls_key *k)
{
	uint64_t h = (k->started_ns ^ (uint64_t)k->tid << 40) * 0x9e3779b97f4a7c15u;

	return (h >> 20) & (a->n_slots - 1);
}

/* The slot of @k, or the free one where it belongs. There is always a free one. */
static uint32_t *slot_of(const struct sonde_tls_account *a, const struct sonde_tls_key *k)
{
	size_t i = hash(a, k);

	while (a->slots[i]) {
		const struct sonde_tls_key *at = &a->entries[a->slots[i] - 1].t.key;

		if (at->started_ns == k->started_ns && at->tid == k->tid && at->tgid == k->tgid)
			break;
		i = (i + 1) & (a->n_slots - 1);
	}
	return &a->slots[i];
}

/* A table at most half full with one more entry. */
static int table_make(struct sonde_tls_account *a)
{
	size_t size = 64;
	uint32_t *slots;

	while (size < 2 * (a->n + 1))
		size *= 2;
	slots = calloc(size, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(a->slots);
	a->slots = slots;
	a->n_slots = size;
	for (size_t i = 0; i < a->n; i++)
		*slot_of(a, &a->entries[i].t.key) = (uint32_t)i + 1;
	return 0;
}

static struct sonde_tls_entry *entry_get(struct sonde_tls_account *a,
					 const struct sonde_tls_key *key)
{
	uint32_t *slot;

	if (a->n_slots < 2 * (a->n + 1) && table_make(a))
		return NULL;
	slot = slot_of(a, key);
	if (*slot)
		return &a->entries[*slot - 1];
	if (SONDE_GROW(a->entries, a->n, a->cap))
		return NULL;
	a->entries[a->n] = (struct sonde_tls_entry){.t.key = *key};
	*slot = (uint32_t)++a->n;
	return &a->entries[a->n - 1];
}

static void take(struct sonde_tls_entry *e, const struct sonde_tls_thread *t)
{
	if (t->bytes.allocated > e->t.bytes.allocated)
		e->t.bytes.allocated = t->bytes.allocated;
	if (t->bytes.freed > e->t.bytes.freed)
		e->t.bytes.freed = t->bytes.freed;
}

void sonde_tls_account_begin(struct sonde_tls_account *a)
{
	a->reading++;
	a->unread = 0;
	a->first_ns = a->last_ns = 0;
}

int sonde_tls_account_saw(struct sonde_tls_account *a, const struct sonde_tls_thread *t)
{
	struct sonde_tls_entry *e = entry_get(a, &t->key);

	if (!e)
		return -ENOMEM;
	if (a->reading == 1)
		a->flags |= t->flags;
	if (!a->first_ns)
		a->first_ns = t->at_ns;
	a->last_ns = t->at_ns;
	e->seen = a->reading;
	e->missed = 0;
	if (e->ended)
		return 0; /* the first thread of a process stays until the last has ended */
	if (t->state == SONDE_TLS_READ)
		take(e, t);
	else
		a->unread++;
	return 0;
}

int sonde_tls_account_ended(struct sonde_tls_account *a, const struct sonde_tls_thread *t)
{
	struct sonde_tls_entry *e = entry_get(a, &t->key);

	if (!e)
		return -ENOMEM;
	if (e->ended)
		return 0;
	e->ended = true;
	a->n_ended++;
	if (t->state == SONDE_TLS_READ)
		take(e, t);
	else
		a->n_lost++;
	return 0;
}

/* Gone from the lists of the kernel: out of the table, into the sum of those. */
static bool is_gone(struct sonde_tls_account *a, struct sonde_tls_entry *e)
{
	if (e->seen == a->reading)
		return false;
	if (!e->ended && ++e->missed < MISSED_MAX)
		return false;
	if (!e->ended) {
		a->n_ended++;
		a->n_lost++;
	}
	a->gone.allocated += e->t.bytes.allocated;
	a->gone.freed += e->t.bytes.freed;
	return true;
}

int sonde_tls_account_finish(struct sonde_tls_account *a, struct sonde_tls_sum *out)
{
	struct sonde_tls_sum sum = {
		.unread = a->unread,
		.flags = a->flags,
		.skew_ns = a->last_ns - a->first_ns,
	};
	size_t kept = 0;

	for (size_t i = 0; i < a->n; i++)
		if (!is_gone(a, &a->entries[i]))
			a->entries[kept++] = a->entries[i];
	if (kept < a->n) {
		a->n = kept;
		free(SONDE_TAKE(a->slots));
		a->n_slots = 0;
		if (table_make(a))
			return -ENOMEM;
	}
	sum.bytes = a->gone;
	for (size_t i = 0; i < a->n; i++) {
		sum.bytes.allocated += a->entries[i].t.bytes.allocated;
		sum.bytes.freed += a->entries[i].t.bytes.freed;
		sum.threads += !a->entries[i].ended;
	}
	sum.ended = a->n_ended;
	sum.lost = a->n_lost;
	*out = sum;
	return 0;
}
