// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Probes in the daemon's own handlers, where a recipe knows them: at entries, and for queries that
 * end with the call at the `ret` instructions that it can end with.
 *
 * The invariant: never a return probe. A handler may continue on another thread, where the kernel
 * has no record of the return that it replaced, and kills the process.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "attach/plan.h"
#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "lens/hook_rows.h"
#include "lens/query_impl.h"
#include "sonde/handler.h"
#include "target/daemon.h"
#include "target/elf.h"
#include "target/maps.h"
#include "target/returns.h"

static const struct sonde_alternative execute_alts[] = SONDE_ALTS_ENTRY("query_execute");
static const struct sonde_alternative return_alts[] = SONDE_ALTS_ENTRY("query_ret");
static const struct sonde_alternative yield_alts[] = SONDE_ALTS_ENTRY("query_yield");
static const struct sonde_alternative resume_alts[] = SONDE_ALTS_ENTRY("query_resume");
static const struct sonde_alternative log_alts[] = SONDE_ALTS_ENTRY("query_log");

enum group { G_EXECUTE, G_RETURN, G_LOG, G_YIELD, G_RESUME, G__MAX };

#define HOOK(nm, al, what) SONDE_HOOK(SONDE_LENS_QUERY, nm, al, false, what)

static const struct sonde_hook group_hooks[G__MAX] = {
	[G_EXECUTE] = HOOK(QUERY_HOOK_EXECUTE, execute_alts,
			   "a request is begun, in the daemon's own code"),
	[G_RETURN] = HOOK(QUERY_HOOK_RETURN, return_alts,
			  "it is done, at the ret instructions of that code"),
	[G_LOG] =
		HOOK(QUERY_HOOK_LOG, log_alts, "a search ends: index, documents found, wall time"),
	[G_YIELD] = HOOK(QUERY_HOOK_YIELD, yield_alts, "a coroutine leaves its thread"),
	[G_RESUME] = HOOK(QUERY_HOOK_RESUME, resume_alts,
			  "it goes on, at the ret instructions of what it left by"),
};

/*
 * A process that is forked while it is observed has the breakpoints of its parent's code, but no
 * link of its own, and one that serves a single connection would be gone before it had. So with
 * --children a link is for every process of the file; the programs go by the list of targets.
 */
static pid_t link_pid(const struct sonde_lens_ctx *ctx, const struct sonde_target *t)
{
	return ctx->opts->children ? 0 : t->pid;
}

/* A target's executable and what its recipe says. */
struct recipe_use {
	const struct sonde_lens_ctx *ctx;
	const struct sonde_target *target;
	const struct sonde_module *module;
	struct sonde_elf *elf;
	struct sonde_recipe recipe;
	struct sonde_modules mods;
};

struct site_array {
	struct sonde_probe_site *s;
	size_t n, cap;
};

static void use_fini(struct recipe_use *u)
{
	sonde_recipe_fini(&u->recipe);
	sonde_elf_free(&u->elf);
	sonde_modules_fini(&u->mods);
}

static int find_recipe(struct recipe_use *u)
{
	const char *file = u->ctx->opts->recipe, *id = u->target->build_id;

	if (file)
		return sonde_recipe_load(file, u->target->is_child ? NULL : u->module->path, id,
					 u->elf, &u->recipe);
	return sonde_recipe_find(NULL, id, u->elf, &u->recipe);
}

/* 0, or -ENOENT where nothing is known of it, or -errno. The caller calls use_fini() in any case.
 */
static int use_open(struct recipe_use *u, const struct sonde_lens_ctx *ctx,
		    const struct sonde_target *t)
{
	char root[32];
	int err;

	*u = (struct recipe_use){.ctx = ctx, .target = t};
	if (t->gone || (!t->daemon && !ctx->opts->recipe))
		return -ENOENT;
	err = sonde_modules_read(t->pid, &u->mods);
	for (size_t i = 0; !err && i < u->mods.n; i++)
		if (u->mods.m[i].is_exe)
			u->module = &u->mods.m[i];
	if (err || !u->module)
		return err ? err : -ENOENT;
	snprintf(root, sizeof(root), "/proc/%d/root", t->pid);
	err = sonde_elf_open(&u->elf, u->module->open_path, root);
	return err ? err : find_recipe(u);
}

static void site_array_fini(struct site_array *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free(a->s[i].path);
		free(a->s[i].shown);
		free(a->s[i].symbol);
	}
	free(a->s);
	*a = (struct site_array){0};
}

static int site_add(struct site_array *a, const struct recipe_use *u, const char *symbol,
		    const struct sonde_site *site, uint64_t cookie)
{
	struct sonde_probe_site s = {
		.path = strdup(u->module->open_path),
		.shown = strdup(u->module->path),
		.symbol = strdup(symbol),
		.dev = u->module->dev,
		.inode = u->module->inode,
		.cookie = cookie,
		.pid = link_pid(u->ctx, u->target),
		.site = *site,
	};
	int err = s.path && s.shown && s.symbol ? 0 : -ENOMEM;

	err = err ? err : SONDE_GROW(a->s, a->n, a->cap);
	if (!err) {
		a->s[a->n++] = s;
		return 0;
	}
	free(s.path);
	free(s.shown);
	free(s.symbol);
	return err;
}

static const char *name_of(const struct sonde_handler *h)
{
	return h->symbol ? h->symbol : "a handler without a name";
}

static bool goes_on(void *ctx, uint64_t function)
{
	(void)ctx;
	(void)function;
	return false;
}

static bool has_place(const struct site_array *a, uint64_t offset)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->s[i].site.offset == offset)
			return true;
	return false;
}

/* Two handlers may share a `ret` that both leave to: it is probed once, the frame tells whose.
 * -EOPNOTSUPP with the reason in @why: not every return can be seen. */
static int add_returns(struct site_array *a, const struct recipe_use *u,
		       const struct sonde_handler *h, uint64_t cookie, char *why, size_t size)
{
	sonde_autofree uint64_t *rets = NULL;
	char shown[200];
	size_t n = 0;
	int err = sonde_site_returns(u->elf, h->site.function, h->size, goes_on, NULL, &rets, &n,
				     why, size);

	if (err)
		return err;
	snprintf(shown, sizeof(shown), "ret of %s", name_of(h));
	for (size_t i = 0; i < n && !err; i++) {
		struct sonde_site at = {.function = rets[i],
					.offset = rets[i],
					.kind = SONDE_INSN_STEPPED,
					.insn = "ret"};

		if (!has_place(a, rets[i]))
			err = site_add(a, u, shown, &at, cookie);
	}
	return err;
}

/* Is a handler of this role worth its traps? */
static bool is_wanted(const struct sonde_lens_opts *opts, const struct sonde_handler *h)
{
	switch (h->role) {
	case SONDE_HANDLER_LOG: /* what it tells goes to its span and nowhere else */
		return opts->want_spans;
	case SONDE_HANDLER_COMMAND: /* for spans of its own only; the API is always decoded */
		return opts->query_source == SONDE_SOURCE_HANDLER ||
		       (opts->query_source == SONDE_SOURCE_AUTO &&
			h->proto != SONDE_PROTO_SPHINXAPI);
	case SONDE_HANDLER_YIELD: /* carries from thread to thread what is charged to a span */
		return opts->want_spans;
	default:
		return true;
	}
}

/* Without its return a yield would only lose what was charged: then the query is not followed. */
static int add_yield(struct site_array groups[G__MAX], const struct recipe_use *u,
		     const struct sonde_handler *h, uint64_t cookie)
{
	char why[160] = "";
	int err = add_returns(&groups[G_RESUME], u, h, cookie, why, sizeof(why));

	if (!err)
		return site_add(&groups[G_YIELD], u, name_of(h), &h->site, cookie);
	if (err != -EOPNOTSUPP)
		return err;
	sonde_warn("%s: coroutines are not followed over %s, since not all ways out of it can be "
		   "probed (%s): what their queries did on other threads is not known",
		   u->recipe.file, name_of(h), why);
	return 0;
}

/* A query that ends with the call needs every end of it. */
static int add_ends(struct site_array *a, const struct recipe_use *u, const struct sonde_handler *h,
		    uint64_t cookie)
{
	char why[160] = "";
	int err = add_returns(a, u, h, cookie, why, sizeof(why));

	if (err != -EOPNOTSUPP)
		return err;
	return sonde_err(
		EINVAL,
		"%s: the return of %s cannot be seen: not all ways out of it can be probed "
		"(%s); say 'end socket' there",
		u->recipe.file, name_of(h), why);
}

static int add_handler(struct site_array groups[G__MAX], const struct recipe_use *u,
		       const struct sonde_handler *h, unsigned slot)
{
	enum group g = h->role == SONDE_HANDLER_LOG	? G_LOG
		       : h->role == SONDE_HANDLER_YIELD ? G_YIELD
							: G_EXECUTE;
	uint64_t cookie = SONDE_QUERY_COOKIE(h->role, slot);
	int err;

	if (!is_wanted(u->ctx->opts, h))
		return 0;
	if (g == G_YIELD)
		return add_yield(groups, u, h, cookie);
	err = site_add(&groups[g], u, name_of(h), &h->site, cookie);
	if (!err && g == G_EXECUTE && h->end == SONDE_HANDLER_END_RETURN &&
	    u->ctx->opts->query_source != SONDE_SOURCE_SOCKET)
		err = add_ends(&groups[G_RETURN], u, h, cookie);
	return err;
}

/* A link takes so many sites. */
static int add_hooks(enum group g, struct site_array *a, struct sonde_hook_list *hooks)
{
	struct sonde_hook hook = group_hooks[g];
	int err;

	if (!a->n)
		return 0;
	hook.sites = a->s;
	hook.n_sites = a->n;
	err = sonde_hook_list_add(hooks, &hook);
	if (!err)
		*a = (struct site_array){0}; /* the list's now */
	return err;
}

/* Recipes' handlers get slots in the order of targets and recipe, at planning and at seeding alike.
 */
struct slots {
	unsigned next;
	struct {
		uint64_t dev, inode;
	} files[SONDE_QUERY_HANDLERS];
	unsigned n_files;
};

/* With --children one link of a file has all processes in it: is this file's there? */
static bool is_shared(struct slots *s, const struct recipe_use *u)
{
	for (unsigned i = 0; i < s->n_files; i++)
		if (s->files[i].dev == u->module->dev && s->files[i].inode == u->module->inode)
			return u->ctx->opts->children;
	if (s->n_files < SONDE_QUERY_HANDLERS) {
		s->files[s->n_files].dev = u->module->dev;
		s->files[s->n_files++].inode = u->module->inode;
	}
	return false;
}

static int add_target(struct sonde_lens_ctx *ctx, const struct sonde_target *t, struct slots *slots,
		      struct sonde_hook_list *hooks)
{
	struct site_array groups[G__MAX] = {0};
	struct recipe_use u;
	int err = use_open(&u, ctx, t);
	size_t n = err || is_shared(slots, &u) ? 0 : u.recipe.n;

	for (size_t i = 0; !err && i < n && slots->next < SONDE_QUERY_HANDLERS; i++)
		err = add_handler(groups, &u, &u.recipe.handlers[i], slots->next++);
	for (int g = 0; !err && g < G__MAX; g++)
		err = add_hooks(g, &groups[g], hooks);
	for (int g = 0; g < G__MAX; g++)
		site_array_fini(&groups[g]);
	use_fini(&u);
	return err;
}

static bool has_hook(const struct sonde_hook_list *hooks, const char *name)
{
	for (size_t i = 0; i < hooks->n; i++)
		if (!strcmp(hooks->h[i].name, name))
			return true;
	return false;
}

static int refuse_source(const struct sonde_lens_ctx *ctx)
{
	const struct sonde_target *t = ctx->targets->n ? &ctx->targets->t[0] : NULL;

	return sonde_err(
		ENOENT,
		"--query-source handler: no recipe knows a handler of %s (build-id %s); write "
		"one (docs/recipes.md says how) and name it with --recipe, or use "
		"--query-source auto",
		t && t->exe ? t->exe : "this target", t && *t->build_id ? t->build_id : "none");
}

int query_handler_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks)
{
	struct slots slots = {0};

	for (size_t i = 0; i < ctx->targets->n; i++) {
		const struct sonde_target *t = &ctx->targets->t[i];
		int err = add_target(ctx, t, &slots, hooks);

		if (err == -ENOENT && (!ctx->opts->recipe || t->gone || t->is_child))
			continue;
		if (err && sonde_target_alive(t)) /* one that has just gone needs no probe */
			return err;
	}
	if (ctx->opts->query_source == SONDE_SOURCE_HANDLER && !has_hook(hooks, QUERY_HOOK_EXECUTE))
		return refuse_source(ctx);
	return 0;
}

/* ---- what the kernel is told of them ---- */

/* A map's memory is taken when it is made: what no program of this plan fills is made small. */
int query_configure(struct sonde_lens_ctx *ctx, struct bpf_object *obj)
{
	static const struct {
		const char *map, *hook;
	} uses[] = {
		{"handled", QUERY_HOOK_EXECUTE},
		{"stack_reads", QUERY_HOOK_EXECUTE},
		{"handler_calls", QUERY_HOOK_RETURN},
		{"span_parked", QUERY_HOOK_YIELD},
	};

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(uses); i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, uses[i].map);

		if (!map ||
		    (!sonde_plan_find(ctx->plan, uses[i].hook) && bpf_map__set_max_entries(map, 1)))
			return sonde_err(EINVAL,
					 "query: the BPF object lacks its map %s; rebuild sonde",
					 uses[i].map);
	}
	return 0;
}

static struct sonde_query_field field_of(const struct sonde_handler_field *f)
{
	struct sonde_query_field out = {.arg = f->arg, .offset = f->offset};

	if (f->offset < 0)
		return (struct sonde_query_field){0};
	out.kind = f->is_constant ? SONDE_FIELD_CONSTANT
		   : f->is_value  ? SONDE_FIELD_REGISTER
		   : f->deref	  ? SONDE_FIELD_POINTER
				  : SONDE_FIELD_MEMORY;
	return out;
}

static int seed_one(int fd, uint32_t slot, const struct sonde_handler *h)
{
	struct sonde_query_handler value = {
		.index = field_of(&h->index),
		.wall_ms = field_of(&h->wall_ms),
		.wall_us = field_of(&h->wall_us),
		.found = field_of(&h->found),
		.text = field_of(&h->text),
		.length = field_of(&h->length),
		.command = field_of(&h->command),
		.version = field_of(&h->version),
		.socket = field_of(&h->socket),
		.sp_delta = h->site.sp_delta,
		.role = (uint8_t)h->role,
		.proto = h->proto,
		.end_return = h->end == SONDE_HANDLER_END_RETURN,
	};

	return bpf_map_update_elem(fd, &slot, &value, BPF_ANY) ? -errno : 0;
}

static int seed_target(struct sonde_lens_ctx *ctx, const struct sonde_target *t, int fd,
		       struct slots *slots)
{
	struct recipe_use u;
	int err = use_open(&u, ctx, t);
	size_t n = err || is_shared(slots, &u) ? 0 : u.recipe.n;

	for (size_t i = 0; !err && i < n && slots->next < SONDE_QUERY_HANDLERS; i++)
		err = seed_one(fd, slots->next++, &u.recipe.handlers[i]);
	use_fini(&u);
	return err == -ENOENT ? 0 : err;
}

int query_seed_handlers(struct sonde_lens_ctx *ctx)
{
	struct query_state *st = ctx->priv;
	int fd = bpf_object__find_map_fd_by_name(ctx->obj, "query_handlers");
	struct slots slots = {0};

	st->execute_seen = sonde_plan_find(ctx->plan, QUERY_HOOK_EXECUTE);
	st->log_seen = sonde_plan_find(ctx->plan, QUERY_HOOK_LOG);
	for (size_t i = 0; i < ctx->targets->n && (st->log_seen || st->execute_seen); i++) {
		const struct sonde_target *t = &ctx->targets->t[i];
		int err = seed_target(ctx, t, fd, &slots);

		if (err && sonde_target_alive(t))
			return sonde_err(-err,
					 "query: cannot tell the kernel where a handler keeps its "
					 "figures: %s",
					 strerror(-err));
	}
	return 0;
}
