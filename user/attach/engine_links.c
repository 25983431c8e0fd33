// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Links: made, held, closed. Those of guarded hooks exist only in the guard child of their lens; the
 * engine keeps no fd of them, or the child's death would not be their end.
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

static int attach_guarded(struct sonde_engine *e, int lens, const struct sonde_requests *reqs,
			  uint64_t guard_ns, uint64_t max_ns)
{
	struct sonde_guard g = {};
	size_t failed = SIZE_MAX;
	int err;

	if (!reqs->n)
		return 0;
	if (sonde_guard_alive(&e->guards[lens]))
		return sonde_err(EALREADY, "lens %s is attached already", e->lens[lens].name);
	if (!guard_ns)
		return sonde_err(EINVAL, "guarded probes need a deadline");
	err = sonde_guard_start(reqs->r, reqs->n, guard_ns, max_ns, &g, &failed);
	if (err && failed < reqs->n)
		return sonde_engine_link_error(err, &reqs->r[failed]);
	if (err)
		return sonde_err(err, "cannot start the guard child of lens %s: %s",
				 e->lens[lens].name, strerror(-err));
	g.lens = lens;
	e->guards[lens] = g;
	return 0;
}

static int attach_lens(struct sonde_engine *e, const struct sonde_plan *plan, int lens,
		       uint64_t guard_ns, uint64_t max_ns)
{
	struct sonde_requests plain = {}, guarded = {};
	int err = 0;

	for (size_t i = 0; !err && i < plan->n; i++) {
		const struct sonde_plan_item *item = &plan->items[i];

		if (item->alt < 0 || item->hook->lens != lens)
			continue;
		if (item->kind == SONDE_LINK_PERF_SW)
			err = sonde_engine_attach_sw(e, item);
		else
			err = sonde_requests_add(item->hook->guarded ? &guarded : &plain, e, item);
	}
	if (!err)
		err = attach_requests(e, lens, &plain);
	/* Last, so that what slows the target does not wait for what does not. */
	if (!err)
		err = attach_guarded(e, lens, &guarded, guard_ns, max_ns);
	sonde_requests_fini(&plain);
	sonde_requests_fini(&guarded);
	return err;
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
		/* Guards of the lenses before the one that failed: it has none itself. */
		for (i -= 2; i >= 0; i--)
			if (engine_wants(lens, i))
				sonde_guard_stop(&e->guards[i]);
		return err;
	}
	if (took_ns)
		*took_ns = sonde_mono_ns() - begin;
	return 0;
}

int sonde_engine_detach(struct sonde_engine *e, int lens, uint64_t *took_ns)
{
	uint64_t begin = sonde_mono_ns();

	/* What slows the target goes first. */
	for (int i = 0; i < SONDE_LENS__MAX; i++)
		if (engine_wants(lens, i))
			sonde_guard_stop(&e->guards[i]);
	sonde_engine_drop(e, lens, 0);
	if (took_ns)
		*took_ns = sonde_mono_ns() - begin;
	return 0;
}

void sonde_engine_beat(struct sonde_engine *e)
{
	for (int i = 0; i < SONDE_LENS__MAX; i++)
		sonde_guard_beat(&e->guards[i]);
}

bool sonde_engine_guard_alive(const struct sonde_engine *e)
{
	struct sonde_engine *mut = (struct sonde_engine *)e;

	for (int i = 0; i < SONDE_LENS__MAX; i++)
		if (mut->guards[i].pid && !sonde_guard_alive(&mut->guards[i]))
			mut->guard_lost = true;
	return !e->guard_lost;
}
