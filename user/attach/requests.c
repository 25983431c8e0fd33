// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From a planned item to link requests. A multi-link serves the sites of one file in one process;
 * the return side goes only to sites that want it, and never to one that was moved off its
 * function's entry (the plan refuses that; here it is checked once more, for the target's life
 * hangs on it).
 */
#include <errno.h>
#include <stdlib.h>

#include "attach/engine_priv.h"
#include "attach/tracefs.h"
#include "core/err.h"
#include "core/mem.h"

static int push(struct sonde_requests *reqs, const struct sonde_link_request *req)
{
	int err = SONDE_GROW(reqs->r, reqs->n, reqs->cap);

	if (err)
		return err;
	reqs->r[reqs->n++] = *req;
	return 0;
}

void sonde_requests_fini(struct sonde_requests *reqs)
{
	for (size_t i = 0; i < reqs->n; i++) {
		free((void *)reqs->r[i].offsets);
		free((void *)reqs->r[i].cookies);
	}
	free(reqs->r);
	*reqs = (struct sonde_requests){};
}

static bool same_file(const struct sonde_probe_site *a, const struct sonde_probe_site *b)
{
	return a->dev == b->dev && a->inode == b->inode && a->pid == b->pid;
}

/* Collect into one request the sites from @first on that share its file and process. */
static int add_group(struct sonde_requests *reqs, const struct sonde_link_request *model,
		     const struct sonde_hook *hook, size_t first, bool *done)
{
	struct sonde_link_request req = *model;
	bool perf = !strcmp(sonde_link_family(req.kind), "perf");
	sonde_autofree uint64_t *offsets = calloc(SONDE_MAX_SITES, sizeof(*offsets));
	sonde_autofree uint64_t *cookies = calloc(SONDE_MAX_SITES, sizeof(*cookies));
	int err;

	if (!offsets || !cookies)
		return -ENOMEM;
	for (size_t i = first; i < hook->n_sites && req.n < (perf ? 1 : SONDE_MAX_SITES); i++) {
		const struct sonde_probe_site *s = &hook->sites[i];

		if (done[i] || !same_file(s, &hook->sites[first]))
			continue;
		offsets[req.n] = s->site.offset;
		cookies[req.n++] = s->cookie;
		done[i] = true;
	}
	req.path = hook->sites[first].path;
	req.pid = hook->sites[first].pid;
	req.place = hook->sites[first].shown;
	req.offsets = offsets;
	req.cookies = cookies;
	err = push(reqs, &req);
	if (!err) {
		offsets = NULL;
		cookies = NULL;
	}
	return err;
}

static int add_uprobes(struct sonde_requests *reqs, const struct sonde_link_request *model,
		       const struct sonde_hook *hook)
{
	bool ret = sonde_link_is_return(model->kind);
	sonde_autofree bool *done = calloc(hook->n_sites ? hook->n_sites : 1, sizeof(*done));
	int err = 0;

	if (!done)
		return -ENOMEM;
	for (size_t i = 0; ret && i < hook->n_sites; i++) {
		done[i] = !hook->sites[i].want_return;
		if (!done[i] && hook->sites[i].site.slide)
			return sonde_err(EINVAL,
					 "%s: a return probe must sit at the function's entry",
					 hook->sites[i].symbol);
	}
	for (size_t i = 0; !err && i < hook->n_sites; i++)
		if (!done[i])
			err = add_group(reqs, model, hook, i, done);
	return err;
}

static int add_side(struct sonde_requests *reqs, struct sonde_engine *e,
		    const struct sonde_plan_item *item, enum sonde_link_kind kind,
		    const char *program)
{
	struct sonde_link_request req = {
		.kind = kind,
		.program = program,
		.event = item->hook->alts[item->alt].event,
		.prog_fd = sonde_engine_prog_fd(e, item->hook->lens, program),
	};

	if (req.prog_fd < 0)
		return req.prog_fd;
	if (sonde_link_is_uprobe(kind))
		return add_uprobes(reqs, &req, item->hook);
	req.place = req.event;
	if (kind == SONDE_LINK_TRACEPOINT) {
		req.event_id = sonde_tracefs_event_id(req.event);
		if (req.event_id < 0)
			return sonde_engine_link_error(req.event_id, &req);
	}
	return push(reqs, &req);
}

int sonde_requests_add(struct sonde_requests *reqs, struct sonde_engine *e,
		       const struct sonde_plan_item *item)
{
	int err = 0;

	/* An iterator runs on demand. */
	if (item->kind == SONDE_LINK_ITER)
		return 0;
	if (item->program)
		err = add_side(reqs, e, item, item->kind, item->program);
	if (!err && item->ret_program)
		err = add_side(reqs, e, item, sonde_link_return_of(item->kind), item->ret_program);
	return err;
}
