// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The running observation; see session.h. This file is the order of things: select, prepare, arm,
 * record, drain, done. What each step does is in its own file.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "session/internal.h"
#include "target/allocator.h"

#define DRAIN_NS	     (10 * SONDE_NS_PER_MS)
#define HARM_LIMIT	     3.0
#define HARM_LIMIT_CONSENTED 50.0 /* exact mode is a slow-down the user agreed to */
#define HARM_HOLD_NS	     (2 * SONDE_NS_PER_SEC)

static uint64_t interval_ns(const struct session *s)
{
	return s->opts->interval_ns ? s->opts->interval_ns : SONDE_NS_PER_SEC;
}

static bool exact(const struct session *s)
{
	return s->opts->alloc_mode == SONDE_ALLOC_MODE_EXACT;
}

static int select_targets(struct session *s)
{
	struct sonde_target t = {0};
	int err;

	if (!s->opts->command)
		return sonde_target_select(&s->opts->target, &s->targets);
	err = session_start_command(s);
	if (err)
		return err;
	/* Exact counting needs the allocator's file, which is mapped only after the exec; and an
	 * allocator that counts by thread is read from the first instruction on. */
	err = session_probes_alloc(s) ? session_advance_command(s, &t)
				      : session_link_command(s, &t);
	t.begun_ns = sonde_mono_ns();
	return err ? err : sonde_target_list_add(&s->targets, &t);
}

/* Is there anything that exact mode would attach? */
static bool attaches_allocator(const struct session *s)
{
	for (size_t i = 0; i < s->plan.n; i++)
		if (s->plan.items[i].hook->lens == SONDE_LENS_ALLOC && s->plan.items[i].alt >= 0)
			return true;
	return false;
}

#define NOTHING_TO_COUNT                                                                           \
	"exact mode has nothing to attach to: the target's allocator is not recognised, or it "    \
	"has no function that a probe can be put on"
#define INSTEAD                                                                                    \
	"see its libraries (sonde doctor -p PID), observe its memory from outside (--lens rss), "  \
	"or run it with a known malloc (glibc, jemalloc, gperftools)"

/* Where that is all that was asked for there is no use in going on; else it is said once. */
static int check_exact(struct session *s)
{
	bool others = !s->opts->lens_mask || s->opts->lens_mask & ~(1u << SONDE_LENS_ALLOC);

	if (!exact(s) || s->opts->lens.passive || attaches_allocator(s))
		return 0;
	if (!others)
		return sonde_err(EOPNOTSUPP, NOTHING_TO_COUNT "; " INSTEAD);
	s->nothing_to_count = true;
	return 0;
}

static void journal(const struct session *s, const char *verb)
{
	for (size_t i = 0; i < s->targets.n; i++)
		sonde_journal("%s %s (pid %d): %zu probe sites, lenses%s%s%s%s", verb,
			      s->targets.t[i].comm, s->targets.t[i].pid, s->plan.n_sites,
			      s->enabled[SONDE_LENS_RSS] ? " rss" : "",
			      s->enabled[SONDE_LENS_QUERY] ? " query" : "",
			      s->enabled[SONDE_LENS_FAULT] ? " fault" : "",
			      s->enabled[SONDE_LENS_ALLOC] ? " alloc" : "");
}

/* A target that went while it was attached to is no failure while others live: again, without it.
 */
static int arm_or_rebuild(struct session *s)
{
	size_t before = session_living(s), after;
	int err = session_arm(s), gone;

	if (!err)
		return 0;
	gone = session_check_targets(s);
	after = session_living(s);
	if (gone || !after || after == before)
		return gone ? gone : err;
	s->rebuild = true;
	return 0;
}

static int begin(struct session *s)
{
	int err = session_prepare(s);

	err = err ? err : check_exact(s);
	err = err ? err : session_ask_consent(s);
	err = err ? err : session_describe(s);
	err = err ? err : sonde_visit(&s->out, begin, &s->meta);
	if (err)
		return err;
	s->begun = true;
	if (s->nothing_to_count)
		err = session_note(s, SONDE_NOTE_DEGRADED, INSTEAD, NOTHING_TO_COUNT);
	if (err)
		return err;
	journal(s, "attaching to");
	return arm_or_rebuild(s);
}

static int next_generation(struct session *s)
{
	int err;

	s->rebuild = false;
	for (size_t i = 0; i < s->targets.n; i++) {
		if (!s->targets.t[i].new_program)
			s->targets.t[i].begun_ns = 0; /* counted so far by the former */
		s->targets.t[i].new_program = false;
	}
	err = session_check_guard(s);
	session_pause(s);
	if (err || s->ended)
		return err;
	err = session_finish_lenses(s);
	err = err ? err : session_tick(s, sonde_mono_ns()); /* the old generation's last figures */
	session_teardown(s);
	err = err ? err : session_prepare(s);
	err = err ? err : arm_or_rebuild(s);
	/* What was forked while nothing was attached. */
	if (!err && s->command_pid && s->opts->children)
		err = session_adopt(s);
	return err ? err : session_note_successors(s);
}

static int record(struct session *s)
{
	uint64_t d = s->opts->duration_ns, now = sonde_mono_ns();
	int err;

	s->state = RECORDING;
	loop_restart(&s->loop, interval_ns(s));
	s->deadline_ns = s->opts->instant ? now : d > UINT64_MAX - now ? UINT64_MAX : now + d;
	err = session_consumption_begin(s);
	err = err ? err : session_abort_begin(s);
	if (!err && !s->opts->instant && s->opts->on_observing)
		s->opts->on_observing(s->opts->on_observing_ctx, &s->targets,
				      s->result->attach_ns);
	err = err ? err : session_release_command(s);
	while (!err && !s->ended) {
		err = loop_run(s, s->deadline_ns);
		if (err || s->ended || !s->rebuild)
			break;
		err = next_generation(s);
		s->state = RECORDING; /* again: arming left it */
	}
	if (!s->ended)
		s->ended = "duration";
	return err;
}

/* What came since the last interval, with a line of its own unless it is but the timer's jitter. */
static int last_tick(struct session *s)
{
	uint64_t now = sonde_mono_ns(), since = now - s->snap->last_tick_ns;
	int err = session_finish_lenses(s);

	err = err ? err : session_tick(s, now);
	s->snap->partial = since < interval_ns(s) - interval_ns(s) / 10;
	if (!err && !s->opts->instant && since > interval_ns(s) / 10)
		session_show_interval(s);
	return err;
}

/* Rebuilding after each exec leaves gaps; a reader must know how large they were. */
static int note_gaps(struct session *s)
{
	uint64_t span = sonde_mono_ns() - s->first_active_ns;
	double share = span ? (double)s->observed_ns / (double)span : 1;

	if (s->generation < 2 || share >= 0.95)
		return 0;
	return session_note(
		s, SONDE_NOTE_DEGRADED, "observe a process that stays",
		"observed only %.0f %% of the time: probes were renewed %u times, since "
		"targets replaced their programs or loaded another allocator",
		100 * share, s->generation - 1);
}

/* The last figures, then let go. Runs after a failure too: what was seen is not lost. */
static int finish(struct session *s, int err)
{
	int last = 0;

	s->state = DRAINING;
	if (s->begun && !err)
		last = session_check_guard(s);
	session_pause(s);
	if (s->begun && !err && !last)
		last = note_gaps(s);
	if (s->begun && !err && !last)
		last = session_check_targets(s);
	if (s->begun && !err && !last)
		last = session_settle_end(s);
	if (s->begun && !last)
		last = last_tick(s);
	session_consumption_end(s);
	session_teardown(s);
	s->result->observed_ns = s->observed_ns;
	s->result->ended = s->ended ? s->ended : "failure";
	if (s->begun) {
		journal(s, "detached from");
		last = last ? last : session_reap_command(s);
		last = last ? last : sonde_meta_set(&s->meta, "ended", "%s", s->result->ended);
		last = last ? last : sonde_visit(&s->out, end, &s->meta);
	}
	session_reap_command(s);
	s->state = DONE;
	return err ? err : last;
}

int sonde_session_run(const struct sonde_session_opts *opts, struct sonde_snapshot *snap,
		      struct sonde_session_result *result)
{
	struct session s = {.opts = opts,
			    .snap = snap,
			    .result = result,
			    .settling = {.serving = -1},
			    .loop = {-1, -1, -1, -1, -1}};
	int err;

	*result = (struct sonde_session_result){.exit_status = -1};
	s.clock = sonde_clockpair_now();
	session_gate_init(&s);
	session_enable_lenses(&s);
	sonde_harm_init(&s.harm,
			opts->harm_limit > 0 ? opts->harm_limit
			: exact(&s)	     ? HARM_LIMIT_CONSENTED
					     : HARM_LIMIT,
			HARM_HOLD_NS);
	err = sonde_abort_init(&s.abort, &opts->abort_if);
	err = err ? err : loop_init(&s.loop, DRAIN_NS, interval_ns(&s));
	if (!err) {
		sonde_features_probe(&s.features);
		err = select_targets(&s);
	}
	err = err ? err : begin(&s);
	err = err || s.ended ? err : record(&s);
	err = finish(&s, err);
	loop_fini(&s.loop);
	sonde_abort_fini(&s.abort);
	rebase_fini(&s.rebase);
	stack_rebase_fini(&s.stack_rebase);
	sonde_snapshot_fini(&s.base_snap);
	sonde_meta_fini(&s.meta);
	session_settings_fini(&s);
	free(s.code);
	sonde_target_list_fini(&s.targets);
	return err;
}

int sonde_session_plan(const struct sonde_session_opts *opts, bool calibrate,
		       struct sonde_session_plan *out)
{
	struct sonde_session_result result;
	struct sonde_snapshot snap;
	struct session s = {.opts = opts, .snap = &snap, .result = &result};
	int err;

	sonde_snapshot_init(&snap);
	session_gate_init(&s);
	session_enable_lenses(&s);
	sonde_features_probe(&s.features);
	err = sonde_target_select(&opts->target, &s.targets);
	err = err ? err : session_make_plan(&s);
	if (!err && calibrate)
		err = sonde_calibrate(&s.plan, &s.calibration);
	*out = (struct sonde_session_plan){
		.features = s.features,
		.targets = s.targets,
		.hooks = s.hooks,
		.plan = s.plan,
		.calibration = s.calibration,
		.calibrated = calibrate && !err,
	};
	rebase_fini(&s.rebase);
	sonde_snapshot_fini(&s.base_snap);
	sonde_snapshot_fini(&snap);
	if (err)
		sonde_session_plan_fini(out);
	return err;
}

void sonde_session_plan_fini(struct sonde_session_plan *p)
{
	sonde_plan_fini(&p->plan);
	sonde_hook_list_fini(&p->hooks);
	sonde_target_list_fini(&p->targets);
}
