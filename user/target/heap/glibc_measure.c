// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Totals and lists together; see glibc_measure.h. What went to or from the lists during a walk is
 * in the difference of the totals before and after it, so the middle of both is what fits the walk.
 * Where more came to lists meanwhile than may be overlooked they are walked once more.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "core/clock.h"
#include "core/mem.h"
#include "target/heap/glibc_measure.h"

#define WALKS	      3	  /* of one reading, at most */
#define ARRIVED_SHARE 100 /* 1 % of what is used may come to lists while they are walked */
#define NICE	      10

static void take_middle(struct glibc_totals *t, const struct glibc_totals *after)
{
	t->system = (t->system + after->system) / 2;
	t->tops = (t->tops + after->tops) / 2;
	t->mmapped = (t->mmapped + after->mmapped) / 2;
}

int glibc_measure(struct glibc_arenas *s, uint64_t max_nodes, const struct glibc_totals *totals,
		  struct glibc_measure *out)
{
	struct glibc_measure m = {.began_ns = sonde_mono_ns()};
	struct glibc_totals after = *totals;
	uint64_t limit = 0;

	for (int i = 0; i < WALKS && m.lists.arrived >= limit; i++) {
		int err;

		if (i && max_nodes && m.nodes > max_nodes / 2)
			break;
		m.totals = after;
		err = glibc_walk(s, max_nodes, &after, &m.lists);
		if (err)
			return err;
		m.nodes += m.lists.nodes;
		limit = (m.totals.system - m.totals.tops) / ARRIVED_SHARE + 1;
	}
	if (after.top.found && m.totals.top.found && !m.lists.broken.found) {
		m.lists.broken = after.top;
		m.lists.whole = false;
	}
	m.clean = m.totals.clean && m.lists.clean && after.clean && m.lists.arrived < limit;
	take_middle(&m.totals, &after);
	m.ended_ns = sonde_mono_ns();
	*out = m;
	return 0;
}

static void *run(void *arg)
{
	struct glibc_background *b = arg;
	struct glibc_totals t;

	/* Of this thread alone, as Linux has it. */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
	b->err = glibc_arenas_read(&b->arenas, &t);
	if (!b->err)
		b->err = glibc_measure(&b->arenas, b->max_nodes, &t, &b->result);
	__atomic_store_n(&b->done, true, __ATOMIC_RELEASE);
	return NULL;
}

int glibc_background_begin(struct glibc_background *b, const struct glibc_arenas *like,
			   uint64_t max_nodes)
{
	sigset_t all, before;
	int err;

	if (b->running)
		return 0;
	if (!b->arenas.n) {
		err = glibc_arenas_copy(&b->arenas, like);
		if (err)
			return err;
		b->arenas.stop = &b->stop;
	}
	b->done = false;
	b->max_nodes = max_nodes;
	/* Signals are for the thread that waits for them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&b->thread, NULL, run, b);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	b->running = !err;
	return -err;
}

int glibc_background_take(struct glibc_background *b, struct glibc_measure *out)
{
	if (!b->running || !__atomic_load_n(&b->done, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	pthread_join(b->thread, NULL);
	b->running = false;
	if (!b->err)
		*out = b->result;
	return b->err;
}

void glibc_background_fini(struct glibc_background *b)
{
	__atomic_store_n(&b->stop, true, __ATOMIC_RELEASE);
	if (b->running)
		pthread_join(b->thread, NULL);
	b->running = false;
	glibc_arenas_fini(&b->arenas);
}
