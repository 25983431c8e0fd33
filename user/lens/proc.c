// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The proc lens: life and CPU of the targets. CPU time comes from the process's CPU clock, exact to
 * the ns; how it is split into user and system, and fault counts, from /proc/PID/stat, whose times
 * are in ticks of 10 ms: the split of a small time is rough, the sum is not. Forks, execs and exits
 * from three tracepoints that fire only at those events. The session decodes its records itself (a
 * target list changes), so decode here only counts them.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/mem.h"
#include "lens/lens.h"
#include "lens/proc.h"
#include "proc.skel.h"
#include "target/proc.h"

enum { M_USER, M_SYS, M_MINFLT, M_MAJFLT, M_FORKS, M_EXECS };

static const struct sonde_metric_desc metrics[] = {
	[M_USER] = {"proc.cpu_user", "ns", SONDE_COUNTER,
		    "user CPU time since attach; user and system add up exactly, the "
		    "split between them is known to 10 ms"},
	[M_SYS] = {"proc.cpu_sys", "ns", SONDE_COUNTER, "system CPU time since attach"},
	[M_MINFLT] = {"proc.minflt", "count", SONDE_COUNTER,
		      "minor faults since attach, by the kernel"},
	[M_MAJFLT] = {"proc.majflt", "count", SONDE_COUNTER,
		      "major faults since attach, by the kernel"},
	[M_FORKS] = {"proc.forks", "count", SONDE_COUNTER, "processes that a target forked"},
	[M_EXECS] = {"proc.execs", "count", SONDE_COUNTER,
		     "times that a target replaced its program"},
};

/* One target's times. */
struct cpu_base {
	struct sonde_proc_stat stat; /* at first sight */
	uint64_t cpu_ns;	     /* likewise       */
	uint64_t user_ns, sys_ns;    /* as said last   */
};

struct proc_state {
	struct cpu_base *base; /* by target index */
	size_t n;
	uint64_t forks, execs, began_ns;
};

#define TRACEPOINT(prog, tp)                                                                       \
	{                                                                                          \
		{.kind = SONDE_LINK_TP_BTF,                                                        \
		 .program = prog,                                                                  \
		 .event = tp,                                                                      \
		 .needs = {SONDE_FEAT_TP_BTF, SONDE_FEAT_RINGBUF, SONDE_FEAT_NONE}},               \
	}

static const struct sonde_alternative fork_alts[] = TRACEPOINT("proc_fork", "sched_process_fork");
static const struct sonde_alternative exec_alts[] = TRACEPOINT("proc_exec", "sched_process_exec");
static const struct sonde_alternative exit_alts[] = TRACEPOINT("proc_exit", "sched_process_exit");

static const void *proc_elf(size_t *size)
{
	return proc_bpf__elf_bytes(size);
}

static int proc_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks)
{
	const struct sonde_hook rows[] = {
		{.name = "proc.fork", .alts = fork_alts, .purpose = "a target forks"},
		{.name = "proc.exec",
		 .alts = exec_alts,
		 .purpose = "a target replaces its program"},
		{.name = "proc.exit", .alts = exit_alts, .purpose = "a target ends"},
	};

	(void)ctx;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		struct sonde_hook h = rows[i];
		int err;

		h.lens = SONDE_LENS_PROC;
		h.n_alts = 1;
		err = sonde_hook_list_add(hooks, &h);
		if (err)
			return err;
	}
	return 0;
}

static int proc_init(struct sonde_lens_ctx *ctx)
{
	struct proc_state *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->began_ns = sonde_mono_ns();
	ctx->priv = s;
	return 0;
}

static void proc_fini(struct sonde_lens_ctx *ctx)
{
	struct proc_state *s = ctx->priv;

	if (s)
		free(s->base);
	free(s);
	ctx->priv = NULL;
}

static int proc_decode(struct sonde_lens_ctx *ctx, const struct sonde_ev_hdr *ev, size_t size)
{
	const struct sonde_ev_proc *p = (const void *)ev;
	struct proc_state *s = ctx->priv;

	if (ev->kind != SONDE_EV_PROC || size < sizeof(*p))
		return 0;
	s->forks += p->what == SONDE_PROC_FORK;
	s->execs += p->what == SONDE_PROC_EXEC;
	return 0;
}

static bool born_since(const struct proc_state *s, pid_t pid)
{
	uint64_t age_ns = sonde_proc_age_ns(pid);

	return age_ns && sonde_mono_ns() - age_ns > s->began_ns;
}

static struct cpu_base *base_slot(struct proc_state *s, size_t index)
{
	struct cpu_base *b;

	if (index < s->n)
		return &s->base[index];
	b = reallocarray(s->base, index + 1, sizeof(*b));
	if (!b)
		return NULL;
	for (size_t i = s->n; i <= index; i++)
		b[i] = (struct cpu_base){0};
	s->base = b;
	s->n = index + 1;
	return &s->base[index];
}

/* Counters count from first sight; a process that was there before has a base to subtract. A child
 * that was forked meanwhile has none: all it did belongs to what is observed. */
static void first_sight(struct proc_state *s, struct cpu_base *b, const struct sonde_proc_stat *now,
			uint64_t cpu_ns)
{
	if (born_since(s, now->pid)) {
		b->stat.pid = now->pid;
		return;
	}
	b->stat = *now;
	b->cpu_ns = cpu_ns;
}

/*
 * @all is exact, the times in ticks only say how much of it is which; where there is no tick yet
 * all of it is user time, as the kernel has it too. Neither part ever shrinks.
 */
void sonde_proc_split(uint64_t all, uint64_t utime_ns, uint64_t stime_ns, uint64_t *user_ns,
		      uint64_t *sys_ns)
{
	uint64_t ticks = utime_ns + stime_ns;
	uint64_t sys = ticks ? (uint64_t)((double)all * (double)stime_ns / (double)ticks) : 0;

	if (all < *user_ns + *sys_ns)
		return;
	if (sys < *sys_ns)
		sys = *sys_ns;
	if (all - sys < *user_ns)
		sys = all - *user_ns;
	*sys_ns = sys;
	*user_ns = all - sys;
}

static int push_cpu(struct sonde_lens_ctx *ctx, uint32_t index, uint64_t ts_ns, struct cpu_base *b,
		    const struct sonde_proc_stat *now, uint64_t cpu_ns)
{
	int err;

	sonde_proc_split(cpu_ns - b->cpu_ns, now->utime_ns - b->stat.utime_ns,
			 now->stime_ns - b->stat.stime_ns, &b->user_ns, &b->sys_ns);
	err = sonde_lens_push(ctx, index, M_USER, "", ts_ns, (double)b->user_ns);
	return err ? err : sonde_lens_push(ctx, index, M_SYS, "", ts_ns, (double)b->sys_ns);
}

/* A target that has exited can be read until its parent has waited for it; its pid may be
 * another's. */
static int push_target(struct sonde_lens_ctx *ctx, uint32_t index, uint64_t ts_ns)
{
	const struct sonde_target *t = &ctx->targets->t[index];
	struct sonde_proc_stat now;
	struct cpu_base *b;
	uint64_t cpu_ns;
	int err;

	if (sonde_proc_stat(t->pid, &now) || now.start_ticks != t->start_ticks ||
	    sonde_proc_cpu(t->pid, &cpu_ns))
		return 0; /* gone: the session says so */
	b = base_slot(ctx->priv, index);
	if (!b)
		return -ENOMEM;
	if (!b->stat.pid && t->gone)
		return 0;
	if (!b->stat.pid)
		first_sight(ctx->priv, b, &now, cpu_ns);
	err = push_cpu(ctx, index, ts_ns, b, &now, cpu_ns);
	err = err ? err
		  : sonde_lens_push(ctx, index, M_MINFLT, "", ts_ns,
				    (double)(now.minflt - b->stat.minflt));
	return err ? err
		   : sonde_lens_push(ctx, index, M_MAJFLT, "", ts_ns,
				     (double)(now.majflt - b->stat.majflt));
}

static int proc_tick(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct proc_state *s = ctx->priv;
	int err = 0;

	for (size_t i = 0; i < ctx->targets->n && !err; i++)
		err = push_target(ctx, (uint32_t)i, ts_ns);
	err = err ? err : sonde_lens_push(ctx, 0, M_FORKS, "", ts_ns, (double)s->forks);
	return err ? err : sonde_lens_push(ctx, 0, M_EXECS, "", ts_ns, (double)s->execs);
}

const struct sonde_lens sonde_lens_proc = {
	.id = SONDE_LENS_PROC,
	.name = "proc",
	.summary = "CPU time, kernel fault counts, forks and execs of the target",
	.overhead = "one read of /proc a tick, about 10 us; three tracepoints that fire at fork, "
		    "exec, exit",
	.blind_spots =
		"what part of a CPU time below some 100 ms was system time: the kernel tells "
		"user from system in ticks of 10 ms",
	.metrics = metrics,
	.n_metrics = SONDE_ARRAY_SIZE(metrics),
	.elf = proc_elf,
	.hooks = proc_hooks,
	.init = proc_init,
	.decode = proc_decode,
	.tick = proc_tick,
	.fini = proc_fini,
};
