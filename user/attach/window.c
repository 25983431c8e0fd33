// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Windows: one child a window. The invariant: the target counts as disturbed from before the first
 * link is made until the child can be waited for, since its links are gone only then.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "attach/engine_priv.h"
#include "attach/window.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"

#define LOOK_NS	 (200 * 1000ull)	/* how often the child looks at the clock */
#define HANG_NS	 (2 * SONDE_NS_PER_SEC) /* beyond its length: it is killed        */
#define LEAVE_NS (20 * SONDE_NS_PER_MS) /* what an exit is waited for             */

struct body {
	struct sonde_window *w;
	uint64_t length_ns, finish_ns;
	const uint32_t *pids;
	size_t n_pids;
};

/* Less than a second. */
static void nap(uint64_t ns)
{
	const struct timespec t = {0, (long)ns};

	nanosleep(&t, NULL);
}

static uint32_t phase_of(const struct sonde_window *w)
{
	return __atomic_load_n(&w->phase, __ATOMIC_ACQUIRE);
}

/* A phase that the kernel side has not passed already. */
static void go_on(struct sonde_window *w, uint32_t from, uint32_t to, uint64_t *at, uint64_t now)
{
	if (__atomic_compare_exchange_n(&w->phase, &from, to, false, __ATOMIC_ACQ_REL,
					__ATOMIC_RELAXED))
		*at = now;
}

/* The socket's end is sonde's word, or its end. */
static bool dismissed(int sock)
{
	char cmd;

	return recv(sock, &cmd, 1, MSG_DONTWAIT) == 0;
}

static bool all_left(const struct sonde_window *w)
{
	return __atomic_load_n(&w->left, __ATOMIC_RELAXED) >=
	       __atomic_load_n(&w->joined, __ATOMIC_RELAXED);
}

/* CPU time of the targets so far. */
static uint64_t cpu_of(const struct body *b)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < b->n_pids; i++) {
		struct timespec t;
		clockid_t clock;

		if (!clock_getcpuclockid((pid_t)b->pids[i], &clock) && !clock_gettime(clock, &t))
			sum += (uint64_t)t.tv_sec * SONDE_NS_PER_SEC + (uint64_t)t.tv_nsec;
	}
	return sum;
}

static void account(const struct body *b, uint64_t cpu0)
{
	uint64_t cost = __atomic_load_n(&b->w->cost_ns, __ATOMIC_RELAXED), cpu = cpu_of(b);

	b->w->cpu_ns = cpu > cpu0 ? cpu - cpu0 : 0;
	b->w->cpu_cost_ns = cost - b->w->early_ns;
	b->w->spent_ns = sonde_mono_ns() - b->w->open_ns;
}

/* In the child, once every link exists. */
static void run_window(void *arg, int sock)
{
	const struct body *b = arg;
	struct sonde_window *w = b->w;
	uint64_t begin = sonde_mono_ns(), cpu = cpu_of(b);

	/* What was trapped while links were made is no part of what it may take. */
	w->early_ns = __atomic_load_n(&w->cost_ns, __ATOMIC_RELAXED);
	w->finish_at_ns += w->early_ns;
	w->allowance_ns += w->early_ns;
	w->open_ns = begin;
	__atomic_store_n(&w->phase, SONDE_WINDOW_OPEN, __ATOMIC_RELEASE);
	while (phase_of(w) != SONDE_WINDOW_CLOSED) {
		uint64_t now;

		nap(LOOK_NS);
		now = sonde_mono_ns();
		if (now - begin >= b->length_ns)
			go_on(w, SONDE_WINDOW_OPEN, SONDE_WINDOW_FINISH, &w->finish_ns, now);
		if (all_left(w) || now - begin >= b->length_ns + b->finish_ns)
			go_on(w, SONDE_WINDOW_FINISH, SONDE_WINDOW_CLOSED, &w->closed_ns, now);
		if (phase_of(w) != SONDE_WINDOW_CLOSED && dismissed(sock)) {
			w->stopped = 1;
			__atomic_store_n(&w->phase, SONDE_WINDOW_CLOSED, __ATOMIC_RELEASE);
		}
	}
	account(b, cpu);
	w->closed_ns = w->closed_ns ? w->closed_ns : sonde_mono_ns();
}

struct sonde_window *sonde_engine_window(struct sonde_engine *e)
{
	void *p;

	if (e->window)
		return e->window;
	p = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED,
		 e->maps.window, 0);
	if (p == MAP_FAILED) {
		sonde_err(errno, "cannot map the page of windows: %s", strerror(errno));
		return NULL;
	}
	return e->window = p;
}

void sonde_engine_window_unmap(struct sonde_engine *e)
{
	sonde_engine_window_stop(e);
	if (e->window)
		munmap(e->window, (size_t)sysconf(_SC_PAGESIZE));
	e->window = NULL;
}

static int collect(struct sonde_engine *e, const struct sonde_plan *plan, int lens,
		   struct sonde_requests *reqs)
{
	int err = 0;

	for (size_t i = 0; !err && i < plan->n; i++) {
		const struct sonde_plan_item *item = &plan->items[i];

		if (item->alt >= 0 && item->hook->lens == lens && sonde_link_is_uprobe(item->kind))
			err = sonde_requests_add(reqs, e, item);
	}
	return err;
}

static void reset(struct sonde_window *w, const struct sonde_window_order *order)
{
	w->phase = SONDE_WINDOW_NONE;
	w->cut = w->stopped = 0;
	w->open_ns = w->finish_ns = w->closed_ns = 0;
	w->cost_ns = w->early_ns = 0;
	w->joined = w->left = 0;
	w->cpu_ns = w->cpu_cost_ns = w->spent_ns = 0;
	w->join_most = order->queries;
	w->finish_at_ns = order->finish_at_ns;
	w->allowance_ns = order->allowance_ns;
	memcpy(w->trap_ns, order->trap_ns, sizeof(w->trap_ns));
	w->id++;
	__atomic_store_n(&w->disturbed, 1, __ATOMIC_RELEASE);
}

static void undisturbed(struct sonde_engine *e)
{
	e->window->end_ns = sonde_mono_ns();
	__atomic_store_n(&e->window->phase, SONDE_WINDOW_CLOSED, __ATOMIC_RELEASE);
	__atomic_store_n(&e->window->disturbed, 0, __ATOMIC_RELEASE);
}

int sonde_engine_window_open(struct sonde_engine *e, const struct sonde_plan *plan, int lens,
			     const struct sonde_window_order *order)
{
	struct body body = {
		.w = sonde_engine_window(e),
		.length_ns = order->length_ns,
		.finish_ns = order->finish_ns,
		.pids = e->targets,
		.n_pids = e->n_targets,
	};
	struct sonde_requests reqs = {};
	size_t failed = SIZE_MAX;
	int err = body.w ? collect(e, plan, lens, &reqs) : -EIO;

	if (!err && reqs.n) {
		nap(order->delay_ns);
		reset(body.w, order);
		err = sonde_guard_run(reqs.r, reqs.n, order->length_ns + order->finish_ns + HANG_NS,
				      run_window, &body, &e->window_child, &failed);
		if (err)
			undisturbed(e);
		if (err && failed < reqs.n)
			err = sonde_engine_link_error(err, &reqs.r[failed]);
		else if (err)
			sonde_err(err, "cannot start the child that holds a window: %s",
				  strerror(-err));
	}
	sonde_requests_fini(&reqs);
	return err;
}

bool sonde_engine_window_over(struct sonde_engine *e)
{
	uint64_t begin = sonde_mono_ns();

	if (!e->window_child.pid)
		return true;
	while (sonde_guard_alive(&e->window_child)) {
		if (phase_of(e->window) != SONDE_WINDOW_CLOSED ||
		    sonde_mono_ns() - begin > LEAVE_NS)
			return false;
		nap(LOOK_NS);
	}
	undisturbed(e);
	return true;
}

void sonde_engine_window_stop(struct sonde_engine *e)
{
	if (!e->window_child.pid)
		return;
	sonde_guard_stop(&e->window_child);
	undisturbed(e);
}
