// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The query lens: a span for every query, from the socket. Counts and latencies are made in the
 * kernel and read here at each tick, so they are complete even where spans were dropped or
 * filtered; spans are decoded as they come.
 *
 * The invariant: the sum of the latency classes is every query that was answered, less those that
 * overlapped a window of the allocator's probes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attach/plan.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "lens/query_impl.h"

#include "query.skel.h"

enum {
	M_SPANS,
	M_ERRORS,
	M_ABORTED,
	M_NO_REPLY,
	M_STATEMENTS,
	M_BYTES_IN,
	M_BYTES_OUT,
	M_SKIPPED,
	M_HANDLER,
	M_LOG,
	M_UNFINISHED,
	M_HEAP_SPANS,
	M_HEAP_ALLOCATED,
	M_HEAP_FREED,
	M_DISTURBED,
	M_BY_HANDLER,
	M_PARTS, /* and one a part behind it */
};

static const struct sonde_metric_desc metrics[] = {
	[M_SPANS] = {"query.spans", "count", SONDE_COUNTER, "queries that ended, in whatever way"},
	[M_ERRORS] = {"query.errors", "count", SONDE_COUNTER, "queries answered with an error"},
	[M_ABORTED] = {"query.aborted", "count", SONDE_COUNTER,
		       "queries whose connection closed before the answer was complete"},
	[M_NO_REPLY] = {"query.no_reply", "count", SONDE_COUNTER,
			"requests that the protocol does not answer"},
	[M_STATEMENTS] = {"query.statements", "count", SONDE_COUNTER,
			  "result sets in the answers: more than queries where one holds several"},
	[M_BYTES_IN] = {"query.bytes_in", "bytes", SONDE_COUNTER, "requests, protocol included"},
	[M_BYTES_OUT] = {"query.bytes_out", "bytes", SONDE_COUNTER, "answers, protocol included"},
	[M_SKIPPED] = {"query.skipped", "count", SONDE_COUNTER,
		       "queries faster than asked for: counted, but without a span"},
	[M_HANDLER] = {"query.handler_calls", "count", SONDE_COUNTER,
		       "calls of the daemon's statement handler"},
	[M_UNFINISHED] = {"query.unfinished", "count", SONDE_GAUGE,
			  "queries still being answered when the observation ended"},
	[M_HEAP_SPANS] = {"query.heap_spans", "count", SONDE_COUNTER,
			  "queries whose bytes the allocator's own counters tell"},
	[M_HEAP_ALLOCATED] = {"query.heap_allocated", "bytes", SONDE_COUNTER,
			      "bytes that their threads allocated while they ran them"},
	[M_HEAP_FREED] = {"query.heap_freed", "bytes", SONDE_COUNTER,
			  "bytes that their threads gave back while they ran them"},
	[M_DISTURBED] = {"query.disturbed", "count", SONDE_COUNTER,
			 "answered queries that overlapped a window of probes: in no "
			 "latency figure"},
	[M_BY_HANDLER] = {"query.by_handler", "count", SONDE_COUNTER,
			  "of the queries: told by the daemon's own handler, not by its socket"},
	[M_LOG] = {"query.log_calls", "count", SONDE_COUNTER, "searches that the daemon logged"},
	[M_PARTS] = {"query.part_spans", "count", SONDE_COUNTER,
		     "answered queries whose time is divided into query.part.*"},
#define PART(id, sym, name, help)                                                           \
	[M_PARTS + 1 + (id)] = {"query.part." #name, "ns", SONDE_COUNTER, help},
	SONDE_PARTS(PART)
#undef PART
};

/* Metric of each counter that is one. */
static const struct {
	size_t metric;
	enum sonde_query_counter counter;
} counted[] = {
	{M_SPANS, SONDE_QUERY_SPANS},		{M_ERRORS, SONDE_QUERY_ERRORS},
	{M_ABORTED, SONDE_QUERY_ABORTED},	{M_NO_REPLY, SONDE_QUERY_NO_REPLY},
	{M_BYTES_IN, SONDE_QUERY_BYTES_IN},	{M_BYTES_OUT, SONDE_QUERY_BYTES_OUT},
	{M_STATEMENTS, SONDE_QUERY_STATEMENTS},
};

/* Pushed once there is one: only some allocators keep such counters. */
static const struct {
	size_t metric;
	enum sonde_query_counter counter;
} heap_counted[] = {
	{M_HEAP_SPANS, SONDE_QUERY_HEAP_SPANS},
	{M_HEAP_ALLOCATED, SONDE_QUERY_HEAP_ALLOCATED},
	{M_HEAP_FREED, SONDE_QUERY_HEAP_FREED},
};

enum { H_LATENCY, H_WAIT, H_SERVICE, H_ALLOCATED };

static const struct sonde_hist_desc hists[] = {
	[H_LATENCY] = {"query.latency", "ns",
		       "answered queries, from the request's arrival to the answer's last byte"},
	[H_WAIT] = {"query.wait", "ns", "the request was there and nobody read it"},
	[H_SERVICE] = {"query.service", "ns", "from the first read to the answer's first byte"},
	[H_ALLOCATED] = {"query.allocated", "bytes",
			 "answered queries: what the allocator counted for the thread that ran it"},
};

static const char *const class_names[] = {
#define NAME(sym, name, proto, command) [SONDE_QUERY_CLASS_##sym] = name,
	SONDE_QUERY_CLASSES(NAME)
#undef NAME
};

static const void *query_elf(size_t *size)
{
	return query_bpf__elf_bytes(size);
}

static void query_fini(struct sonde_lens_ctx *ctx)
{
	struct query_state *st = ctx->priv;

	if (!st)
		return;
	if (st->hists)
		munmap((void *)st->hists, st->hists_bytes);
	free(st->before);
	free(st->percpu);
	sonde_hist_fini(&st->delta);
	sonde_hist_fini(&st->all);
	query_texts_fini(st);
	free(st);
	ctx->priv = NULL;
}

/* The kernel's histograms, to read without a system call. */
static int map_hists(struct query_state *st, struct bpf_object *obj)
{
	int fd = bpf_object__find_map_fd_by_name(obj, "query_hists");
	long page = sysconf(_SC_PAGESIZE);
	void *p;

	st->hists_bytes = SONDE_QUERY_ROW__MAX * sizeof(struct sonde_query_hist);
	st->hists_bytes = (st->hists_bytes + (size_t)page - 1) & ~((size_t)page - 1);
	p = fd < 0 ? MAP_FAILED : mmap(NULL, st->hists_bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return sonde_err(errno, "query: cannot map the histograms: %s", strerror(errno));
	st->hists = p;
	return 0;
}

static int query_init(struct sonde_lens_ctx *ctx)
{
	struct query_state *st = calloc(1, sizeof(*st));
	int err;

	if (!st)
		return sonde_err(ENOMEM, "query: no memory for the lens");
	ctx->priv = st;
	st->last_ns = sonde_mono_ns();
	st->counts_fd = bpf_object__find_map_fd_by_name(ctx->obj, "query_counts");
	st->n_cpus = libbpf_num_possible_cpus();
	st->before = calloc(SONDE_QUERY_ROW__MAX, sizeof(*st->before));
	st->percpu = calloc(st->n_cpus > 0 ? (size_t)st->n_cpus : 1, sizeof(*st->percpu));
	if (st->counts_fd < 0 || st->n_cpus < 1)
		err = sonde_err(EINVAL, "query: the BPF object lacks its maps; rebuild sonde");
	else if (!st->before || !st->percpu || sonde_hist_init(&st->delta) ||
		 sonde_hist_init(&st->all))
		err = sonde_err(ENOMEM, "query: no memory for the lens");
	else
		err = map_hists(st, ctx->obj);
	err = err ? err : query_seed_handlers(ctx);
	err = err ? err : query_anatomy_seed(ctx);
	err = err ? err : query_seed_sockets(ctx);
	if (err)
		query_fini(ctx);
	return err;
}

static int query_retarget(struct sonde_lens_ctx *ctx)
{
	int err = query_anatomy_seed(ctx);

	return err ? err : query_seed_sockets(ctx);
}

/* What row @row gained since the last tick, into st->delta. */
static void take_delta(struct query_state *st, unsigned row)
{
	const struct sonde_query_hist *now = &st->hists[row];
	struct sonde_query_hist *was = &st->before[row];

	sonde_hist_reset(&st->delta);
	for (uint32_t i = 0; i < SONDE_HIST_BUCKETS; i++) {
		uint64_t n = __atomic_load_n(&now->buckets[i], __ATOMIC_RELAXED);

		if (n == was->buckets[i])
			continue;
		sonde_hist_add_bucket(&st->delta, i, n - was->buckets[i]);
		was->buckets[i] = n;
	}
	if (st->delta.count)
		st->delta.sum = (double)(st->sums[row] - st->sums_before[row]);
	st->sums_before[row] = st->sums[row];
}

static int push_hist(struct sonde_lens_ctx *ctx, uint64_t ts_ns, unsigned desc, const char *label,
		     const struct sonde_hist *h)
{
	struct query_state *st = ctx->priv;
	struct sonde_histrow row = {
		.desc = &hists[desc],
		.label = label,
		.from_ns = st->last_ns,
		.to_ns = ts_ns,
		.hist = h,
	};

	return h->count ? sonde_visit(ctx->out, hist, &row) : 0;
}

static int push_hists(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct query_state *st = ctx->priv;
	int err = 0;

	sonde_hist_reset(&st->all);
	for (unsigned c = 0; c < SONDE_QUERY_CLASS__MAX && !err; c++) {
		take_delta(st, c);
		sonde_hist_merge(&st->all, &st->delta);
		err = push_hist(ctx, ts_ns, H_LATENCY, class_names[c], &st->delta);
	}
	err = err ? err : push_hist(ctx, ts_ns, H_LATENCY, "", &st->all);
	if (err)
		return err;
	take_delta(st, SONDE_QUERY_ROW_WAIT);
	err = push_hist(ctx, ts_ns, H_WAIT, "", &st->delta);
	if (err)
		return err;
	take_delta(st, SONDE_QUERY_ROW_SERVICE);
	err = push_hist(ctx, ts_ns, H_SERVICE, "", &st->delta);
	if (err)
		return err;
	take_delta(st, SONDE_QUERY_ROW_ALLOCATED);
	return push_hist(ctx, ts_ns, H_ALLOCATED, "", &st->delta);
}

static int read_counts(struct query_state *st)
{
	uint32_t zero = 0;

	if (bpf_map_lookup_elem(st->counts_fd, &zero, st->percpu))
		return sonde_err(errno, "query: cannot read the counters: %s", strerror(errno));
	memcpy(st->counts, st->swept, sizeof(st->counts));
	memset(st->sums, 0, sizeof(st->sums));
	for (int c = 0; c < st->n_cpus; c++) {
		for (size_t i = 0; i < SONDE_QUERY_COUNTER__MAX; i++)
			st->counts[i] += st->percpu[c].v[i];
		for (size_t i = 0; i < SONDE_QUERY_ROW__MAX; i++)
			st->sums[i] += st->percpu[c].sum[i];
	}
	return 0;
}

/*
 * Two independent counts of the same thing, the handler's calls and the requests seen on sockets.
 * A query is in one and not yet in the other for its time, so a handful is no disagreement.
 */
static int check_handler(struct sonde_lens_ctx *ctx)
{
	struct query_state *st = ctx->priv;
	uint64_t calls = st->counts[SONDE_QUERY_HANDLER_CALLS];
	uint64_t spans = st->counts[SONDE_QUERY_TEXT_SPANS];
	uint64_t most = calls > spans ? calls : spans,
		 apart = calls > spans ? calls - spans : spans - calls;
	char what[160];

	/* What handlers tell themselves comes late: with the next request of its connection. */
	if (!st->execute_seen || most < 1000 || apart < 16 ||
	    apart * (st->counts[SONDE_QUERY_BY_HANDLER] ? 20 : 1000) <= most) {
		st->disagreed = 0;
		return 0;
	}
	if (++st->disagreed != 2)
		return 0;
	snprintf(what, sizeof(what),
		 "the statement handler ran %llu times but %llu queries were seen on sockets",
		 (unsigned long long)calls, (unsigned long long)spans);
	return sonde_lens_note(
		ctx, SONDE_NOTE_DEGRADED, what,
		calls > spans ? "encrypted or unknown connections have no spans: see the drops"
			      : "the recipe may not fit this build of the daemon");
}

static int query_tick(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct query_state *st = ctx->priv;
	int err = read_counts(st);

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(counted) && !err; i++)
		err = sonde_lens_push(ctx, 0, counted[i].metric, "", ts_ns,
				      (double)st->counts[counted[i].counter]);
	for (size_t i = 0;
	     i < SONDE_ARRAY_SIZE(heap_counted) && st->counts[SONDE_QUERY_HEAP_SPANS] && !err; i++)
		err = sonde_lens_push(ctx, 0, heap_counted[i].metric, "", ts_ns,
				      (double)st->counts[heap_counted[i].counter]);
	if (!err && ctx->opts->alloc_windows)
		err = sonde_lens_push(ctx, 0, M_DISTURBED, "", ts_ns,
				      (double)st->counts[SONDE_QUERY_DISTURBED]);
	if (!err && ctx->opts->slower_than_ns)
		err = sonde_lens_push(ctx, 0, M_SKIPPED, "", ts_ns,
				      (double)st->counts[SONDE_QUERY_SLOW_SKIPPED]);
	if (!err && st->execute_seen)
		err = sonde_lens_push(ctx, 0, M_HANDLER, "", ts_ns,
				      (double)st->counts[SONDE_QUERY_HANDLER_CALLS]);
	if (!err && st->counts[SONDE_QUERY_BY_HANDLER])
		err = sonde_lens_push(ctx, 0, M_BY_HANDLER, "", ts_ns,
				      (double)st->counts[SONDE_QUERY_BY_HANDLER]);
	if (!err && st->log_seen)
		err = sonde_lens_push(ctx, 0, M_LOG, "", ts_ns,
				      (double)st->counts[SONDE_QUERY_LOG_CALLS]);
	if (!err && st->finished)
		err = sonde_lens_push(ctx, 0, M_UNFINISHED, "", ts_ns,
				      (double)st->counts[SONDE_QUERY_UNFINISHED]);
	err = err ? err : query_anatomy_tick(ctx, M_PARTS, class_names, ts_ns);
	err = err ? err : push_hists(ctx, ts_ns);
	err = err ? err : check_handler(ctx);
	st->last_ns = ts_ns;
	return err;
}

/* Hooks whose runs are counted, and the counter. */
static const struct {
	const char *hook;
	enum sonde_query_counter counter;
} hit_counters[] = {
	{"query.recv", SONDE_QUERY_RUNS}, /* reads, writes and arrivals */
	{"query.anatomy.switch", SONDE_QUERY_ANATOMY_EVENTS},
	{QUERY_HOOK_EXECUTE, SONDE_QUERY_ENTRY_HITS},
	{QUERY_HOOK_RETURN, SONDE_QUERY_RETURN_HITS},
	{QUERY_HOOK_LOG, SONDE_QUERY_LOG_CALLS},
	{QUERY_HOOK_YIELD, SONDE_QUERY_YIELD_HITS},
	{QUERY_HOOK_RESUME, SONDE_QUERY_RESUME_HITS},
};

static size_t query_hits(struct sonde_lens_ctx *ctx, struct sonde_lens_hits *out, size_t max)
{
	struct query_state *st = ctx->priv;
	bool told[SONDE_ARRAY_SIZE(hit_counters)] = {0};
	size_t n = 0;

	for (size_t i = 0; i < ctx->plan->n && n < max; i++) {
		const struct sonde_plan_item *item = &ctx->plan->items[i];
		const struct sonde_hook *hook = item->hook;

		if (item->alt < 0 || hook->lens != SONDE_LENS_QUERY)
			continue;
		for (size_t k = 0; k < SONDE_ARRAY_SIZE(hit_counters) && n < max; k++) {
			if (told[k] || strcmp(hook->name, hit_counters[k].hook))
				continue;
			told[k] = true; /* of all targets together */
			out[n++] = (struct sonde_lens_hits){
				.kind = item->kind,
				.insn = hook->n_sites ? hook->sites[0].site.kind : 0,
				.n = st->counts[hit_counters[k].counter]};
		}
	}
	return n;
}

const struct sonde_lens sonde_lens_query = {
	.id = SONDE_LENS_QUERY,
	.name = "query",
	.summary = "a span for every query (MySQL, SphinxAPI, HTTP): wait, service, sending; by "
		   "command",
	.overhead = "about 1 us a query, with its anatomy 1 to 2 us more; other processes a "
		    "look-up a socket call, with anatomy 0.2 us a system call",
	.blind_spots =
		"encrypted or compressed connections and HTTP/2, but for what a recipe's handlers "
		"tell; text sent or read by io_uring and sendfile; times inside the network card "
		"and the client",
	.metrics = metrics,
	.n_metrics = SONDE_ARRAY_SIZE(metrics),
	.hists = hists,
	.n_hists = SONDE_ARRAY_SIZE(hists),
	.elf = query_elf,
	.hooks = query_hooks,
	.configure = query_configure,
	.init = query_init,
	.start = query_start,
	.retarget = query_retarget,
	.decode = query_decode,
	.tick = query_tick,
	.finish = query_finish,
	.hits = query_hits,
	.fini = query_fini,
};
