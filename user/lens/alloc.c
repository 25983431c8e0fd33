// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The alloc lens in exact mode: every call of the allocator, by function; with glibc also the bytes
 * of the chunks handed out and given back, whose difference is the change of live memory since
 * attach. The kernel side counts into memory-mapped arrays; a tick adds up their lanes and asks
 * nobody.
 *
 * The invariant: what is not known is absent, with the reason; a function not attached has no
 * series.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attach/plan.h"
#include "core/err.h"
#include "core/mem.h"
#include "lens/alloc_consumption.h"
#include "lens/alloc_counters.h"
#include "lens/alloc_hooks.h"
#include "lens/alloc_link.h"
#include "lens/alloc_metrics.h"
#include "lens/alloc_sites.h"
#include "lens/alloc_windows.h"
#include "lens/lens.h"
#include "sonde/alloc.h"
#include "target/allocator.h"

#include "alloc.skel.h" /* uses the types of sonde/ */
#include "alloc_sites.skel.h"

#define SPARE_TARGETS	  8	     /* restarts and new children get counters too              */
#define COUNTER_BYTES_MAX (4u << 20) /* lanes are fewer than CPUs where they would take more */

static const struct sonde_hist_desc hists[] = {
	{"alloc.size", "bytes", "bytes asked for in a call"},
};

static const char *const op_names[SONDE_ALLOC__MAX] = {
	[SONDE_ALLOC_MALLOC] = "malloc",
	[SONDE_ALLOC_CALLOC] = "calloc",
	[SONDE_ALLOC_REALLOC] = "realloc",
	[SONDE_ALLOC_MEMALIGN] = "memalign",
	[SONDE_ALLOC_POSIX_MEMALIGN] = "posix_memalign",
	[SONDE_ALLOC_VALLOC] = "valloc",
	[SONDE_ALLOC_PVALLOC] = "pvalloc",
	[SONDE_ALLOC_NEW] = "operator new",
	[SONDE_ALLOC_FREE] = "free",
	[SONDE_ALLOC_DELETE] = "operator delete",
	[SONDE_ALLOC_DELETE_SIZED] = "operator delete (sized)",
	[SONDE_ALLOC_REALLOCARRAY] = "reallocarray",
};

struct target_state {
	struct sonde_alloc_link ops[SONDE_ALLOC__MAX];
	bool attached;
	bool blind;	   /* a block's size cannot be learned, of one of its allocators at least */
	uint64_t bytes;	   /* at the previous tick */
	uint64_t *buckets; /* likewise, SONDE_HIST_BUCKETS */
};

struct alloc_state {
	struct target_state *targets;
	uint32_t n_targets, lanes;
	const struct sonde_alloc_row *rows;
	const uint64_t *sizes;
	size_t rows_bytes, sizes_bytes;
	struct sonde_hist interval;
	uint64_t prev_ns;
	struct sonde_alloc_sites *sites;       /* NULL: by call stack is not asked for */
	struct sonde_alloc_counters *counters; /* in counters mode */
	struct sonde_alloc_base base;	       /* in exact mode */
	struct sonde_alloc_windows *windows;   /* in windows mode */
};

static bool wants_probes(const struct sonde_lens_ctx *ctx)
{
	return (ctx->opts->alloc_exact || ctx->opts->alloc_windows) && !ctx->opts->passive;
}

static bool wants_sites(const struct sonde_lens_ctx *ctx)
{
	return wants_probes(ctx) && ctx->opts->sites;
}

static const void *alloc_elf(const struct sonde_lens_ctx *ctx, size_t *size)
{
	return wants_sites(ctx) ? alloc_sites_bpf__elf_bytes(size) : alloc_bpf__elf_bytes(size);
}

static int alloc_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks)
{
	if (ctx->opts->alloc_counters)
		return sonde_alloc_counters_hooks(ctx, hooks);
	return wants_probes(ctx) ? sonde_alloc_hooks_add(ctx, hooks) : 0;
}

/* As many lanes as CPUs, a power of two, within the memory allowed; at least one. */
static struct sonde_alloc_geometry choose_geometry(size_t n_targets, int cpus)
{
	const size_t lane_bytes = sizeof(struct sonde_alloc_row) * SONDE_ALLOC_ROWS +
				  sizeof(uint64_t) * SONDE_HIST_BUCKETS;
	struct sonde_alloc_geometry g = {.targets = (uint32_t)n_targets};
	uint32_t lanes = 1;

	while ((int)lanes < cpus && 2 * lanes * n_targets * lane_bytes <= COUNTER_BYTES_MAX)
		lanes *= 2;
	g.lane_mask = lanes - 1;
	return g;
}

static int alloc_configure(struct sonde_lens_ctx *ctx, struct bpf_object *obj)
{
	struct bpf_map *rows = bpf_object__find_map_by_name(obj, "alloc_rows");
	struct bpf_map *sizes = bpf_object__find_map_by_name(obj, "alloc_sizes");
	struct bpf_map *domains = bpf_object__find_map_by_name(obj, "alloc_domains");
	struct bpf_map *rodata = bpf_object__find_map_by_name(obj, ".rodata.alloc");
	size_t n = ctx->targets->n + SPARE_TARGETS;
	struct sonde_alloc_geometry g;
	int err;

	if (!rows || !sizes || !rodata || !domains)
		return sonde_err(ENOENT, "alloc: a map is missing from the BPF object");
	if (!ctx->opts->alloc_counters) {
		struct bpf_map *ended = bpf_object__find_map_by_name(obj, "tls_ended");

		if (ended && bpf_map__set_max_entries(ended, 1))
			return sonde_err(EINVAL,
					 "alloc: cannot size the map of threads that ended");
	}
	if (!wants_probes(ctx))
		return 0; /* nothing will count: the smallest maps do */
	n = n > SONDE_MAX_TARGETS ? SONDE_MAX_TARGETS : n;
	g = choose_geometry(n, libbpf_num_possible_cpus());
	err = wants_sites(ctx) ? sonde_alloc_sites_configure(ctx, obj, n) : 0;
	if (err)
		return err;
	n = (size_t)g.targets * (g.lane_mask + 1);
	err = bpf_map__set_max_entries(rows, (uint32_t)(n * SONDE_ALLOC_ROWS));
	err = err ? err : bpf_map__set_max_entries(sizes, (uint32_t)(n * SONDE_HIST_BUCKETS));
	n = sonde_alloc_domain_count(ctx->plan);
	err = err ? err : bpf_map__set_max_entries(domains, n ? (uint32_t)n : 1);
	err = err ? err : bpf_map__set_initial_value(rodata, &g, sizeof(g));
	return err ? sonde_err(err, "alloc: cannot size the counters: %s", strerror(-err)) : 0;
}

/* Which operations of which target are attached, and how, as the plan says. */
static void learn_plan(struct sonde_lens_ctx *ctx)
{
	struct alloc_state *s = ctx->priv;

	for (size_t i = 0; ctx->plan && i < ctx->plan->n; i++) {
		const struct sonde_plan_item *item = &ctx->plan->items[i];

		if (item->hook->lens != SONDE_LENS_ALLOC || item->alt < 0)
			continue;
		for (size_t j = 0; j < item->hook->n_sites; j++) {
			const struct sonde_probe_site *site = &item->hook->sites[j];
			ssize_t t = sonde_target_list_find(ctx->targets, site->pid);

			if (t < 0 || (uint32_t)t >= s->n_targets)
				continue;
			s->targets[t].attached = true;
			s->targets[t].blind |=
				SONDE_ALLOC_COOKIE_RULE(site->cookie) == SONDE_BLOCK_UNKNOWN;
			sonde_alloc_link_take(
				&s->targets[t].ops[SONDE_ALLOC_COOKIE_OP(site->cookie)], item,
				site);
		}
	}
}

static void alloc_fini(struct sonde_lens_ctx *ctx)
{
	struct alloc_state *s = ctx->priv;

	if (!s)
		return;
	for (uint32_t t = 0; s->targets && t < s->n_targets; t++)
		free(s->targets[t].buckets);
	free(s->targets);
	sonde_alloc_counters_free(&s->counters);
	sonde_alloc_windows_free(&s->windows);
	sonde_hist_fini(&s->interval);
	sonde_alloc_sites_free(&s->sites, ctx);
	if (s->rows)
		munmap((void *)s->rows, s->rows_bytes);
	if (s->sizes)
		munmap((void *)s->sizes, s->sizes_bytes);
	free(s);
	ctx->priv = NULL;
}

static int make_state(struct sonde_lens_ctx *ctx, struct alloc_state *s)
{
	s->rows = sonde_alloc_map_view(ctx->obj, "alloc_rows", &s->rows_bytes);
	s->sizes = sonde_alloc_map_view(ctx->obj, "alloc_sizes", &s->sizes_bytes);
	if (!s->rows || !s->sizes)
		return -EIO;
	s->targets = calloc(s->n_targets, sizeof(*s->targets));
	if (!s->targets || sonde_hist_init(&s->interval))
		return -ENOMEM;
	for (uint32_t t = 0; t < s->n_targets; t++) {
		s->targets[t].buckets = calloc(SONDE_HIST_BUCKETS, sizeof(uint64_t));
		if (!s->targets[t].buckets)
			return -ENOMEM;
	}
	return 0;
}

static int alloc_init(struct sonde_lens_ctx *ctx)
{
	struct alloc_state *s;
	struct bpf_map *rodata;
	const struct sonde_alloc_geometry *g;
	size_t size;
	int err;

	s = ctx->priv = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	if (ctx->opts->alloc_counters)
		return sonde_alloc_counters_new(ctx, &s->counters);
	if (!wants_probes(ctx) || !ctx->obj)
		return 0;
	rodata = bpf_object__find_map_by_name(ctx->obj, ".rodata.alloc");
	g = rodata ? bpf_map__initial_value(rodata, &size) : NULL;
	if (!g || size != sizeof(*g))
		return sonde_err(ENOENT, "alloc: the BPF object has no geometry");
	s->n_targets = g->targets;
	s->lanes = g->lane_mask + 1;
	err = make_state(ctx, s);
	if (!err && wants_sites(ctx))
		err = sonde_alloc_sites_new(&s->sites, ctx, s->n_targets);
	err = err ? err : sonde_alloc_domains_fill(ctx);
	if (!err && ctx->opts->alloc_windows)
		err = sonde_alloc_windows_new(&s->windows, ctx);
	if (err)
		return err;
	learn_plan(ctx);
	sonde_alloc_base_prepare(ctx);
	return 0;
}

static int alloc_start(struct sonde_lens_ctx *ctx)
{
	struct alloc_state *s = ctx->priv;
	const uint32_t zero = 0, one = 1;
	struct bpf_map *map;

	if (s->counters)
		return sonde_alloc_counters_start(ctx, s->counters);
	if (!s->rows)
		return 0;
	map = bpf_object__find_map_by_name(ctx->obj, ".bss");
	if (!map || bpf_map_update_elem(bpf_map__fd(map), &zero, &one, BPF_ANY))
		return sonde_err(errno, "alloc: cannot start counting: %s", strerror(errno));
	return s->windows ? sonde_alloc_windows_start(s->windows, ctx) : 0;
}

static int alloc_retarget(struct sonde_lens_ctx *ctx)
{
	const struct alloc_state *s = ctx->priv;

	learn_plan(ctx);
	return s->counters ? sonde_alloc_counters_retarget(ctx, s->counters) : 0;
}

static struct sonde_alloc_row sum_row(const struct alloc_state *s, uint32_t target, uint32_t op)
{
	const struct sonde_alloc_view v = {s->rows, s->lanes, s->n_targets};

	return sonde_alloc_sum_row(&v, target, op);
}

static int push_op(const struct sonde_lens_ctx *ctx, uint32_t target, enum sonde_alloc_op op,
		   const struct sonde_alloc_row *row, uint64_t ts_ns)
{
	const char *name = op_names[op];
	int err = sonde_lens_push(ctx, target, M_CALLS, name, ts_ns, (double)row->calls);

	if (!err && (row->bytes || op == SONDE_ALLOC_MALLOC))
		err = sonde_lens_push(ctx, target, M_REQUESTED, name, ts_ns, (double)row->bytes);
	if (!err && row->failed)
		err = sonde_lens_push(ctx, target, M_FAILED, name, ts_ns, (double)row->failed);
	return err;
}

/* Chunks that were given back are subtracted from those handed out over the same set of rows. */
static int push_live(const struct sonde_lens_ctx *ctx, uint32_t target,
		     const struct target_state *ts, uint64_t in, uint64_t out, uint64_t ts_ns)
{
	int err;

	if (ts->blind)
		return sonde_lens_push_absent(
			ctx, target, M_LIVE, "", ts_ns,
			"the tables in which the allocator keeps the sizes of its blocks were not "
			"found in the process");
	err = sonde_lens_push(ctx, target, M_HANDED_OUT, "", ts_ns, (double)in);
	err = err ? err : sonde_lens_push(ctx, target, M_GIVEN_BACK, "", ts_ns, (double)out);
	if (!err && ctx->lost_ns)
		return sonde_lens_push_absent(ctx, target, M_LIVE, "", ts_ns, ctx->lost_why);
	return err ? err
		   : sonde_lens_push(ctx, target, M_LIVE, "", ts_ns, (double)(int64_t)(in - out));
}

/* What the buckets gained since the previous tick. @bytes: what they hold in all, exactly. */
static int push_sizes(const struct sonde_lens_ctx *ctx, uint32_t target, uint64_t bytes,
		      uint64_t ts_ns)
{
	struct alloc_state *s = ctx->priv;
	struct target_state *t = &s->targets[target];
	struct sonde_histrow row = {.desc = &hists[0],
				    .label = "",
				    .from_ns = s->prev_ns,
				    .to_ns = ts_ns,
				    .target = target,
				    .hist = &s->interval};

	sonde_hist_reset(&s->interval);
	for (uint32_t b = 0; b < SONDE_HIST_BUCKETS; b++) {
		uint64_t n = 0;

		for (uint32_t lane = 0; lane < s->lanes; lane++)
			n += __atomic_load_n(
				&s->sizes[sonde_alloc_bucket_index(lane, s->n_targets, target, b)],
				__ATOMIC_RELAXED);
		sonde_hist_add_bucket(&s->interval, b, n - t->buckets[b]);
		t->buckets[b] = n;
	}
	s->interval.sum = (double)(bytes - t->bytes);
	t->bytes = bytes;
	return s->interval.count ? sonde_visit(ctx->out, hist, &row) : 0;
}

static int push_target(const struct sonde_lens_ctx *ctx, uint32_t target, uint64_t ts_ns)
{
	const struct alloc_state *s = ctx->priv;
	const struct target_state *t = &s->targets[target];
	uint64_t in = 0, out = 0, bytes = 0;
	int err = 0;

	for (uint32_t op = 1; !err && op < SONDE_ALLOC__MAX; op++) {
		struct sonde_alloc_row row = sum_row(s, target, op);

		in += row.chunk_in;
		out += row.chunk_out;
		bytes += row.bytes;
		if (row.calls || (op == SONDE_ALLOC_MALLOC && t->ops[op].entry))
			err = push_op(ctx, target, op, &row, ts_ns);
	}
	err = err ? err : push_live(ctx, target, t, in, out, ts_ns);
	return err ? err : push_sizes(ctx, target, bytes, ts_ns);
}

/* ---- windows ---- */

static struct sonde_alloc_totals window_totals(const struct alloc_state *s)
{
	struct sonde_alloc_totals sum = {0};

	for (uint32_t t = 0; t < s->n_targets; t++)
		for (uint32_t op = 1; op < SONDE_ALLOC__MAX; op++) {
			struct sonde_alloc_row row = sum_row(s, t, op);

			sum.calls += row.calls;
			sum.bytes += row.bytes;
		}
	return sum;
}

/* Shares and sizes; what only all calls could tell is absent. */
static int push_target_windows(const struct sonde_lens_ctx *ctx, uint32_t target, uint64_t ts_ns)
{
	static const char why[] = "calls are seen in windows only: alloc.calls_per_query and "
				  "alloc.rate say what follows; --alloc-mode exact counts them";
	const struct alloc_state *s = ctx->priv;
	double calls = 0;
	uint64_t bytes = 0;
	int err = 0;

	for (uint32_t op = 1; op < SONDE_ALLOC__MAX; op++) {
		struct sonde_alloc_row row = sum_row(s, target, op);

		calls += (double)row.calls;
		bytes += row.bytes;
	}
	for (uint32_t op = 1; !err && op < SONDE_ALLOC__MAX; op++) {
		struct sonde_alloc_row row = sum_row(s, target, op);

		if (row.calls)
			err = sonde_lens_push(ctx, target, M_SHARE, op_names[op], ts_ns,
					      (double)row.calls / calls);
	}
	err = err ? err : sonde_lens_push_absent(ctx, target, M_CALLS, "", ts_ns, why);
	err = err ? err : sonde_lens_push_absent(ctx, target, M_REQUESTED, "", ts_ns, why);
	err = err ? err : sonde_lens_push_absent(ctx, target, M_LIVE, "", ts_ns, why);
	return err ? err : push_sizes(ctx, target, bytes, ts_ns);
}

static bool alloc_window_due(struct sonde_lens_ctx *ctx, uint64_t now_ns,
			     struct sonde_window_order *order)
{
	struct alloc_state *s = ctx->priv;

	return s && s->windows && sonde_alloc_windows_due(s->windows, ctx, now_ns, order);
}

static int alloc_window_over(struct sonde_lens_ctx *ctx, uint64_t begin_ns, uint64_t end_ns)
{
	struct alloc_state *s = ctx->priv;
	struct sonde_alloc_totals totals = window_totals(s);

	return sonde_alloc_windows_over(s->windows, ctx, &totals, begin_ns, end_ns);
}

static int push_why_not(const struct sonde_lens_ctx *ctx, uint32_t target, uint64_t ts_ns)
{
	const char *why = "the process began after the probes were attached to its parent";
	int err;

	if (!ctx->opts->alloc_exact && !ctx->opts->alloc_windows)
		why = "allocation is not counted unless asked for (--alloc-mode exact)";
	else if (ctx->opts->passive)
		why = "--passive attaches no probes";
	else if (!ctx->targets->t[target].allocator)
		why = "the allocator was not recognised";
	else if (!ctx->targets->t[target].is_child)
		why = "no function of the allocator is attached";
	err = sonde_lens_push_absent(ctx, target, M_CALLS, "", ts_ns, why);
	err = err ? err : sonde_lens_push_absent(ctx, target, M_REQUESTED, "", ts_ns, why);
	return err ? err : sonde_lens_push_absent(ctx, target, M_LIVE, "", ts_ns, why);
}

/* Every pointer that was handed out was seen: blocks can be followed. */
static bool follows_blocks(const struct alloc_state *s, uint32_t target)
{
	for (uint32_t op = 1; op < SONDE_ALLOC__MAX; op++)
		if (sum_row(s, target, op).unseen)
			return false;
	return true;
}

static int tick_sites(const struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct alloc_state *s = ctx->priv;
	bool follows[SONDE_MAX_TARGETS] = {false};

	for (uint32_t t = 0; t < s->n_targets; t++)
		follows[t] = !s->windows && follows_blocks(s, t);
	return sonde_alloc_sites_tick(s->sites, ctx, follows, M_STACKS, ts_ns);
}

static int alloc_finish(struct sonde_lens_ctx *ctx)
{
	struct alloc_state *s = ctx->priv;

	if (s->sites)
		sonde_alloc_sites_finish(s->sites);
	return s->windows ? sonde_alloc_windows_finish(s->windows, ctx) : 0;
}

static int push_whole(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct alloc_state *s = ctx->priv;
	const struct sonde_alloc_view v = {s->rows, s->lanes, s->n_targets};

	if (!s->rows || ctx->rehearsal || !s->targets[0].attached || ctx->targets->t[0].gone)
		return 0;
	return sonde_alloc_push_whole(ctx, &v, &s->base, s->targets[0].blind, ts_ns);
}

static int alloc_tick(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct alloc_state *s = ctx->priv;
	int err = s->sites ? tick_sites(ctx, ts_ns) : 0;

	if (s->counters)
		return sonde_alloc_counters_tick(ctx, s->counters, ts_ns);
	for (uint32_t t = 0; !err && t < ctx->targets->n; t++) {
		if (t < s->n_targets && s->targets[t].attached)
			err = s->windows ? push_target_windows(ctx, t, ts_ns)
					 : push_target(ctx, t, ts_ns);
		else if (!ctx->targets->t[t].gone)
			err = push_why_not(ctx, t, ts_ns);
	}
	if (!err && s->windows)
		err = sonde_alloc_windows_tick(s->windows, ctx, ts_ns);
	s->prev_ns = ts_ns;
	return err ? err : push_whole(ctx, ts_ns);
}

static size_t add_hits(struct sonde_lens_hits *out, size_t n, size_t max, enum sonde_link_kind kind,
		       enum sonde_insn_kind insn, uint64_t hits)
{
	if (kind == SONDE_LINK_NONE)
		return n;
	for (size_t i = 0; i < n; i++) {
		if (out[i].kind == kind && out[i].insn == insn) {
			out[i].n += hits;
			return n;
		}
	}
	if (n < max)
		out[n++] = (struct sonde_lens_hits){.kind = kind, .insn = insn, .n = hits};
	return n;
}

/* An inner hit of a session arms no return: it costs a plain entry, here a little overstated. */
static size_t alloc_hits(struct sonde_lens_ctx *ctx, struct sonde_lens_hits *out, size_t max)
{
	const struct alloc_state *s = ctx->priv;
	size_t n = 0;

	if (s && s->windows)
		return sonde_alloc_windows_hits(s->windows, out, max);
	for (uint32_t t = 0; s && t < s->n_targets; t++) {
		for (uint32_t op = 1; s->targets[t].attached && op < SONDE_ALLOC__MAX; op++) {
			const struct sonde_alloc_link *l = &s->targets[t].ops[op];
			struct sonde_alloc_row row = sum_row(s, t, op);

			n = add_hits(out, n, max, l->entry, l->insn, row.calls + row.inner);
			n = add_hits(out, n, max, l->ret, l->ret_insn, row.calls + row.inner);
		}
	}
	return n;
}

static int alloc_consumption(struct sonde_lens_ctx *ctx, uint64_t now_ns,
			     struct sonde_consumption *out)
{
	struct alloc_state *s = ctx->priv;
	const struct sonde_alloc_view v = {s->rows, s->lanes, s->n_targets};
	bool attached = false;

	if (s->counters)
		return sonde_alloc_counters_consumption(ctx, s->counters, now_ns, out);
	if (s->windows)
		return -ENODATA;
	for (uint32_t t = 0; t < s->n_targets; t++) {
		if (s->targets[t].blind)
			return -ENODATA;
		attached |= s->targets[t].attached;
	}
	return attached ? sonde_alloc_consumption(ctx, &v, &s->base, now_ns, out) : -ENODATA;
}

const struct sonde_lens sonde_lens_alloc = {
	.id = SONDE_LENS_ALLOC,
	.name = "alloc",
	.summary = "live bytes by the allocator's own counters; in exact mode every call",
	.overhead = "counters: nothing attached, about 0.1 ms a reading, walks of free lists for 1 "
		    "% of "
		    "the time; exact: about 2 us a malloc and free pair",
	.blind_spots =
		"memory that the program maps itself (mmap), allocators linked in statically "
		"without symbols, custom pools inside one malloc",
	.metrics = sonde_alloc_metrics,
	.n_metrics = M__MAX,
	.hists = hists,
	.n_hists = SONDE_ARRAY_SIZE(hists),
	.elf_for = alloc_elf,
	.hooks = alloc_hooks,
	.configure = alloc_configure,
	.init = alloc_init,
	.start = alloc_start,
	.retarget = alloc_retarget,
	.tick = alloc_tick,
	.finish = alloc_finish,
	.hits = alloc_hits,
	.consumption = alloc_consumption,
	.window_due = alloc_window_due,
	.window_over = alloc_window_over,
	.fini = alloc_fini,
};
