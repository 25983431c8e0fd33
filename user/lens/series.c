// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counters and histograms by (process, series); see series.h. A sparse histogram is its map's
 * entries in key order, so what a tick added is found by walking two readings side by side.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "lens/series.h"

struct entry {
	struct sonde_series_key key;
	uint64_t count;
};

struct entries {
	struct entry *e; /* sorted by key */
	size_t n, cap;
};

struct sonde_series {
	const char *lens;
	size_t n_series, n_targets;
	struct sonde_series_sum *sums; /* n_targets x n_series */
	uint64_t *pushed_ns;	       /* likewise: what pushed histograms hold already */
	int sums_fd, hist_fd, n_cpus;
	struct sonde_series_sum *percpu; /* n_cpus */
	struct entries now, before;	 /* the histogram map at this tick and at the last */
	struct sonde_hist delta;
	uint64_t last_ns;
};

void sonde_series_free(struct sonde_series **sp)
{
	struct sonde_series *s = *sp;

	*sp = NULL;
	if (!s)
		return;
	free(s->sums);
	free(s->pushed_ns);
	free(s->percpu);
	free(s->now.e);
	free(s->before.e);
	sonde_hist_fini(&s->delta);
	free(s);
}

int sonde_series_new(struct sonde_series **out, const struct sonde_lens_ctx *ctx, const char *sums,
		     const char *hist, size_t n_series)
{
	struct sonde_series *s = calloc(1, sizeof(*s));

	if (!s)
		return sonde_err(ENOMEM, "%s: no memory for the lens", ctx->lens->name);
	s->lens = ctx->lens->name;
	s->n_series = n_series;
	s->sums_fd = bpf_object__find_map_fd_by_name(ctx->obj, sums);
	s->hist_fd = bpf_object__find_map_fd_by_name(ctx->obj, hist);
	s->n_cpus = libbpf_num_possible_cpus();
	s->last_ns = sonde_mono_ns();
	if (s->sums_fd < 0 || s->hist_fd < 0 || s->n_cpus < 1) {
		sonde_series_free(&s);
		return sonde_err(EINVAL, "%s: the BPF object lacks its maps; rebuild sonde",
				 ctx->lens->name);
	}
	s->percpu = calloc((size_t)s->n_cpus, sizeof(*s->percpu));
	if (!s->percpu || sonde_hist_init(&s->delta)) {
		sonde_series_free(&s);
		return sonde_err(ENOMEM, "%s: no memory for the lens", ctx->lens->name);
	}
	*out = s;
	return 0;
}

/* Rows for targets that joined. */
static int grow(struct sonde_series *s, size_t n_targets)
{
	size_t had = s->n_targets * s->n_series, want = n_targets * s->n_series;
	struct sonde_series_sum *sums;
	uint64_t *pushed;

	if (want <= had)
		return 0;
	sums = reallocarray(s->sums, want, sizeof(*sums));
	if (!sums)
		return -ENOMEM;
	s->sums = sums;
	pushed = reallocarray(s->pushed_ns, want, sizeof(*pushed));
	if (!pushed)
		return -ENOMEM;
	s->pushed_ns = pushed;
	memset(sums + had, 0, (want - had) * sizeof(*sums));
	memset(pushed + had, 0, (want - had) * sizeof(*pushed));
	s->n_targets = n_targets;
	return 0;
}

/* Index of the newest target with that tgid, or -1. Gone ones count: their last counts are theirs.
 */
static ssize_t index_of(const struct sonde_series *s, const struct sonde_target_list *targets,
			uint32_t tgid)
{
	for (size_t i = s->n_targets; i-- > 0;)
		if (i < targets->n && (uint32_t)targets->t[i].pid == tgid)
			return (ssize_t)i;
	return -1;
}

static void read_sums(struct sonde_series *s, const struct sonde_target_list *targets)
{
	struct sonde_series_key key, *prev = NULL;

	while (!bpf_map_get_next_key(s->sums_fd, prev, &key)) {
		ssize_t i = index_of(s, targets, key.tgid);
		struct sonde_series_sum total = {};

		prev = &key;
		if (i < 0 || key.series >= s->n_series ||
		    bpf_map_lookup_elem(s->sums_fd, &key, s->percpu))
			continue;
		for (int c = 0; c < s->n_cpus; c++) {
			total.count += s->percpu[c].count;
			total.ns += s->percpu[c].ns;
			total.bytes += s->percpu[c].bytes;
		}
		s->sums[(size_t)i * s->n_series + key.series] = total;
	}
}

static int compare(const void *va, const void *vb)
{
	const struct sonde_series_key *a = &((const struct entry *)va)->key;
	const struct sonde_series_key *b = &((const struct entry *)vb)->key;

	if (a->tgid != b->tgid)
		return a->tgid < b->tgid ? -1 : 1;
	if (a->series != b->series)
		return a->series < b->series ? -1 : 1;
	return a->bucket < b->bucket ? -1 : a->bucket > b->bucket;
}

static int read_hist(int fd, struct entries *to)
{
	enum { BATCH = 4096 };
	sonde_autofree struct sonde_series_key *keys = calloc(BATCH, sizeof(*keys));
	sonde_autofree uint64_t *counts = calloc(BATCH, sizeof(*counts));
	uint32_t cursor, *from = NULL, n;
	int err = 0;

	to->n = 0;
	if (!keys || !counts)
		return -ENOMEM;
	while (!err) {
		n = BATCH;
		err = bpf_map_lookup_batch(fd, from, &cursor, keys, counts, &n, NULL);
		if (err && err != -ENOENT)
			return err;
		for (uint32_t i = 0; i < n; i++) {
			if (SONDE_GROW(to->e, to->n, to->cap))
				return -ENOMEM;
			to->e[to->n++] = (struct entry){keys[i], counts[i]};
		}
		from = &cursor;
	}
	if (to->n)
		qsort(to->e, to->n, sizeof(*to->e), compare);
	return 0;
}

int sonde_series_read(struct sonde_series *s, const struct sonde_lens_ctx *ctx)
{
	struct entries swap = s->before;
	int err = grow(s, ctx->targets->n);

	if (err)
		return sonde_err(err, "%s: no memory for %zu targets", s->lens, ctx->targets->n);
	s->before = s->now;
	s->now = swap;
	read_sums(s, ctx->targets);
	err = read_hist(s->hist_fd, &s->now);
	if (err)
		return sonde_err(err, "%s: cannot read the histogram map: %s", s->lens,
				 strerror(-err));
	return 0;
}

const struct sonde_series_sum *sonde_series_get(const struct sonde_series *s, size_t target,
						size_t series)
{
	return &s->sums[target * s->n_series + series];
}

size_t sonde_series_targets(const struct sonde_series *s)
{
	return s->n_targets;
}

/* What entries [from, to), one series, gained; *was walks the previous reading. */
static void take_delta(struct sonde_series *s, size_t from, size_t to, size_t *was)
{
	sonde_hist_reset(&s->delta);
	for (size_t i = from; i < to; i++) {
		const struct entry *now = &s->now.e[i];
		uint64_t old = 0;

		while (*was < s->before.n && compare(&s->before.e[*was], now) < 0)
			(*was)++;
		if (*was < s->before.n && !compare(&s->before.e[*was], now))
			old = s->before.e[*was].count;
		sonde_hist_add_bucket(&s->delta, now->key.bucket, now->count - old);
	}
}

static int push_delta(struct sonde_series *s, const struct sonde_lens_ctx *ctx,
		      const struct sonde_series_key *key, const struct sonde_series_name *name,
		      uint64_t ts_ns)
{
	ssize_t target = index_of(s, ctx->targets, key->tgid);
	struct sonde_histrow row = {.desc = name->desc,
				    .label = name->label,
				    .hist = &s->delta,
				    .from_ns = s->last_ns,
				    .to_ns = ts_ns,
				    .target = (uint32_t)target};
	size_t at;

	if (target < 0 || !name->desc || !s->delta.count)
		return 0;
	at = (size_t)target * s->n_series + key->series;
	s->delta.sum = (double)(s->sums[at].ns - s->pushed_ns[at]);
	s->pushed_ns[at] = s->sums[at].ns;
	return sonde_visit(ctx->out, hist, &row);
}

int sonde_series_push(struct sonde_series *s, const struct sonde_lens_ctx *ctx,
		      const struct sonde_series_name *names, uint64_t ts_ns)
{
	size_t was = 0;
	int err = 0;

	for (size_t from = 0, to; from < s->now.n && !err; from = to) {
		const struct sonde_series_key *key = &s->now.e[from].key;

		for (to = from + 1; to < s->now.n; to++)
			if (s->now.e[to].key.tgid != key->tgid ||
			    s->now.e[to].key.series != key->series)
				break;
		take_delta(s, from, to, &was);
		if (key->series < s->n_series)
			err = push_delta(s, ctx, key, &names[key->series], ts_ns);
	}
	s->last_ns = ts_ns;
	return err;
}

static bool is_dead(uint32_t tgid)
{
	return kill((pid_t)tgid, 0) && errno == ESRCH;
}

bool sonde_series_forget(struct sonde_series *s, const struct sonde_lens_ctx *ctx)
{
	bool lost = false;

	for (size_t i = 0; i < s->now.n; i++) {
		struct sonde_series_key key = s->now.e[i].key;
		ssize_t t = index_of(s, ctx->targets, key.tgid);

		if (t < 0 ? !is_dead(key.tgid) : !ctx->targets->t[t].gone)
			continue;
		lost |= t < 0;
		bpf_map_delete_elem(s->hist_fd, &key);
		key.bucket = 0;
		bpf_map_delete_elem(s->sums_fd, &key);
	}
	return lost;
}
