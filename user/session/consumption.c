// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The one figure of what the targets have allocated: from whichever lens can tell it now, shown to
 * other processes every --consumption-interval (publish.h) and to the visitors each tick. Who keeps
 * time is a timer of the loop; a value's own time is when its source took it.
 */
#include <errno.h>
#include <sys/resource.h>

#include "core/bus.h"
#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "session/internal.h"

#define NICE (-20)

enum { M_CURRENT, M_BOUND };

static const struct sonde_metric_desc metrics[] = {
	[M_CURRENT] = {"consumption.current", "bytes", SONDE_GAUGE,
		       "bytes that the targets have allocated and not freed"},
	[M_BOUND] = {"consumption.bound", "bytes", SONDE_GAUGE,
		     "the true figure was within so many bytes of consumption.current"},
};

static bool is_wanted(const struct session *s)
{
	return s->opts->publish || s->opts->want_consumption;
}

/* The first lens in the order of the enum that has a value. 0 or -ENODATA. */
static int read_value(struct session *s, uint64_t now_ns, struct sonde_consumption *out)
{
	for (int l = 0; l < SONDE_LENS__MAX; l++) {
		struct sonde_lens_ctx *ctx = &s->ctx[l];

		*out = (struct sonde_consumption){.bound = UINT64_MAX, .taken_ns = now_ns};
		if (!s->inited[l] || !ctx->lens->consumption ||
		    ctx->lens->consumption(ctx, now_ns, out))
			continue;
		/* Of a command that we started nothing was there before. */
		if (out->source == SONDE_CONSUMPTION_CHANGE && s->opts->command)
			out->source = SONDE_CONSUMPTION_EXACT;
		return 0;
	}
	return -ENODATA;
}

/*
 * A value is only as fresh as we are scheduled: between 200 runnable threads a reading of 0.2 ms
 * took 300, and what had moved meanwhile had to be read again. So a publisher goes before others,
 * for the little that it does. Refused, it waits as all do.
 */
static void go_ahead_of_others(void)
{
	if (getpriority(PRIO_PROCESS, 0) > NICE)
		setpriority(PRIO_PROCESS, 0, NICE);
}

static pid_t first_target(const struct session *s)
{
	for (size_t i = 0; i < s->targets.n; i++)
		if (!s->targets.t[i].gone)
			return s->targets.t[i].pid;
	return 0;
}

int session_consumption_begin(struct session *s)
{
	struct sonde_consumption c;

	if (!is_wanted(s))
		return 0;
	if (read_value(s, sonde_mono_ns(), &c))
		return sonde_err(
			EOPNOTSUPP,
			"consumption cannot be told: nothing counts what this process has "
			"allocated; --alloc-mode exact -d TIME counts every call, where the "
			"allocator keeps sizes");
	if (!s->opts->publish)
		return 0;
	go_ahead_of_others();
	loop_publish(&s->loop, s->opts->consumption_interval_ns);
	return sonde_publisher_open(&s->publisher, s->opts->publish,
				    s->opts->consumption_interval_ns, first_target(s), &c);
}

/* A page that no reader finds, or that is cut off, is left: said once, for who reads it must act.
 */
static int check_page(struct session *s)
{
	const char *damage = s->publisher ? sonde_publisher_damage(s->publisher) : NULL;

	if (!damage)
		return 0;
	sonde_publisher_close(&s->publisher);
	loop_publish(&s->loop, 0);
	sonde_warn("--publish %s: the file %s by something else; nothing is published any more",
		   s->opts->publish, damage);
	return session_note(s, SONDE_NOTE_DEGRADED, "start sonde again to publish",
			    "--publish %s: the file %s by something else and is published no more",
			    s->opts->publish, damage);
}

/* Without a value (a target was replaced and is being attached to) the page says so. */
int session_consumption_publish(struct session *s)
{
	struct sonde_consumption c;
	unsigned int cut = sonde_bus_count();
	int err;

	if (!s->publisher)
		return 0;
	read_value(s, sonde_mono_ns(), &c);
	err = session_check_guard(s);
	if (s->lost_ns) /* perhaps between the reading and here */
		read_value(s, sonde_mono_ns(), &c);
	sonde_publisher_write(s->publisher, &c);
	if (!err && sonde_bus_count() != cut)
		err = check_page(s);
	return err;
}

void session_consumption_end(struct session *s)
{
	if (s->lost_ns)
		session_consumption_publish(s);
	sonde_publisher_close(&s->publisher);
}

int session_push_consumption(struct session *s, uint64_t ts_ns)
{
	struct sonde_metric m = {.label = "", .ts_ns = ts_ns};
	struct sonde_consumption c;
	int err;

	if (!is_wanted(s) || s->baseline)
		return 0;
	err = check_page(s);
	if (err)
		return err;
	m.desc = &metrics[M_CURRENT];
	if (read_value(s, sonde_mono_ns(), &c)) {
		m.absent = "no lens has a value now";
		return sonde_visit(&s->out, metric, &m);
	}
	if (s->lost_ns) {
		m.absent = s->lost_why;
		return sonde_visit(&s->out, metric, &m);
	}
	m.value = (double)c.bytes;
	err = sonde_visit(&s->out, metric, &m);
	if (err || c.bound == UINT64_MAX)
		return err;
	m.desc = &metrics[M_BOUND];
	m.value = (double)c.bound;
	return sonde_visit(&s->out, metric, &m);
}
