// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One generation: the engine, the plan and the lenses' kernel side for the present targets. Built
 * in the order that keeps the target safe: plan, load (nothing linked), attach the cheap watchers,
 * take a baseline, then attach what slows the target.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>

#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "lens/alloc_threads.h"
#include "lens/query.h"
#include "lens/query_source.h"
#include "session/internal.h"

#define BASELINE_MIN_NS	  (100 * SONDE_NS_PER_MS)
#define BASELINE_MAX_NS	  (500 * SONDE_NS_PER_MS)
#define BASELINE_ABORT_NS (10 * SONDE_NS_PER_SEC) /* where --abort-if compares with it */
#define BASELINE_STEP_NS  (50 * SONDE_NS_PER_MS)
#define BASELINE_QUERIES  200
#define GUARD_SLACK_NS	  (5 * SONDE_NS_PER_SEC)

/* Exact mode is asked for by its own option, and consumption too, whatever --lens says. */
bool sonde_session_wants_alloc(const struct sonde_session_opts *opts)
{
	if (opts->alloc_mode == SONDE_ALLOC_MODE_OFF)
		return false;
	return opts->alloc_mode == SONDE_ALLOC_MODE_EXACT ||
	       opts->alloc_mode == SONDE_ALLOC_MODE_WINDOWS || !opts->lens_mask || opts->publish ||
	       opts->want_consumption || opts->lens_mask & 1u << SONDE_LENS_ALLOC;
}

bool session_probes_alloc(const struct session *s)
{
	return s->opts->alloc_mode == SONDE_ALLOC_MODE_EXACT ||
	       s->opts->alloc_mode == SONDE_ALLOC_MODE_WINDOWS;
}

/* The anatomy of queries needs to know what their page faults are, whether faults are shown or not.
 */
bool sonde_session_helps(const struct sonde_session_opts *opts, int lens)
{
	return lens == SONDE_LENS_FAULT && opts->lens_mask & 1u << SONDE_LENS_QUERY &&
	       !(opts->lens_mask & 1u << lens) && sonde_query_has_anatomy(&opts->lens);
}

void session_enable_lenses(struct session *s)
{
	static const struct sonde_visitor nowhere;

	for (size_t i = 0; i < sonde_lens_count; i++) {
		const struct sonde_lens *lens = sonde_lenses[i];
		bool named = s->opts->lens_mask & 1u << lens->id;

		s->enabled[lens->id] = lens->id == SONDE_LENS_PROC || named ||
				       (!s->opts->lens_mask && !lens->on_request);
		if (lens->id == SONDE_LENS_ALLOC)
			s->enabled[lens->id] = sonde_session_wants_alloc(s->opts);
		s->enabled[lens->id] |= sonde_session_helps(s->opts, lens->id);
		s->ctx[lens->id] = (struct sonde_lens_ctx){
			.lens = lens,
			.opts = &s->opts->lens,
			.targets = &s->targets,
			.out = sonde_session_helps(s->opts, lens->id) ? &nowhere : &s->gate,
			.clock = &s->clock,
			.plan = &s->plan,
			.calibration = &s->calibration,
		};
	}
}

int session_make_plan(struct session *s)
{
	struct sonde_plan_choice choice = {.passive = s->opts->lens.passive};

	sonde_plan_choice_from_env(&choice);
	for (int l = 0; l < SONDE_LENS__MAX; l++) {
		int err = s->enabled[l] ? s->ctx[l].lens->hooks(&s->ctx[l], &s->hooks) : 0;

		if (err)
			return err;
	}
	return sonde_plan_make(&s->hooks, &s->features, &choice, &s->plan);
}

/* Each fall-back the plan took is a note: degraded when figures get weaker, information otherwise.
 */
static int note_plan(struct session *s)
{
	for (size_t i = 0; i < s->plan.n; i++) {
		const struct sonde_plan_item *item = &s->plan.items[i];
		int err;

		if (item->alt == 0)
			continue;
		err = session_note(s, item->degraded ? SONDE_NOTE_DEGRADED : SONDE_NOTE_INFO, "",
				   "%s: %s", item->hook->name, item->reason);
		if (err)
			return err;
	}
	return 0;
}

static bool plan_has(const struct sonde_plan *plan, int lens)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->items[i].hook->lens == lens && plan->items[i].alt >= 0)
			return true;
	return false;
}

static int open_objects(struct session *s)
{
	for (int l = 0; l < SONDE_LENS__MAX; l++) {
		struct sonde_lens_ctx *ctx = &s->ctx[l];
		size_t size;
		const void *elf;
		int err;

		elf = s->enabled[l] ? sonde_lens_elf(ctx, &size) : NULL;
		if (!elf)
			continue;
		/* Most counters are read from outside: nothing of it would ever run. */
		if (l == SONDE_LENS_ALLOC && !plan_has(&s->plan, l))
			continue;
		err = sonde_engine_open(s->engine, l, ctx->lens->name, elf, size, &ctx->obj);
		if (!err && ctx->lens->configure)
			err = ctx->lens->configure(ctx, ctx->obj);
		if (err)
			return err;
	}
	return 0;
}

static int init_lenses(struct session *s)
{
	for (int l = 0; l < SONDE_LENS__MAX; l++) {
		int err;

		if (!s->enabled[l])
			continue;
		err = s->ctx[l].lens->init ? s->ctx[l].lens->init(&s->ctx[l]) : 0;
		if (err)
			return err;
		s->inited[l] = true;
	}
	return 0;
}

static int on_ring(void *ctx, void *data, size_t size)
{
	struct session *s = ctx;
	const struct sonde_ev_hdr *ev = data;
	struct sonde_lens_ctx *lens;

	if (size < sizeof(*ev) || ev->lens >= SONDE_LENS__MAX || !s->inited[ev->lens])
		return 0;
	lens = &s->ctx[ev->lens];
	if (ev->kind == SONDE_EV_PROC && size >= sizeof(struct sonde_ev_proc)) {
		int err = session_on_proc_event(s, data);

		if (err)
			return err;
	}
	return lens->lens->decode ? lens->lens->decode(lens, ev, size) : 0;
}

static int add_targets(struct session *s)
{
	for (size_t i = 0; i < s->targets.n; i++) {
		int err = s->targets.t[i].gone
				  ? 0
				  : sonde_engine_target_add(
					    s->engine, (uint32_t)s->targets.t[i].pid, (uint32_t)i);

		if (err)
			return err;
	}
	return 0;
}

static int set_control(struct session *s)
{
	struct sonde_control c = {.only_tid = s->opts->only_tid,
				  .follow_children = s->opts->children};

	if (s->opts->only_comm) {
		c.only_comm = 1;
		snprintf(c.comm, sizeof(c.comm), "%s", s->opts->only_comm);
	}
	return sonde_engine_control(s->engine, &c);
}

/* May an allocator tell each query's bytes? */
static bool counts_queries(const struct session *s)
{
	bool counters = s->enabled[SONDE_LENS_ALLOC] && s->opts->lens.alloc_counters;

	for (size_t i = 0; counters && i < s->targets.n; i++)
		if (sonde_alloc_threads_wanted(&s->targets.t[i]))
			return true;
	return false;
}

int session_prepare(struct session *s)
{
	struct sonde_config cfg = {
		.text_bytes = SONDE_TEXT_BYTES,
		.span_events = s->opts->lens.want_spans,
		.per_query = s->opts->lens.want_spans || s->opts->lens.alloc_windows ||
			     counts_queries(s),
		.windows = s->enabled[SONDE_LENS_ALLOC] && s->opts->lens.alloc_windows,
		.anatomy = s->enabled[SONDE_LENS_QUERY] && sonde_query_has_anatomy(&s->opts->lens),
		.slower_than_ns = s->opts->lens.slower_than_ns,
		.query_source = (uint32_t)s->opts->lens.query_source,
	};
	int err;

	s->generation++;
	err = session_make_plan(s);
	cfg.handlers = !err && sonde_query_has_handlers(&s->plan);
	if (!err && s->generation == 1)
		err = sonde_calibrate(&s->plan, &s->calibration);
	err = err ? err : sonde_engine_new(&s->engine, &cfg, s->opts->ring_bytes);
	err = err ? err : open_objects(s);
	err = err ? err : sonde_engine_load(s->engine, &s->plan, -1);
	err = err ? err : add_targets(s);
	err = err ? err : set_control(s);
	err = err ? err : init_lenses(s);
	if (err)
		return err;
	s->ring = ring_buffer__new(sonde_engine_maps(s->engine)->events, on_ring, s, NULL);
	if (!s->ring)
		return sonde_err(errno, "cannot read the event ring: %s", strerror(errno));
	s->state = PREPARED;
	return 0;
}

static int attach_lens(struct session *s, int lens)
{
	uint64_t took = 0, limit = 0;
	int err;

	if (session_in_windows(s, lens))
		return 0;
	if (s->opts->duration_ns != UINT64_MAX)
		limit = s->opts->duration_ns + GUARD_SLACK_NS;
	err = sonde_engine_attach(s->engine, &s->plan, lens, GUARD_NS, limit, &took);
	if (!err)
		s->result->attach_ns += took;
	return err;
}

/* Lenses that only watch the kernel come first: they give the baseline that harm is judged by. */
static bool is_watcher(int lens)
{
	return lens == SONDE_LENS_PROC || lens == SONDE_LENS_RSS || lens == SONDE_LENS_QUERY;
}

static int attach_group(struct session *s, bool watchers)
{
	for (int l = 0; l < SONDE_LENS__MAX; l++) {
		int err = s->enabled[l] && is_watcher(l) == watchers ? attach_lens(s, l) : 0;

		if (err)
			return err;
	}
	return 0;
}

static bool needs_baseline(const struct session *s)
{
	if (!s->enabled[SONDE_LENS_QUERY] || s->generation > 1 || s->command_pid ||
	    s->opts->instant)
		return false;
	if (sonde_abort_is_relative(&s->opts->abort_if))
		return true;
	for (size_t i = 0; i < s->plan.n; i++)
		if (s->plan.items[i].alt >= 0 && !is_watcher(s->plan.items[i].hook->lens))
			return true;
	return false;
}

static bool baseline_is_enough(struct session *s, const struct sonde_hist *h, uint64_t ns)
{
	const char *figure;

	sonde_abort_baseline(&s->abort, h, ns);
	if (sonde_abort_is_relative(&s->opts->abort_if))
		return ns >= SONDE_ABORT_MIN_NS && sonde_abort_has_baseline(&s->abort, &figure);
	return h->count >= BASELINE_QUERIES && ns >= BASELINE_MIN_NS;
}

static int take_baseline(struct session *s)
{
	bool long_one = sonde_abort_is_relative(&s->opts->abort_if);
	uint64_t begin = sonde_mono_ns(), longest = long_one ? BASELINE_ABORT_NS : BASELINE_MAX_NS;
	struct sonde_hist h;
	int err = sonde_hist_init(&h);

	s->baseline = true;
	while (!err && !s->ended && sonde_mono_ns() - begin < longest) {
		err = loop_run(s, sonde_mono_ns() + BASELINE_STEP_NS);
		err = err ? err : session_tick(s, sonde_mono_ns());
		sonde_hist_reset(&h);
		sonde_snapshot_hist_total(&s->base_snap, "query.latency", "", false, &h);
		if (baseline_is_enough(s, &h, sonde_mono_ns() - begin))
			break;
	}
	if (!err && h.count >= SONDE_HARM_MIN_QUERIES)
		s->harm.baseline_p50_ns = (double)sonde_hist_quantile(&h, 0.5);
	s->baseline = false;
	sonde_hist_fini(&h);
	return err;
}

static int start_lenses(struct session *s)
{
	int err = 0;

	for (int l = 0; l < SONDE_LENS__MAX && !err; l++)
		if (s->inited[l] && s->ctx[l].lens->start)
			err = s->ctx[l].lens->start(&s->ctx[l]);
	return err;
}

/* Attach and start. Counters start at 0 here: the tick before recording sets their base. */
int session_arm(struct session *s)
{
	bool base = needs_baseline(s);
	int err = attach_group(s, true);

	err = err ? err : sonde_engine_activate(s->engine);
	if (!err && base)
		err = take_baseline(s);
	err = err || s->ended ? err : attach_group(s, false);
	if (err)
		return err;
	s->state = ARMED;
	s->active_since_ns = sonde_mono_ns();
	if (s->generation > 1)
		return start_lenses(s);
	s->first_active_ns = s->active_since_ns;
	err = sonde_visit(&s->out, start, s->first_active_ns);
	s->start_cpu_ns = session_own_cpu_ns();
	s->baseline = true;
	err = err ? err : session_tick(s, sonde_mono_ns());
	s->baseline = false;
	err = err ? err : start_lenses(s);
	return err ? err : note_plan(s);
}

int session_pulse(struct session *s)
{
	int err = 0;

	for (int l = 0; l < SONDE_LENS__MAX && !err; l++) {
		struct sonde_lens_ctx *ctx = &s->ctx[l];
		bool want;

		if (!s->inited[l] || !ctx->lens->pulse)
			continue;
		want = ctx->lens->pulse(ctx, sonde_mono_ns(), !s->resting[l]);
		if (want == !s->resting[l])
			continue;
		ctx->lost_ns = 0;
		err = want ? attach_lens(s, l) : sonde_engine_detach(s->engine, l, NULL);
		s->resting[l] = !want;
	}
	return err;
}

/* Closing the gate ends the time observed: the detach that follows may take seconds. */
void session_pause(struct session *s)
{
	if (s->engine) {
		session_windows_stop(s);
		sonde_engine_pause(s->engine);
	}
	if (s->active_since_ns)
		s->observed_ns += sonde_mono_ns() - s->active_since_ns;
	s->active_since_ns = 0;
}

int session_finish_lenses(struct session *s)
{
	int err = 0;

	for (int l = 0; l < SONDE_LENS__MAX && !err; l++)
		if (s->inited[l] && s->ctx[l].lens->finish)
			err = s->ctx[l].lens->finish(&s->ctx[l]);
	return err;
}

void session_teardown(struct session *s)
{
	uint64_t now[SONDE_LENS__MAX][SONDE_DROP__MAX] = {{0}}, took = 0;

	session_pause(s);
	if (s->engine) {
		session_drain(s);
		if (!sonde_engine_drops(s->engine, now))
			for (int l = 0; l < SONDE_LENS__MAX; l++)
				for (int c = 0; c < SONDE_DROP__MAX; c++)
					s->drops[l][c] += now[l][c];
		sonde_engine_detach(s->engine, -1, &took);
		s->result->detach_ns += took;
	}
	for (int l = 0; l < SONDE_LENS__MAX; l++) {
		if (s->inited[l] && s->ctx[l].lens->fini)
			s->ctx[l].lens->fini(&s->ctx[l]);
		s->inited[l] = false;
		s->resting[l] = false;
		s->ctx[l].obj = NULL;
	}
	if (s->ring)
		ring_buffer__free(s->ring);
	s->ring = NULL;
	sonde_engine_free(&s->engine);
	sonde_plan_fini(&s->plan);
	sonde_hook_list_fini(&s->hooks);
	rebase_generation(&s->rebase);
	stack_rebase_generation(&s->stack_rebase);
}
