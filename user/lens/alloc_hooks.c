// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Probe sites of the alloc lens. The allocator's descriptor says what to count in its own file; the
 * lens adds the functions that only pass a call on (reallocarray, operator new and delete), so that
 * a call is named as the program made it.
 *
 * The invariant: a return is only ever probed where the function neither throws nor switches
 * stacks.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "lens/alloc_hooks.h"
#include "sonde/alloc.h"
#include "target/allocator.h"
#include "target/elf.h"

#define ENTRY_ALTS(prog)                                                                           \
	{                                                                                          \
		{.kind = SONDE_LINK_UPROBE_MULTI,                                                  \
		 .program = prog,                                                                  \
		 .needs = {SONDE_FEAT_UPROBE_MULTI, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},    \
			{.kind = SONDE_LINK_UPROBE_PERF,                                           \
			 .program = prog,                                                          \
			 .needs = {SONDE_FEAT_PERF_UPROBE, SONDE_FEAT_TASK_STORAGE,                \
				   SONDE_FEAT_NONE}},                                              \
	}

static const struct sonde_alternative free_alts[] = ENTRY_ALTS("alloc_free");
static const struct sonde_alternative wrapper_alts[] = ENTRY_ALTS("alloc_wrapper");
static const struct sonde_alternative count_alts[] = ENTRY_ALTS("alloc_count");
static const struct sonde_alternative return_alts[] = {
	{.kind = SONDE_LINK_UPROBE_SESSION,
	 .program = "alloc_session",
	 .needs = {SONDE_FEAT_UPROBE_SESSION, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},
	{.kind = SONDE_LINK_UPROBE_MULTI,
	 .program = "alloc_entry",
	 .ret_program = "alloc_return",
	 .needs = {SONDE_FEAT_UPROBE_MULTI, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},
	{.kind = SONDE_LINK_UPROBE_PERF,
	 .program = "alloc_entry",
	 .ret_program = "alloc_return",
	 .needs = {SONDE_FEAT_PERF_UPROBE, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},
};

/* The hooks of one target, in the order of this table. */
enum group { G_RETURN, G_FREE, G_WRAPPER, G_COUNT, G__MAX };

static const struct sonde_hook group_hooks[G__MAX] = {
	[G_RETURN] = {.name = "alloc.return",
		      .required = true,
		      .alts = return_alts,
		      .n_alts = SONDE_ARRAY_SIZE(return_alts),
		      .purpose = "memory asked for and got"},
	[G_FREE] = {.name = "alloc.free",
		    .required = true,
		    .alts = free_alts,
		    .n_alts = SONDE_ARRAY_SIZE(free_alts),
		    .purpose = "memory given back"},
	[G_WRAPPER] = {.name = "alloc.wrapper",
		       .alts = wrapper_alts,
		       .n_alts = SONDE_ARRAY_SIZE(wrapper_alts),
		       .purpose = "calls named by operator new and delete"},
	[G_COUNT] = {.name = "alloc.count",
		     .required = true,
		     .alts = count_alts,
		     .n_alts = SONDE_ARRAY_SIZE(count_alts),
		     .purpose = "calls and bytes asked for"},
};

/* Functions that pass the call on to the allocator. `aligned`: the second argument is an alignment.
 */
struct passing {
	const char *symbol;
	enum sonde_alloc_op op;
	bool aligned;
};

/* In the allocator's own file, with a return worth seeing. */
static const struct passing own_passing[] = {
	{"reallocarray", SONDE_ALLOC_REALLOCARRAY, false},
};

/* In the C++ library, or in a program that carries its own; they may throw. */
static const struct passing cxx_passing[] = {
	{"_Znwm", SONDE_ALLOC_NEW, false},
	{"_Znam", SONDE_ALLOC_NEW, false},
	{"_ZnwmRKSt9nothrow_t", SONDE_ALLOC_NEW, false},
	{"_ZnamRKSt9nothrow_t", SONDE_ALLOC_NEW, false},
	{"_ZnwmSt11align_val_t", SONDE_ALLOC_NEW, true},
	{"_ZnamSt11align_val_t", SONDE_ALLOC_NEW, true},
	{"_ZnwmSt11align_val_tRKSt9nothrow_t", SONDE_ALLOC_NEW, true},
	{"_ZnamSt11align_val_tRKSt9nothrow_t", SONDE_ALLOC_NEW, true},
	{"_ZdlPv", SONDE_ALLOC_DELETE, false},
	{"_ZdaPv", SONDE_ALLOC_DELETE, false},
	{"_ZdlPvRKSt9nothrow_t", SONDE_ALLOC_DELETE, false},
	{"_ZdaPvRKSt9nothrow_t", SONDE_ALLOC_DELETE, false},
	{"_ZdlPvSt11align_val_t", SONDE_ALLOC_DELETE, false},
	{"_ZdaPvSt11align_val_t", SONDE_ALLOC_DELETE, false},
	{"_ZdlPvSt11align_val_tRKSt9nothrow_t", SONDE_ALLOC_DELETE, false},
	{"_ZdaPvSt11align_val_tRKSt9nothrow_t", SONDE_ALLOC_DELETE, false},
	{"_ZdlPvm", SONDE_ALLOC_DELETE_SIZED, false},
	{"_ZdaPvm", SONDE_ALLOC_DELETE_SIZED, false},
	{"_ZdlPvmSt11align_val_t", SONDE_ALLOC_DELETE_SIZED, false},
	{"_ZdaPvmSt11align_val_t", SONDE_ALLOC_DELETE_SIZED, false},
};

struct process {
	pid_t pid;
	uint32_t index; /* in the session's list of targets */
};

struct site_array {
	struct sonde_probe_site *s;
	size_t n, cap;
};

static void site_free(struct sonde_probe_site *s)
{
	free(s->path);
	free(s->shown);
	free(s->symbol);
}

static void site_array_fini(struct site_array *a)
{
	for (size_t i = 0; i < a->n; i++)
		site_free(&a->s[i]);
	free(a->s);
	*a = (struct site_array){0};
}

static bool has_site(const struct site_array *a, const struct sonde_module *m, uint64_t function)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->s[i].inode == m->inode && a->s[i].dev == m->dev &&
		    a->s[i].site.function == function)
			return true;
	return false;
}

static int site_add(struct site_array *a, const struct process *proc, const struct sonde_module *m,
		    const struct passing *p, const struct sonde_site *site, bool want_return)
{
	struct sonde_probe_site s = {
		.path = strdup(m->open_path),
		.shown = strdup(m->path),
		.symbol = strdup(p->symbol),
		.dev = m->dev,
		.inode = m->inode,
		.site = *site,
		.cookie = SONDE_ALLOC_COOKIE(p->op, p->aligned, site->sp_delta, proc->index),
		.pid = proc->pid,
		.want_return = want_return,
	};

	if (!s.path || !s.shown || !s.symbol || SONDE_GROW(a->s, a->n, a->cap)) {
		site_free(&s);
		return -ENOMEM;
	}
	a->s[a->n++] = s;
	return 0;
}

/* Resolve @n passing functions in @m; those that it lacks or that are there already are passed
 * over. */
static int add_passing(struct site_array *a, const struct process *proc,
		       const struct sonde_module *m, const struct passing *p, size_t n,
		       bool want_return)
{
	unsigned args = SONDE_ARG_RDI | SONDE_ARG_RSI | SONDE_ARG_RDX;
	struct sonde_elf *elf = NULL;
	char root[32];
	int err;

	snprintf(root, sizeof(root), "/proc/%d/root", proc->pid);
	err = sonde_elf_open(&elf, m->open_path, root);
	for (size_t i = 0; !err && i < n; i++) {
		struct sonde_site site;
		struct sonde_sym sym;

		if (sonde_elf_find(elf, p[i].symbol, &sym) || has_site(a, m, sym.offset))
			continue;
		if (!want_return)
			args = SONDE_ARG_RDI | (p[i].aligned ? SONDE_ARG_RSI : 0);
		err = sonde_site_choose(elf, sym.offset, sym.size, args, want_return, &site);
		err = err ? err : site_add(a, proc, m, &p[i], &site, want_return);
	}
	sonde_elf_free(&elf);
	return err;
}

/* A file that may define operator new: a C++ library, or the program itself. */
static bool may_wrap(const struct sonde_module *m)
{
	const char *base = strrchr(m->path, '/');

	base = base ? base + 1 : m->path;
	return m->is_exe || !strncmp(base, "libstdc++", 9) || !strncmp(base, "libc++", 6);
}

static enum group group_of(const struct sonde_allocator *a, const struct sonde_alloc_entry *e)
{
	if (!a->exact)
		return G_COUNT;
	if (e->op == SONDE_ALLOC_FREE)
		return G_FREE;
	if (e->may_throw || e->op == SONDE_ALLOC_DELETE || e->op == SONDE_ALLOC_DELETE_SIZED)
		return G_WRAPPER;
	return G_RETURN;
}

/* The allocator's own functions, as its descriptor lists them. */
static int add_own(struct site_array groups[G__MAX], const struct process *proc,
		   const struct sonde_allocator *a, const struct sonde_module *m)
{
	sonde_autofree struct sonde_alloc_site *sites = NULL;
	size_t n = 0;
	int err = sonde_allocator_sites(a, m, a->exact, &sites, &n);

	for (size_t i = 0; !err && i < n; i++) {
		const struct sonde_alloc_entry *e = sites[i].entry;
		struct passing p = {.symbol = sites[i].symbol, .op = e->op};
		enum group g = group_of(a, e);

		p.aligned = e->op == SONDE_ALLOC_NEW && strstr(e->symbol, "align_val_t");
		err = site_add(&groups[g], proc, m, &p, &sites[i].site, g == G_RETURN);
	}
	return err;
}

static int find_sites(struct site_array groups[G__MAX], const struct process *proc,
		      const struct sonde_modules *mods)
{
	const struct sonde_allocator *a;
	char version[32];
	size_t own;
	int err = sonde_allocator_detect(proc->pid, mods, &a, &own, version, sizeof(version));

	if (err)
		return err == -ENOENT ? 0 : err;
	err = add_own(groups, proc, a, &mods->m[own]);
	if (err || !a->exact)
		return err;
	err = add_passing(&groups[G_RETURN], proc, &mods->m[own], own_passing,
			  SONDE_ARRAY_SIZE(own_passing), true);
	for (size_t i = 0; !err && i < mods->n; i++)
		if (may_wrap(&mods->m[i]))
			err = add_passing(&groups[G_WRAPPER], proc, &mods->m[i], cxx_passing,
					  SONDE_ARRAY_SIZE(cxx_passing), false);
	return err;
}

static int add_target(const struct process *proc, struct sonde_hook_list *hooks)
{
	struct site_array groups[G__MAX] = {0};
	struct sonde_modules mods = {0};
	int err = sonde_modules_read(proc->pid, &mods);

	if (!err)
		err = find_sites(groups, proc, &mods);
	for (size_t g = 0; !err && g < G__MAX; g++) {
		struct sonde_hook h = group_hooks[g];

		if (!groups[g].n)
			continue;
		h.lens = SONDE_LENS_ALLOC;
		h.guarded = true;
		h.sites = groups[g].s;
		h.n_sites = groups[g].n;
		err = sonde_hook_list_add(hooks, &h);
		if (!err)
			groups[g] = (struct site_array){0}; /* the list's now */
	}
	for (size_t g = 0; g < G__MAX; g++)
		site_array_fini(&groups[g]);
	sonde_modules_fini(&mods);
	return err;
}

int sonde_alloc_hooks_add(const struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks)
{
	for (size_t i = 0; i < ctx->targets->n; i++) {
		const struct sonde_target *t = &ctx->targets->t[i];
		struct process proc = {.pid = t->pid, .index = (uint32_t)i};
		int err = t->gone || !t->allocator ? 0 : add_target(&proc, hooks);

		if (err && sonde_target_alive(t)) /* one that has just gone needs no probe */
			return err;
	}
	return 0;
}
