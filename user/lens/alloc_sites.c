// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What each call stack allocated and what of it is live, read from the kernel side's maps. Stacks
 * are pushed when their counts changed, at intervals that grow with the time observed (a
 * sixty-fourth of it), so that a long recording stays small; and named a few milliseconds at a
 * time, since DWARF is slow and the loop has a ring to drain.
 *
 * When live blocks outgrow their map only a sample of them is followed. Thinning out takes blocks
 * from the map that the kernel side no longer looks for; what they held is kept here and taken off.
 */
#include <errno.h>
#include <math.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/err.h"
#include "core/mem.h"
#include "lens/alloc_sites.h"
#include "lens/stacks.h"

#define NAMING_NS   (20 * SONDE_NS_PER_MS)
#define THINNING_NS (20 * SONDE_NS_PER_MS)
#define BATCH	    256

/* Taken off the kernel side's counts of what is live. */
struct thinned {
	uint64_t calls, bytes, squares;
};

struct site {
	uint64_t key;
	uint32_t target, end, n;
	struct sonde_code *code; /* innermost first */
	bool named, changed;
	uint64_t calls, bytes, live_calls, live_bytes, live_squares;
	struct thinned thinned;
};

struct sonde_alloc_sites {
	struct sonde_stacks *stacks;
	struct site *site;
	size_t n, cap;
	uint32_t *slots; /* number + 1, open addressing */
	size_t n_slots;
	size_t n_targets;
	uint64_t (*ends)[SONDE_STACK_END__MAX];
	int stacks_fd, live_fd, control_fd;
	struct sonde_site_control control;
	uint64_t began_ns, pushed_ns;
	bool sample_said, cost_said, last;
	/* Blocks are being taken out, up to the cursor so far. */
	bool thinning, begun;
	uint32_t cursor;
};

int sonde_alloc_sites_configure(const struct sonde_lens_ctx *ctx, struct bpf_object *obj,
				size_t n_targets)
{
	struct bpf_map *live = bpf_object__find_map_by_name(obj, "live_blocks");
	int err = sonde_stacks_configure(obj, n_targets);

	(void)ctx;
	if (!err)
		err = live ? bpf_map__set_max_entries(live, SONDE_LIVE_MAX) : -ENOENT;
	return err;
}

static uint32_t shift_of(uint32_t one_in)
{
	uint32_t shift = 0;

	while (shift < 31 && 1u << shift < one_in)
		shift++;
	return shift;
}

static int set_control(struct sonde_alloc_sites *s)
{
	const uint32_t zero = 0;
	int err = bpf_map_update_elem(s->control_fd, &zero, &s->control, BPF_ANY);

	return err ? sonde_err(err, "alloc: cannot set the sample: %s", strerror(-err)) : 0;
}

int sonde_alloc_sites_new(struct sonde_alloc_sites **out, const struct sonde_lens_ctx *ctx,
			  size_t n_targets)
{
	struct sonde_alloc_sites *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->n_targets = n_targets;
	s->ends = calloc(n_targets, sizeof(*s->ends));
	s->stacks_fd = bpf_object__find_map_fd_by_name(ctx->obj, "stacks");
	s->live_fd = bpf_object__find_map_fd_by_name(ctx->obj, "live_blocks");
	s->control_fd = bpf_object__find_map_fd_by_name(ctx->obj, "site_control");
	s->control.shift = s->control.purged = shift_of(ctx->opts->sites_sample);
	s->began_ns = sonde_mono_ns();
	err = s->ends ? set_control(s) : -ENOMEM;
	err = err ? err : sonde_stacks_new(&s->stacks, ctx, n_targets);
	if (err)
		sonde_alloc_sites_free(&s, ctx);
	*out = s;
	return err;
}

static uint32_t *slot_of(const struct sonde_alloc_sites *s, uint32_t *slots, size_t n, uint64_t key)
{
	size_t i = (key * 0x9e3779b97f4a7c15ull >> 20) & (n - 1);

	while (slots[i] && s->site[slots[i] - 1].key != key)
		i = (i + 1) & (n - 1);
	return &slots[i];
}

static int grow(struct sonde_alloc_sites *s)
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

static int add_site(struct sonde_alloc_sites *s, uint64_t key, const struct sonde_stack_value *v)
{
	uint32_t n = v->n < SONDE_STACK_FRAMES ? v->n : SONDE_STACK_FRAMES;
	struct site site = {.key = key, .target = v->target, .end = v->end, .n = n};

	site.code = calloc(n ? n : 1, sizeof(*site.code));
	if (!site.code || SONDE_GROW(s->site, s->n, s->cap)) {
		free(site.code);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++)
		site.code[i] = sonde_stacks_code(s->stacks, v->target, v->pcs[i]);
	s->site[s->n++] = site;
	return 0;
}

static int take(struct sonde_alloc_sites *s, uint64_t key, const struct sonde_stack_value *v)
{
	uint32_t *slot;
	struct site *site;
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

static int read_stacks(struct sonde_alloc_sites *s)
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
			return sonde_err(err, "alloc: cannot read the stacks: %s", strerror(-err));
		for (uint32_t i = 0; i < n && !took; i++)
			took = take(s, keys[i], &values[i]);
		from = &cursor;
	}
	return took;
}

static void account_thinned(struct sonde_alloc_sites *s, const struct sonde_live_block *b)
{
	uint64_t units = b->bytes >> 4 > 1u << 31 ? 1u << 31 : b->bytes >> 4;
	uint32_t *slot = slot_of(s, s->slots, s->n_slots, b->stack);

	if (!*slot)
		return;
	s->site[*slot - 1].thinned.calls++;
	s->site[*slot - 1].thinned.bytes += b->bytes;
	s->site[*slot - 1].thinned.squares += units * units;
	s->site[*slot - 1].changed = true;
}

/* Take @n blocks out, which the kernel side no longer looks for: but for a program that was under
 * way when the sample changed nobody else does. */
static void take_out(struct sonde_alloc_sites *s, const uint64_t *keys,
		     const struct sonde_live_block *blocks, uint32_t n)
{
	uint32_t at = 0;

	while (at < n) {
		uint32_t done = n - at;
		int err = bpf_map_delete_batch(s->live_fd, keys + at, &done, NULL);

		for (uint32_t i = 0; i < done && at + i < n; i++)
			account_thinned(s, &blocks[at + i]);
		at += done + (err ? 1 : 0); /* over one that is gone already */
	}
}

static void thin_batch(struct sonde_alloc_sites *s, uint64_t *keys, struct sonde_live_block *blocks,
		       uint32_t n)
{
	uint32_t out = 0;

	for (uint32_t i = 0; i < n && s->n_slots; i++) {
		if (sonde_live_sampled(keys[i] & ((1ull << 48) - 1), s->control.shift))
			continue;
		keys[out] = keys[i];
		blocks[out++] = blocks[i];
	}
	take_out(s, keys, blocks, out);
}

/* Go on thinning out until @deadline_ns; s->thinning is over when all blocks were looked at. */
static int thin_out(struct sonde_alloc_sites *s, uint64_t deadline_ns)
{
	struct sonde_live_block blocks[BATCH];
	uint64_t keys[BATCH];
	uint32_t next, n;
	int err = 0;

	while (!err && sonde_mono_ns() < deadline_ns) {
		n = BATCH;
		err = bpf_map_lookup_batch(s->live_fd, s->begun ? &s->cursor : NULL, &next, keys,
					   blocks, &n, NULL);
		if (err && err != -ENOENT)
			return sonde_err(err, "alloc: cannot read the live blocks: %s",
					 strerror(-err));
		thin_batch(s, keys, blocks, n);
		s->cursor = next;
		s->begun = true;
	}
	if (err) { /* the end */
		s->thinning = false;
		s->begun = false;
	}
	return 0;
}

static uint64_t followed(const struct sonde_alloc_sites *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += s->site[i].live_calls - s->site[i].thinned.calls;
	return n;
}

static int note_sample(struct sonde_alloc_sites *s, const struct sonde_lens_ctx *ctx)
{
	char what[200];

	if (s->sample_said)
		return 0;
	s->sample_said = true;
	snprintf(what, sizeof(what),
		 "more than %u blocks are live: one in %u or fewer is followed, and live bytes by "
		 "call "
		 "stack are estimates, each with its error",
		 SONDE_LIVE_MAX * 3 / 4, 1u << s->control.shift);
	return sonde_lens_note(ctx, SONDE_NOTE_CAUTION, what, "");
}

static int go_on_thinning(struct sonde_alloc_sites *s)
{
	int err = thin_out(s, s->last ? UINT64_MAX : sonde_mono_ns() + THINNING_NS);

	if (err || s->thinning)
		return err;
	/* Once more, for what was under way when the sample changed. */
	s->thinning = s->control.purged != s->control.shift && !s->last;
	s->control.purged = s->control.shift;
	return set_control(s);
}

/* Before the map is full: one in twice as many from now on. */
static int check_room(struct sonde_alloc_sites *s, const struct sonde_lens_ctx *ctx)
{
	const uint32_t zero = 0;
	int err = bpf_map_lookup_elem(s->control_fd, &zero, &s->control);

	if (err)
		return sonde_err(err, "alloc: cannot read the sample: %s", strerror(-err));
	if (s->thinning)
		return go_on_thinning(s);
	if (s->control.shift == s->control.purged) {
		if (followed(s) < SONDE_LIVE_MAX / 4 * 3 || s->control.shift >= 31)
			return 0;
		s->control.shift++;
		err = set_control(s);
	}
	err = err ? err : note_sample(s, ctx);
	s->thinning = true;
	return err ? err : go_on_thinning(s);
}

static int push_count(const struct sonde_alloc_sites *s, const struct sonde_lens_ctx *ctx,
		      const struct site *site, bool follows, uint64_t ts_ns)
{
	uint64_t one_in = 1ull << s->control.purged;
	int64_t calls = (int64_t)(site->live_calls - site->thinned.calls);
	int64_t bytes = (int64_t)(site->live_bytes - site->thinned.bytes);
	double squares = 256.0 * (double)(site->live_squares - site->thinned.squares);
	struct sonde_stack_count c = {
		.ts_ns = ts_ns,
		.lens = SONDE_LENS_ALLOC,
		.stack = site->key,
		.target = site->target,
		.calls = site->calls,
		.bytes = site->bytes,
		.has_live = follows,
		/* A free may be counted between two reads of one element. */
		.live_calls = calls > 0 ? (uint64_t)calls * one_in : 0,
		.live_bytes = bytes > 0 ? (uint64_t)bytes * one_in : 0,
	};

	/* Each block is in the sample with probability 1 / one_in (Horvitz and Thompson). */
	if (one_in > 1 && squares > 0)
		c.live_error = (uint64_t)sqrt(squares * (double)one_in * (double)(one_in - 1));
	return sonde_visit(ctx->out, stack_count, &c);
}

static int name_site(struct sonde_alloc_sites *s, const struct sonde_lens_ctx *ctx,
		     struct site *site)
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

static int name_sites(struct sonde_alloc_sites *s, const struct sonde_lens_ctx *ctx,
		      uint64_t deadline_ns)
{
	int err = 0;

	for (size_t i = 0; i < s->n && !err && sonde_mono_ns() < deadline_ns; i++)
		if (!s->site[i].named)
			err = name_site(s, ctx, &s->site[i]);
	return err;
}

static int push_counts(struct sonde_alloc_sites *s, const struct sonde_lens_ctx *ctx,
		       const bool *follows, uint64_t ts_ns)
{
	int err = 0;

	for (size_t i = 0; i < s->n && !err; i++) {
		struct site *site = &s->site[i];

		if (!site->changed)
			continue;
		err = push_count(s, ctx, site, site->target < s->n_targets && follows[site->target],
				 ts_ns);
		site->changed = false;
	}
	s->pushed_ns = ts_ns;
	return err;
}

static int push_ends(const struct sonde_alloc_sites *s, const struct sonde_lens_ctx *ctx,
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

/* The cost that is shown counts traps; a walk is no trap. */
static int note_cost(struct sonde_alloc_sites *s, const struct sonde_lens_ctx *ctx)
{
	if (s->cost_said)
		return 0;
	s->cost_said = true;
	return sonde_lens_note(
		ctx, SONDE_NOTE_CAUTION,
		"the cost shown is that of the probes; walking the call stacks comes "
		"on top, 0.1 to 0.2 us a frame of each call",
		"");
}

static bool sampling_changes(const struct sonde_alloc_sites *s)
{
	return s->control.shift != s->control.purged;
}

int sonde_alloc_sites_tick(struct sonde_alloc_sites *s, const struct sonde_lens_ctx *ctx,
			   const bool *follows, size_t metric, uint64_t ts_ns)
{
	uint64_t pause_ns = (ts_ns - s->began_ns) / 64;
	int err = sonde_stacks_refresh(s->stacks, ctx);

	err = err ? err : note_cost(s, ctx);
	err = err ? err : read_stacks(s);
	err = err ? err : check_room(s, ctx);
	if (err || ctx->rehearsal)
		return err;
	/* While blocks are taken out, what is left is no sample. */
	if (s->last || (!sampling_changes(s) && ts_ns - s->pushed_ns >= pause_ns))
		err = push_counts(s, ctx, follows, ts_ns);
	err = err ? err : push_ends(s, ctx, metric, ts_ns);
	return err ? err : name_sites(s, ctx, sonde_mono_ns() + NAMING_NS);
}

void sonde_alloc_sites_finish(struct sonde_alloc_sites *s)
{
	s->last = true;
}

void sonde_alloc_sites_free(struct sonde_alloc_sites **ref, const struct sonde_lens_ctx *ctx)
{
	struct sonde_alloc_sites *s = *ref;

	*ref = NULL;
	if (!s)
		return;
	if (s->stacks)
		name_sites(s, ctx, UINT64_MAX);
	for (size_t i = 0; i < s->n; i++)
		free(s->site[i].code);
	free(s->site);
	free(s->slots);
	free(s->ends);
	sonde_stacks_free(&s->stacks);
	free(s);
}
