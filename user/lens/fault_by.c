// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Faults by thread, by mapping and by place in the code, where asked for. The kernel side counts by
 * number (thread id, mapping, instruction); here what was added since the last tick gets a
 * name (fault_where.c). The biggest names become series, the others are
 * "other". The invariant: a series only grows, and all of one kind add up to what the map held.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/str.h"
#include "lens/fault_priv.h"
#include "lens/fault_where.h"

enum { BATCH = 1024, MAX_NAMES = 32, NAME_MAX_ = 128 };

struct entries {
	struct fault_by_entry *e; /* sorted by key */
	size_t n, cap;
};

/* A series, or a name of this tick on its way to one. */
struct name {
	char *text;
	double count, ns;
};

/* One target's series of one kind; "other" is of those that found no room. */
struct table {
	struct name names[MAX_NAMES];
	size_t n;
	struct name other;
};

struct names {
	struct name *v;
	size_t n, cap;
};

struct fault_by {
	int fd;
	struct entries now, before;
	struct table *tables; /* SONDE_FAULT_BY__MAX a target */
	size_t n_targets;
	struct fault_files files;
	uint32_t asked;
};

static int compare(const void *va, const void *vb)
{
	const struct sonde_fault_by_key *a = &((const struct fault_by_entry *)va)->key;
	const struct sonde_fault_by_key *b = &((const struct fault_by_entry *)vb)->key;

	if (a->tgid != b->tgid)
		return a->tgid < b->tgid ? -1 : 1;
	if (a->by != b->by)
		return a->by < b->by ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

int fault_by_new(struct fault_by **out, const struct sonde_lens_ctx *ctx)
{
	struct fault_by *by = calloc(1, sizeof(*by));

	if (!by)
		return sonde_err(ENOMEM, "fault: no memory for --fault-by");
	by->asked = ctx->opts->fault_by;
	by->fd = bpf_object__find_map_fd_by_name(ctx->obj, "fault_by");
	if (by->fd < 0) {
		free(by);
		return sonde_err(EINVAL, "fault: the BPF object lacks its maps; rebuild sonde");
	}
	*out = by;
	return 0;
}

static void table_fini(struct table *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->names[i].text);
}

void fault_by_free(struct fault_by **byp)
{
	struct fault_by *by = *byp;

	*byp = NULL;
	if (!by)
		return;
	for (size_t i = 0; i < by->n_targets * SONDE_FAULT_BY__MAX; i++)
		table_fini(&by->tables[i]);
	fault_files_fini(&by->files);
	free(by->tables);
	free(by->now.e);
	free(by->before.e);
	free(by);
}

static int read_map(int fd, struct entries *to)
{
	sonde_autofree struct sonde_fault_by_key *keys = calloc(BATCH, sizeof(*keys));
	sonde_autofree struct sonde_fault_by_sum *sums = calloc(BATCH, sizeof(*sums));
	uint32_t cursor, *from = NULL, n;
	int err = 0;

	to->n = 0;
	if (!keys || !sums)
		return -ENOMEM;
	while (!err) {
		n = BATCH;
		err = bpf_map_lookup_batch(fd, from, &cursor, keys, sums, &n, NULL);
		if (err && err != -ENOENT)
			return err;
		for (uint32_t i = 0; i < n; i++) {
			if (SONDE_GROW(to->e, to->n, to->cap))
				return -ENOMEM;
			to->e[to->n++] = (struct fault_by_entry){keys[i], sums[i]};
		}
		from = &cursor;
	}
	if (to->n)
		qsort(to->e, to->n, sizeof(*to->e), compare);
	return 0;
}

/* ---- names ---- */

static void name_of(const struct fault_by_entry *e, struct fault_where *w, char *buf, size_t size)
{
	switch ((enum sonde_fault_by)e->key.by) {
	case SONDE_FAULT_BY_THREAD:
		snprintf(buf, size, "%.*s/%u", SONDE_COMM_BYTES, e->sum.comm, (unsigned)e->key.id);
		return;
	case SONDE_FAULT_BY_MAPPING:
		fault_where_mapping(w, &e->sum, buf, size);
		return;
	case SONDE_FAULT_BY_SITE:
		fault_where_site(w, e->key.id, buf, size);
		return;
	case SONDE_FAULT_BY_STACK: /* fault_stacks.c */
	case SONDE_FAULT_BY__MAX:
		break;
	}
	snprintf(buf, size, "?");
}

/* ---- series ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static int by_count(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	return (x->count < y->count) - (x->count > y->count);
}

/* One row a name, the most frequent first. */
static void merge(struct names *l)
{
	size_t n = 0;

	if (!l->n)
		return;
	qsort(l->v, l->n, sizeof(*l->v), by_text);
	for (size_t i = 0; i < l->n; i++) {
		if (n && !strcmp(l->v[n - 1].text, l->v[i].text)) {
			l->v[n - 1].count += l->v[i].count;
			l->v[n - 1].ns += l->v[i].ns;
			free(l->v[i].text);
		} else {
			l->v[n++] = l->v[i];
		}
	}
	l->n = n;
	qsort(l->v, l->n, sizeof(*l->v), by_count);
}

static struct name *slot_of(struct table *t, struct name *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->names[i].text, name->text))
			return &t->names[i];
	if (t->n == MAX_NAMES)
		return &t->other;
	t->names[t->n] = (struct name){.text = SONDE_TAKE(name->text)};
	return &t->names[t->n++];
}

static void charge(struct table *t, struct names *l)
{
	merge(l);
	for (size_t i = 0; i < l->n; i++) {
		struct name *to = slot_of(t, &l->v[i]);

		to->count += l->v[i].count;
		to->ns += l->v[i].ns;
		free(l->v[i].text);
	}
	l->n = 0;
}

static int add_name(struct names *l, const char *text, uint64_t count, uint64_t ns)
{
	char *copy = strdup(text);

	if (!copy || SONDE_GROW(l->v, l->n, l->cap)) {
		free(copy);
		return -ENOMEM;
	}
	l->v[l->n++] = (struct name){copy, (double)count, (double)ns};
	return 0;
}

/* What the entries [from, to) of one target and kind gained. */
static int take(struct fault_by *by, struct table *t, struct fault_where *w, size_t from, size_t to,
		size_t *was)
{
	struct names list = {};
	char text[NAME_MAX_];
	int err = 0;

	for (size_t i = from; i < to && !err; i++) {
		const struct fault_by_entry *e = &by->now.e[i];
		struct sonde_fault_by_sum old = {};

		while (*was < by->before.n && compare(&by->before.e[*was], e) < 0)
			(*was)++;
		if (*was < by->before.n && !compare(&by->before.e[*was], e))
			old = by->before.e[*was].sum;
		/* Of an entry that was deleted and made anew in between all is new. */
		if (old.count > e->sum.count)
			old = (struct sonde_fault_by_sum){};
		if (old.count == e->sum.count)
			continue;
		name_of(e, w, text, sizeof(text));
		err = add_name(&list, text, e->sum.count - old.count, e->sum.ns - old.ns);
	}
	if (!err)
		charge(t, &list);
	for (size_t i = 0; i < list.n; i++)
		free(list.v[i].text);
	free(list.v);
	return err;
}

static int grow(struct fault_by *by, size_t n)
{
	struct table *t;

	if (n <= by->n_targets)
		return 0;
	t = reallocarray(by->tables, n * SONDE_FAULT_BY__MAX, sizeof(*t));
	if (!t)
		return -ENOMEM;
	memset(t + by->n_targets * SONDE_FAULT_BY__MAX, 0,
	       (n - by->n_targets) * SONDE_FAULT_BY__MAX * sizeof(*t));
	by->tables = t;
	by->n_targets = n;
	return 0;
}

static ssize_t index_of(const struct sonde_target_list *targets, uint32_t tgid)
{
	for (size_t i = targets->n; i-- > 0;)
		if ((uint32_t)targets->t[i].pid == tgid)
			return (ssize_t)i;
	return -1;
}

/* The entries [from, to) are of one process. */
static int take_target(struct fault_by *by, const struct sonde_lens_ctx *ctx, size_t from,
		       size_t to, size_t *was)
{
	ssize_t target = index_of(ctx->targets, by->now.e[from].key.tgid);
	struct fault_where w = {.files = &by->files};
	int err = 0;

	if (target < 0)
		return 0;
	/* Of one that is gone the mappings are gone too: its last faults have no name. */
	if (by->asked & ~(1u << SONDE_FAULT_BY_THREAD))
		err = fault_where_read(&w, &ctx->targets->t[target], by->now.e + from, to - from);
	err = err == -ENOMEM ? err : 0;
	for (size_t i = from, j; i < to && !err; i = j) {
		uint32_t kind = by->now.e[i].key.by;

		for (j = i + 1; j < to && by->now.e[j].key.by == kind; j++)
			;
		if (kind < SONDE_FAULT_BY__MAX)
			err = take(by, &by->tables[(size_t)target * SONDE_FAULT_BY__MAX + kind], &w,
				   i, j, was);
	}
	fault_where_fini(&w);
	return err;
}

/*
 * Make room: what nobody has touched for a whole interval, and what belongs to none. Only when it
 * is needed, since an entry in use must not go.
 */
static void make_room(const struct fault_by *by)
{
	size_t was = 0;

	if (by->now.n < SONDE_FAULT_BY_ENTRIES / 2)
		return;
	for (size_t i = 0; i < by->now.n; i++) {
		const struct fault_by_entry *e = &by->now.e[i];

		while (was < by->before.n && compare(&by->before.e[was], e) < 0)
			was++;
		if (was < by->before.n && !compare(&by->before.e[was], e) &&
		    by->before.e[was].sum.count == e->sum.count)
			bpf_map_delete_elem(by->fd, &e->key);
	}
}

static int push_name(struct sonde_lens_ctx *ctx, uint32_t target, size_t metric, const char *label,
		     const struct name *name, uint64_t ts_ns)
{
	int err = sonde_lens_push(ctx, target, metric, label, ts_ns, name->count);

	return err ? err : sonde_lens_push(ctx, target, metric + 1, label, ts_ns, name->ns);
}

static int push_table(struct sonde_lens_ctx *ctx, uint32_t target, size_t metric,
		      const struct table *t, uint64_t ts_ns)
{
	int err = 0;

	for (size_t i = 0; i < t->n && !err; i++)
		err = push_name(ctx, target, metric, t->names[i].text, &t->names[i], ts_ns);
	if (!err && t->other.count > 0)
		err = push_name(ctx, target, metric, "other", &t->other, ts_ns);
	return err;
}

int fault_by_tick(struct fault_by *by, struct sonde_lens_ctx *ctx, size_t first, uint64_t ts_ns)
{
	struct entries swap = by->before;
	size_t was = 0;
	int err = grow(by, ctx->targets->n);

	by->before = by->now;
	by->now = swap;
	err = err ? err : read_map(by->fd, &by->now);
	for (size_t from = 0, to; from < by->now.n && !err; from = to) {
		to = from + 1;
		while (to < by->now.n && by->now.e[to].key.tgid == by->now.e[from].key.tgid)
			to++;
		err = take_target(by, ctx, from, to, &was);
	}
	if (err)
		return sonde_err(err, "fault: cannot read who faults: %s", strerror(-err));
	make_room(by);
	for (uint32_t i = 0; i < by->n_targets && !err; i++)
		for (size_t k = 0; k < SONDE_FAULT_BY__MAX && !err; k++)
			err = push_table(ctx, i, first + 2 * k,
					 &by->tables[i * SONDE_FAULT_BY__MAX + k], ts_ns);
	return err;
}
