// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The engine's objects: shared maps first, then one BPF object a lens, so that a program the
 * verifier refuses does not take the other lenses with it. A program is loaded for exactly one kind
 * of link, so the plan comes before the load.
 */
#include <errno.h>
#include <string.h>
#include <bpf/bpf.h>

#include "attach/bpflog.h"
#include "attach/engine_priv.h"
#include "attach/host.h"
#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "shared.skel.h"

static const struct {
	const char *name;
	size_t fd; /* offset in struct sonde_engine_maps */
} shared_maps[] = {
	{"events", offsetof(struct sonde_engine_maps, events)},
	{"drops", offsetof(struct sonde_engine_maps, drops)},
	{"control", offsetof(struct sonde_engine_maps, control)},
	{"guards", offsetof(struct sonde_engine_maps, guards)},
	{"targets", offsetof(struct sonde_engine_maps, targets)},
	{"span", offsetof(struct sonde_engine_maps, span)},
	{"anatomy", offsetof(struct sonde_engine_maps, anatomy)},
	{"tls_places", offsetof(struct sonde_engine_maps, tls_places)},
	{"window", offsetof(struct sonde_engine_maps, window)},
};

static int *map_fd(struct sonde_engine_maps *maps, size_t i)
{
	return (int *)((char *)maps + shared_maps[i].fd);
}

bool sonde_engine_map_is_shared(const char *name)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(shared_maps); i++)
		if (!strcmp(name, shared_maps[i].name))
			return true;
	return false;
}

/* The verifier's EACCES is no matter of rights: the kernel cannot run the program. */
static int load_error(int err, const char *what)
{
	const char *log = sonde_bpflog_verifier();

	if (*log && err != -EMFILE && err != -ENFILE && err != -ENOMEM)
		return sonde_err(EOPNOTSUPP,
				 "cannot load %s: the kernel's verifier refused a program; please "
				 "report this; its last words:\n%s",
				 what, log);
	if (err == -EPERM)
		return sonde_err(err, "cannot load %s: not permitted; %s", what,
				 sonde_feature_remedy(SONDE_FEAT_BPF));
	if (err == -ESRCH)
		return sonde_host_no_types(what);
	return sonde_err(err, "cannot load %s: %s; -vv shows libbpf's messages", what,
			 strerror(-err));
}

static int load_shared(struct sonde_engine *e, uint32_t ring_bytes)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "sonde_shared");
	struct bpf_map *map;
	const void *elf;
	size_t size;
	int err;

	elf = shared_bpf__elf_bytes(&size);
	e->shared = bpf_object__open_mem(elf, size, &opts);
	if (!e->shared)
		return load_error(-errno, "the shared maps");
	map = bpf_object__find_map_by_name(e->shared, "events");
	if (ring_bytes && bpf_map__set_max_entries(map, ring_bytes))
		return sonde_err(EINVAL, "cannot make an event ring of %u bytes", ring_bytes);
	sonde_bpflog_forget();
	err = bpf_object__load(e->shared);
	if (err == -EINVAL) /* what a kernel says to a type of map that it does not know */
		return sonde_err(EOPNOTSUPP,
				 "cannot make the shared maps: the kernel lacks %s (since %s)",
				 sonde_feature_name(SONDE_FEAT_TASK_STORAGE),
				 sonde_feature_since(SONDE_FEAT_TASK_STORAGE));
	if (err)
		return load_error(err, "the shared maps");
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(shared_maps); i++) {
		map = bpf_object__find_map_by_name(e->shared, shared_maps[i].name);
		if (!map)
			return sonde_err(ENOENT, "shared.bpf.c lacks map %s", shared_maps[i].name);
		*map_fd(&e->maps, i) = bpf_map__fd(map);
	}
	return 0;
}

int sonde_engine_new(struct sonde_engine **out, const struct sonde_config *config,
		     uint32_t ring_bytes)
{
	struct sonde_engine *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return -ENOMEM;
	e->config = *config;
	e->stats_fd = -1;
	sonde_bpflog_init();
	err = sonde_host_files();
	err = err ? err : sonde_host_check();
	err = err ? err : load_shared(e, ring_bytes);
	if (err) {
		sonde_engine_free(&e);
		return err;
	}
	*out = e;
	return 0;
}

void sonde_engine_free(struct sonde_engine **engine)
{
	struct sonde_engine *e = *engine;

	if (!e)
		return;
	sonde_engine_detach(e, -1, NULL);
	sonde_engine_window_unmap(e);
	for (int i = 0; i < SONDE_LENS__MAX; i++) {
		bpf_object__close(e->lens[i].obj);
		free(e->lens[i].name);
	}
	bpf_object__close(e->shared);
	if (e->stats_fd >= 0)
		close(e->stats_fd);
	free(e->links);
	free(e->children);
	free(e->targets);
	free(e);
	*engine = NULL;
}

const struct sonde_engine_maps *sonde_engine_maps(const struct sonde_engine *e)
{
	return &e->maps;
}

static int share_maps(struct sonde_engine *e, struct bpf_object *obj, const char *name)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(shared_maps); i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, shared_maps[i].name);
		int err = map ? bpf_map__reuse_fd(map, *map_fd(&e->maps, i)) : 0;

		if (err)
			return sonde_err(err, "lens %s: cannot share map %s: %s", name,
					 shared_maps[i].name, strerror(-err));
	}
	return 0;
}

static int configure(struct sonde_engine *e, struct bpf_object *obj, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, ".rodata.sonde_cfg");
	struct bpf_program *prog;
	int err = 0;

	/* Wrong size: the object and this program were built from different headers. */
	if (map)
		err = bpf_map__set_initial_value(map, &e->config, sizeof(e->config));
	if (err)
		return sonde_err(err,
				 "lens %s: its configuration has another layout: %s; build again",
				 name, strerror(-err));
	bpf_object__for_each_program(prog, obj) bpf_program__set_autoload(prog, false);
	return share_maps(e, obj, name);
}

int sonde_engine_open(struct sonde_engine *e, int lens, const char *name, const void *elf,
		      size_t size, struct bpf_object **obj)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = name);
	struct bpf_object *o;
	char *copy;
	int err;

	if (lens < 0 || lens >= SONDE_LENS__MAX || e->lens[lens].obj)
		return sonde_err(EINVAL, "lens %s is open already, or has no number", name);
	o = bpf_object__open_mem(elf, size, &opts);
	if (!o)
		return load_error(-errno, name);
	err = configure(e, o, name);
	copy = err ? NULL : strdup(name);
	if (!copy) {
		bpf_object__close(o);
		return err ? err : -ENOMEM;
	}
	e->lens[lens] = (struct engine_lens){.name = copy, .obj = o};
	*obj = o;
	return 0;
}

static int select_program(struct engine_lens *l, const char *program, enum sonde_link_kind kind,
			  const char *event)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(l->obj, program);
	int type = sonde_link_attach_type(kind), err = 0;

	if (!prog)
		return sonde_err(ENOENT, "lens %s has no program %s", l->name, program);
	if (bpf_program__autoload(prog) && type > 0 &&
	    bpf_program__expected_attach_type(prog) != (enum bpf_attach_type)type)
		return sonde_err(EINVAL, "program %s is planned for two kinds of link", program);
	if (type >= 0)
		err = bpf_program__set_expected_attach_type(prog, (enum bpf_attach_type)type);
	if (!err && kind == SONDE_LINK_TP_BTF && event)
		err = bpf_program__set_attach_target(prog, 0, event);
	if (!err)
		err = bpf_program__set_autoload(prog, true);
	if (err == -ESRCH)
		return sonde_host_no_types(program);
	if (err)
		return sonde_err(err, "cannot prepare program %s for %s: %s", program,
				 sonde_link_kind_name(kind), strerror(-err));
	return 0;
}

static int select_item(struct sonde_engine *e, const struct sonde_plan_item *item)
{
	struct engine_lens *l = &e->lens[item->hook->lens];
	const char *event = item->hook->alts[item->alt].event;
	int err = 0;

	if (!l->obj || l->loaded)
		return 0;
	if (item->program)
		err = select_program(l, item->program, item->kind, event);
	if (!err && item->ret_program)
		err = select_program(l, item->ret_program, sonde_link_return_of(item->kind), event);
	return err;
}

int sonde_engine_load(struct sonde_engine *e, const struct sonde_plan *plan, int lens)
{
	int first = 0;

	for (size_t i = 0; i < plan->n; i++) {
		const struct sonde_plan_item *item = &plan->items[i];
		int err = item->alt >= 0 && engine_wants(lens, item->hook->lens)
				  ? select_item(e, item)
				  : 0;

		if (err)
			return err;
	}
	for (int i = 0; i < SONDE_LENS__MAX; i++) {
		struct engine_lens *l = &e->lens[i];
		int err;

		if (!l->obj || l->loaded || !engine_wants(lens, i))
			continue;
		sonde_bpflog_forget();
		err = bpf_object__load(l->obj);
		if (err)
			err = load_error(err, l->name);
		else
			l->loaded = true;
		first = first ? first : err;
		/* A refusal by the verifier says something of one lens, anything else of all. */
		if (err && !*sonde_bpflog_verifier())
			return first;
	}
	return first;
}

int sonde_engine_prog_fd(struct sonde_engine *e, int lens, const char *program)
{
	struct engine_lens *l = &e->lens[lens];
	struct bpf_program *prog =
		l->loaded ? bpf_object__find_program_by_name(l->obj, program) : NULL;
	int fd = prog ? bpf_program__fd(prog) : -1;

	if (fd < 0)
		return sonde_err(ENOENT, "program %s of lens %s is not loaded", program,
				 l->name ? l->name : "(not open)");
	return fd;
}
