/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What was counted by call stack, read from the kernel side's map of stacks (bpf/lib/stack.bpf.h):
 * shared by the lenses that count so. Stacks are pushed when their counts changed, at intervals
 * that grow with the time observed (a sixty-fourth of it), so that a long recording stays small;
 * and named a few milliseconds at a time, since DWARF is slow and the loop has a ring to drain.
 *
 * The invariant: calls over all ends are those of all stacks, and every stack that was counted is
 * named before the sites are freed.
 */
#ifndef SONDE_LENS_STACK_SITES_H
#define SONDE_LENS_STACK_SITES_H

#include "lens/lens.h"
#include "lens/stacks.h"

/* Of what is live, taken off the kernel side's counts: blocks no longer followed. */
struct sonde_site_thinned {
	uint64_t calls, bytes, squares;
};

struct sonde_stack_site {
	uint64_t key;
	uint32_t target, end, n;
	struct sonde_code *code; /* innermost first */
	bool named, changed;
	uint64_t calls, bytes, live_calls, live_bytes, live_squares;
	struct sonde_site_thinned thinned;
};

struct sonde_stack_sites {
	struct sonde_stacks *stacks;
	struct sonde_stack_site *site;
	size_t n, cap;
	uint32_t *slots; /* number + 1, open addressing */
	size_t n_slots;
	size_t n_targets;
	uint64_t (*ends)[SONDE_STACK_END__MAX];
	enum sonde_lens_id lens;
	bool exact; /* stacks begin at an instruction that was under way, not at a caller */
	int stacks_fd;
	uint64_t began_ns, pushed_ns;
};

/* After load. @exact: as the field. 0 or -errno (logged); to be finished either way. */
int sonde_stack_sites_init(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx,
			   size_t n_targets, bool exact);
/* Name what has no names yet, and free. */
void sonde_stack_sites_fini(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx);
/* Read every stack's counts, and before it what the targets map now. 0 or -errno (logged). */
int sonde_stack_sites_read(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx);
/* NULL: none of that key was read. */
struct sonde_stack_site *sonde_stack_sites_find(const struct sonde_stack_sites *s, uint64_t key);
/* Is it time to push counts again? */
bool sonde_stack_sites_due(const struct sonde_stack_sites *s, uint64_t ts_ns);
/* Push what changed; @live, if any, fills in what is live. 0 or the visitor's -errno. */
typedef void sonde_site_live_fn(void *arg, const struct sonde_stack_site *site,
				struct sonde_stack_count *c);
int sonde_stack_sites_push(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx,
			   sonde_site_live_fn *live, void *arg, uint64_t ts_ns);
/* Calls by where their stack ends, as metric @metric of the lens. 0 or the visitor's -errno. */
int sonde_stack_sites_push_ends(const struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx,
				size_t metric, uint64_t ts_ns);
/* Name stacks for up to 20 ms. 0 or -errno. */
int sonde_stack_sites_name(struct sonde_stack_sites *s, const struct sonde_lens_ctx *ctx);

#endif
