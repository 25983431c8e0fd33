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
#include "attach/window.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/mem.h"
#include "target/proc.h"

static const struct {
	int err;
	const char *remedy;
} remedies[] = {
	{-EPERM, "run as root or with CAP_BPF and CAP_PERFMON"},
	{-EACCES, "run as root or with CAP_PERFMON"},
	{-ENOENT, "the kernel lacks it; see `sonde doctor`"},
	{-EMFILE, "raise `ulimit -n`"},
	{-EOPNOTSUPP, "the kernel cannot; see `sonde doctor`"},
	{-EINVAL, "the kernel refused the place or the kind of link; see `sonde doctor`"},
	{-ETIMEDOUT, "the guard child did not answer"},
};

/* Gone, or a zombie. Anything but a pid (-1, 0) never ends. */
static bool has_ended(pid_t pid)
{
	struct sonde_proc_stat s;
	int err = pid > 0 ? sonde_proc_stat(pid, &s) : -EINVAL;

	return err == -ESRCH || (!err && (s.state == 'Z' || s.state == 'X'));
}

int sonde_engine_link_error(int err, const struct sonde_link_request *req)
{
	const char *remedy = "see `sonde doctor`";

	if ((err == -ESRCH || err == -ENOENT) && has_ended(req->pid))
		return sonde_err(ESRCH, "%d has exited while sonde attached to it", req->pid);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(remedies); i++)
		if (remedies[i].err == err)
			remedy = remedies[i].remedy;
	/* To the callers ESRCH is a target that is gone; this one is not. */
	return sonde_err(err == -ESRCH ? -EIO : err,
			 "cannot attach %s by %s to %s (pid %d): %s; %s", req->program,
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

static bool is_attached(const struct sonde_engine *e, int lens)
{
	for (size_t i = 0; i < e->n_links; i++)
		if (e->links[i].lens == lens)
			return true;
	for (size_t i = 0; i < e->n_children; i++)
		if (e->children[i].lens == lens)
			return true;
	return false;
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
	int err;

	if (is_attached(e, lens))
		return sonde_err(EALREADY, "lens %s is attached already", e->lens[lens].name);
	err = sort_items(e, plan, lens, &s);

	if (!err && s.guarded.n && !guard_ns)
		err = sonde_err(EINVAL, "lens %s: guarded probes need a deadline",
				e->lens[lens].name);
	if (!err)
		err = attach_requests(e, lens, &s.kernel);
	if (!err)
		err = sonde_engine_hold(e, lens, &s.held, 0, 0);
	if (!err)
		err = sonde_engine_hold(e, lens, &s.guarded, guard_ns, max_ns);
	sonde_requests_fini(&s.kernel);
	sonde_requests_fini(&s.held);
	sonde_requests_fini(&s.guarded);
	return err;
}

int sonde_engine_attach(struct sonde_engine *e, const struct sonde_plan *plan, int lens,
			uint64_t guard_ns, uint64_t guard_max_ns, uint64_t *took_ns)
{
	uint64_t begin = sonde_mono_ns();
	size_t links = e->n_links, children = e->n_children;
	int err = 0;

	for (int i = 0; !err && i < SONDE_LENS__MAX; i++)
		if (engine_wants(lens, i) && e->lens[i].loaded)
			err = attach_lens(e, plan, i, guard_ns, guard_max_ns);
	if (err) {
		sonde_engine_release(e, -1, children);
		sonde_engine_drop(e, -1, links);
		return err;
	}
	if (took_ns)
		*took_ns = sonde_mono_ns() - begin;
	return 0;
}

int sonde_engine_detach(struct sonde_engine *e, int lens, uint64_t *took_ns)
{
	uint64_t begin = sonde_mono_ns();

	/* What may slow the target goes first. */
	if (lens == -1)
		sonde_engine_window_stop(e);
	sonde_engine_release(e, lens, 0);
	sonde_engine_drop(e, lens, 0);
	if (took_ns)
		*took_ns = sonde_mono_ns() - begin;
	return 0;
}
