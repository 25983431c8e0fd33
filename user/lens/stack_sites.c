// SPDX-License-Identifier: GPL-2.0-or-later
/* Counts by call stack, for whichever lens; see stack_sites.h. */
#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/err.h"
#include "core/mem.h"
#include "lens/stack_sites.h"

#define NAMING_NS (20 * SONDE_NS_PER_MS)
#define BATCH	  256

int sonde_stack_sites_init(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx,
			   size_t n_targets, bool exact)
{
	s->n_targets = n_targets;
	s->lens = ctx->lens->id;
	s->exact = exact;
	s->ends = calloc(n_targets, sizeof(*s->ends));
	s->stacks_fd = bpf_object__find_map_fd_by_name(ctx->obj, "stacks");
	s->began_ns = sonde_mono_ns();
	return s->ends ? sonde_stacks_new(&s->stacks, ctx, n_targets) : -ENOMEM;
}

static uint32_t *slot_of(const struct sonde_stack_sites *s, uint32_t *slots, size_t n, uint64_t key)
{
	size_t i = (key * 0x9e3779b97f4a7c15ull >> 20) & (n - 1);

	while (slots[i] && s->site[slots[i] - 1].key != key)
		i = (i + 1) & (n - 1);
	return &slots[i];
}

static int grow(struct sonde_stack_sites *s)
{
	size_t n = s->n_slots ? s->n_slots * 2 : 256;
	uint32_t *slots;

	if (s->n * 2 < s->n_slots)
		return 0;
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++)
		*slot_of(s, slots, n, s->site[i].key) = (uint32_t)i + 1;
	free(s->slots);
	s->slots = slots;
	s->n_slots = n;
	return 0;
}

static int add_site(struct sonde_stack_sites *s, uint64_t key, const struct sonde_stack_value *v)
{
	uint32_t n = v->n < SONDE_STACK_FRAMES ? v->n : SONDE_STACK_FRAMES;
	struct sonde_stack_site site = {.key = key, .target = v->target, .end = v->end, .n = n};

	site.code = calloc(n ? n : 1, sizeof(*site.code));
	if (!site.code || SONDE_GROW(s->site, s->n, s->cap)) {
		free(site.code);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++)
		site.code[i] = sonde_stacks_code(s->stacks, v->target, v->pcs[i]);
	site.code[0].exact = s->exact;
	s->site[s->n++] = site;
	return 0;
}

static int take(struct sonde_stack_sites *s, uint64_t key, const struct sonde_stack_value *v)
{
	uint32_t *slot;
	struct sonde_stack_site *site;
	int err = v->calls ? grow(s) : 0;

	if (err || !v->calls)
		return err;
	slot = slot_of(s, s->slots, s->n_slots, key);
	if (!*slot) {
		err = add_site(s, key, v);
		if (err)
			return err;
		*slot = (uint32_t)s->n;
	}
	site = &s->site[*slot - 1];
	if (site->target < s->n_targets && site->end < SONDE_STACK_END__MAX)
		s->ends[site->target][site->end] += v->calls - site->calls;
	site->changed |= site->calls != v->calls || site->live_bytes != v->live_bytes ||
			 site->live_calls != v->live_calls;
	site->calls = v->calls;
	site->bytes = v->bytes;
	site->live_calls = v->live_calls;
	site->live_bytes = v->live_bytes;
	site->live_squares = v->live_squares;
	return 0;
}

static int read_stacks(struct sonde_stack_sites *s)
{
	sonde_autofree struct sonde_stack_value *values = calloc(BATCH, sizeof(*values));
	uint64_t keys[BATCH];
	uint32_t cursor, *from = NULL, n;
	int err = 0, took = 0;

	if (!values)
		return -ENOMEM;
	while (!err && !took) {
		n = BATCH;
		err = bpf_map_lookup_batch(s->stacks_fd, from, &cursor, keys, values, &n, NULL);
		if (err && err != -ENOENT)
			return sonde_err(err, "cannot read the stacks: %s", strerror(-err));
		for (uint32_t i = 0; i < n && !took; i++)
			took = take(s, keys[i], &values[i]);
		from = &cursor;
	}
	return took;
}

int sonde_stack_sites_read(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx)
{
	int err = sonde_stacks_refresh(s->stacks, ctx);

	return err ? err : read_stacks(s);
}

struct sonde_stack_site *sonde_stack_sites_find(const struct sonde_stack_sites *s, uint64_t key)
{
	uint32_t *slot = s->n_slots ? slot_of(s, s->slots, s->n_slots, key) : NULL;

	return slot && *slot ? &s->site[*slot - 1] : NULL;
}

bool sonde_stack_sites_due(const struct sonde_stack_sites *s, uint64_t ts_ns)
{
	return ts_ns - s->pushed_ns >= (ts_ns - s->began_ns) / 64;
}

int sonde_stack_sites_push(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx,
			   sonde_site_live_fn *live, void *arg, uint64_t ts_ns)
{
	int err = 0;

	for (size_t i = 0; i < s->n && !err; i++) {
		struct sonde_stack_site *site = &s->site[i];
		struct sonde_stack_count c = {
			.ts_ns = ts_ns,
			.lens = s->lens,
			.stack = site->key,
			.target = site->target,
			.calls = site->calls,
			.bytes = site->bytes,
		};

		if (!site->changed)
			continue;
		if (live)
			live(arg, site, &c);
		err = sonde_visit(ctx->out, stack_count, &c);
		site->changed = false;
	}
	s->pushed_ns = ts_ns;
	return err;
}

int sonde_stack_sites_push_ends(const struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx,
				size_t metric, uint64_t ts_ns)
{
	int err = 0;

	for (uint32_t t = 0; t < s->n_targets && t < ctx->targets->n; t++)
		for (unsigned i = 0; i < SONDE_STACK_END__MAX && !err; i++)
			if (s->ends[t][i])
				err = sonde_lens_push(ctx, t, metric, sonde_stack_end_name(i),
						      ts_ns, (double)s->ends[t][i]);
	return err;
}

static int name_site(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx,
		     struct sonde_stack_site *site)
{
	struct sonde_stack stack = {
		.id = site->key, .target = site->target, .end = (enum sonde_stack_end)site->end};
	struct sonde_frame *frames = NULL;
	int err = sonde_stacks_name(s->stacks, site->code, site->n, &frames, &stack.n);

	stack.frames = frames;
	err = err ? err : sonde_visit(ctx->out, stack, &stack);
	free(frames);
	site->named = !err;
	return err;
}

static int name_sites(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx,
		      uint64_t deadline_ns)
{
	int err = 0;

	for (size_t i = 0; i < s->n && !err && sonde_mono_ns() < deadline_ns; i++)
		if (!s->site[i].named)
			err = name_site(s, ctx, &s->site[i]);
	return err;
}

int sonde_stack_sites_name(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx)
{
	return name_sites(s, ctx, sonde_mono_ns() + NAMING_NS);
}

void sonde_stack_sites_fini(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx)
{
	if (s->stacks)
		name_sites(s, ctx, UINT64_MAX);
	for (size_t i = 0; i < s->n; i++)
		free(s->site[i].code);
	free(s->site);
	free(s->slots);
	free(s->ends);
	sonde_stacks_free(&s->stacks);
}
