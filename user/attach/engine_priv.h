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

/* A child that holds uprobe links of a lens; one with timers must hear from us (guard.h). */
struct engine_child {
	struct sonde_guard g;
	int lens;
};

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
	struct engine_child *children;
	size_t n_children, cap_children;
	uint32_t guards_lost; /* bit per lens: a child of it ended by itself */
	struct sonde_window *window; /* mapped when first asked for */
	struct sonde_guard window_child;
	uint32_t *targets; /* tgids, for events that are opened per thread */
	size_t n_targets, cap_targets;
	int stats_fd; /* holds BPF statistics on; -1: not asked for */
};

/* Is @lens meant by the argument @which (-1: every one)? */
static inline bool engine_wants(int which, int lens)
{
	return which == -1 || which == lens;
}

/* Requests of an item: what has to be linked, one link each. */
struct sonde_requests {
	struct sonde_link_request *r;
	size_t n, cap;
};

/* Remember a link of @lens; takes @fd over, closing it on failure. */
int sonde_engine_keep(struct sonde_engine *e, int lens, int fd);
/* Close links of @lens beyond the first @from, newest first. */
void sonde_engine_drop(struct sonde_engine *e, int lens, size_t from);
/* Have children make and hold the links. @beat_ns and @max_ns as in guard.h. 0 or -errno (logged).
 */
int sonde_engine_hold(struct sonde_engine *e, int lens, const struct sonde_requests *reqs,
		      uint64_t beat_ns, uint64_t max_ns);
/* Let go of children of @lens beyond the first @from; waits until their links are gone. */
void sonde_engine_release(struct sonde_engine *e, int lens, size_t from);
/* Log why a link could not be made, and pass @err on. */
int sonde_engine_link_error(int err, const struct sonde_link_request *req);

int sonde_requests_add(struct sonde_requests *reqs, struct sonde_engine *e,
		       const struct sonde_plan_item *item);
void sonde_requests_fini(struct sonde_requests *reqs);

/* Software events have no request: which links they take depends on the target's threads. */
int sonde_engine_attach_sw(struct sonde_engine *e, const struct sonde_plan_item *item);

/* End the window and unmap its page. */
void sonde_engine_window_unmap(struct sonde_engine *e);

/* Does every object share the map of this name? */
bool sonde_engine_map_is_shared(const char *name);
/* fd of a loaded program, or -errno (logged). */
int sonde_engine_prog_fd(struct sonde_engine *e, int lens, const char *program);

#endif
