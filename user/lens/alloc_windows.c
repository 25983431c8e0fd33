// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Windows of the alloc lens: when they are due, and what they say. Probes slow the target, so
 * nothing is told by the clock in a window: only ratios of things that were slowed alike.
 *
 * The invariant: a query counts with all of its calls or not at all. Those that begin in a window
 * are followed to their end; the moment when the window stops taking in more depends on what it has
 * seen, never on what the next query will do (docs/windows.md).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "attach/cost.h"
#include "attach/plan.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "lens/alloc_metrics.h"
#include "lens/alloc_windows.h"
#include "lens/ratio.h"
#include "lens/window_budget.h"

#define CUT_SHARE_MOST                                                                             \
	0.02 /* of followed queries without an end: what they would have done is missing */

#define SINGLE_LINK_NS 200e6
#define LENGTH_MOST_NS                                                                             \
	(3 * SONDE_WINDOW_LENGTH_NS) /* where the number of queries ends a window                  \
				      */

/* Queries that had ended outside windows, at a time: one a pulse, since the last window. */
#define PACES	    64
#define PACE_ENOUGH 50 /* queries from which their pace is told */
struct pace {
	uint64_t at_ns, ended;
};

struct sonde_alloc_windows {
	const struct sonde_window *page;
	struct sonde_window_budget budget;
	enum sonde_link_kind kind;
	size_t sites;
	double trap_ns[2];
	/* Calls of a query, bytes of a query, bytes of a call. */
	struct sonde_ratio calls, bytes, size;
	struct sonde_window was; /* the page, when the last window was over */
	struct sonde_alloc_totals totals;
	/* Of windows so far, while they took queries in: for how many the next is to. */
	double taking_ns, taking_cost_ns;
	uint64_t windows, cut, joined, left, open_ns;
	struct pace paces[PACES]; /* a ring */
	size_t n_paces;
	double pace;	 /* queries a second just before the present window */
	bool beforehand; /* its number of queries was said beforehand */
	/* Queries that ended outside before recording began. */
	uint64_t outside0;
	double cpu_in_ns; /* of targets, while they were disturbed */
	double cpu_begin_ns, cpu_first_ns;
	double inside_ns, inside_cpu_ns, inside_cost_ns; /* while windows were open */
	double told_gap_ns, longest_ns;
	bool started, told_cut;
	char why[160];
};

/* CPU time of all targets, those that have gone left out. */
static double cpu_now(const struct sonde_lens_ctx *ctx)
{
	double sum = 0;

	for (size_t i = 0; i < ctx->targets->n; i++) {
		struct timespec t;
		clockid_t clock;

		if (!ctx->targets->t[i].gone &&
		    !clock_getcpuclockid(ctx->targets->t[i].pid, &clock) &&
		    !clock_gettime(clock, &t))
			sum += (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
	}
	return sum;
}

static void learn_traps(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx)
{
	for (size_t i = 0; ctx->plan && i < ctx->plan->n; i++) {
		const struct sonde_plan_item *item = &ctx->plan->items[i];

		if (item->hook->lens != SONDE_LENS_ALLOC || item->alt < 0)
			continue;
		w->kind = item->kind;
		w->sites += item->hook->n_sites;
		for (int k = 0; ctx->calibration && k < 2; k++)
			w->trap_ns[k] = ctx->calibration->hit_ns[item->kind][k];
	}
}

int sonde_alloc_windows_new(struct sonde_alloc_windows **out, const struct sonde_lens_ctx *ctx)
{
	struct sonde_alloc_windows *w = calloc(1, sizeof(*w));
	int fd = bpf_object__find_map_fd_by_name(ctx->obj, "window");
	void *p = MAP_FAILED;

	if (!w)
		return -ENOMEM;
	if (fd >= 0)
		p = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		free(w);
		return sonde_err(errno, "alloc: cannot map the page of windows: %s",
				 strerror(errno));
	}
	w->page = p;
	learn_traps(w, ctx);
	*out = w;
	return 0;
}

void sonde_alloc_windows_free(struct sonde_alloc_windows **ref)
{
	struct sonde_alloc_windows *w = *ref;

	*ref = NULL;
	if (!w)
		return;
	munmap((void *)w->page, (size_t)sysconf(_SC_PAGESIZE));
	sonde_ratio_fini(&w->calls);
	sonde_ratio_fini(&w->bytes);
	sonde_ratio_fini(&w->size);
	free(w);
}

int sonde_alloc_windows_start(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx)
{
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return sonde_err(EIO, "alloc: the kernel gives no random numbers");
	sonde_window_budget_init(&w->budget, ctx->opts->budget_cpu, ctx->opts->budget_time,
				 sonde_mono_ns(), seed);
	/* One link a site: the kernel takes 50 to 200 ms to close each. */
	if (w->kind == SONDE_LINK_UPROBE_PERF)
		w->budget.expect_ns = (double)w->sites * SINGLE_LINK_NS;
	w->cpu_first_ns = cpu_now(ctx);
	w->was = *w->page;
	w->outside0 = w->page->ended_outside;
	w->started = true;
	return 0;
}

/* The target's own CPU time so far, on which its budget is counted. */
static double own_cpu(const struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx)
{
	double cpu = cpu_now(ctx) - w->cpu_first_ns - w->budget.cost_ns;

	return cpu > 0 ? cpu : 0;
}

static void note_pace(struct sonde_alloc_windows *w, uint64_t now_ns)
{
	w->paces[w->n_paces++ % PACES] = (struct pace){now_ns, w->page->ended_outside};
}

/* Queries a second of late: as far back as it takes to see some, and no further. */
static double pace_of(const struct sonde_alloc_windows *w)
{
	size_t n = w->n_paces < PACES ? w->n_paces : PACES;
	const struct pace *last = &w->paces[(w->n_paces - 1) % PACES], *p = last;

	for (size_t i = 1; i < n && last->ended - p->ended < PACE_ENOUGH; i++)
		p = &w->paces[(w->n_paces - 1 - i) % PACES];
	return last->at_ns > p->at_ns
		       ? (double)(last->ended - p->ended) / (double)(last->at_ns - p->at_ns) * 1e9
		       : 0;
}

/*
 * How many queries a window takes in, said beforehand. If it took in what comes in a time, or until
 * it has cost so much, windows that meet light queries would hold more of them, and the ratio would
 * be theirs. Time and cost are limits only, which half of what fitted in so far will seldom meet.
 */
static uint64_t queries_wanted(struct sonde_alloc_windows *w, double length_ns, double finish_at_ns)
{
	double n = length_ns * (double)w->joined / w->taking_ns, by_cost;

	if (!w->joined || w->taking_ns <= 0)
		return 0;
	by_cost = finish_at_ns / 2 * (double)w->joined / fmax(w->taking_cost_ns, 1);
	n = fmin(n, by_cost);
	return n > 1 ? (uint64_t)n : 1;
}

bool sonde_alloc_windows_due(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
			     uint64_t now_ns, struct sonde_window_order *order)
{
	double cpu;

	if (!w->started)
		return false;
	note_pace(w, now_ns);
	cpu = own_cpu(w, ctx);
	if (!sonde_window_budget_due(&w->budget, now_ns, cpu))
		return false;
	w->cpu_begin_ns = cpu_now(ctx);
	*order = (struct sonde_window_order){
		.delay_ns = sonde_window_budget_delay(&w->budget),
		.length_ns = sonde_window_budget_length(&w->budget),
		.finish_ns = SONDE_WINDOW_FINISH_NS,
		.allowance_ns = (uint64_t)sonde_window_budget_allowance(&w->budget, cpu),
		.trap_ns = {(uint64_t)w->trap_ns[0], (uint64_t)w->trap_ns[1]},
	};
	order->finish_at_ns = order->allowance_ns / 4 * 3;
	order->queries = queries_wanted(w, (double)order->length_ns, (double)order->finish_at_ns);
	w->pace = pace_of(w);
	w->beforehand = order->queries;
	if (order->queries)
		order->length_ns = LENGTH_MOST_NS;
	return true;
}

/* ---- notes: each decision, when it changes ---- */

static int note_cut(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
		    const struct sonde_window *p)
{
	char what[240], cost[32], open[32];

	if (!p->cut || w->told_cut)
		return 0;
	w->told_cut = true;
	snprintf(what, sizeof(what),
		 "windows are cut short: %s after it began one had used up three quarters of the "
		 "%s of traps "
		 "that it may take; it then counted only the queries that it had begun to follow",
		 sonde_fmt_ns(open, sizeof(open), (double)(p->finish_ns - p->open_ns)),
		 sonde_fmt_ns(cost, sizeof(cost), (double)(p->allowance_ns - p->early_ns)));
	return sonde_lens_note(ctx, SONDE_NOTE_INFO, what, "");
}

/* How far apart windows are, from what they take; told again when that has doubled or halved. */
static int note_gap(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
		    double disturbed_ns, double cost_ns, double cpu_ns, uint64_t now_ns)
{
	const struct sonde_window_budget *b = &w->budget;
	double gap = sonde_window_budget_gap(b, now_ns, cpu_ns);
	char what[320], d[32], c[32], g[32];

	if (w->told_gap_ns > 0 && gap < 2 * w->told_gap_ns && gap > w->told_gap_ns / 2)
		return 0;
	w->told_gap_ns = gap;
	snprintf(
		what, sizeof(what),
		"a window disturbed the target for %s and its traps took %s: to keep to %.3g %% of "
		"the time and %.3g %% of its CPU the next ones begin at random, on average at "
		"least %s apart (%s decides)",
		sonde_fmt_ns(d, sizeof(d), disturbed_ns), sonde_fmt_ns(c, sizeof(c), cost_ns),
		b->time_share * 100, b->cpu_share * 100, sonde_fmt_ns(g, sizeof(g), gap),
		gap > b->expect_ns / b->time_share ? "CPU" : "disturbed time");
	return sonde_lens_note(ctx, SONDE_NOTE_INFO, what, "");
}

int sonde_alloc_windows_finish(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx)
{
	char what[240], least[32];
	const struct sonde_window_budget *b = &w->budget;

	if (!w->started || w->windows)
		return 0;
	snprintf(
		what, sizeof(what),
		"no window was opened: within %.3g %% of the time the first takes at least %s, and "
		"its traps must fit in %.3g %% of the target's CPU time",
		b->time_share * 100,
		sonde_fmt_ns(least, sizeof(least), b->expect_ns / b->time_share),
		b->cpu_share * 100);
	return sonde_lens_note(ctx, SONDE_NOTE_DEGRADED, what,
			       "observe longer, or allow more with --budget");
}

/* ---- a window is over ---- */

/*
 * Windows begin at random times, so that one is the likelier to begin in a while the fewer queries
 * a second there are in it. A window's mean therefore counts by the pace of queries just before it:
 * the sum is then over queries, not over time.
 */
static int add_ratios(struct sonde_alloc_windows *w, const struct sonde_window *p,
		      const struct sonde_alloc_totals *totals)
{
	double queries = (double)(p->queries - w->was.queries);
	/* One that took in what came in a time would favour light queries. */
	double weight = queries > 0 && w->beforehand ? w->pace : 0;
	double each = weight > 0 ? weight / queries : 0;
	int err = sonde_ratio_add(&w->calls, (double)(p->calls - w->was.calls) * each, weight);

	w->joined += p->joined;
	w->taking_ns += p->finish_ns > p->open_ns ? (double)(p->finish_ns - p->open_ns) : 0;
	w->taking_cost_ns += (double)(p->cost_ns - p->early_ns);
	w->left += p->queries - w->was.queries + p->hopped - w->was.hopped;
	err = err ? err
		  : sonde_ratio_add(&w->bytes, (double)(p->bytes - w->was.bytes) * each, weight);
	return err ? err
		   : sonde_ratio_add(&w->size, (double)(totals->bytes - w->totals.bytes),
				     (double)(totals->calls - w->totals.calls));
}

int sonde_alloc_windows_over(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
			     const struct sonde_alloc_totals *totals, uint64_t begin_ns,
			     uint64_t end_ns)
{
	const struct sonde_window p = *w->page;
	double disturbed = (double)(end_ns - begin_ns), cpu = cpu_now(ctx);
	double cost = (double)p.cost_ns, open = fmin(cost, (double)p.allowance_ns);
	int err;

	open = fmax(open - (double)p.early_ns, 0);
	sonde_window_budget_spent(&w->budget, disturbed, open, cost);
	w->n_paces = 0;
	w->longest_ns = fmax(w->longest_ns, disturbed);
	w->cpu_in_ns += cpu > w->cpu_begin_ns ? cpu - w->cpu_begin_ns : 0;
	if (!p.open_ns)
		return 0; /* it never opened */
	w->windows++;
	w->cut += p.cut;
	w->inside_ns += (double)p.spent_ns;
	w->inside_cpu_ns += (double)p.cpu_ns;
	w->inside_cost_ns += (double)p.cpu_cost_ns;
	w->open_ns += p.closed_ns > p.open_ns ? p.closed_ns - p.open_ns : 0;
	err = p.stopped ? 0 : add_ratios(w, &p, totals);
	w->was = p;
	w->totals = *totals;
	err = err ? err : note_cut(w, ctx, &p);
	return err ? err : note_gap(w, ctx, disturbed, cost, own_cpu(w, ctx), end_ns);
}

/* ---- figures ---- */

/* How often the target runs at its own pace: queries a second outside windows; 0: none were seen.
 */
static double queries_outside(const struct sonde_alloc_windows *w, uint64_t ts_ns)
{
	double wall = (double)(ts_ns - w->budget.began_ns) - w->budget.disturbed_ns;

	return wall > 0 ? (double)(w->page->ended_outside - w->outside0) / wall * 1e9 : 0;
}

/*
 * How many times slower the target is while it is observed: by its queries if there are any, else
 * by the CPU time that it has for itself. 0: not known.
 */
static double slowdown(const struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
		       uint64_t ts_ns)
{
	const struct sonde_window_budget *b = &w->budget;
	double wall = (double)(ts_ns - b->began_ns) - b->disturbed_ns;
	double outside = queries_outside(w, ts_ns), all = cpu_now(ctx) - w->cpu_first_ns, own;

	if (outside > 0 && w->was.ended_open && w->open_ns)
		return outside / ((double)w->was.ended_open / (double)w->open_ns * 1e9);
	own = w->inside_cpu_ns - w->inside_cost_ns;
	/* What it had for itself is known to some percent of the whole only. */
	own = fmax(own, w->inside_cpu_ns / 100);
	if (own <= 0 || w->inside_ns <= 0 || wall <= 0)
		return 0;
	return (all - w->cpu_in_ns) / wall / (own / w->inside_ns);
}

static int push_absent(const struct sonde_lens_ctx *ctx, size_t metric, const char *why,
		       uint64_t ts_ns)
{
	return sonde_lens_push_absent(ctx, 0, metric, "", ts_ns, why);
}

/* @scale: 1, or queries a second. */
static int push_ratio(const struct sonde_lens_ctx *ctx, size_t metric, const struct sonde_ratio *r,
		      double scale, uint64_t ts_ns)
{
	static const char few[] = "fewer than 8 windows with data give no interval";
	struct sonde_ratio_estimate e;
	int err;

	if (!sonde_ratio_estimate(r, &e))
		return 0;
	err = sonde_lens_push(ctx, 0, metric, "", ts_ns, e.value * scale);
	if (err)
		return err;
	if (!e.has_interval) {
		err = sonde_lens_push_absent(ctx, 0, metric, "low", ts_ns, few);
		return err ? err : sonde_lens_push_absent(ctx, 0, metric, "high", ts_ns, few);
	}
	err = sonde_lens_push(ctx, 0, metric, "low", ts_ns, e.low * scale);
	return err ? err : sonde_lens_push(ctx, 0, metric, "high", ts_ns, e.high * scale);
}

/* Why queries cannot be said anything of, or NULL. */
static const char *why_no_queries(const struct sonde_alloc_windows *w)
{
	double followed = (double)w->joined, hopped = (double)w->was.hopped;
	double cut = followed - (double)w->left;

	if (!w->windows)
		return "no window yet";
	if (!w->joined)
		return "no query began in a window";
	if (hopped > followed / 2)
		return "queries are answered by other threads than read them: what was allocated "
		       "for which is not known";
	if (cut > followed * CUT_SHARE_MOST)
		return "too many queries had not ended when their window had to close: they are "
		       "slow, or allocate more often than a window may count (--budget)";
	return w->calls.n ? NULL : "no query began and ended in a window";
}

static int push_rate(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
		     const char *no_queries, uint64_t ts_ns)
{
	double n = slowdown(w, ctx, ts_ns), outside = queries_outside(w, ts_ns);
	char *why = w->why;

	if (!no_queries && outside > 0)
		return push_ratio(ctx, M_RATE, &w->calls, outside, ts_ns);
	if (n > 0)
		snprintf(why, sizeof(w->why),
			 "observing slows this target %.1f x, so the rate in windows is not its "
			 "own, "
			 "and no queries tell its pace outside",
			 n > 1 ? n : 1);
	else
		snprintf(why, sizeof(w->why), "no window yet");
	return sonde_lens_push_absent(ctx, 0, M_RATE, "", ts_ns, why);
}

static int push_queries(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
			uint64_t ts_ns)
{
	const char *why = why_no_queries(w);
	int err;

	if (why) {
		err = push_absent(ctx, M_CALLS_PER_QUERY, why, ts_ns);
		err = err ? err : push_absent(ctx, M_BYTES_PER_QUERY, why, ts_ns);
	} else {
		err = push_ratio(ctx, M_CALLS_PER_QUERY, &w->calls, 1, ts_ns);
		err = err ? err : push_ratio(ctx, M_BYTES_PER_QUERY, &w->bytes, 1, ts_ns);
	}
	return err ? err : push_rate(w, ctx, why, ts_ns);
}

static int push_account(const struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
			uint64_t ts_ns)
{
	const struct sonde_window_budget *b = &w->budget;
	double wall = (double)(ts_ns - b->began_ns), cpu = own_cpu(w, ctx);
	double n = slowdown(w, ctx, ts_ns);
	int err = sonde_lens_push(ctx, 0, M_WINDOWS, "", ts_ns, (double)w->windows);

	if (!err && w->cut)
		err = sonde_lens_push(ctx, 0, M_WINDOWS, "cut", ts_ns, (double)w->cut);
	if (!err && wall > 0)
		err = sonde_lens_push(ctx, 0, M_DISTURBED, "", ts_ns, b->disturbed_ns / wall);
	if (!err && w->windows)
		err = sonde_lens_push(ctx, 0, M_LONGEST, "", ts_ns, w->longest_ns);
	if (!err && cpu > 0)
		err = sonde_lens_push(ctx, 0, M_TRAP_SHARE, "", ts_ns, b->cost_ns / cpu);
	if (!err && n > 0)
		err = sonde_lens_push(ctx, 0, M_SLOWDOWN, "", ts_ns, n);
	return err;
}

int sonde_alloc_windows_tick(struct sonde_alloc_windows *w, const struct sonde_lens_ctx *ctx,
			     uint64_t ts_ns)
{
	int err;

	if (!w->started)
		return 0;
	err = push_account(w, ctx, ts_ns);
	err = err ? err : push_queries(w, ctx, ts_ns);
	return err ? err : push_ratio(ctx, M_MEAN_SIZE, &w->size, 1, ts_ns);
}

size_t sonde_alloc_windows_hits(const struct sonde_alloc_windows *w, struct sonde_lens_hits *out,
				size_t max)
{
	size_t n = 0;

	for (int k = 0; k < 2 && n < max && w->kind; k++)
		if (w->page->hits[k])
			out[n++] = (struct sonde_lens_hits){w->kind, (enum sonde_insn_kind)k,
							    w->page->hits[k]};
	return n;
}
