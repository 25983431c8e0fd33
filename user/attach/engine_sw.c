// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Software events (page faults) on the targets' threads: an event a thread with `inherit`, so that
 * other processes pay nothing and threads started later are seen. A thread that starts while the
 * events are being opened is either inherited or missed, and nothing tells which: so the threads
 * are listed before and after, and when the lists differ it is done anew. A target that starts
 * threads faster than that, or has very many, gets one event a CPU instead; the program's own
 * filter then keeps others out.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/engine_priv.h"
#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"

enum { MAX_THREADS = 1024, TRIES = 5 };

struct tids {
	pid_t *v;
	size_t n, cap;
};

static int list_process(uint32_t tgid, struct tids *t)
{
	sonde_autoclosedir DIR *dir = NULL;
	struct dirent *d;
	uint64_t tid;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task", tgid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while ((d = readdir(dir))) {
		if (sonde_parse_u64(d->d_name, &tid))
			continue; /* "." and ".." */
		if (SONDE_GROW(t->v, t->n, t->cap))
			return -ENOMEM;
		t->v[t->n++] = (pid_t)tid;
	}
	return 0;
}

static int list_all(struct sonde_engine *e, struct tids *t)
{
	int err = 0;

	t->n = 0;
	for (size_t i = 0; !err && i < e->n_targets; i++)
		err = list_process(e->targets[i], t);
	return err;
}

static int open_one(struct sonde_engine *e, int lens, struct sonde_link_request *req, int gone)
{
	int fd = sonde_link_create(req);

	if (fd == gone)
		return 0;
	if (fd < 0)
		return sonde_engine_link_error(fd, req);
	return sonde_engine_keep(e, lens, fd);
}

static int open_threads(struct sonde_engine *e, int lens, struct sonde_link_request *req,
			const struct tids *t)
{
	int err = 0;

	for (size_t i = 0; !err && i < t->n; i++) {
		req->pid = t->v[i];
		err = open_one(e, lens, req, -ESRCH);
	}
	return err;
}

static int open_cpus(struct sonde_engine *e, int lens, struct sonde_link_request *req)
{
	int cpus = libbpf_num_possible_cpus(), err = 0;

	sonde_debug("%s: one event a CPU, the program filters", req->event);
	req->pid = -1;
	for (req->cpu = 0; !err && req->cpu < cpus; req->cpu++)
		err = open_one(e, lens, req, -ENODEV);
	return err;
}

static bool same(const struct tids *a, const struct tids *b)
{
	return a->n == b->n && !memcmp(a->v, b->v, a->n * sizeof(*a->v));
}

int sonde_engine_attach_sw(struct sonde_engine *e, const struct sonde_plan_item *item)
{
	int lens = item->hook->lens;
	struct sonde_link_request req = {
		.kind = item->kind,
		.event = item->hook->alts[item->alt].event,
		.program = item->program,
		.place = "the target's threads",
		.prog_fd = sonde_engine_prog_fd(e, lens, item->program),
	};
	struct tids before = {}, after = {};
	size_t mark = e->n_links;
	int err = req.prog_fd < 0 ? req.prog_fd : 0;
	bool done = false;

	for (int i = 0; !err && !done && i < TRIES; i++) {
		sonde_engine_drop(e, lens, mark);
		err = list_all(e, &before);
		if (err || before.n > MAX_THREADS)
			break;
		err = open_threads(e, lens, &req, &before);
		if (!err)
			err = list_all(e, &after);
		done = !err && same(&before, &after);
	}
	if (!err && !done) {
		sonde_engine_drop(e, lens, mark);
		err = open_cpus(e, lens, &req);
	}
	free(before.v);
	free(after.v);
	return err;
}
