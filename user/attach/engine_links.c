// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Links: made, held, closed. Uprobe links exist only in a child of their lens (guard.c says why);
 * the engine keeps no fd of them, or the child's death would not be their end. Kernel links are our
 * own.
 */
#include <errno.h>
#include <string.h>
#include <bpf/bpf.h>

#include "attach/engine_priv.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"

static const struct {
	int err;
	const char *remedy;
} remedies[] = {
	{-EPERM, "run as root or with CAP_BPF and CAP_PERFMON"},
	{-EACCES, "run as root or with CAP_PERFMON"},
	{-ESRCH, "the process has ended; start sonde again"},
	{-ENOENT, "the process has ended or the kernel lacks it; see `sonde doctor`"},
	{-EMFILE, "too many open files: raise `ulimit -n`"},
	{-EOPNOTSUPP, "the kernel cannot; see `sonde doctor`"},
	{-EINVAL, "the kernel refused the place or the kind of link; see `sonde doctor`"},
	{-ETIMEDOUT, "the guard child did not answer"},
};

int sonde_engine_link_error(int err, const struct sonde_link_request *req)
{
	const char *remedy = "see `sonde doctor`";

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(remedies); i++)
		if (remedies[i].err == err)
			remedy = remedies[i].remedy;
	return sonde_err(err, "cannot attach %s by %s to %s (pid %d): %s; %s", req->program,
			 sonde_link_kind_name(req->kind), req->place ? req->place : "?", req->pid,
			 strerror(-err), remedy);
}

int sonde_engine_keep(struct sonde_engine *e, int lens, int fd)
{
	int err = SONDE_GROW(e->links, e->n_links, e->cap_links);

	if (err) {
		close(fd);
		return err;
	}
	e->links[e->n_links++] = (struct engine_link){.fd = fd, .lens = lens};
	return 0;
}

void sonde_engine_drop(struct sonde_engine *e, int lens, size_t from)
{
	size_t kept = from;

	for (size_t i = e->n_links; i-- > from;)
		if (engine_wants(lens, e->links[i].lens)) {
			close(e->links[i].fd);
			e->links[i].fd = -1;
		}
	for (size_t i = from; i < e->n_links; i++)
		if (e->links[i].fd >= 0)
			e->links[kept++] = e->links[i];
	e->n_links = kept < e->n_links ? kept : e->n_links;
}

static int attach_requests(struct sonde_engine *e, int lens, const struct sonde_requests *reqs)
{
	int err = 0;

	for (size_t i = 0; !err && i < reqs->n; i++) {
		int fd = sonde_link_create(&reqs->r[i]);

		err = fd < 0 ? sonde_engine_link_error(fd, &reqs->r[i])
			     : sonde_engine_keep(e, lens, fd);
	}
	return err;
}

static int attach_in_child(struct sonde_engine *e, int lens, enum engine_guard which,
			   const struct sonde_requests *reqs, uint64_t guard_ns, uint64_t max_ns)
{
	struct sonde_guard g = {};
	size_t failed = SIZE_MAX;
	int err;

	if (!reqs->n)
		return 0;
	if (sonde_guard_alive(&e->guards[lens][which]))
		return sonde_err(EALREADY, "lens %s is attached already", e->lens[lens].name);
	err = sonde_guard_start(reqs->r, reqs->n, guard_ns, max_ns, &g, &failed);
	if (err && failed < reqs->n)
		return sonde_engine_link_error(err, &reqs->r[failed]);
	if (err)
		return sonde_err(err, "cannot start the guard child of lens %s: %s",
				 e->lens[lens].name, strerror(-err));
	e->guards[lens][which] = g;
	return 0;
}

struct sorted {
	struct sonde_requests kernel, held, guarded;
};

static int sort_items(struct sonde_engine *e, const struct sonde_plan *plan, int lens,
		      struct sorted *to)
{
	int err = 0;

	for (size_t i = 0; !err && i < plan->n; i++) {
		const struct sonde_plan_item *item = &plan->items[i];
		struct sonde_requests *reqs = &to->kernel;

		if (item->alt < 0 || item->hook->lens != lens)
			continue;
		if (item->hook->guarded && item->kind != SONDE_LINK_PERF_SW)
			reqs = &to->guarded;
		else if (sonde_link_is_uprobe(item->kind))
			reqs = &to->held;
		err = item->kind == SONDE_LINK_PERF_SW ? sonde_engine_attach_sw(e, item)
						       : sonde_requests_add(reqs, e, item);
	}
	return err;
}

/* What slows the target comes last, so that it does not wait for what does not. */
static int attach_lens(struct sonde_engine *e, const struct sonde_plan *plan, int lens,
		       uint64_t guard_ns, uint64_t max_ns)
{
	struct sorted s = {};
	int err = sort_items(e, plan, lens, &s);

	if (!err && s.guarded.n && !guard_ns)
		err = sonde_err(EINVAL, "lens %s: guarded probes need a deadline",
				e->lens[lens].name);
	if (!err)
		err = attach_requests(e, lens, &s.kernel);
	if (!err)
		err = attach_in_child(e, lens, ENGINE_HOLDS, &s.held, 0, 0);
	if (!err)
		err = attach_in_child(e, lens, ENGINE_GUARDS, &s.guarded, guard_ns, max_ns);
	sonde_requests_fini(&s.kernel);
	sonde_requests_fini(&s.held);
	sonde_requests_fini(&s.guarded);
	return err;
}

static void stop_guards(struct sonde_engine *e, int lens)
{
	for (int which = ENGINE_GUARD__MAX; which-- > 0;)
		sonde_guard_stop(&e->guards[lens][which]);
}

int sonde_engine_attach(struct sonde_engine *e, const struct sonde_plan *plan, int lens,
			uint64_t guard_ns, uint64_t guard_max_ns, uint64_t *took_ns)
{
	uint64_t begin = sonde_mono_ns();
	size_t mark = e->n_links;
	int err = 0, i;

	for (i = 0; !err && i < SONDE_LENS__MAX; i++)
		if (engine_wants(lens, i) && e->lens[i].loaded)
			err = attach_lens(e, plan, i, guard_ns, guard_max_ns);
	if (err) {
		sonde_engine_drop(e, -1, mark);
		/* What this call attached; a lens that was attached before is -EALREADY, not ours.
		 */
		for (i -= 1; i >= 0 && err != -EALREADY; i--)
			if (engine_wants(lens, i))
				stop_guards(e, i);
		return err;
	}
	if (took_ns)
		*took_ns = sonde_mono_ns() - begin;
	return 0;
}

int sonde_engine_detach(struct sonde_engine *e, int lens, uint64_t *took_ns)
{
	uint64_t begin = sonde_mono_ns();

	/* All leave at the same time, what slows the target first; the kernel is slow at it. */
	for (int which = ENGINE_GUARD__MAX; which-- > 0;)
		for (int i = 0; i < SONDE_LENS__MAX; i++)
			if (engine_wants(lens, i))
				sonde_guard_dismiss(&e->guards[i][which]);
	for (int i = 0; i < SONDE_LENS__MAX; i++)
		if (engine_wants(lens, i))
			stop_guards(e, i);
	sonde_engine_drop(e, lens, 0);
	if (took_ns)
		*took_ns = sonde_mono_ns() - begin;
	return 0;
}

void sonde_engine_beat(struct sonde_engine *e)
{
	for (int i = 0; i < SONDE_LENS__MAX; i++)
		sonde_guard_beat(&e->guards[i][ENGINE_GUARDS]);
}

bool sonde_engine_guard_alive(struct sonde_engine *e)
{
	for (int i = 0; i < SONDE_LENS__MAX; i++)
		for (int which = 0; which < ENGINE_GUARD__MAX; which++) {
			struct sonde_guard *g = &e->guards[i][which];

			if (g->pid && !sonde_guard_alive(g))
				e->guard_lost = true;
		}
	return !e->guard_lost;
}
