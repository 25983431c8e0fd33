/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The engine's own view of itself, shared by its files: objects (engine.c), links, accounts. */
#ifndef SONDE_ATTACH_ENGINE_PRIV_H
#define SONDE_ATTACH_ENGINE_PRIV_H

#include <bpf/libbpf.h>

#include "attach/engine.h"
#include "attach/guard.h"

struct engine_lens {
	char *name;
	struct bpf_object *obj;
	bool loaded;
};

/* Which child a lens's uprobe links live in: one without timers, or one that a timer kills. */
enum engine_guard { ENGINE_HOLDS, ENGINE_GUARDS, ENGINE_GUARD__MAX };

struct engine_link {
	int fd, lens;
};

struct sonde_engine {
	struct bpf_object *shared;
	struct sonde_engine_maps maps;
	struct sonde_config config;
	struct engine_lens lens[SONDE_LENS__MAX];
	struct engine_link *links;
	size_t n_links, cap_links;
	/* Children that hold uprobe links, per lens; pid 0: none. */
	struct sonde_guard guards[SONDE_LENS__MAX][ENGINE_GUARD__MAX];
	bool guard_lost;
	uint32_t *targets; /* tgids, for events that are opened per thread */
	size_t n_targets, cap_targets;
	int stats_fd; /* holds BPF statistics on; -1: not asked for */
};

/* Is @lens meant by the argument @which (-1: every one)? */
static inline bool engine_wants(int which, int lens)
{
	return which == -1 || which == lens;
}

/* Remember a link of @lens; takes @fd over, closing it on failure. */
int sonde_engine_keep(struct sonde_engine *e, int lens, int fd);
/* Close links of @lens beyond the first @from, newest first. */
void sonde_engine_drop(struct sonde_engine *e, int lens, size_t from);
/* Log why a link could not be made, and pass @err on. */
int sonde_engine_link_error(int err, const struct sonde_link_request *req);

/* Requests of an item: what has to be linked, one link each. */
struct sonde_requests {
	struct sonde_link_request *r;
	size_t n, cap;
};
int sonde_requests_add(struct sonde_requests *reqs, struct sonde_engine *e,
		       const struct sonde_plan_item *item);
void sonde_requests_fini(struct sonde_requests *reqs);

/* Software events have no request: which links they take depends on the target's threads. */
int sonde_engine_attach_sw(struct sonde_engine *e, const struct sonde_plan_item *item);

/* Does every object share the map of this name? */
bool sonde_engine_map_is_shared(const char *name);
/* fd of a loaded program, or -errno (logged). */
int sonde_engine_prog_fd(struct sonde_engine *e, int lens, const char *program);

#endif
