/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of session/ share. A session outlives its engine: when a target execs or restarts,
 * the engine and the lenses' kernel side are rebuilt (a new generation) while snapshot, sinks and
 * counters go on.
 */
#ifndef SONDE_SESSION_INTERNAL_H
#define SONDE_SESSION_INTERNAL_H

#include "attach/budget.h"
#include "attach/engine.h"
#include "session/publish.h"
#include "session/session.h"

#define GUARD_NS (2 * SONDE_NS_PER_SEC) /* a frozen sonde loses its probes after this */

struct ring_buffer;

enum session_state { STANDBY, PREPARED, ARMED, RECORDING, DRAINING, DONE };

/* Counters of a new generation start at 0 again; the series must not. */
struct rebase_row {
	const struct sonde_metric_desc *desc;
	char *label;
	uint32_t target;
	double offset; /* add to what the lens says */
	double last;   /* as the lens said it */
};

struct rebase {
	struct rebase_row *rows;
	size_t n, cap;
};

/* The same for counts by call stack. */
#define STACK_REBASE_SLOTS 4096
struct stack_row {
	struct stack_row *next;
	uint64_t stack, calls, bytes, base_calls, base_bytes;
	enum sonde_lens_id lens;
};
struct stack_rebase {
	struct stack_row *slot[STACK_REBASE_SLOTS];
};

/* Timers and signals of the one loop. */
struct loop {
	int ep, drain, tick, signals, publish;
};

/* A started command becomes itself step by step: it execs, maps its libraries, goes into the
 * background, listens. Looked at often at first, then seldom. */
struct settling {
	uint64_t next_ns, step_ns; /* next_ns 0: nothing to look at */
	unsigned waits;		   /* steps that were kept short */
	ssize_t serving;	   /* index of the target that serves, -1: not known */
	pid_t verify;		   /* not yet known to be what was meant to be started, 0: none */
};

/* System-wide settings, as they were when last read. */
struct setting {
	char *key, *value; /* value NULL: the kernel has none */
	char path[96];	   /* below /sys */
};
struct settings {
	struct setting *row;
	size_t n, cap;
	int *thp; /* THP_enabled of each target, -2: not read yet */
	size_t n_thp;
};

struct session {
	const struct sonde_session_opts *opts;
	struct sonde_snapshot *snap;
	struct sonde_session_result *result;
	enum session_state state;
	bool baseline; /* before the heavier probes are attached: values go to the baseline snapshot
			*/

	struct sonde_features features;
	struct sonde_target_list targets;
	struct sonde_calibration calibration;
	struct sonde_clockpair clock;

	/* one generation */
	struct sonde_engine *engine;
	struct sonde_hook_list hooks;
	struct sonde_plan plan;
	struct ring_buffer *ring;
	struct sonde_lens_ctx ctx[SONDE_LENS__MAX];
	bool enabled[SONDE_LENS__MAX];
	bool inited[SONDE_LENS__MAX];
	bool resting[SONDE_LENS__MAX]; /* its links were taken off for a while, as its pulse asked
					*/
	uint64_t window_ns; /* when the present window began, 0: there is none */
	unsigned generation;

	/* values: lens -> gate -> fanout -> snapshot, sinks */
	struct sonde_visitor gate;
	struct sonde_fanout fanout;
	struct sonde_visitor out;
	struct sonde_snapshot base_snap;
	struct rebase rebase;
	struct stack_rebase stack_rebase;
	struct sonde_meta meta;
	bool begun;

	struct loop loop;
	struct sonde_publisher *publisher; /* NULL: nothing is published */
	struct sonde_harm harm;
	struct sonde_abort abort;
	uint64_t first_active_ns, active_since_ns, observed_ns;
	uint64_t last_beat_ns; /* when the guard last heard of us */
	uint64_t lost_ns; /* when probes went by themselves, 0: they are there */
	char lost_why[64];
	uint64_t start_cpu_ns; /* own CPU time when recording began */
	uint64_t deadline_ns;
	uint64_t next_follow_ns;
	bool loss_noted[SONDE_LENS__MAX][SONDE_DROP__MAX], crowd_noted;
	const char *ended; /* why to stop, NULL: go on */
	bool rebuild;	   /* a target changed: a new generation is due */
	size_t successors; /* index of the first target that followed one that went, 0: none new */
	bool redescribe;   /* a target runs another program: its meta rows are due */
	pid_t command_pid; /* started by us, 0: none */
	bool nothing_to_count; /* exact mode was asked for, and no allocator was found */
	unsigned child_notes;
	bool command_held; /* at its first instruction */
	struct settling settling;
	struct settings settings;
	uint64_t *code; /* bytes of code that each target had mapped, by index; 0: not asked yet */
	size_t n_code;
	unsigned code_waits; /* times that an allocator had no tables yet */
	uint64_t code_next_ns, code_step_ns; /* when libraries are looked at again, and after that */
	uint64_t drops[SONDE_LENS__MAX][SONDE_DROP__MAX]; /* of earlier generations */
};

/* generation.c: build and tear down what hangs on an engine. 0 or -errno (logged). */
int session_prepare(struct session *s);
int session_arm(struct session *s);
void session_pause(struct session *s);
/* Take the links of lenses off, or put them on again, as they ask. 0 or -errno (logged). */
int session_pulse(struct session *s);
/* windows.c: begin and end windows, as lenses whose links exist in them only ask. */
bool session_in_windows(const struct session *s, int lens);
int session_windows(struct session *s);
/* End the present one now. */
int session_windows_stop(struct session *s);
void session_teardown(struct session *s);
/* After the pause: lenses tell what is still open. */
int session_finish_lenses(struct session *s);
/* Hooks and plan for the current targets, without an engine. */
int session_make_plan(struct session *s);
void session_enable_lenses(struct session *s);
/* Are the allocator's functions probed, be it in windows? */
bool session_probes_alloc(const struct session *s);

/* lost.c: have probes gone by themselves? Then the session ends, with a note. Cheap; ask it before
 * figures are read. 0 or -errno. */
int session_check_guard(struct session *s);

/* loop.c */
int loop_init(struct loop *l, uint64_t drain_ns, uint64_t interval_ns);
void loop_fini(struct loop *l);
/* The first interval begins now. */
void loop_restart(struct loop *l, uint64_t interval_ns);
/* From now on the published value is due so often. */
void loop_publish(struct loop *l, uint64_t interval_ns);
/* Run until @deadline_ns (monotonic), s->ended or s->rebuild. 0 or -errno. */
int loop_run(struct session *s, uint64_t deadline_ns);
/* --abort-if: say which relative condition has nothing to compare with. */
int session_abort_begin(struct session *s);
/* Judge the interval that the snapshot holds. */
int session_abort_check(struct session *s);
/* One interval's end: lenses, drops, cost, visitors, harm. */
int session_tick(struct session *s, uint64_t ts_ns);
/* Hand the interval that the last tick closed to whoever shows it. */
void session_show_interval(struct session *s);
int session_drain(struct session *s);

/* gate.c: the visitor that lenses push into. */
void session_gate_init(struct session *s);
void rebase_generation(struct rebase *r);
void rebase_fini(struct rebase *r);

/* gate_stacks.c: what passes through it by call stack. */
int gate_stack_count(void *ctx, const struct sonde_stack_count *c);
void stack_rebase_generation(struct stack_rebase *r);
void stack_rebase_fini(struct stack_rebase *r);

/* lifecycle.c: targets that fork, exec, exit, restart. */
int session_on_proc_event(struct session *s, const struct sonde_ev_proc *ev);
int session_check_targets(struct session *s);
/* Observe @pid as well, unless it is known or gone. 0 or -errno. */
int session_add_child(struct session *s, pid_t pid);
size_t session_living(const struct session *s); /* targets that are still there */
int session_note_successors(struct session *s);
int session_note(struct session *s, enum sonde_note_level level, const char *remedy,
		 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* command.c: a command started by us, from the fork to its end. */
int session_start_command(struct session *s);
/* Let a held command load its libraries, until its allocator is known; opens it into @t. */
int session_advance_command(struct session *s, struct sonde_target *t);
/* Let it be linked where counters of threads may be read, and no further. Opens it into @t. */
int session_link_command(struct session *s, struct sonde_target *t);
int session_release_command(struct session *s);
int session_reap_command(struct session *s);

/* settle.c: who the command's processes are, once they are themselves. */
void session_settle_soon(struct session *s);
int session_settle(struct session *s, uint64_t now_ns);
/* What was not known by the end is said. */
int session_settle_end(struct session *s);
/* Processes that the command left behind or that were forked unseen. 0 or -errno. */
int session_adopt(struct session *s);

/* settings.c: system-wide settings that huge pages depend on, and what changes meanwhile. */
int session_settings_read(struct session *s);
int session_settings_check(struct session *s);
void session_settings_fini(struct session *s);

/* libraries.c: allocators that targets load while they are observed. */
int session_check_libraries(struct session *s); /* cheap, and no more often than it needs */
/* Target number @target runs another program, whose libraries are still to come. */
void session_expect_libraries(struct session *s, size_t target);

/* describe.c: the meta rows. */
int session_describe(struct session *s);
int session_describe_target(struct session *s, size_t i);

/* consumption.c: what the targets have allocated, as one figure. 0 or -errno (logged). */
int session_consumption_begin(struct session *s);
int session_consumption_publish(struct session *s);
void session_consumption_end(struct session *s);
int session_push_consumption(struct session *s, uint64_t ts_ns);

/* consent.c: what exact mode costs the target, and the question whether it may. */
struct session_pairs {
	double malloc_ns, new_ns; /* more for a malloc and free, a new and delete; 0: not in the plan */
};
struct session_pairs session_pairs_of(const struct sonde_plan *plan,
				      const struct sonde_calibration *c);
int session_ask_consent(struct session *s);

/* spend.c: what observing costs, as metrics. */
int session_push_cost(struct session *s, uint64_t ts_ns);
/* CPU time of this process so far, user and system. */
uint64_t session_own_cpu_ns(void);

#endif
