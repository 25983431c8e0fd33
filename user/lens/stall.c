// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The stall lens: why the target's threads do not run, how long they wait for a CPU, and the time
 * they spend in system calls on the address space. The kernel side charges each absence from the
 * CPU to exactly one cause, so the causes of stall.time add up; lock waits and system calls overlap
 * them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attach/plan.h"
#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "lens/alloc_locks.h"
#include "lens/hook_rows.h"
#include "lens/lens.h"
#include "lens/series.h"
#include "sonde/stall.h"

#include "stall.skel.h"

enum { M_TIME, M_COUNT, M_LOCK_TIME, M_LOCK_COUNT, M_CALL_TIME, M_CALL_COUNT, M_CALL_BYTES };

static const struct sonde_metric_desc metrics[] = {
	[M_TIME] = {"stall.time", "ns", SONDE_COUNTER,
		    "time threads were off their CPU, by cause; the causes add up"},
	[M_COUNT] = {"stall.count", "count", SONDE_COUNTER, "absences from the CPU, by cause"},
	[M_LOCK_TIME] = {"stall.lock_time", "ns", SONDE_COUNTER,
			 "time from finding a kernel lock taken to having it"},
	[M_LOCK_COUNT] = {"stall.lock_count", "count", SONDE_COUNTER,
			  "waits for a lock of the kernel"},
	[M_CALL_TIME] = {"stall.syscall_time", "ns", SONDE_COUNTER,
			 "time in system calls that change the address space"},
	[M_CALL_COUNT] = {"stall.syscall_count", "count", SONDE_COUNTER, "those system calls"},
	[M_CALL_BYTES] = {"stall.syscall_bytes", "bytes", SONDE_COUNTER, "lengths they were given"},
};

enum { H_OFFCPU, H_RUNQUEUE, H_LOCK, H_CALL };

static const struct sonde_hist_desc hists[] = {
	[H_OFFCPU] = {"stall.offcpu", "ns", "from leaving the CPU to being woken, by cause"},
	[H_RUNQUEUE] = {"stall.runqueue", "ns", "from being runnable to running"},
	[H_LOCK] = {"stall.lock_wait", "ns", "from finding a kernel lock taken to having it"},
	[H_CALL] = {"stall.syscall", "ns", "system calls on the address space"},
};

static const char *const cause_names[] = {
#define NAME(id, sym, name) [id] = name,
	SONDE_STALL_CAUSES(NAME)
#undef NAME
};

/* One row a series. Being runnable is no reason to be off the CPU: it has a histogram of its own.
 */
static const struct sonde_series_name names[SONDE_STALL_SERIES] = {
#define NAME(id, sym, name)                                                                        \
	[id] = {(id) == SONDE_STALL_RUNQUEUE ? &hists[H_RUNQUEUE] : &hists[H_OFFCPU],              \
		(id) == SONDE_STALL_RUNQUEUE ? "" : (name)},
	SONDE_STALL_CAUSES(NAME)
#undef NAME
		[SONDE_STALL_WAIT_MMAP] = {&hists[H_LOCK], "mmap_lock"},
	[SONDE_STALL_WAIT_KERNEL] = {&hists[H_LOCK], "kernel_lock"},
#define NAME(sym, name, nr)                                                                        \
	[SONDE_STALL_CALL_FIRST + SONDE_STALL_CALL_##sym] = {&hists[H_CALL], name},
	SONDE_STALL_CALLS(NAME)
#undef NAME
};

struct stall_state {
	struct sonde_series *series;
	bool locks, calls, told_lost; /* what the plan could attach */
};

static const void *stall_elf(size_t *size)
{
	return stall_bpf__elf_bytes(size);
}

#define TYPED(prog, ev, need) SONDE_ALTS_TYPED(prog, ev, need, SONDE_FEAT_NONE)
#define CLASSIC(prog, ev)                                                                          \
	{                                                                                          \
		{                                                                                  \
			.kind = SONDE_LINK_TRACEPOINT, .program = prog, .event = "syscalls/" ev,   \
			.needs = {                                                                 \
				SONDE_FEAT_TRACEFS,                                                \
				SONDE_FEAT_NONE,                                                   \
				SONDE_FEAT_NONE                                                    \
			}                                                                          \
		}                                                                                  \
	}

static const struct sonde_alternative switch_alts[] =
	TYPED("stall_switch", "sched_switch", SONDE_FEAT_NONE);
static const struct sonde_alternative wakeup_alts[] =
	TYPED("stall_wakeup", "sched_wakeup", SONDE_FEAT_NONE);
static const struct sonde_alternative new_alts[] =
	TYPED("stall_wakeup_new", "sched_wakeup_new", SONDE_FEAT_NONE);
static const struct sonde_alternative exit_alts[] =
	TYPED("stall_exit", "sched_process_exit", SONDE_FEAT_NONE);
static const struct sonde_alternative lock_alts[] =
	TYPED("stall_lock_begin", "contention_begin", SONDE_FEAT_CONTENTION);
static const struct sonde_alternative unlock_alts[] =
	TYPED("stall_lock_end", "contention_end", SONDE_FEAT_CONTENTION);

#define CALL_ALTS(call, prog)                                                                      \
	static const struct sonde_alternative enter_##call##_alts[] =                              \
		CLASSIC(prog, "sys_enter_" #call);                                                 \
	static const struct sonde_alternative exit_##call##_alts[] =                               \
		CLASSIC("stall_call_end", "sys_exit_" #call);
CALL_ALTS(mmap, "stall_call_length")
CALL_ALTS(munmap, "stall_call_length")
CALL_ALTS(mremap, "stall_call_length")
CALL_ALTS(madvise, "stall_call_length")
CALL_ALTS(brk, "stall_call_plain")
#undef CALL_ALTS

#define HOOK(nm, al, req, what) SONDE_HOOK(SONDE_LENS_STALL, nm, al, req, what)
#define CALL_HOOKS(call)                                                                           \
	HOOK("stall." #call ".end", exit_##call##_alts, false, #call " returns"),                  \
		HOOK("stall." #call, enter_##call##_alts, false, #call " begins")

/* In the order of attaching: what takes state away and what ends first. */
static const struct sonde_hook all_hooks[] = {
	HOOK("stall.exit", exit_alts, true, "a thread ends"),
	HOOK("stall.wakeup", wakeup_alts, true, "a thread is woken"),
	HOOK("stall.new", new_alts, false, "a thread is made"),
	HOOK("stall.switch", switch_alts, true, "a thread leaves or gets a CPU"),
	HOOK("stall.unlock", unlock_alts, false, "a wait for a kernel lock ends"),
	HOOK("stall.lock", lock_alts, false, "a kernel lock is found taken"),
	CALL_HOOKS(mmap),
	CALL_HOOKS(munmap),
	CALL_HOOKS(mremap),
	CALL_HOOKS(madvise),
	CALL_HOOKS(brk),
};

static int stall_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *list)
{
	int err = 0;

	(void)ctx; /* the same for every target: kernel events, filtered by the gate */
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(all_hooks) && !err; i++)
		err = sonde_hook_list_add(list, &all_hooks[i]);
	return err;
}

static bool plan_has(const struct sonde_plan *plan, const char *program)
{
	for (size_t i = 0; plan && i < plan->n; i++)
		if (plan->items[i].alt >= 0 && plan->items[i].program &&
		    !strcmp(plan->items[i].program, program))
			return true;
	return false;
}

static void stall_fini(struct sonde_lens_ctx *ctx)
{
	struct stall_state *st = ctx->priv;

	if (!st)
		return;
	sonde_series_free(&st->series);
	free(st);
	ctx->priv = NULL;
}

/* Slots of targets that went stay: they only cost. */
static int stall_retarget(struct sonde_lens_ctx *ctx)
{
	int ranges = bpf_object__find_map_fd_by_name(ctx->obj, "stall_ranges");
	int filter = bpf_object__find_map_fd_by_name(ctx->obj, "stall_filter");
	const uint32_t yes = 1;

	for (size_t i = 0; i < ctx->targets->n; i++) {
		const struct sonde_target *t = &ctx->targets->t[i];
		uint32_t slot = (uint32_t)t->pid % SONDE_STALL_FILTER;

		if (t->gone)
			continue;
		if (bpf_map_update_elem(filter, &slot, &yes, BPF_ANY))
			return sonde_err(errno, "stall: cannot set the filter: %s",
					 strerror(errno));
		sonde_alloc_locks_seed(t, ranges);
	}
	return 0;
}

static int stall_init(struct sonde_lens_ctx *ctx)
{
	struct stall_state *st = calloc(1, sizeof(*st));
	int err;

	if (!st)
		return sonde_err(ENOMEM, "stall: no memory for the lens");
	ctx->priv = st;
	st->locks = plan_has(ctx->plan, "stall_lock_end");
	st->calls = plan_has(ctx->plan, "stall_call_end");
	err = sonde_series_new(&st->series, ctx, "stall_sums", "stall_hist", SONDE_STALL_SERIES);
	if (err)
		stall_fini(ctx);
	return err ? err : stall_retarget(ctx);
}

/* Time and count of one series under @label; absent with the reason where @why is not NULL. */
static int push_pair(const struct sonde_lens_ctx *ctx, uint32_t target, size_t time,
		     const char *label, const struct sonde_series_sum *sum, const char *why,
		     uint64_t ts_ns)
{
	size_t count = time + 1;
	int err;

	if (why) {
		err = sonde_lens_push_absent(ctx, target, time, label, ts_ns, why);
		return err ? err : sonde_lens_push_absent(ctx, target, count, label, ts_ns, why);
	}
	err = sonde_lens_push(ctx, target, time, label, ts_ns, (double)sum->ns);
	return err ? err : sonde_lens_push(ctx, target, count, label, ts_ns, (double)sum->count);
}

static int push_target(const struct sonde_lens_ctx *ctx, uint32_t target, uint64_t ts_ns)
{
	const struct stall_state *st = ctx->priv;
	const struct sonde_series_sum *sums = sonde_series_get(st->series, target, 0);
	const char *no_locks =
		st->locks ? NULL : "this kernel does not tell of waits for its locks";
	const char *no_calls = st->calls ? NULL : "this kernel has no system call tracepoints";
	int err = 0;

	for (unsigned c = 0; c < SONDE_STALL__CAUSES && !err; c++) {
		bool lock = c == SONDE_STALL_MMAP_LOCK || c == SONDE_STALL_KERNEL_LOCK;

		err = push_pair(ctx, target, M_TIME, cause_names[c], &sums[c],
				lock ? no_locks : NULL, ts_ns);
	}
	for (unsigned i = SONDE_STALL_WAIT_MMAP; i < SONDE_STALL_CALL_FIRST && !err; i++)
		err = push_pair(ctx, target, M_LOCK_TIME, names[i].label, &sums[i], no_locks,
				ts_ns);
	for (unsigned i = SONDE_STALL_CALL_FIRST; i < SONDE_STALL_SERIES && !err; i++) {
		err = push_pair(ctx, target, M_CALL_TIME, names[i].label, &sums[i], no_calls,
				ts_ns);
		if (!err && st->calls && i != SONDE_STALL_CALL_FIRST + SONDE_STALL_CALL_BRK)
			err = sonde_lens_push(ctx, target, M_CALL_BYTES, names[i].label, ts_ns,
					      (double)sums[i].bytes);
	}
	return err;
}

static int stall_tick(struct sonde_lens_ctx *ctx, uint64_t ts_ns)
{
	struct stall_state *st = ctx->priv;
	int err = sonde_series_read(st->series, ctx);

	err = err ? err : sonde_series_push(st->series, ctx, names, ts_ns);
	for (uint32_t i = 0; i < sonde_series_targets(st->series) && !err; i++)
		err = push_target(ctx, i, ts_ns);
	if (err || !sonde_series_forget(st->series, ctx) || st->told_lost)
		return err;
	st->told_lost = true;
	return sonde_lens_note(ctx, SONDE_NOTE_CAUTION,
			       "children that end within milliseconds are not in the stall figures",
			       "");
}

/*
 * An absence runs the switch program where it begins and where it ends, and the wakeup program
 * unless the thread stayed runnable. Every absence ends on the run queue, so that series counts
 * all.
 */
static size_t stall_hits(struct sonde_lens_ctx *ctx, struct sonde_lens_hits *out, size_t max)
{
	const struct stall_state *st = ctx->priv;
	uint64_t typed = 0, classic = 0;

	for (size_t t = 0; t < sonde_series_targets(st->series); t++) {
		const struct sonde_series_sum *sums = sonde_series_get(st->series, t, 0);

		for (unsigned i = 0; i < SONDE_STALL_CALL_FIRST; i++)
			typed += sums[i].count *
				 (i == SONDE_STALL_RUNQUEUE || i >= SONDE_STALL__CAUSES ? 2 : 1);
		for (unsigned i = SONDE_STALL_CALL_FIRST; i < SONDE_STALL_SERIES; i++)
			classic += 2 * sums[i].count;
	}
	if (max < 2)
		return 0;
	out[0] = (struct sonde_lens_hits){.kind = SONDE_LINK_TP_BTF, .n = typed};
	out[1] = (struct sonde_lens_hits){.kind = SONDE_LINK_TRACEPOINT, .n = classic};
	return 2;
}

const struct sonde_lens sonde_lens_stall = {
	.id = SONDE_LENS_STALL,
	.name = "stall",
	.summary = "time off the CPU by cause, run queue, locks, mmap and madvise",
	.overhead =
		"about 1 us a wait of the target; every process pays 0.16 us a context switch and "
		"0.1 us a system call",
	.blind_spots =
		"waits that have not ended yet, locks that are spun on, which lock of the program "
		"a futex is",
	.on_request = true,
	.metrics = metrics,
	.n_metrics = SONDE_ARRAY_SIZE(metrics),
	.hists = hists,
	.n_hists = SONDE_ARRAY_SIZE(hists),
	.elf = stall_elf,
	.hooks = stall_hooks,
	.init = stall_init,
	.retarget = stall_retarget,
	.tick = stall_tick,
	.hits = stall_hits,
	.fini = stall_fini,
};
