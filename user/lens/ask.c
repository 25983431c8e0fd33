// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The ask lens: is asking the allocator for its statistics what makes the program slow? Calls of
 * those functions, their time and their share of the CPU, by function and by the place that calls.
 *
 * The invariant: times are the program's own. What sonde's traps add to a call, calibrated, is
 * taken off the call and off the CPU time it is compared with.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attach/plan.h"
#include "core/err.h"
#include "core/mem.h"
#include "lens/ask_caller.h"
#include "lens/ask_hooks.h"
#include "lens/ask_impl.h"

#include "ask.skel.h"

#define MAX_NAMED 64 /* callers with a name of their own */
#define OTHERS	  "(others)"

enum {
	M_CALLS,
	M_TIME,
	M_CPU,
	M_RATE,
	M_SHARE,
	M_CPUS,
	M_CALLER_CALLS,
	M_CALLER_CPU,
	M_TARGET_CPU,
	M_OBSERVED
};

static const struct sonde_metric_desc metrics[] = {
	[M_CALLS] = {"ask.calls", "count", SONDE_COUNTER,
		     "calls seen that ask the allocator for its statistics, by function"},
	[M_TIME] = {"ask.time", "ns", SONDE_COUNTER,
		    "time in those calls, waits included, sonde's traps left out"},
	[M_CPU] = {"ask.cpu", "ns", SONDE_COUNTER, "of that time on a CPU"},
	[M_RATE] = {"ask.rate", "count", SONDE_GAUGE, "calls a second, by function"},
	[M_SHARE] = {"ask.cpu_share", "ratio", SONDE_GAUGE,
		     "share of the target's CPU time that asking takes, since attach"},
	[M_CPUS] = {"ask.cpus", "ratio", SONDE_GAUGE,
		    "CPUs that asking takes, since attach: 1 is all of one"},
	[M_CALLER_CALLS] = {"ask.caller_calls", "count", SONDE_COUNTER,
			    "calls seen, by function and caller"},
	[M_CALLER_CPU] = {"ask.caller_cpu", "ns", SONDE_COUNTER,
			  "CPU time in the calls, by function and caller"},
	[M_TARGET_CPU] = {"ask.target_cpu", "ns", SONDE_COUNTER,
			  "CPU time of the target while calls were counted, traps left out"},
	[M_OBSERVED] = {"ask.observed_ratio", "ratio", SONDE_GAUGE,
			"share of the time in which calls were counted"},
};

static const void *ask_elf(size_t *size)
{
	return ask_bpf__elf_bytes(size);
}

static int ask_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks)
{
	return ctx->opts->passive ? 0 : sonde_ask_hooks_add(ctx, hooks);
}

static void ask_fini(struct sonde_lens_ctx *ctx)
{
	struct ask_state *s = ctx->priv;

	if (!s)
		return;
	for (size_t i = 0; i < s->n_callers; i++)
		free(s->callers[i].label);
	free(s->callers);
	free(s->percpu);
	free(s->times);
	free(s);
	ctx->priv = NULL;
}

static int ask_init(struct sonde_lens_ctx *ctx)
{
	struct ask_state *s = calloc(1, sizeof(*s));

	if (!s)
		return sonde_err(ENOMEM, "ask: no memory for the lens");
	ctx->priv = s;
	s->callers_fd = bpf_object__find_map_fd_by_name(ctx->obj, "ask_callers");
	s->hits_fd = bpf_object__find_map_fd_by_name(ctx->obj, "ask_hits");
	s->counting_fd = bpf_object__find_map_fd_by_name(ctx->obj, ".bss");
	s->n_cpus = libbpf_num_possible_cpus();
	s->budget.seed = sonde_mono_ns();
	if (s->callers_fd < 0 || s->hits_fd < 0 || s->counting_fd < 0 || s->n_cpus < 1)
		return sonde_err(EINVAL, "ask: the BPF object lacks its maps; rebuild sonde");
	s->percpu = calloc((size_t)s->n_cpus, sizeof(*s->percpu));
	if (!s->percpu)
		return sonde_err(ENOMEM, "ask: no memory for the lens");
	ask_learn_costs(ctx);
	return 0;
}

static int ask_start(struct sonde_lens_ctx *ctx)
{
	return ask_window_open(ctx, sonde_mono_ns());
}

static int ask_finish(struct sonde_lens_ctx *ctx)
{
	return ask_window_close(ctx, sonde_mono_ns());
}

/* ---- reading ---- */

static struct ask_caller *find_caller(struct ask_state *s, const struct sonde_ask_key *key)
{
	for (size_t i = 0; i < s->n_callers; i++)
		if (!memcmp(&s->callers[i].key, key, sizeof(*key)))
			return &s->callers[i];
	return NULL;
}

/* Named when first seen: later the process may be gone. */
static char *caller_label(const struct sonde_lens_ctx *ctx, const struct sonde_ask_key *key,
			  size_t n)
{
	const struct sonde_ask_func *f = &sonde_ask_funcs[key->func];
	char where[384] = OTHERS, label[512];

	if (n < MAX_NAMED)
		sonde_ask_caller_name(ctx->targets->t[key->target].pid, key->caller, where,
				      sizeof(where));
	snprintf(label, sizeof(label), "%s < %s", f->shown, where);
	return strdup(label);
}

static int add_caller(struct sonde_lens_ctx *ctx, const struct sonde_ask_key *key)
{
	struct ask_state *s = ctx->priv;
	struct ask_caller c = {.key = *key, .label = caller_label(ctx, key, s->n_callers)};

	if (!c.label || SONDE_GROW(s->callers, s->n_callers, s->cap_callers)) {
		free(c.label);
		return -ENOMEM;
	}
	s->callers[s->n_callers++] = c;
	return 0;
}

static int read_callers(struct sonde_lens_ctx *ctx)
{
	struct ask_state *s = ctx->priv;
	struct sonde_ask_key key, *prev = NULL;
	int err = 0;

	while (!err && !bpf_map_get_next_key(s->callers_fd, prev, &key)) {
		prev = &key;
		if (key.target >= ctx->targets->n || key.func >= sonde_ask_func_count)
			continue;
		if (!find_caller(s, &key))
			err = add_caller(ctx, &key);
		if (!err)
			bpf_map_lookup_elem(s->callers_fd, &key, &find_caller(s, &key)->sum);
	}
	return err;
}

/* What sonde's own traps took within the calls of @sum. */
static double traps_within(const struct ask_state *s, uint32_t func,
			   const struct sonde_ask_sum *sum)
{
	return (double)sum->timed * s->cost[func].within_ns +
	       (double)sum->inner[SONDE_INSN_EMULATED] * s->inner_ns[SONDE_INSN_EMULATED] +
	       (double)sum->inner[SONDE_INSN_STEPPED] * s->inner_ns[SONDE_INSN_STEPPED];
}

static double less(double a, double b)
{
	return a > b ? a - b : 0;
}

/* ---- pushing ---- */

/* Of the callers in order, is this the first that shows @label? Later ones add to it. */
static bool first_of_label(const struct ask_state *s, size_t at, uint32_t target)
{
	for (size_t i = 0; i < at; i++)
		if (s->callers[i].key.target == target &&
		    !strcmp(s->callers[i].label, s->callers[at].label))
			return false;
	return true;
}

static int push_caller(const struct sonde_lens_ctx *ctx, size_t at, uint64_t ts_ns)
{
	const struct ask_state *s = ctx->priv;
	const struct ask_caller *c = &s->callers[at];
	double calls = 0, cpu = 0;
	int err;

	if (!first_of_label(s, at, c->key.target))
		return 0;
	for (size_t i = at; i < s->n_callers; i++) {
		const struct ask_caller *o = &s->callers[i];

		if (o->key.target != c->key.target || strcmp(o->label, c->label))
			continue;
		calls += (double)o->sum.calls;
		cpu += less((double)o->sum.cpu_ns, traps_within(s, o->key.func, &o->sum));
	}
	err = sonde_lens_push(ctx, c->key.target, M_CALLER_CALLS, c->label, ts_ns, calls);
	return err ? err : sonde_lens_push(ctx, c->key.target, M_CALLER_CPU, c->label, ts_ns, cpu);
}

struct func_sum {
	struct sonde_ask_sum sum;
	double ns, cpu_ns;
};

static struct func_sum sum_func(const struct ask_state *s, uint32_t target, uint32_t func)
{
	struct func_sum f = {0};

	for (size_t i = 0; i < s->n_callers; i++) {
		const struct ask_caller *c = &s->callers[i];

		if (c->key.target != target || c->key.func != func)
			continue;
		f.sum.calls += c->sum.calls;
		f.sum.timed += c->sum.timed;
		f.ns += less((double)c->sum.ns, traps_within(s, func, &c->sum));
		f.cpu_ns += less((double)c->sum.cpu_ns, traps_within(s, func, &c->sum));
	}
	return f;
}

/*
 * Traps slow the target, so in windows it calls less often than it would. Calls by its own CPU time
 * stay what they were: that ratio times its CPU time a second between the windows is the rate.
 */
static int push_rate(const struct sonde_lens_ctx *ctx, uint32_t target, const char *label,
		     double calls, const struct ask_seen *seen, uint64_t ts_ns)
{
	const struct ask_state *s = ctx->priv;
	double own = less(seen->cpu_ns, seen->trap_ns);

	if (!s->budget.hot)
		return seen->wall_ns > 0 ? sonde_lens_push(ctx, target, M_RATE, label, ts_ns,
							   calls / seen->wall_ns * 1e9)
					 : 0;
	if (seen->outside_wall_ns < 1e8 || own <= 0)
		return sonde_lens_push_absent(ctx, target, M_RATE, label, ts_ns,
					      "observing slows such frequent calls, and the time "
					      "without probes was too short to tell their rate");
	return sonde_lens_push(ctx, target, M_RATE, label, ts_ns,
			       calls / own * seen->outside_cpu_ns / seen->outside_wall_ns * 1e9);
}

static int push_func(const struct sonde_lens_ctx *ctx, uint32_t target, uint32_t func,
		     const struct ask_seen *seen, double *cpu_ns, uint64_t ts_ns)
{
	const struct ask_state *s = ctx->priv;
	const char *label = sonde_ask_funcs[func].shown;
	struct func_sum f = sum_func(s, target, func);
	int err;

	if (!f.sum.calls)
		return 0;
	*cpu_ns += f.cpu_ns;
	err = sonde_lens_push(ctx, target, M_CALLS, label, ts_ns, (double)f.sum.calls);
	err = err ? err : push_rate(ctx, target, label, (double)f.sum.calls, seen, ts_ns);
	if (err)
		return err;
	if (!f.sum.timed) {
		const char *why =
			"not every end of this function can be probed, or none was seen yet";

		err = sonde_lens_push_absent(ctx, target, M_TIME, label, ts_ns, why);
		return err ? err : sonde_lens_push_absent(ctx, target, M_CPU, label, ts_ns, why);
	}
	err = sonde_lens_push(ctx, target, M_TIME, label, ts_ns, f.ns);
	return err ? err : sonde_lens_push(ctx, target, M_CPU, label, ts_ns, f.cpu_ns);
}

static int push_shares(struct sonde_lens_ctx *ctx, const struct ask_seen *seen, double asked_ns,
		       uint64_t ts_ns)
{
	struct ask_state *s = ctx->priv;
	double own = less(seen->cpu_ns, seen->trap_ns);
	double wall = seen->wall_ns + seen->outside_wall_ns;
	double share = own <= 0 ? 0 : asked_ns < own ? asked_ns / own : 1;
	int err = 0;

	s->shown_cpu_ns = own > s->shown_cpu_ns ? own : s->shown_cpu_ns;
	if (own > 0)
		err = sonde_lens_push(ctx, 0, M_SHARE, "", ts_ns, share);
	if (own > 0 && wall > 0)
		err = err ? err
			  : sonde_lens_push(ctx, 0, M_CPUS, "", ts_ns,
					    share * (own + seen->outside_cpu_ns) / wall);
	err = err ? err : sonde_lens_push(ctx, 0, M_TARGET_CPU, "", ts_ns, s->shown_cpu_ns);
	if (!err && wall > 0)
		err = sonde_lens_push(ctx, 0, M_OBSERVED, "", ts_ns, fmin(seen->wall_ns / wall, 1));
	return err;
}

static int ask_tick(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct ask_state *s = ctx->priv;
	struct ask_seen seen;
	double asked_ns = 0;
	int err;

	if (!s->attached)
		return sonde_lens_push_absent(
			ctx, 0, M_SHARE, "", ts_ns,
			ctx->opts->passive
				? "--passive attaches no probes"
				: "no statistics function of an allocator is known by its "
				  "symbol in this process");
	if (!s->began_ns)
		return 0;
	err = read_callers(ctx);
	ask_seen(ctx, s->open ? sonde_mono_ns() : ts_ns, &seen);
	for (uint32_t t = 0; t < ctx->targets->n && !err; t++)
		for (uint32_t f = 0; f < sonde_ask_func_count && !err; f++)
			err = push_func(ctx, t, f, &seen, &asked_ns, ts_ns);
	for (size_t i = 0; i < s->n_callers && !err; i++)
		err = push_caller(ctx, i, ts_ns);
	return err ? err : push_shares(ctx, &seen, asked_ns, ts_ns);
}

static size_t ask_hits(struct sonde_lens_ctx *ctx, struct sonde_lens_hits *out, size_t max)
{
	const struct ask_state *s = ctx->priv;
	size_t n = 0;

	for (int f = 0; f < SONDE_ASK_FUNCS; f++) {
		const struct ask_cost *c = &s->cost[f];

		if (s->hits.entry[f] && n < max)
			out[n++] = (struct sonde_lens_hits){c->entry, c->insn, s->hits.entry[f]};
		if (s->hits.exit[f] && c->exit && n < max)
			out[n++] = (struct sonde_lens_hits){c->exit, SONDE_INSN_STEPPED,
							    s->hits.exit[f]};
	}
	return n;
}

const struct sonde_lens sonde_lens_ask = {
	.id = SONDE_LENS_ASK,
	.name = "ask",
	.summary =
		"calls that ask the allocator for statistics: how often, share of the CPU, callers",
	.overhead =
		"1 to 14 us a call of mallinfo, mallctl, GetNumericProperty and their like; where "
		"that is over 1 % of the CPU, short windows",
	.blind_spots = "functions whose symbols were stripped, a call that has not ended, "
		       "libraries that a "
		       "command started by sonde has yet to load",
	.metrics = metrics,
	.n_metrics = SONDE_ARRAY_SIZE(metrics),
	.elf = ask_elf,
	.hooks = ask_hooks,
	.init = ask_init,
	.start = ask_start,
	.tick = ask_tick,
	.finish = ask_finish,
	.hits = ask_hits,
	.pulse = ask_pulse,
	.fini = ask_fini,
};
