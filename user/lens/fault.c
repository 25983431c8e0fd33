// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The fault lens: page faults by what they did, and their latency. The kernel side counts into two
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

#include "attach/feature.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "lens/fault_priv.h"
#include "lens/fault_read.h"
#include "lens/query.h"

#include "fault.skel.h"
#include "fault_stacks.skel.h"

enum {
	M_COUNT,
	M_TIME,
	M_ERROR,
	M_STALLED,
	M_RECLAIM,
	M_COMPACTION,
	M_EXCEPTION,
	M_BY,
	M_STACKS = M_BY + 6
};

#define BY(name, what)                                                                             \
	{"fault." name "_count", "count", SONDE_COUNTER, "page faults by " what},                  \
	{                                                                                          \
		"fault." name "_time", "ns", SONDE_COUNTER, "time spent in them"                   \
	}

static const struct sonde_metric_desc metrics[] = {
	[M_COUNT] = {"fault.count", "count", SONDE_COUNTER,
		     "page faults by what they did, origin and kind"},
	[M_TIME] = {"fault.time", "ns", SONDE_COUNTER, "time spent in those faults"},
	[M_ERROR] = {"fault.time_error", "ns", SONDE_GAUGE,
		     "sampled: 95 of 100 such samples put fault.time closer than this"},
	[M_STALLED] = {"fault.stalled", "count", SONDE_COUNTER,
		       "faults that had to reclaim or to compact memory first"},
	[M_RECLAIM] = {"fault.reclaim_time", "ns", SONDE_COUNTER,
		       "part of fault.time spent in direct reclaim"},
	[M_COMPACTION] = {"fault.compaction_time", "ns", SONDE_COUNTER,
			  "part of fault.time spent in direct compaction"},
	[M_EXCEPTION] = {"fault.exception", "ns", SONDE_GAUGE,
			 "calibrated: what a fault costs beside its latency, the exception's entry "
			 "and exit above all"},
	[M_BY] = BY("thread", "thread"),
	BY("mapping", "mapping of the address"),
	BY("site", "instruction"),
	[M_STACKS] = {"fault.stacks", "count", SONDE_COUNTER,
		      "page faults by where their call stack ends (--fault-by stack)"},
};

static const struct sonde_hist_desc hists[] = {
	{"fault.latency", "ns",
	 "page fault, from the exception handler's start to the page in place"},
};

/* What a series is called in labels: "pmd.minor", "kernel_base.minor", "file.major". */
static const char *const class_names[] = {
#define NAME(id, sym, name) [id] = name,
	SONDE_FAULT_CLASSES(NAME)
#undef NAME
};

static void series_label(char *buf, size_t size, unsigned series)
{
	unsigned cls = series / 4;

	if (cls == SONDE_FAULT_UNKNOWN)
		snprintf(buf, size, "%s", class_names[cls]);
	else
		snprintf(buf, size, "%s%s.%s", series & 2 ? "kernel_" : "", class_names[cls],
			 series & 1 ? "major" : "minor");
}

/* What is known of one target. */
struct row {
	struct fault_time times[SONDE_FAULT_SERIES];
	double pushed_ns[SONDE_FAULT_SERIES]; /* of them, already in pushed histograms */
	uint64_t pushed_n[SONDE_FAULT_SERIES];
};

struct fault_state {
	struct row *rows; /* by index in the target list */
	size_t n_rows;
	int sums_fd, hist_fd;
	int n_cpus;
	struct sonde_fault_sum *percpu;		/* n_cpus */
	struct sonde_fault_entries now, before; /* the histogram map at this tick and at the last */
	struct sonde_hist delta;
	struct fault_by *by;	     /* NULL: not asked for */
	struct fault_stacks *stacks; /* NULL: not asked for */
	uint64_t last_ns;
	double exception_ns; /* 0: not known */
	const char *no_exception;
	bool sized;	/* the ends of faults are seen */
	bool told_lost; /* of children without a target */
};

static const void *fault_elf(const struct sonde_lens_ctx *ctx, size_t *size)
{
	return fault_stacks_asked(ctx) ? fault_stacks_bpf__elf_bytes(size)
				       : fault_bpf__elf_bytes(size);
}

/* Did the plan get the end of faults? Otherwise only beginnings are counted. */
static bool plan_has_end(const struct sonde_plan *plan)
{
	const char *program = sonde_fault_program(plan, "fault.minor");

	return program && !strncmp(program, "fault_end", strlen("fault_end"));
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
	fault_by_free(&st->by);
	fault_stacks_free(&st->stacks, ctx);
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

/* Slots of targets that went stay: they only cost. */
static int fault_retarget(struct sonde_lens_ctx *ctx)
{
	const struct fault_state *st = ctx->priv;
	int fd = bpf_object__find_map_fd_by_name(ctx->obj, "fault_filter");
	const uint32_t yes = 1;

	for (size_t i = 0; i < ctx->targets->n; i++) {
		uint32_t slot = (uint32_t)ctx->targets->t[i].pid % SONDE_FAULT_FILTER;

		if (!ctx->targets->t[i].gone && bpf_map_update_elem(fd, &slot, &yes, BPF_ANY))
			return sonde_err(errno, "fault: cannot set the filter: %s",
					 strerror(errno));
	}
	return st && st->stacks ? fault_stacks_retarget(st->stacks, ctx) : 0;
}

/* What of ctx->opts->fault_by is series of its own, and what is call stacks. */
static int by_new(struct fault_state *st, const struct sonde_lens_ctx *ctx)
{
	int err = 0;

	if (ctx->opts->fault_by & ~(1u << SONDE_FAULT_BY_STACK))
		err = fault_by_new(&st->by, ctx);
	return err || !fault_stacks_asked(ctx) ? err : fault_stacks_new(&st->stacks, ctx);
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
	err = st->sized ? by_new(st, ctx) : 0;
	if (!err)
		err = fault_retarget(ctx);
	if (!err)
		return 0;
fail:
	fault_fini(ctx);
	return err;
}

static int fault_start(struct sonde_lens_ctx *ctx)
{
	struct fault_state *st = ctx->priv;
	int err = st->sized ? sonde_fault_exception(ctx->obj, sonde_query_has_anatomy(ctx->opts),
						    &st->exception_ns)
			    : 0;

	if (!st->sized)
		st->no_exception = "this kernel does not show where a fault ends";
	else if (err)
		st->no_exception = "the calibration saw no faults of its child";
	if (err)
		sonde_debug("fault: the exception could not be calibrated: %s", strerror(-err));
	if (!st->sized || sonde_btf_has_member("mm_struct", "mm_mt"))
		return 0;
	return sonde_lens_note(
		ctx, SONDE_NOTE_DEGRADED,
		"this kernel's list of mappings cannot be read by programs: faults on "
		"files, tmpfs, swap and the zero page are of class \"other\"",
		"use kernel 6.1 or later");
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

static void add_sum(struct sonde_fault_sum *to, const struct sonde_fault_sum *s)
{
	to->count += s->count;
	to->ns += s->ns;
	to->plain += s->plain;
	to->timed += s->timed;
	to->plain_ns += s->plain_ns;
	to->plain_sq += s->plain_sq;
	to->stalled += s->stalled;
	to->reclaim_ns += s->reclaim_ns;
	to->compaction_ns += s->compaction_ns;
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
		for (int c = 0; c < st->n_cpus; c++)
			add_sum(&total, &st->percpu[c]);
		fault_time_update(&st->rows[i].times[key.series], &total);
	}
}

static bool same_series(const struct sonde_fault_key *a, const struct sonde_fault_key *b)
{
	return a->tgid == b->tgid && a->series == b->series;
}

/* What the entries [from, to) of one series gained since the last tick, into st->delta. */
static void read_delta(struct fault_state *st, size_t from, size_t to, size_t *was)
{
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
}

/* The histogram gets the faults and the time that are not in one yet. */
static void complete_delta(struct row *row, unsigned series, bool full, struct sonde_hist *delta)
{
	const struct fault_time *t = &row->times[series];
	uint64_t n =
		t->sum.count > row->pushed_n[series] ? t->sum.count - row->pushed_n[series] : 0;

	if (!full && fault_hist_fit(delta->buckets, SONDE_HIST_BUCKETS, SONDE_FAULT_EVERY, n))
		delta->count = n;
	delta->sum = t->ns - row->pushed_ns[series];
	row->pushed_ns[series] = t->ns;
	row->pushed_n[series] += delta->count;
}

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

	read_delta(st, from, to, was);
	if (target < 0 || key->series >= SONDE_FAULT_SERIES || !st->delta.count)
		return 0;
	complete_delta(&st->rows[target], key->series, ctx->opts->fault_full, &st->delta);
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
	       series == sonde_fault_series(SONDE_FAULT_PMD, 0, 0) ||
	       series == sonde_fault_series(SONDE_FAULT_FILE, 0, 1);
}

/* The time of one series, and what is known of it beside its length. */
static int push_time(const struct sonde_lens_ctx *ctx, uint32_t target, const char *label,
		     const struct fault_time *t, uint64_t ts_ns)
{
	const struct sonde_fault_sum *s = &t->sum;
	int err = sonde_lens_push(ctx, target, M_TIME, label, ts_ns, t->ns);

	if (!err && s->plain)
		err = sonde_lens_push(ctx, target, M_ERROR, label, ts_ns, t->error_ns);
	if (err || !s->stalled)
		return err;
	err = sonde_lens_push(ctx, target, M_STALLED, label, ts_ns, (double)s->stalled);
	err = err ? err
		  : sonde_lens_push(ctx, target, M_RECLAIM, label, ts_ns, (double)s->reclaim_ns);
	return err ? err
		   : sonde_lens_push(ctx, target, M_COMPACTION, label, ts_ns,
				     (double)s->compaction_ns);
}

static int push_sums(struct sonde_lens_ctx *ctx, uint64_t ts_ns, uint32_t target)
{
	struct fault_state *st = ctx->priv;
	const struct row *row = &st->rows[target];
	char label[32];
	int err = 0;

	for (unsigned s = 0; s < SONDE_FAULT_SERIES && !err; s++) {
		const struct fault_time *t = &row->times[s];

		if (!t->sum.count && !always_told(s, st->sized))
			continue;
		series_label(label, sizeof(label), s);
		err = sonde_lens_push(ctx, target, M_COUNT, label, ts_ns, (double)t->sum.count);
		if (err)
			break;
		if (st->sized)
			err = push_time(ctx, target, label, t, ts_ns);
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

/* Of the machine, not of a target: once. */
static int push_exception(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	const struct fault_state *st = ctx->priv;

	if (st->no_exception)
		return sonde_lens_push_absent(ctx, 0, M_EXCEPTION, "", ts_ns, st->no_exception);
	if (!st->exception_ns)
		return 0; /* before the start */
	return sonde_lens_push(ctx, 0, M_EXCEPTION, "", ts_ns, st->exception_ns);
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
	err = sonde_fault_entries_read(st->hist_fd, &st->now);
	if (err)
		return sonde_err(err, "fault: cannot read the histogram map: %s", strerror(-err));
	read_sums(st, ctx->targets);
	err = push_hists(ctx, ts_ns);
	for (uint32_t i = 0; i < st->n_rows && !err; i++)
		err = push_sums(ctx, ts_ns, i);
	if (!err && ctx->targets->n)
		err = push_exception(ctx, ts_ns);
	if (!err && st->by)
		err = fault_by_tick(st->by, ctx, M_BY, ts_ns);
	if (!err && st->stacks)
		err = fault_stacks_tick(st->stacks, ctx, M_STACKS, ts_ns);
	if (!err)
		err = forget_gone(ctx);
	st->last_ns = ts_ns;
	return err;
}

static int fault_finish(struct sonde_lens_ctx *ctx)
{
	struct fault_state *st = ctx->priv;

	if (st && st->stacks)
		fault_stacks_finish(st->stacks);
	return 0;
}

static size_t fault_hits(struct sonde_lens_ctx *ctx, struct sonde_lens_hits *out, size_t max)
{
	struct fault_state *st = ctx->priv;
	uint64_t faults = 0, allocs = 0;

	for (size_t i = 0; i < st->n_rows; i++)
		for (unsigned s = 0; s < SONDE_FAULT_SERIES; s++) {
			unsigned cls = s / 4;
			uint64_t n = st->rows[i].times[s].sum.count;

			faults += n;
			if (cls <= SONDE_FAULT_PMD || cls == SONDE_FAULT_COW)
				allocs += n;
		}
	return sonde_fault_runs(ctx->plan, faults, allocs, out, max);
}

/* Typed access to kernel memory goes with typed tracepoints. */
static bool has_cast(const struct sonde_plan *plan)
{
	const char *begin = sonde_fault_program(plan, "fault.user");

	return begin && !strcmp(begin, "fault_user") && sonde_btf_has_function("bpf_rdonly_cast");
}

/* Where only beginnings can be counted, the programs that open a fault must not. */
static int fault_configure(struct sonde_lens_ctx *ctx, struct bpf_object *obj)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, ".rodata.fault");
	struct bpf_map *by = bpf_object__find_map_by_name(obj, "fault_by");
	struct sonde_fault_config c = {
		.count_only = !plan_has_end(ctx->plan),
		.every = ctx->opts->fault_full ? 1 : SONDE_FAULT_EVERY,
		.by = ctx->opts->fault_by,
		.cast = has_cast(ctx->plan),
		.targets = fault_stacks_room(ctx),
	};

	if (!map || !by || bpf_map__set_initial_value(map, &c, sizeof(c)) ||
	    (!(c.by & ~(1u << SONDE_FAULT_BY_STACK)) && bpf_map__set_max_entries(by, 1)))
		return sonde_err(EINVAL, "fault: the BPF object lacks its settings; rebuild sonde");
	return fault_stacks_asked(ctx) ? fault_stacks_configure(ctx, obj) : 0;
}

const struct sonde_lens sonde_lens_fault = {
	.id = SONDE_LENS_FAULT,
	.name = "fault",
	.summary = "page faults by what they did, and their latency",
	.overhead = "about 0.6 us a page fault; other processes 0.1 us a fault or "
		    "a page they allocate",
	.blind_spots =
		"entry to and exit from the exception (about 0.5 us, more in a VM), pages that "
		"mlock or MAP_POPULATE bring in, what the host does beneath a guest",
	.metrics = metrics,
	.n_metrics = SONDE_ARRAY_SIZE(metrics),
	.hists = hists,
	.n_hists = SONDE_ARRAY_SIZE(hists),
	.elf_for = fault_elf,
	.hooks = sonde_fault_hooks,
	.configure = fault_configure,
	.init = fault_init,
	.start = fault_start,
	.retarget = fault_retarget,
	.tick = fault_tick,
	.finish = fault_finish,
	.hits = fault_hits,
	.fini = fault_fini,
};
