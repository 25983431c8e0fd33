// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The one loop: the ring is drained every 10 ms (BPF never wakes us: a wake-up inside a probe costs
 * the target), lenses tick each interval, signals and ended targets are noticed. Nothing else runs.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "session/internal.h"

enum { EV_DRAIN, EV_TICK, EV_SIGNAL, EV_PUBLISH };

static int add_fd(int ep, int fd, uint64_t what)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = what};

	if (fd < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev))
		return -errno;
	return 0;
}

static void set_timer(int fd, uint64_t period_ns)
{
	struct timespec t = {(time_t)(period_ns / SONDE_NS_PER_SEC),
			     (long)(period_ns % SONDE_NS_PER_SEC)};
	struct itimerspec spec = {.it_interval = t, .it_value = t};

	timerfd_settime(fd, 0, &spec, NULL);
}

static int make_timer(uint64_t period_ns)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	if (fd >= 0)
		set_timer(fd, period_ns);
	return fd;
}

void loop_restart(struct loop *l, uint64_t interval_ns)
{
	set_timer(l->tick, interval_ns);
}

void loop_publish(struct loop *l, uint64_t interval_ns)
{
	set_timer(l->publish, interval_ns);
}

static int make_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

int loop_init(struct loop *l, uint64_t drain_ns, uint64_t interval_ns)
{
	int err;

	l->ep = epoll_create1(EPOLL_CLOEXEC);
	l->drain = make_timer(drain_ns);
	l->tick = make_timer(interval_ns);
	l->signals = make_signals();
	l->publish = make_timer(0); /* not running */
	err = add_fd(l->ep, l->drain, EV_DRAIN);
	err = err ? err : add_fd(l->ep, l->tick, EV_TICK);
	err = err ? err : add_fd(l->ep, l->signals, EV_SIGNAL);
	err = err ? err : add_fd(l->ep, l->publish, EV_PUBLISH);
	if (err)
		return sonde_err(err, "cannot make the event loop: %s", strerror(-err));
	return 0;
}

void loop_fini(struct loop *l)
{
	int fds[] = {l->ep, l->drain, l->tick, l->signals, l->publish};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	*l = (struct loop){-1, -1, -1, -1, -1};
}

static void swallow(int fd)
{
	uint64_t expirations;

	if (read(fd, &expirations, sizeof(expirations)) < 0)
		return; /* EAGAIN: another reader was first */
}

int session_drain(struct session *s)
{
	int n;

	if (!s->ring)
		return 0;
	n = ring_buffer__consume(s->ring);
	return n < 0 && n != -EINTR ? n : 0;
}

/* Causes that leave figures short: said once, when the first is lost. */
static int note_loss(struct session *s, const struct sonde_drops *d)
{
	static const char *const remedy[SONDE_DROP__MAX] = {
		[SONDE_DROP_RING_FULL] = "a larger --ring-size, fewer lenses, or --slower-than",
		[SONDE_DROP_MAP_FULL] = "observe fewer processes, or without --children",
	};

	if (!d->count || !remedy[d->cause] || s->loss_noted[d->lens][d->cause])
		return 0;
	s->loss_noted[d->lens][d->cause] = true;
	return session_note(s, SONDE_NOTE_DEGRADED, remedy[d->cause], "%s: %s",
			    sonde_lens_id_name(d->lens), sonde_drop_help(d->cause));
}

static int push_drops(struct session *s, uint64_t ts_ns)
{
	uint64_t now[SONDE_LENS__MAX][SONDE_DROP__MAX] = {{0}};
	int err = s->engine ? sonde_engine_drops(s->engine, now) : 0;

	for (int l = 0; l < SONDE_LENS__MAX && !err; l++) {
		for (int c = 0; c < SONDE_DROP__MAX && !err && s->enabled[l]; c++) {
			struct sonde_drops d = {.lens = l,
						.cause = c,
						.count = now[l][c] + s->drops[l][c],
						.ts_ns = ts_ns};

			err = sonde_visit(&s->gate, drop, &d);
			err = err ? err : note_loss(s, &d);
		}
	}
	return err;
}

/* Query p50 of the interval; false where there were none. */
static bool interval_p50(const struct sonde_snapshot *snap, double *p50_ns, uint64_t *queries)
{
	struct sonde_hist h;
	bool any;

	if (sonde_hist_init(&h))
		return false;
	any = !sonde_snapshot_hist_total(snap, "query.latency", "", true, &h);
	if (any) {
		*p50_ns = (double)sonde_hist_quantile(&h, 0.5);
		*queries = h.count;
	}
	sonde_hist_fini(&h);
	return any;
}

static int check_harm(struct session *s, uint64_t ts_ns)
{
	double p50_ns = 0;
	uint64_t queries = 0;
	char was[32], is[32];

	if (!interval_p50(s->snap, &p50_ns, &queries) ||
	    !sonde_harm_update(&s->harm, ts_ns, p50_ns, queries))
		return 0;
	s->ended = "harm";
	return session_note(
		s, SONDE_NOTE_CAUTION, "look again with fewer lenses or --passive",
		"detached by itself: the target's query p50 went from %s to %s and stayed there",
		sonde_fmt_ns(was, sizeof(was), s->harm.baseline_p50_ns),
		sonde_fmt_ns(is, sizeof(is), p50_ns));
}

int session_tick(struct session *s, uint64_t ts_ns)
{
	int err = session_drain(s);

	for (int l = 0; l < SONDE_LENS__MAX && !err; l++) {
		s->ctx[l].rehearsal = s->baseline;
		if (s->inited[l] && s->ctx[l].lens->tick)
			err = s->ctx[l].lens->tick(&s->ctx[l], ts_ns);
	}
	err = err ? err : push_drops(s, ts_ns);
	if (!err && !s->baseline)
		err = session_push_cost(s, ts_ns);
	err = err ? err : session_push_consumption(s, ts_ns);
	if (!err && s->baseline)
		return sonde_visit(&s->base_snap.visitor, tick, ts_ns);
	err = err ? err : sonde_visit(&s->out, tick, ts_ns);
	err = err ? err : check_harm(s, ts_ns);
	return err || s->ended ? err : session_abort_check(s);
}

void session_show_interval(struct session *s)
{
	if (s->opts->on_tick && s->opts->on_tick(s->opts->on_tick_ctx, s->snap) && !s->ended)
		s->ended = "output closed";
	sonde_snapshot_mark(s->snap);
}

static int on_tick(struct session *s, uint64_t now_ns)
{
	int err = session_check_guard(s);

	err = err ? err : session_check_targets(s);
	err = err ? err : session_settings_check(s);
	err = err ? err : session_tick(s, now_ns);
	if (!err && !s->baseline)
		session_show_interval(s);
	return err;
}

static int on_drain(struct session *s)
{
	int err = session_check_guard(s);

	if (s->engine && !err && !s->ended) {
		sonde_engine_beat(s->engine);
		s->last_beat_ns = sonde_mono_ns();
	}
	err = err ? err : session_drain(s);
	if (!err && s->state == RECORDING && s->active_since_ns && !s->ended)
		err = session_pulse(s);
	if (!err && s->state == RECORDING && s->active_since_ns && !s->ended)
		err = session_windows(s);
	if (!err && s->active_since_ns && !s->ended)
		err = session_check_libraries(s);
	return err ? err : session_settle(s, sonde_mono_ns());
}

static int dispatch(struct session *s, uint64_t what)
{
	struct signalfd_siginfo sig;

	switch (what) {
	case EV_DRAIN:
		swallow(s->loop.drain);
		return on_drain(s);
	case EV_TICK:
		swallow(s->loop.tick);
		return on_tick(s, sonde_mono_ns());
	case EV_PUBLISH:
		swallow(s->loop.publish);
		return session_consumption_publish(s);
	default:
		while (read(s->loop.signals, &sig, sizeof(sig)) == (ssize_t)sizeof(sig))
			s->ended = "signal";
		return 0;
	}
}

int loop_run(struct session *s, uint64_t deadline_ns)
{
	struct epoll_event ev[8];

	while (!s->ended && !s->rebuild) {
		uint64_t now = sonde_mono_ns();
		int wait_ms, n, err = 0;

		if (now >= deadline_ns)
			return 0;
		wait_ms = deadline_ns - now > SONDE_NS_PER_SEC
				  ? 1000
				  : (int)((deadline_ns - now) / SONDE_NS_PER_MS) + 1;
		n = epoll_wait(s->loop.ep, ev, SONDE_ARRAY_SIZE(ev), wait_ms);
		for (int i = 0; i < n && !err; i++)
			err = dispatch(s, ev[i].data.u64);
		if (err)
			return err;
	}
	return 0;
}
