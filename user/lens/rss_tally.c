// SPDX-License-Identifier: GPL-2.0-or-later
/* Bytes by name; see rss_tally.h. Thousands of mappings are sorted once, not searched for each. */
#include <errno.h>
#include <stdbool.h>

#include "core/mem.h"
#include "lens/rss_tally.h"

int rss_tally_add(struct rss_tally *t, const char *name, uint64_t bytes)
{
	char *copy;

	if (!bytes)
		return 0;
	copy = strdup(name);
	if (!copy || SONDE_GROW(t->rows, t->n, t->cap)) {
		free(copy);
		return -ENOMEM;
	}
	t->rows[t->n++] = (struct rss_tally_row){copy, bytes};
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct rss_tally_row *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int by_bytes(const void *a, const void *b)
{
	const struct rss_tally_row *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* One row a name, the biggest first. */
static void merge(struct rss_tally *t)
{
	size_t n = 0;

	if (!t->n)
		return;
	qsort(t->rows, t->n, sizeof(*t->rows), by_name);
	for (size_t i = 0; i < t->n; i++) {
		if (n && !strcmp(t->rows[n - 1].name, t->rows[i].name)) {
			t->rows[n - 1].bytes += t->rows[i].bytes;
			free(t->rows[i].name);
		} else {
			t->rows[n++] = t->rows[i];
		}
	}
	t->n = n;
	qsort(t->rows, t->n, sizeof(*t->rows), by_bytes);
}

static bool is_kept(const struct rss_tally *t, const char *name)
{
	for (size_t i = 0; i < t->n_kept; i++)
		if (!strcmp(t->kept[i], name))
			return true;
	return false;
}

static int keep_top(struct rss_tally *t, size_t top, size_t max)
{
	for (size_t i = 0; i < t->n && i < top && t->n_kept < max; i++) {
		char *copy;

		if (is_kept(t, t->rows[i].name))
			continue;
		copy = strdup(t->rows[i].name);
		if (!copy || SONDE_GROW(t->kept, t->n_kept, t->cap_kept)) {
			free(copy);
			return -ENOMEM;
		}
		t->kept[t->n_kept++] = copy;
	}
	return 0;
}

static uint64_t take(struct rss_tally *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->rows[i].name, name)) {
			uint64_t bytes = t->rows[i].bytes;

			t->rows[i].bytes = 0;
			return bytes;
		}
	return 0;
}

static void clear(struct rss_tally *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->rows[i].name);
	t->n = 0;
}

int rss_tally_push(struct rss_tally *t, size_t top, size_t max,
		   int (*push)(void *ctx, const char *name, uint64_t bytes), void *ctx)
{
	uint64_t other = 0;
	bool more;
	int err;

	merge(t);
	err = keep_top(t, top, max);
	more = t->n > t->n_kept;
	for (size_t i = 0; i < t->n_kept && !err; i++)
		err = push(ctx, t->kept[i], take(t, t->kept[i]));
	for (size_t i = 0; i < t->n; i++)
		other += t->rows[i].bytes;
	t->other |= other || more;
	if (!err && t->other)
		err = push(ctx, "other", other);
	clear(t);
	return err;
}

void rss_tally_fini(struct rss_tally *t)
{
	clear(t);
	for (size_t i = 0; i < t->n_kept; i++)
		free(t->kept[i]);
	free(t->rows);
	free(t->kept);
	*t = (struct rss_tally){0};
}
