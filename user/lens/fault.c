// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The fault lens: page faults by size of page and their latency. The kernel side counts into two
 * maps keyed by (process, series, bucket); a tick reads both whole, pushes the sums as they stand
 * and the histograms as differences to the tick before. Nothing is deleted while it may still be
 * counted into, so no fault is lost between two reads.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attach/plan.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "lens/fault_read.h"
#include "lens/lens.h"
#include "sonde/fault.h"

#include "fault.skel.h"

enum { M_COUNT, M_TIME };

static const struct sonde_metric_desc metrics[] = {
	[M_COUNT] = {"fault.count", "count", SONDE_COUNTER,
		     "page faults by size of page, origin and kind"},
	[M_TIME] = {"fault.time", "ns", SONDE_COUNTER, "time spent in those faults"},
};

static const struct sonde_hist_desc hists[] = {
	{"fault.latency", "ns",
	 "page fault, from the exception handler's start to the page in place"},
};

/* What a series is called in labels: "pmd.minor", "kernel_base.major". */
static const char *const size_names[] = {
#define NAME(id, sym, name) [id] = name,
	SONDE_FAULT_SIZES(NAME)
#undef NAME
};

static void series_label(char *buf, size_t size, unsigned series)
{
	unsigned page = series / 4;

	if (page == SONDE_FAULT_UNKNOWN)
		snprintf(buf, size, "%s", size_names[page]);
	else
		snprintf(buf, size, "%s%s.%s", series & 2 ? "kernel_" : "", size_names[page],
			 series & 1 ? "major" : "minor");
}

/* What is known of one target. */
struct row {
	struct sonde_fault_sum sums[SONDE_FAULT_SERIES];
	uint64_t pushed_ns[SONDE_FAULT_SERIES]; /* of the sums, already in pushed histograms */
};

struct fault_state {
	struct row *rows; /* by index in the target list */
	size_t n_rows;
	int sums_fd, hist_fd;
	int n_cpus;
	struct sonde_fault_sum *percpu;		/* n_cpus */
	struct sonde_fault_entries now, before; /* the histogram map at this tick and at the last */
	struct sonde_hist delta;
	uint64_t last_ns;
	bool sized;	/* the ends of faults are seen */
	bool told_lost; /* of children without a target */
};

static const void *fault_elf(size_t *size)
{
	return fault_bpf__elf_bytes(size);
}

#define TRACEPOINT(prog, ev)                                                                       \
	{                                                                                          \
		{.kind = SONDE_LINK_TP_BTF,                                                        \
		 .program = prog,                                                                  \
		 .event = ev,                                                                      \
		 .needs = {SONDE_FEAT_TP_BTF, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},          \
		{                                                                                  \
			.kind = SONDE_LINK_RAW_TP, .program = prog "_raw", .event = ev, .needs = { \
				SONDE_FEAT_TASK_STORAGE,                                           \
				SONDE_FEAT_NONE,                                                   \
				SONDE_FEAT_NONE                                                    \
			}                                                                          \
		}                                                                                  \
	}

static const struct sonde_alternative user_alts[] = TRACEPOINT("fault_user", "page_fault_user");
static const struct sonde_alternative kernel_alts[] =
	TRACEPOINT("fault_kernel", "page_fault_kernel");
static const struct sonde_alternative alloc_alts[] =
	TRACEPOINT("fault_page_alloc", "mm_page_alloc");
static const struct sonde_alternative free_alts[] = TRACEPOINT("fault_page_free", "mm_page_free");

#define NO_END "no fault latency and no page sizes: only the number of faults"

static const struct sonde_alternative minor_alts[] = {
	{.kind = SONDE_LINK_PERF_SW,
	 .program = "fault_end_minor",
	 .event = "minor-faults",
	 .needs = {SONDE_FEAT_PERF_SW, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},
	{.kind = SONDE_LINK_TP_BTF,
	 .program = "fault_count_user",
	 .event = "page_fault_user",
	 .needs = {SONDE_FEAT_TP_BTF, SONDE_FEAT_NONE, SONDE_FEAT_NONE},
	 .weaker = NO_END},
	{.kind = SONDE_LINK_RAW_TP,
	 .program = "fault_count_user_raw",
	 .event = "page_fault_user",
	 .needs = {SONDE_FEAT_BPF, SONDE_FEAT_NONE, SONDE_FEAT_NONE},
	 .weaker = NO_END},
};

static const struct sonde_alternative major_alts[] = {
	{.kind = SONDE_LINK_PERF_SW,
	 .program = "fault_end_major",
	 .event = "major-faults",
	 .needs = {SONDE_FEAT_PERF_SW, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},
};

#define HOOK(nm, al, req, what)                                                                    \
	{                                                                                          \
		.name = nm, .lens = SONDE_LENS_FAULT, .required = req, .alts = al,                 \
		.n_alts = SONDE_ARRAY_SIZE(al), .purpose = what                                    \
	}

/* In the order of attaching: ends first, so that no begun fault waits for an end that nobody sees.
 */
static const struct sonde_hook all_hooks[] = {
	HOOK("fault.minor", minor_alts, true, "a fault ends, no disk read"),
	HOOK("fault.major", major_alts, false, "a fault ends, after a disk read"),
	HOOK("fault.alloc", alloc_alts, false, "size of the page"),
	HOOK("fault.free", free_alts, false, "a huge page that was given back"),
	HOOK("fault.kernel", kernel_alts, false, "a fault begins in a system call"),
	HOOK("fault.user", user_alts, false, "a fault begins in user code"),
};

static int fault_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *list)
{
	int err = 0;

	(void)ctx; /* the same for every target: kernel events, filtered by the gate */
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(all_hooks) && !err; i++)
		err = sonde_hook_list_add(list, &all_hooks[i]);
	return err;
}

/* Did the plan get the end of faults? Otherwise only beginnings are counted. */
static bool plan_has_end(const struct sonde_plan *plan)
{
	for (size_t i = 0; plan && i < plan->n; i++) {
		const struct sonde_plan_item *item = &plan->items[i];

		if (item->alt >= 0 && item->kind == SONDE_LINK_PERF_SW && item->program &&
		    !strcmp(item->program, "fault_end_minor"))
			return true;
	}
	return false;
}

static void fault_fini(struct sonde_lens_ctx *ctx)
{
	struct fault_state *st = ctx->priv;

	if (!st)
		return;
	free(st->rows);
	sonde_fault_entries_fini(&st->now);
	sonde_fault_entries_fini(&st->before);
	free(st->percpu);
	sonde_hist_fini(&st->delta);
	free(st);
	ctx->priv = NULL;
}

/* Rows for targets that joined. */
static int grow_rows(struct fault_state *st, const struct sonde_target_list *targets)
{
	struct row *rows = st->rows;

	if (targets->n <= st->n_rows)
		return 0;
	rows = reallocarray(st->rows, targets->n, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	memset(rows + st->n_rows, 0, (targets->n - st->n_rows) * sizeof(*rows));
	st->rows = rows;
	st->n_rows = targets->n;
	return 0;
}

static int fault_init(struct sonde_lens_ctx *ctx)
{
	struct fault_state *st = calloc(1, sizeof(*st));
	int err = -ENOMEM;

	if (!st)
		return sonde_err(ENOMEM, "fault: no memory for the lens");
	ctx->priv = st;
	st->sized = plan_has_end(ctx->plan);
	st->sums_fd = bpf_object__find_map_fd_by_name(ctx->obj, "fault_sums");
	st->hist_fd = bpf_object__find_map_fd_by_name(ctx->obj, "fault_hist");
	st->n_cpus = libbpf_num_possible_cpus();
	if (st->sums_fd < 0 || st->hist_fd < 0 || st->n_cpus < 1) {
		err = sonde_err(EINVAL, "fault: the BPF object lacks its maps; rebuild sonde");
		goto fail;
	}
	st->last_ns = sonde_mono_ns();
	st->percpu = calloc((size_t)st->n_cpus, sizeof(*st->percpu));
	if (!st->percpu || sonde_hist_init(&st->delta) || grow_rows(st, ctx->targets)) {
		err = sonde_err(ENOMEM, "fault: no memory for the lens");
		goto fail;
	}
	return 0;
fail:
	fault_fini(ctx);
	return err;
}

/* Index of the newest target with that tgid, or -1. Gone ones count: their last faults are theirs.
 */
static ssize_t index_of(const struct sonde_target_list *targets, size_t n_rows, uint32_t tgid)
{
	for (size_t i = n_rows; i-- > 0;)
		if (i < targets->n && (uint32_t)targets->t[i].pid == tgid)
			return (ssize_t)i;
	return -1;
}

static void read_sums(struct fault_state *st, const struct sonde_target_list *targets)
{
	struct sonde_fault_key key, *prev = NULL;

	while (!bpf_map_get_next_key(st->sums_fd, prev, &key)) {
		struct sonde_fault_sum total = {};
		ssize_t i = index_of(targets, st->n_rows, key.tgid);

		prev = &key;
		if (i < 0 || key.series >= SONDE_FAULT_SERIES ||
		    bpf_map_lookup_elem(st->sums_fd, &key, st->percpu))
			continue;
		for (int c = 0; c < st->n_cpus; c++) {
			total.count += st->percpu[c].count;
			total.ns += st->percpu[c].ns;
		}
		st->rows[i].sums[key.series] = total;
	}
}

static bool same_series(const struct sonde_fault_key *a, const struct sonde_fault_key *b)
{
	return a->tgid == b->tgid && a->series == b->series;
}

/* Push what was added to the series of entries [from, to) since the last tick. */
static int push_hist(struct sonde_lens_ctx *ctx, uint64_t ts_ns, size_t from, size_t to,
		     size_t *was)
{
	struct fault_state *st = ctx->priv;
	const struct sonde_fault_key *key = &st->now.e[from].key;
	ssize_t target = index_of(ctx->targets, st->n_rows, key->tgid);
	struct sonde_histrow out = {.desc = &hists[0],
				    .hist = &st->delta,
				    .from_ns = st->last_ns,
				    .to_ns = ts_ns,
				    .target = (uint32_t)target};
	char label[32];
	struct row *row;

	sonde_hist_reset(&st->delta);
	for (size_t i = from; i < to; i++) {
		uint64_t old = 0;

		while (*was < st->before.n &&
		       sonde_fault_entry_compare(&st->before.e[*was], &st->now.e[i]) < 0)
			(*was)++;
		if (*was < st->before.n &&
		    !sonde_fault_entry_compare(&st->before.e[*was], &st->now.e[i]))
			old = st->before.e[*was].count;
		sonde_hist_add_bucket(&st->delta, st->now.e[i].key.bucket,
				      st->now.e[i].count - old);
	}
	if (target < 0 || key->series >= SONDE_FAULT_SERIES || !st->delta.count)
		return 0;
	row = &st->rows[target];
	st->delta.sum = (double)(row->sums[key->series].ns - row->pushed_ns[key->series]);
	row->pushed_ns[key->series] = row->sums[key->series].ns;
	series_label(label, sizeof(label), key->series);
	out.label = label;
	return sonde_visit(ctx->out, hist, &out);
}

static int push_hists(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct fault_state *st = ctx->priv;
	size_t was = 0;
	int err = 0;

	for (size_t from = 0, to; from < st->now.n && !err; from = to) {
		to = from + 1;
		while (to < st->now.n && same_series(&st->now.e[from].key, &st->now.e[to].key))
			to++;
		err = push_hist(ctx, ts_ns, from, to, &was);
	}
	return err;
}

/* These are told even when they are 0: nothing happened, and that was seen. */
static bool always_told(unsigned series, bool sized)
{
	if (!sized)
		return series == sonde_fault_series(SONDE_FAULT_UNKNOWN, 0, 0);
	return series == sonde_fault_series(SONDE_FAULT_BASE, 0, 0) ||
	       series == sonde_fault_series(SONDE_FAULT_BASE, 0, 1) ||
	       series == sonde_fault_series(SONDE_FAULT_MTHP, 0, 0) ||
	       series == sonde_fault_series(SONDE_FAULT_PMD, 0, 0);
}

static int push_sums(struct sonde_lens_ctx *ctx, uint64_t ts_ns, uint32_t target)
{
	struct fault_state *st = ctx->priv;
	const struct row *row = &st->rows[target];
	char label[32];
	int err = 0;

	for (unsigned s = 0; s < SONDE_FAULT_SERIES && !err; s++) {
		if (!row->sums[s].count && !always_told(s, st->sized))
			continue;
		series_label(label, sizeof(label), s);
		err = sonde_lens_push(ctx, target, M_COUNT, label, ts_ns,
				      (double)row->sums[s].count);
		if (err)
			break;
		if (st->sized)
			err = sonde_lens_push(ctx, target, M_TIME, label, ts_ns,
					      (double)row->sums[s].ns);
		else
			err = sonde_lens_push_absent(
				ctx, target, M_TIME, label, ts_ns,
				"this kernel does not show where a fault ends");
	}
	return err;
}

static bool is_dead(uint32_t tgid)
{
	return kill((pid_t)tgid, 0) && errno == ESRCH;
}

/*
 * Make room for processes to come: those that went can no longer count. A child may have ended
 * before the session could make a target of it: its faults belong to no target, which is told once.
 */
static int forget_gone(struct sonde_lens_ctx *ctx)
{
	struct fault_state *st = ctx->priv;
	bool lost = false;

	for (size_t i = 0; i < st->now.n; i++) {
		struct sonde_fault_key key = st->now.e[i].key;
		ssize_t t = index_of(ctx->targets, st->n_rows, key.tgid);

		if (t < 0 ? !is_dead(key.tgid) : !ctx->targets->t[t].gone)
			continue;
		lost |= t < 0;
		bpf_map_delete_elem(st->hist_fd, &key);
		key.bucket = 0;
		bpf_map_delete_elem(st->sums_fd, &key);
	}
	if (!lost || st->told_lost)
		return 0;
	st->told_lost = true;
	return sonde_lens_note(ctx, SONDE_NOTE_CAUTION,
			       "children that end within milliseconds are not in the fault figures",
			       "");
}

static int fault_tick(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct fault_state *st = ctx->priv;
	struct sonde_fault_entries swap = st->before;
	int err = grow_rows(st, ctx->targets);

	if (err)
		return sonde_err(err, "fault: no memory for %zu targets", ctx->targets->n);
	st->before = st->now;
	st->now = swap;
	read_sums(st, ctx->targets);
	err = sonde_fault_entries_read(st->hist_fd, &st->now);
	if (err)
		return sonde_err(err, "fault: cannot read the histogram map: %s", strerror(-err));
	err = push_hists(ctx, ts_ns);
	for (uint32_t i = 0; i < st->n_rows && !err; i++)
		err = push_sums(ctx, ts_ns, i);
	if (!err)
		err = forget_gone(ctx);
	st->last_ns = ts_ns;
	return err;
}

/* A fault runs a program where it begins and one where it ends. */
static size_t fault_hits(struct sonde_lens_ctx *ctx, struct sonde_lens_hits *out, size_t max)
{
	struct fault_state *st = ctx->priv;
	uint64_t faults = 0;
	size_t n = 0;

	for (size_t i = 0; i < st->n_rows; i++)
		for (unsigned s = 0; s < SONDE_FAULT_SERIES; s++)
			faults += st->rows[i].sums[s].count;
	for (size_t i = 0; i < ctx->plan->n && n < max; i++) {
		const struct sonde_plan_item *item = &ctx->plan->items[i];

		if (item->alt >= 0 &&
		    (item->hook->alts == user_alts || item->hook->alts == minor_alts))
			out[n++] = (struct sonde_lens_hits){.kind = item->kind, .n = faults};
	}
	return n;
}

/* Where only beginnings can be counted, the programs that open a fault must not. */
static int fault_configure(struct sonde_lens_ctx *ctx, struct bpf_object *obj)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, ".rodata.fault");
	uint32_t count_only = !plan_has_end(ctx->plan);

	if (!map || bpf_map__set_initial_value(map, &count_only, sizeof(count_only)))
		return sonde_err(EINVAL,
				 "fault: the BPF object lacks .rodata.fault; rebuild sonde");
	return 0;
}

const struct sonde_lens sonde_lens_fault = {
	.id = SONDE_LENS_FAULT,
	.name = "fault",
	.summary = "page faults by size of page, and their latency",
	.overhead = "about 1 us a page fault; nothing between faults",
	.blind_spots =
		"entry to and exit from the exception (about 0.5 us, more in a VM), pages that "
		"mlock or MAP_POPULATE bring in, what the host does beneath a guest",
	.metrics = metrics,
	.n_metrics = SONDE_ARRAY_SIZE(metrics),
	.hists = hists,
	.n_hists = SONDE_ARRAY_SIZE(hists),
	.elf = fault_elf,
	.hooks = fault_hooks,
	.configure = fault_configure,
	.init = fault_init,
	.tick = fault_tick,
	.hits = fault_hits,
	.fini = fault_fini,
};
