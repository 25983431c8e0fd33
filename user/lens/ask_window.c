// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * When the ask lens counts, what its traps cost, and what the target did meanwhile. A window is the
 * time in which the kernel side counts; every figure that calls are compared with is taken over the
 * same time.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>

#include "attach/cost.h"
#include "attach/plan.h"
#include "core/err.h"
#include "core/mem.h"
#include "lens/ask_impl.h"

/* CPU time of a whole process, to the ns, dead threads included; 0 once it has gone. */
static uint64_t cpu_of(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * SONDE_NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* ---- costs ---- */

/*
 * The clock is read in the middle of an emulated trap: half lies before, half after. A stepped
 * instruction is stepped after the program ran, so all that is dearer about it comes after: within
 * the call at its entry, outside at its `ret`.
 */
static void learn_site(struct ask_state *s, const double (*hit)[2],
		       const struct sonde_plan_item *item, const struct sonde_probe_site *site)
{
	struct ask_cost *c = &s->cost[SONDE_ASK_COOKIE_FUNC(site->cookie) % SONDE_ASK_FUNCS];
	const double *k = hit[item->kind];

	if (!strcmp(item->program, "ask_exit")) {
		c->exit = item->kind;
		c->exit_ns = k[SONDE_INSN_STEPPED];
		c->within_ns += k[SONDE_INSN_EMULATED] / 2;
		return;
	}
	c->entry = item->kind;
	c->insn = site->site.kind;
	c->entry_ns = k[c->insn];
	c->within_ns += k[SONDE_INSN_EMULATED] / 2 + k[c->insn] - k[SONDE_INSN_EMULATED];
	if (item->ret_program) {
		c->exit = item->kind == SONDE_LINK_UPROBE_PERF ? SONDE_LINK_URETPROBE_PERF
							       : SONDE_LINK_URETPROBE_MULTI;
		c->exit_ns = hit[c->exit][SONDE_INSN_EMULATED];
		c->within_ns += c->exit_ns / 2;
	}
	s->inner_ns[SONDE_INSN_EMULATED] = k[SONDE_INSN_EMULATED];
	s->inner_ns[SONDE_INSN_STEPPED] = k[SONDE_INSN_STEPPED];
}

/* A function may have several ends: they cost once a call. */
static bool seen_before(const struct sonde_hook *hook, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (SONDE_ASK_COOKIE_FUNC(hook->sites[i].cookie) ==
		    SONDE_ASK_COOKIE_FUNC(hook->sites[at].cookie))
			return true;
	return false;
}

void ask_learn_costs(struct sonde_lens_ctx *ctx)
{
	static const double free_of_charge[SONDE_LINK__MAX][2];
	const double(*hit)[2] = ctx->calibration ? ctx->calibration->hit_ns : free_of_charge;
	struct ask_state *s = ctx->priv;
	bool known[SONDE_ASK_FUNCS][2] = {{false}};

	for (size_t i = 0; ctx->plan && i < ctx->plan->n; i++) {
		const struct sonde_plan_item *item = &ctx->plan->items[i];
		bool ends;

		if (item->hook->lens != SONDE_LENS_ASK || item->alt < 0)
			continue;
		s->attached = true;
		ends = !strcmp(item->program, "ask_exit");
		for (size_t j = 0; j < item->hook->n_sites; j++) {
			const struct sonde_probe_site *site = &item->hook->sites[j];
			bool *done =
				&known[SONDE_ASK_COOKIE_FUNC(site->cookie) % SONDE_ASK_FUNCS][ends];

			if (!*done && !seen_before(item->hook, j))
				learn_site(s, hit, item, site);
			*done = true;
		}
	}
}

/* All traps so far, counted or not. */
static double trap_cost(struct ask_state *s)
{
	const uint32_t zero = 0;
	double ns = 0;

	if (bpf_map_lookup_elem(s->hits_fd, &zero, s->percpu))
		return 0;
	memset(&s->hits, 0, sizeof(s->hits));
	for (int f = 0; f < SONDE_ASK_FUNCS; f++) {
		for (int c = 0; c < s->n_cpus; c++) {
			s->hits.entry[f] += s->percpu[c].entry[f];
			s->hits.exit[f] += s->percpu[c].exit[f];
		}
		ns += (double)s->hits.entry[f] * s->cost[f].entry_ns +
		      (double)s->hits.exit[f] * s->cost[f].exit_ns;
	}
	return ns;
}

/* ---- windows ---- */

static int set_counting(struct sonde_lens_ctx *ctx, uint32_t value)
{
	struct ask_state *s = ctx->priv;
	const uint32_t zero = 0;

	if (bpf_map_update_elem(s->counting_fd, &zero, &value, BPF_ANY))
		return sonde_err(errno, "ask: cannot start or stop counting: %s", strerror(errno));
	return 0;
}

static int grow_times(struct ask_state *s, size_t n)
{
	struct ask_time *more =
		n > s->n_times ? reallocarray(s->times, n, sizeof(*more)) : s->times;

	if (n && !more)
		return -ENOMEM;
	s->times = more;
	for (; s->n_times < n; s->n_times++)
		s->times[s->n_times] = (struct ask_time){0};
	return 0;
}

static void read_clock(struct sonde_lens_ctx *ctx, size_t i)
{
	struct ask_time *t = &((struct ask_state *)ctx->priv)->times[i];
	uint64_t now = ctx->targets->t[i].gone ? 0 : cpu_of(ctx->targets->t[i].pid);

	t->last_ns = now > t->last_ns ? now : t->last_ns;
	if (!t->first_ns)
		t->first_ns = t->begin_ns = t->last_ns;
}

/* The CPU clocks of all targets, at the begin of a window or for a reading. One that went keeps
 * what it had; one that came during a window counts from its first reading. */
static int read_clocks(struct sonde_lens_ctx *ctx, bool begin)
{
	struct ask_state *s = ctx->priv;
	int err = grow_times(s, ctx->targets->n);

	for (size_t i = 0; i < ctx->targets->n && !err; i++) {
		read_clock(ctx, i);
		if (begin)
			s->times[i].begin_ns = s->times[i].last_ns;
	}
	return err;
}

static uint64_t busy_ns(const struct ask_state *s, uint64_t now_ns)
{
	uint64_t cpu = 0, wall = now_ns - s->began_ns;

	for (size_t i = 0; i < s->n_times; i++)
		cpu += s->times[i].last_ns - s->times[i].first_ns;
	return cpu > wall ? cpu : wall;
}

int ask_window_open(struct sonde_lens_ctx *ctx, uint64_t now_ns)
{
	struct ask_state *s = ctx->priv;
	int err;

	if (s->open || !s->attached)
		return 0;
	err = read_clocks(ctx, true);
	if (err)
		return err;
	s->began_ns = s->began_ns ? s->began_ns : now_ns;
	s->open = true;
	s->open_ns = now_ns;
	s->open_cost_ns = trap_cost(s);
	sonde_ask_budget_open(&s->budget, now_ns, (uint64_t)s->open_cost_ns, busy_ns(s, now_ns));
	return set_counting(ctx, ++s->windows);
}

static int close_at(struct sonde_lens_ctx *ctx, uint64_t now_ns)
{
	struct ask_state *s = ctx->priv;
	int err;

	err = set_counting(ctx, 0);
	err = err ? err : read_clocks(ctx, false);
	for (size_t i = 0; i < s->n_times; i++)
		s->times[i].cpu_ns += s->times[i].last_ns - s->times[i].begin_ns;
	s->window_ns += now_ns - s->open_ns;
	s->window_cost_ns += trap_cost(s) - s->open_cost_ns;
	s->open = false;
	return err;
}

/*
 * The probes went by themselves (sonde was stopped). What calls are compared with ends there too:
 * the time is known, the CPU time is taken to have passed evenly since the last pulse.
 */
static int close_lost(struct sonde_lens_ctx *ctx, uint64_t now_ns)
{
	struct ask_state *s = ctx->priv;
	uint64_t since = now_ns - s->pulse_ns;
	uint64_t seen = ctx->lost_ns > s->pulse_ns ? ctx->lost_ns - s->pulse_ns : 0;
	double part = since > seen ? (double)seen / (double)since : 1;

	for (size_t i = 0; i < s->n_times; i++) {
		uint64_t before = s->times[i].last_ns, cpu;

		read_clock(ctx, i);
		cpu = s->times[i].last_ns - before;
		/* What passed unseen is as if before this window. */
		s->times[i].begin_ns += cpu - (uint64_t)(part * (double)cpu);
	}
	return close_at(ctx, s->pulse_ns + seen);
}

int ask_window_close(struct sonde_lens_ctx *ctx, uint64_t now_ns)
{
	struct ask_state *s = ctx->priv;

	if (!s->open)
		return 0;
	return ctx->lost_ns ? close_lost(ctx, now_ns) : close_at(ctx, now_ns);
}

/* Once: the reader must know that what follows is a sample. */
static void tell_hot(struct sonde_lens_ctx *ctx)
{
	struct ask_state *s = ctx->priv;

	if (s->told_hot)
		return;
	s->told_hot = true;
	sonde_lens_note(
		ctx, SONDE_NOTE_INFO,
		"the program asks its allocator for statistics so often that probes on it all "
		"the time would take over 1 % of its CPU: they are on for short windows; calls "
		"and times are those of the windows, shares and rates are estimates from them",
		"");
}

bool ask_pulse(struct sonde_lens_ctx *ctx, uint64_t now_ns, bool attached)
{
	struct ask_state *s = ctx->priv;
	double cost;

	if (!s || !s->attached)
		return attached;
	if (!attached)
		ask_window_close(ctx, now_ns); /* still open when the probes were lost */
	s->pulse_ns = now_ns;
	if (attached && !s->open)
		return !ask_window_open(ctx, now_ns); /* the probes are there now */
	if (attached) {
		cost = trap_cost(s);
		read_clocks(ctx, false);
		if (!sonde_ask_budget_over(&s->budget, (uint64_t)cost, busy_ns(s, now_ns)))
			return true;
		ask_window_close(ctx, now_ns);
		tell_hot(ctx);
		return false;
	}
	if (!s->budget.next_ns) /* they have just been taken off, which took its time too */
		sonde_ask_budget_pause(&s->budget, now_ns, (uint64_t)trap_cost(s));
	return sonde_ask_budget_due(&s->budget, now_ns);
}

void ask_seen(struct sonde_lens_ctx *ctx, uint64_t now_ns, struct ask_seen *out)
{
	struct ask_state *s = ctx->priv;
	double cost = trap_cost(s), all = 0;

	*out = (struct ask_seen){.wall_ns = (double)s->window_ns, .trap_ns = s->window_cost_ns};
	if (!s->began_ns)
		return;
	read_clocks(ctx, false);
	for (size_t i = 0; i < s->n_times; i++) {
		const struct ask_time *t = &s->times[i];

		out->cpu_ns += (double)(t->cpu_ns + (s->open ? t->last_ns - t->begin_ns : 0));
		all += (double)(t->last_ns - t->first_ns);
	}
	if (s->open) {
		out->wall_ns += (double)(now_ns - s->open_ns);
		out->trap_ns += cost - s->open_cost_ns;
	}
	out->outside_wall_ns = (double)(now_ns - s->began_ns) - out->wall_ns;
	out->outside_cpu_ns = all - out->cpu_ns;
}
