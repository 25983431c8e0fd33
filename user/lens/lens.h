/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A lens is one way of looking at a process. Everything sonde knows about it is one descriptor: what to
 * attach, what it yields, how to decode it, what it costs and what it cannot see. Adding a lens is one
 * pair of files and one line in lenses.def.
 *
 * Life: plan (add hooks for this target) -> the engine loads and attaches -> ready -> decode and tick
 * while the session runs -> fini. A lens never prints: it pushes into the visitor it is given.
 */
#ifndef SONDE_LENS_LENS_H
#define SONDE_LENS_LENS_H

#include "attach/hook.h"
#include "core/clock.h"
#include "model/visitor.h"
#include "sonde/consumption.h"
#include "sonde/event.h"
#include "target/target.h"

struct bpf_object;
struct sonde_calibration; /* attach/cost.h */
struct sonde_window_order; /* attach/window.h */

/* Whose memory RSS is, mapping by mapping: reading that takes mmap_lock. Auto: while it takes under
 * 50 ms, every 10 s; full: at any length, each tick, for at most 1 % of the time. */
enum sonde_ledger_mode { SONDE_LEDGER_AUTO = 0, SONDE_LEDGER_FULL, SONDE_LEDGER_OFF };

/* Is the time of queries divided into parts? Auto: where spans are wanted. */
enum sonde_anatomy_mode { SONDE_ANATOMY_AUTO = 0, SONDE_ANATOMY_ON, SONDE_ANATOMY_OFF };

/* How a lens was asked to look; filled from the command line. */
struct sonde_lens_opts {
	bool passive;	   /* no uprobe, no read of the target's memory                            */
	bool alloc_exact;  /* --alloc-mode exact                                                    */
	bool alloc_windows; /* --alloc-mode windows                                                 */
	double budget_cpu;  /* of windows: share of the target's CPU time that traps may take,      */
	double budget_time; /* and of the time that may be disturbed                                */
	bool sites;	   /* --sites: by call stack, too                                           */
	uint32_t sites_sample; /* follow one live block in so many; 0: all while they fit           */
	bool alloc_counters; /* --alloc-mode counters, and auto                                     */
	bool alloc_asked;    /* counters were asked for by name: more may be spent on them          */
	int query_source;  /* enum sonde_query_source: where queries come from                      */
	const char *recipe; /* the user's own recipe file, or NULL                                  */
	bool children;	   /* processes that a target forks are targets                            */
	bool query_text;   /* spans carry their text                                                */
	bool want_spans;   /* somebody downstream takes spans, and what was done for each query     */
	uint64_t slower_than_ns;
	enum sonde_ledger_mode ledger;
	enum sonde_anatomy_mode anatomy;
	bool fault_full;       /* time every page fault, not one in some of the plain ones          */
	uint32_t fault_by;     /* what else faults are charged to: bits by enum sonde_fault_by      */
};

struct sonde_lens;

/* Runs of one kind: a link kind on an instruction kind (the latter matters for uprobes only). */
struct sonde_lens_hits {
	enum sonde_link_kind kind;
	enum sonde_insn_kind insn;
	uint64_t n; /* cumulative */
};

struct sonde_lens_ctx {
	const struct sonde_lens *lens;
	const struct sonde_lens_opts *opts;
	const struct sonde_target_list *targets;
	const struct sonde_visitor *out; /* where values go                                         */
	const struct sonde_clockpair *clock;
	struct bpf_object *obj;	   /* loaded object, or NULL for a lens without BPF                 */
	struct sonde_plan *plan;   /* the executed plan: which alternative each hook got            */
	/* What a hit costs on this machine; NULL or all 0 where it was not measured. */
	const struct sonde_calibration *calibration;
	/*
	 * Not 0: this lens's probes went by themselves at that time (CLOCK_MONOTONIC) and it has counted
	 * nothing since. A level that is added up from counts is absent then, for the reason lost_why.
	 */
	uint64_t lost_ns;
	const char *lost_why;
	bool rehearsal;		   /* values of this tick are not kept: leave out what is dear      */
	void *priv;		   /* the lens's own state, made by init, freed by fini             */
};

struct sonde_lens {
	enum sonde_lens_id id;
	const char *name;	 /* also the BPF object's name                                      */
	const char *summary;	 /* one line for help                                               */
	const char *overhead;	 /* one line: what it costs                                         */
	const char *blind_spots; /* one line: what it cannot see                                    */
	bool on_request; /* not part of the default set: only when --lens names it                  */
	const struct sonde_metric_desc *metrics;
	size_t n_metrics;
	const struct sonde_hist_desc *hists;
	size_t n_hists;
	/* The BPF object's bytes (from its skeleton), or NULL for a lens that needs none. */
	const void *(*elf)(size_t *size);
	/* The same where it depends on how the lens was asked to look; instead of elf. Optional. */
	const void *(*elf_for)(const struct sonde_lens_ctx *ctx, size_t *size);
	/*
	 * Add this lens's hooks for these targets to @hooks. Targets may change (a restart): called
	 * again then. 0 or -errno (logged).
	 */
	int (*hooks)(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks);
	/* Before load: set rodata, resize maps, switch autoload beyond what the plan says. Optional. */
	int (*configure)(struct sonde_lens_ctx *ctx, struct bpf_object *obj);
	/* After load, before attach. Makes ctx->priv, seeds maps. */
	int (*init)(struct sonde_lens_ctx *ctx);
	/* Everything is attached and recording begins: a lens whose figures would be wrong with only
	 * part of its links counts from here. Optional. */
	int (*start)(struct sonde_lens_ctx *ctx);
	/* The targets changed (restart, exec, new child): seed again what init seeded. Optional. */
	int (*retarget)(struct sonde_lens_ctx *ctx);
	/* One ring record whose header names this lens. Optional. */
	int (*decode)(struct sonde_lens_ctx *ctx, const struct sonde_ev_hdr *ev, size_t size);
	/* Read maps and /proc, push metrics and histograms. @ts_ns is the tick's time. */
	int (*tick)(struct sonde_lens_ctx *ctx, uint64_t ts_ns);
	/* Recording is over (or this generation of probes): the gate is closed, everything is still
	 * attached, and one more drain and tick follow. For what is still open. Optional. */
	int (*finish)(struct sonde_lens_ctx *ctx);
	/*
	 * How often this lens's programs ran for the target so far, by what a run costs there: up to
	 * @max rows into @out, returns how many. Multiplied by the calibrated cost of a hit. Optional.
	 */
	size_t (*hits)(struct sonde_lens_ctx *ctx, struct sonde_lens_hits *out, size_t max);
	/*
	 * What all targets together have allocated and not freed, as of now or of the last reading
	 * (then with that one's time). At most every millisecond: no system call if it can be helped.
	 * 0; -ENODATA when there is none now. Optional.
	 */
	int (*consumption)(struct sonde_lens_ctx *ctx, uint64_t now_ns,
			   struct sonde_consumption *out);
	/*
	 * Every 10 ms while recording, @attached: are the links there? Should they be? For a lens
	 * whose probes may fire more often than can be paid for: the session takes them off and puts
	 * them on again as this says. Optional.
	 */
	bool (*pulse)(struct sonde_lens_ctx *ctx, uint64_t now_ns, bool attached);
	/*
	 * For a lens whose links exist in windows only (alloc_windows): asked every 10 ms while none is
	 * open. True: one begins now, as *order says. Optional, and then with window_over.
	 */
	bool (*window_due)(struct sonde_lens_ctx *ctx, uint64_t now_ns,
			   struct sonde_window_order *order);
	/* It is over and its probes are gone: it disturbed the target from @begin_ns to @end_ns. */
	int (*window_over)(struct sonde_lens_ctx *ctx, uint64_t begin_ns, uint64_t end_ns);
	void (*fini)(struct sonde_lens_ctx *ctx);
};

/* All lenses, in lenses.def order; NULL if there is none of that name. */
extern const struct sonde_lens *const sonde_lenses[];
extern const size_t sonde_lens_count;
const struct sonde_lens *sonde_lens_find(const char *name);

/* The object's bytes for this context, NULL for a lens that needs none. */
const void *sonde_lens_elf(const struct sonde_lens_ctx *ctx, size_t *size);

/* For lenses: push one value, one absence, one note of ctx->lens. @metric indexes lens->metrics.
 * 0 or the visitor's -errno. */
int sonde_lens_push(const struct sonde_lens_ctx *ctx, uint32_t target, size_t metric,
		    const char *label, uint64_t ts_ns, double value);
int sonde_lens_push_absent(const struct sonde_lens_ctx *ctx, uint32_t target, size_t metric,
			   const char *label, uint64_t ts_ns, const char *reason);
int sonde_lens_note(const struct sonde_lens_ctx *ctx, enum sonde_note_level level, const char *what,
		    const char *remedy);

#endif
