// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where the statistics functions of the allocators are. A library may define them all while another
 * allocator serves malloc (glibc's mallinfo2 under a preloaded jemalloc), and a program may ask
 * either: so every file that can have them is looked at.
 *
 * The invariant: a return is only probed where the function neither throws nor switches stacks nor
 * calls what the program gave it. Any other is probed at its `ret` instructions, and where not all
 * of its ends can be probed its calls are counted but not timed.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "lens/ask_hooks.h"
#include "lens/hook_rows.h"
#include "sonde/ask.h"
#include "target/allocator.h"
#include "target/elf.h"

/*
 * Wrappers beside what they wrap: the outermost has the call, so its caller is the program. mallctl
 * leaves by a tail jump in Debian's jemalloc, where only a return probe sees the end.
 */
const struct sonde_ask_func sonde_ask_funcs[] = {
	{"mallinfo", "mallinfo", .plain = true},
	{"mallinfo2", "mallinfo2", .plain = true},
	{"malloc_trim", "malloc_trim", .plain = true},
	{"malloc_stats", "malloc_stats", .plain = false},
	{"malloc_info", "malloc_info", .plain = false},
	{"mallctl", "mallctl", .plain = true, .prefixed = true},
	{"mallctlbymib", "mallctlbymib", .plain = true, .prefixed = true},
	{"malloc_stats_print", "malloc_stats_print", .plain = false, .prefixed = true},
	{"MallocExtension_GetNumericProperty", "MallocExtension_GetNumericProperty",
	 .wrapper = true},
	{"MallocExtension_GetStats", "MallocExtension_GetStats", .wrapper = true},
	{"MallocExtension_MallocMemoryStats", "MallocExtension_MallocMemoryStats", .wrapper = true},
	{"MallocExtension_ReleaseFreeMemory", "MallocExtension_ReleaseFreeMemory", .wrapper = true},
	{"_ZN22TCMallocImplementation18GetNumericPropertyEPKcPm",
	 "MallocExtension::GetNumericProperty", .plain = false},
	{"_ZN22TCMallocImplementation8GetStatsEPci", "MallocExtension::GetStats", .plain = false},
	{"_ZN22TCMallocImplementation16GetFreeListSizesEPSt6vectorIN15MallocExtension12FreeListInfo"
	 "ESaIS2_EE",
	 "MallocExtension::GetFreeListSizes", .plain = false},
	{"_ZN22TCMallocImplementation15ReleaseToSystemEm", "MallocExtension::ReleaseToSystem",
	 .plain = false},
	{"_ZN24DebugMallocImplementation18GetNumericPropertyEPKcPm",
	 "MallocExtension::GetNumericProperty (debug)", .plain = false},
	{"_ZN15MallocExtension13GetHeapSampleEPNSt7__cxx1112basic_stringIcSt11char_"
	 "traitsIcESaIcEEE",
	 "MallocExtension::GetHeapSample", .plain = false},
};
const size_t sonde_ask_func_count = SONDE_ARRAY_SIZE(sonde_ask_funcs);
#define MAX_JUMPS 2 /* from one function to the next */

_Static_assert(SONDE_ARRAY_SIZE(sonde_ask_funcs) <= SONDE_ASK_FUNCS, "a cookie's row must fit");


static const struct sonde_alternative exit_alts[] = SONDE_ALTS_ENTRY("ask_exit");
static const struct sonde_alternative entry_alts[] = SONDE_ALTS_ENTRY("ask_entry");
static const struct sonde_alternative return_alts[] = {
	{.kind = SONDE_LINK_UPROBE_SESSION,
	 .program = "ask_session",
	 .needs = {SONDE_FEAT_UPROBE_SESSION, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},
	{.kind = SONDE_LINK_UPROBE_MULTI,
	 .program = "ask_entry",
	 .ret_program = "ask_return",
	 .needs = {SONDE_FEAT_UPROBE_MULTI, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},
	{.kind = SONDE_LINK_UPROBE_PERF,
	 .program = "ask_entry",
	 .ret_program = "ask_return",
	 .needs = {SONDE_FEAT_PERF_UPROBE, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},
};

/* The hooks of one target. Ends come first: an end without its begin does no harm. */
enum group { G_EXIT, G_ENTRY, G_RETURN, G__MAX };

static const struct sonde_hook group_hooks[G__MAX] = {
	[G_EXIT] = {.name = "ask.exit",
		    .alts = exit_alts,
		    .n_alts = SONDE_ARRAY_SIZE(exit_alts),
		    .purpose = "the allocator has answered (functions that may throw)"},
	[G_ENTRY] = {.name = "ask.entry",
		     .alts = entry_alts,
		     .n_alts = SONDE_ARRAY_SIZE(entry_alts),
		     .purpose = "the allocator is asked for its statistics"},
	[G_RETURN] = {.name = "ask.call",
		      .alts = return_alts,
		      .n_alts = SONDE_ARRAY_SIZE(return_alts),
		      .purpose = "the allocator is asked for its statistics, and answers"},
};

struct site_array {
	struct sonde_probe_site *s;
	size_t n, cap;
};

struct found {
	uint32_t func;
	struct sonde_sym sym;
};

/* One file of one process, being looked through. */
struct look {
	pid_t pid;
	uint32_t index;
	const struct sonde_module *module;
	struct sonde_elf *elf;
	struct site_array *groups;
	struct found found[64];
	size_t n_found;
};

static void site_free(struct sonde_probe_site *s)
{
	free(s->path);
	free(s->shown);
	free(s->symbol);
}

static int site_add(const struct look *l, enum group g, uint32_t func, unsigned flags,
		    const struct sonde_site *site)
{
	struct site_array *a = &l->groups[g];
	struct sonde_probe_site s = {
		.path = strdup(l->module->open_path),
		.shown = strdup(l->module->path),
		.symbol = strdup(sonde_ask_funcs[func].shown),
		.dev = l->module->dev,
		.inode = l->module->inode,
		.site = *site,
		.pid = l->pid,
		.want_return = g == G_RETURN,
	};

	if (site->kind == SONDE_INSN_EMULATED)
		flags |= SONDE_ASK_EMULATED;
	s.cookie = SONDE_ASK_COOKIE(func, flags, site->sp_delta, l->index);
	if (!s.path || !s.shown || !s.symbol || SONDE_GROW(a->s, a->n, a->cap)) {
		site_free(&s);
		return -ENOMEM;
	}
	a->s[a->n++] = s;
	return 0;
}

/* Names of one address are one function: the first in the table has it. */
static bool is_taken(const struct look *l, uint64_t function)
{
	for (int g = G_ENTRY; g < G__MAX; g++)
		for (size_t i = 0; i < l->groups[g].n; i++) {
			const struct sonde_probe_site *s = &l->groups[g].s[i];

			if (s->inode == l->module->inode && s->dev == l->module->dev &&
			    s->site.function == function)
				return true;
		}
	return false;
}

static bool is_ret(const uint8_t *code)
{
	if (*code == 0xf2 || *code == 0xf3)
		code++;
	return *code == 0xc3 || *code == 0xc2;
}

/* Where the jump at file offset @at leads, 0 if @code is none that says so. */
static uint64_t jump_target(const uint8_t *code, uint64_t at)
{
	int32_t far;

	if (code[0] == 0xeb)
		return at + 2 + (uint64_t)(int8_t)code[1];
	if (code[0] != 0xe9)
		return 0;
	memcpy(&far, code + 1, sizeof(far));
	return at + 5 + (uint64_t)far;
}

static int add_ends(const struct look *l, uint32_t func, uint64_t start, uint64_t size, int depth);

/* A function that ends in a jump to another ends where that one does. */
static int follow_jump(const struct look *l, uint32_t func, uint64_t target, int depth)
{
	uint64_t start, size;

	if (!target || depth >= MAX_JUMPS || sonde_elf_function_at(l->elf, target, &start, &size) ||
	    start != target)
		return -EOPNOTSUPP;
	return add_ends(l, func, start, size, depth + 1);
}

static int add_end(const struct look *l, uint32_t func, uint64_t at, int depth)
{
	struct sonde_site site = {
		.function = at, .offset = at, .kind = SONDE_INSN_STEPPED, .insn = "ret"};
	uint8_t code[5];
	int err = sonde_elf_code(l->elf, at, code, sizeof(code));

	if (err)
		return -EOPNOTSUPP;
	return is_ret(code) ? site_add(l, G_EXIT, func, 0, &site)
			    : follow_jump(l, func, jump_target(code, at), depth);
}

/* 0; -EOPNOTSUPP when not every end can be probed. */
static int add_ends(const struct look *l, uint32_t func, uint64_t start, uint64_t size, int depth)
{
	sonde_autofree uint64_t *exits = NULL;
	size_t n = 0;
	int err = sonde_site_exits(l->elf, start, size, &exits, &n);

	if (!err && (!n || n + l->groups[G_EXIT].n > SONDE_MAX_SITES))
		err = -EOPNOTSUPP;
	for (size_t i = 0; !err && i < n; i++)
		err = add_end(l, func, exits[i], depth);
	return err;
}

/* All or none. */
static int add_exits(const struct look *l, uint32_t func, const struct sonde_sym *sym)
{
	struct site_array *a = &l->groups[G_EXIT];
	size_t had = a->n;
	int err = add_ends(l, func, sym->offset, sym->size, 0);

	while (err && a->n > had)
		site_free(&a->s[--a->n]);
	return err;
}

static int add_func(const struct look *l, uint32_t func, const struct sonde_sym *sym)
{
	bool plain = sonde_ask_funcs[func].plain;
	struct sonde_site site;
	int err;

	if (is_taken(l, sym->offset))
		return 0;
	err = sonde_site_choose(l->elf, sym->offset, sym->size, 0, plain, &site);
	if (err)
		return err;
	if (plain)
		return site_add(l, G_RETURN, func, SONDE_ASK_RETURN, &site);
	err = add_exits(l, func, sym);
	if (err == -ENOMEM)
		return err;
	/* Left by a tail jump, so that what it wraps sees the same caller. */
	if (err && sonde_ask_funcs[func].wrapper)
		return 0;
	return site_add(l, G_ENTRY, func, err ? SONDE_ASK_UNTIMED : 0, &site);
}

static bool is_name_of(const struct sonde_ask_func *f, const char *name)
{
	for (const char *const *p = sonde_alloc_prefixes; *p; p++) {
		size_t n = strlen(*p);

		if (!strncmp(name, *p, n) && !strcmp(name + n, f->symbol))
			return true;
		if (!f->prefixed)
			break;
	}
	return false;
}

/* One pass over all symbols, for a program may have a million. */
static int note_symbol(void *ctx, const struct sonde_sym *sym)
{
	struct look *l = ctx;

	if (!strchr("mMj_", sym->name[0]))
		return 0;
	for (uint32_t f = 0; f < sonde_ask_func_count; f++)
		if (l->n_found < SONDE_ARRAY_SIZE(l->found) &&
		    is_name_of(&sonde_ask_funcs[f], sym->name))
			l->found[l->n_found++] = (struct found){f, *sym};
	return 0;
}

/* In the order of the table: of names that share an address the first is shown. */
static int look_through(struct look *l)
{
	char root[32];
	int err;

	snprintf(root, sizeof(root), "/proc/%d/root", l->pid);
	if (sonde_elf_try(&l->elf, l->module->open_path, root))
		return 0; /* not a file that has symbols */
	err = sonde_elf_each(l->elf, note_symbol, l);
	for (uint32_t f = 0; f < sonde_ask_func_count && !err; f++)
		for (size_t i = 0; i < l->n_found && !err; i++)
			if (l->found[i].func == f)
				err = add_func(l, f, &l->found[i].sym);
	sonde_elf_free(&l->elf);
	return err;
}

/* The program itself and the libraries of allocators. */
static bool may_answer(const struct sonde_module *m)
{
	static const char *const names[] = {"libc.so", "libc-", "libtcmalloc", "libjemalloc"};
	const char *base = strrchr(m->path, '/');

	base = base ? base + 1 : m->path;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(names); i++)
		if (!strncmp(base, names[i], strlen(names[i])))
			return true;
	return m->is_exe;
}

static int add_target(pid_t pid, uint32_t index, struct sonde_hook_list *hooks)
{
	struct site_array groups[G__MAX] = {0};
	struct sonde_modules mods = {0};
	int err = sonde_modules_read(pid, &mods);

	for (size_t i = 0; !err && i < mods.n; i++) {
		struct look l = {
			.pid = pid, .index = index, .module = &mods.m[i], .groups = groups};

		err = may_answer(&mods.m[i]) ? look_through(&l) : 0;
	}
	for (size_t g = 0; !err && g < G__MAX; g++) {
		struct sonde_hook h = group_hooks[g];

		if (!groups[g].n)
			continue;
		h.lens = SONDE_LENS_ASK;
		h.guarded = true; /* asked often they slow the target */
		h.sites = groups[g].s;
		h.n_sites = groups[g].n;
		err = sonde_hook_list_add(hooks, &h);
		if (!err)
			groups[g] = (struct site_array){0}; /* the list's now */
	}
	for (size_t g = 0; g < G__MAX; g++) {
		for (size_t i = 0; i < groups[g].n; i++)
			site_free(&groups[g].s[i]);
		free(groups[g].s);
	}
	sonde_modules_fini(&mods);
	return err;
}

int sonde_ask_hooks_add(const struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks)
{
	for (size_t i = 0; i < ctx->targets->n; i++) {
		const struct sonde_target *t = &ctx->targets->t[i];
		int err = t->gone ? 0 : add_target(t->pid, (uint32_t)i, hooks);

		if (err && sonde_target_alive(t)) /* one that has just gone needs no probe */
			return sonde_err(err,
					 "ask: cannot look for statistics functions of pid %d: %s",
					 t->pid, strerror(-err));
	}
	return 0;
}
