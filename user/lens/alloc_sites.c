// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What each call stack allocated (lens/stack_sites.h) and what of it is live, read from the kernel
 * side's maps. When live blocks outgrow their map only a sample of them is followed. Thinning out
 * takes blocks from the map that the kernel side no longer looks for; what they held is kept here
 * and taken off.
 */
#include <errno.h>
#include <math.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/err.h"
#include "core/mem.h"
#include "lens/alloc_sites.h"
#include "lens/stack_sites.h"

#define THINNING_NS (20 * SONDE_NS_PER_MS)
#define BATCH	    256

struct sonde_alloc_sites {
	struct sonde_stack_sites at;
	int live_fd, control_fd;
	struct sonde_site_control control;
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
	s->live_fd = bpf_object__find_map_fd_by_name(ctx->obj, "live_blocks");
	s->control_fd = bpf_object__find_map_fd_by_name(ctx->obj, "site_control");
	s->control.shift = s->control.purged = shift_of(ctx->opts->sites_sample);
	err = set_control(s);
	err = err ? err : sonde_stack_sites_init(&s->at, ctx, n_targets, false);
	if (err)
		sonde_alloc_sites_free(&s, ctx);
	*out = s;
	return err;
}

static void account_thinned(struct sonde_alloc_sites *s, const struct sonde_live_block *b)
{
	uint64_t units = b->bytes >> 4 > 1u << 31 ? 1u << 31 : b->bytes >> 4;
	struct sonde_stack_site *site = sonde_stack_sites_find(&s->at, b->stack);

	if (!site)
		return;
	site->thinned.calls++;
	site->thinned.bytes += b->bytes;
	site->thinned.squares += units * units;
	site->changed = true;
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

	for (uint32_t i = 0; i < n && s->at.n_slots; i++) {
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

	for (size_t i = 0; i < s->at.n; i++)
		n += s->at.site[i].live_calls - s->at.site[i].thinned.calls;
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

/* For what is pushed: whose blocks are followed, and in which sample. */
struct live {
	const struct sonde_alloc_sites *s;
	const bool *follows;
};

static void fill_live(void *arg, const struct sonde_stack_site *site, struct sonde_stack_count *c)
{
	const struct live *l = arg;
	uint64_t one_in = 1ull << l->s->control.purged;
	int64_t calls = (int64_t)(site->live_calls - site->thinned.calls);
	int64_t bytes = (int64_t)(site->live_bytes - site->thinned.bytes);
	double squares = 256.0 * (double)(site->live_squares - site->thinned.squares);

	c->has_live = site->target < l->s->at.n_targets && l->follows[site->target];
	/* A free may be counted between two reads of one element. */
	c->live_calls = calls > 0 ? (uint64_t)calls * one_in : 0;
	c->live_bytes = bytes > 0 ? (uint64_t)bytes * one_in : 0;
	/* Each block is in the sample with probability 1 / one_in (Horvitz and Thompson). */
	if (one_in > 1 && squares > 0)
		c->live_error = (uint64_t)sqrt(squares * (double)one_in * (double)(one_in - 1));
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
	struct live live = {s, follows};
	int err = sonde_stack_sites_read(&s->at, ctx);

	err = err ? err : note_cost(s, ctx);
	err = err ? err : check_room(s, ctx);
	if (err || ctx->rehearsal)
		return err;
	/* While blocks are taken out, what is left is no sample. */
	if (s->last || (!sampling_changes(s) && sonde_stack_sites_due(&s->at, ts_ns)))
		err = sonde_stack_sites_push(&s->at, ctx, fill_live, &live, ts_ns);
	err = err ? err : sonde_stack_sites_push_ends(&s->at, ctx, metric, ts_ns);
	return err ? err : sonde_stack_sites_name(&s->at, ctx);
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
	sonde_stack_sites_fini(&s->at, ctx);
	free(s);
}
