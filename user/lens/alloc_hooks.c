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
#include "core/log.h"
#include "core/mem.h"
#include "lens/alloc_hooks.h"
#include "lens/hook_rows.h"
#include "sonde/alloc.h"
#include "target/allocator.h"
#include "target/blocks/blocks.h"
#include "target/elf.h"

#define MAX_ALLOCATORS 4 /* of one process; what is beyond is not counted */


static const struct sonde_alternative free_alts[] = SONDE_ALTS_ENTRY("alloc_free");
static const struct sonde_alternative wrapper_alts[] = SONDE_ALTS_ENTRY("alloc_wrapper");
static const struct sonde_alternative take_alts[] = SONDE_ALTS_ENTRY("alloc_take");
static const struct sonde_alternative give_alts[] = SONDE_ALTS_ENTRY("alloc_give");
static const struct sonde_alternative ret_alts[] = SONDE_ALTS_ENTRY("alloc_ret");
static const struct sonde_alternative count_alts[] = SONDE_ALTS_ENTRY("alloc_count");
static const struct sonde_alternative window_alts[] = SONDE_ALTS_ENTRY("alloc_window");
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
enum group { G_RETURN, G_FREE, G_WRAPPER, G_TAKE, G_RET, G_GIVE, G_COUNT, G_WINDOW, G__MAX };

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
	[G_TAKE] = {.name = "alloc.take",
		    .required = true,
		    .alts = take_alts,
		    .n_alts = SONDE_ARRAY_SIZE(take_alts),
		    .purpose = "memory asked for, which its size class tells"},
	[G_RET] = {.name = "alloc.ret",
		   .required = true,
		   .alts = ret_alts,
		   .n_alts = SONDE_ARRAY_SIZE(ret_alts),
		   .purpose = "the pointers that operator new gives, at its own ret instructions"},
	[G_GIVE] = {.name = "alloc.give",
		    .required = true,
		    .alts = give_alts,
		    .n_alts = SONDE_ARRAY_SIZE(give_alts),
		    .purpose = "memory given back, looked up in the allocator's tables"},
	[G_COUNT] = {.name = "alloc.count",
		     .required = true,
		     .alts = count_alts,
		     .n_alts = SONDE_ARRAY_SIZE(count_alts),
		     .purpose = "calls and bytes asked for"},
	[G_WINDOW] = {.name = "alloc.window",
		      .required = true,
		      .alts = window_alts,
		      .n_alts = SONDE_ARRAY_SIZE(window_alts),
		      .purpose = "memory asked for, in short windows"},
};

/* In glibc's own file beside its set: passes the call on, with a return worth seeing. */
static const struct sonde_alloc_entry own_passing[] = {
	{"reallocarray", SONDE_ALLOC_REALLOCARRAY,
	 .args = SONDE_ARG_RDI | SONDE_ARG_RSI | SONDE_ARG_RDX},
};

struct process {
	pid_t pid;
	uint32_t index;	   /* in the session's list of targets */
	uint32_t *domains; /* given out so far, over all targets */
	enum sonde_alloc_returns returns;
	bool windows; /* entries of what hands out memory, all on one link of each file */
};

/* How the blocks of an allocator of the process are measured: part of its sites' cookies. */
struct rule {
	enum sonde_block_rule rule; /* UNKNOWN: calls are counted, no more */
	uint32_t domain;
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

static uint64_t cookie_of(const struct process *proc, const struct sonde_alloc_entry *e,
			  const struct sonde_site *site, const struct rule *rule)
{
	uint32_t flags = (e->aligned ? SONDE_ALLOC_COOKIE_ALIGNED : 0) |
			 (e->returns_size ? SONDE_ALLOC_COOKIE_SIZE : 0);

	return SONDE_ALLOC_COOKIE(e->op, flags, site->sp_delta, proc->index) |
	       SONDE_ALLOC_COOKIE_OF_INSN(site->kind) |
	       SONDE_ALLOC_COOKIE_BLOCK(rule->rule, rule->domain);
}

static int site_add(struct site_array *a, const struct sonde_module *m, const char *symbol,
		    const struct sonde_site *site, uint64_t cookie, const struct process *proc,
		    bool want_return)
{
	struct sonde_probe_site s = {
		.path = strdup(m->open_path),
		.shown = strdup(m->path),
		.symbol = strdup(symbol),
		.dev = m->dev,
		.inode = m->inode,
		.site = *site,
		.cookie = cookie,
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
		       const struct sonde_module *m, const struct sonde_alloc_entry *e, size_t n,
		       const struct rule *rule)
{
	struct sonde_elf *elf = NULL;
	char root[32];
	int err;

	snprintf(root, sizeof(root), "/proc/%d/root", proc->pid);
	err = sonde_elf_open(&elf, m->open_path, root);
	for (size_t i = 0; !err && i < n; i++) {
		bool want_return = sonde_alloc_wants_return(&e[i], proc->returns);
		struct sonde_site site;
		struct sonde_sym sym;

		if (sonde_elf_find(elf, e[i].symbol, &sym) || has_site(a, m, sym.offset))
			continue;
		err = sonde_site_choose(elf, sym.offset, sym.size, e[i].args, want_return, &site);
		err = err ? err
			  : site_add(a, m, e[i].symbol, &site, cookie_of(proc, &e[i], &site, rule),
				     proc, want_return);
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

static bool gives_back(const struct sonde_alloc_entry *e)
{
	return e->op == SONDE_ALLOC_FREE || e->op == SONDE_ALLOC_DELETE ||
	       e->op == SONDE_ALLOC_DELETE_SIZED;
}

static enum group group_of(const struct process *proc, const struct rule *rule,
			   const struct sonde_alloc_entry *e)
{
	if (proc->windows)
		return G_WINDOW;
	if (rule->rule == SONDE_BLOCK_UNKNOWN)
		return G_COUNT;
	if (rule->rule == SONDE_BLOCK_HEADER)
		return gives_back(e) ? G_FREE : G_RETURN;
	if (gives_back(e))
		return G_GIVE;
	return sonde_alloc_wants_return(e, proc->returns) ? G_RETURN : G_TAKE;
}

/* Where what is not seen at its return gives its pointers; marks the sites that are complete. */
static int add_rets(struct site_array *a, const struct process *proc, const struct sonde_module *m,
		    const struct rule *rule, struct sonde_alloc_site *sites, size_t n_sites)
{
	sonde_autofree struct sonde_alloc_return *rets = NULL;
	size_t n = 0;
	int err = sonde_allocator_returns(m, sites, n_sites, &rets, &n);

	for (size_t i = 0; !err && i < n; i++) {
		struct sonde_site at = {.function = rets[i].offset,
					.offset = rets[i].offset,
					.kind = SONDE_INSN_STEPPED,
					.insn = "ret"};
		char shown[sizeof(rets[i].of->symbol) + 8];

		snprintf(shown, sizeof(shown), "ret of %s", rets[i].of->symbol);
		err = site_add(a, m, shown, &at, cookie_of(proc, rets[i].of->entry, &at, rule),
			       proc, false);
	}
	return err;
}

/* The allocator's own functions, as its descriptor lists them. */
static int add_own(struct site_array groups[G__MAX], const struct process *proc,
		   const struct sonde_allocator *a, const struct sonde_module *m,
		   const struct rule *rule)
{
	sonde_autofree struct sonde_alloc_site *sites = NULL;
	size_t n = 0;
	bool entries = rule->rule == SONDE_BLOCK_UNKNOWN || proc->windows;
	int err = sonde_allocator_sites(a, m, entries ? SONDE_RETURNS_NONE : proc->returns, &sites,
					&n);

	if (!err && !entries && proc->returns == SONDE_RETURNS_ALL)
		err = add_rets(&groups[G_RET], proc, m, rule, sites, n);
	for (size_t i = 0; !err && i < n; i++) {
		const struct sonde_alloc_entry *e = sites[i].entry;
		enum group g = group_of(proc, rule, e);
		uint64_t tracked = sites[i].tracked ? SONDE_ALLOC_COOKIE_TRACKED : 0;

		if (proc->windows && gives_back(e))
			continue;
		err = site_add(&groups[g], m, sites[i].symbol, &sites[i].site,
			       cookie_of(proc, e, &sites[i].site, rule) | tracked, proc,
			       g == G_RETURN);
	}
	return err;
}

/* What wraps glibc's functions lies in other files too: the C++ library, the program. */
static int add_wrappers(struct site_array groups[G__MAX], const struct process *proc,
			const struct sonde_modules *mods, size_t own, const struct rule *rule)
{
	int err = add_passing(&groups[G_RETURN], proc, &mods->m[own], own_passing,
			      SONDE_ARRAY_SIZE(own_passing), rule);

	for (size_t i = 0; !err && i < mods->n; i++)
		if (may_wrap(&mods->m[i]))
			err = add_passing(&groups[G_WRAPPER], proc, &mods->m[i], sonde_cxx_entries,
					  sonde_cxx_entry_count, rule);
	return err;
}

/* Its tables, found in the process, and found again in a scratch process where one can be had. */
static int find_tables(const struct process *proc, const struct sonde_allocator *a,
		       const struct sonde_modules *mods, size_t m, char *why, size_t size)
{
	sonde_autofree struct sonde_alloc_domain *d = malloc(sizeof(*d));
	int err = d ? sonde_blocks_learn(proc->pid, a, &mods->m[m], d) : -ENOMEM;

	if (err) {
		snprintf(why, size, "%s", strerror(-err));
		return err;
	}
	err = sonde_blocks_confirm(proc->pid, a, mods, m, d, why, size);
	if (err != -EOPNOTSUPP)
		return err;
	sonde_debug("%s: no scratch process confirms the tables of blocks: %s", mods->m[m].path,
		    why);
	return 0;
}

static struct rule rule_of(const struct process *proc, const struct sonde_allocator *a,
			   const struct sonde_modules *mods, size_t m)
{
	struct rule rule = {.rule = a->rule};
	char why[256];

	if (!a->learn)
		return rule;
	if (proc->windows)
		return (struct rule){.rule = SONDE_BLOCK_UNKNOWN}; /* sizes asked for, no blocks */
	if (find_tables(proc, a, mods, m, why, sizeof(why))) {
		sonde_warn("%s: the tables in which this %s keeps the sizes of its blocks were not "
			   "found (%s): its calls are counted, and live bytes once they are there",
			   mods->m[m].path, a->name, why);
		rule.rule = SONDE_BLOCK_UNKNOWN;
		return rule;
	}
	rule.domain = (*proc->domains)++;
	return rule;
}

static int find_sites(struct site_array groups[G__MAX], const struct process *proc,
		      const struct sonde_modules *mods)
{
	struct sonde_allocator_use use[MAX_ALLOCATORS];
	size_t n = 0;
	int err = sonde_allocator_list(proc->pid, mods, use, MAX_ALLOCATORS, &n);

	if (err)
		return err == -ENOENT ? 0 : err;
	for (size_t i = 0; !err && i < n; i++) {
		const struct sonde_allocator *a = use[i].allocator;
		struct rule rule = rule_of(proc, a, mods, use[i].module);

		err = add_own(groups, proc, a, &mods->m[use[i].module], &rule);
		if (!err && rule.rule == SONDE_BLOCK_HEADER && !proc->windows)
			err = add_wrappers(groups, proc, mods, use[i].module, &rule);
	}
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
	uint32_t domains = 0;

	for (size_t i = 0; i < ctx->targets->n; i++) {
		const struct sonde_target *t = &ctx->targets->t[i];
		struct process proc = {.pid = t->pid,
				       .index = (uint32_t)i,
				       .domains = &domains,
				       .returns = ctx->opts->sites ? SONDE_RETURNS_ALL
								   : SONDE_RETURNS_SIZES,
				       .windows = ctx->opts->alloc_windows};
		int err = t->gone || !t->allocator ? 0 : add_target(&proc, hooks);

		if (err && sonde_target_alive(t)) /* one that has just gone needs no probe */
			return err;
	}
	return 0;
}
