// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the query lens attaches: socket tracepoints, or where the kernel has none the system calls
 * themselves; and the daemon's own handlers where a recipe knows them, by entry probes only, since
 * a handler may switch stacks.
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
#include "lens/query_impl.h"
#include "target/daemon.h"
#include "target/elf.h"
#include "target/maps.h"
#include "target/proc.h"

#define TP(prog, ev, need)                                                                         \
	{                                                                                          \
		.kind = SONDE_LINK_TP_BTF, .program = prog, .event = ev, .needs = {                \
			SONDE_FEAT_TP_BTF,                                                         \
			SONDE_FEAT_SK_STORAGE,                                                     \
			need                                                                       \
		}                                                                                  \
	}

#define SYSCALL(prog, ev, weak)                                                                    \
	{                                                                                          \
		.kind = SONDE_LINK_TRACEPOINT, .program = prog, .event = ev,                       \
		.needs = {SONDE_FEAT_TRACEFS, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE},           \
		.weaker = weak                                                                     \
	}

#define NO_WAIT "no queue wait: this kernel lacks socket tracepoints, so system calls are read"

static const struct sonde_alternative recv_alts[] = {
	TP("query_recv", "sock_recv_length", SONDE_FEAT_SOCK_LENGTH),
	SYSCALL("query_sys_exit", "syscalls/sys_exit_recvfrom", NO_WAIT),
};
static const struct sonde_alternative send_alts[] = {
	TP("query_send", "sock_send_length", SONDE_FEAT_SOCK_LENGTH),
	SYSCALL("query_sys_exit", "syscalls/sys_exit_sendto", NO_WAIT),
};
static const struct sonde_alternative ready_alts[] = {
	TP("query_ready", "sk_data_ready", SONDE_FEAT_SK_DATA_READY),
};
static const struct sonde_alternative close_alts[] = {
	TP("query_close", "tcp_destroy_sock", SONDE_FEAT_SOCK_LENGTH),
	SYSCALL("query_sys_close", "syscalls/sys_enter_close", NULL),
};
static const struct sonde_alternative listen_alts[] = {
	TP("query_listen", "inet_sock_set_state", SONDE_FEAT_SOCK_LENGTH),
};
static const struct sonde_alternative shut_alts[] = {
	TP("query_shut", "inet_sock_set_state", SONDE_FEAT_SOCK_LENGTH),
};
static const struct sonde_alternative sweep_alts[] = {
	{.kind = SONDE_LINK_ITER,
	 .program = "query_sweep",
	 .event = "task_file",
	 .needs = {SONDE_FEAT_ITER_TASK_FILE, SONDE_FEAT_SK_STORAGE, SONDE_FEAT_SOCK_LENGTH}},
};
static const struct sonde_alternative seed_alts[] = {
	{.kind = SONDE_LINK_ITER,
	 .program = "query_seed",
	 .event = "task_file",
	 .needs = {SONDE_FEAT_ITER_TASK_FILE, SONDE_FEAT_SK_STORAGE, SONDE_FEAT_SOCK_LENGTH}},
	{.kind = SONDE_LINK_ITER,
	 .program = "query_seed_fd",
	 .event = "task_file",
	 .needs = {SONDE_FEAT_ITER_TASK_FILE, SONDE_FEAT_NONE, SONDE_FEAT_NONE}},
};

#define HOOK(nm, al, req, what)                                                                    \
	{                                                                                          \
		.name = nm, .lens = SONDE_LENS_QUERY, .required = req, .alts = al,                 \
		.n_alts = SONDE_ARRAY_SIZE(al), .purpose = what                                    \
	}

static const struct sonde_hook socket_hooks[] = {
	HOOK("query.recv", recv_alts, true, "a request is read"),
	HOOK("query.send", send_alts, true, "an answer is sent"),
	HOOK("query.ready", ready_alts, false, "a request has arrived: its queue wait"),
	HOOK("query.close", close_alts, false, "a connection ends"),
	HOOK("query.listen", listen_alts, false, "it listens on another port than before"),
	HOOK("query.shut", shut_alts, false, "the server ends a connection, or dies"),
	HOOK("query.sweep", sweep_alts, false, "queries still open at the end"),
	HOOK("query.seed", seed_alts, false, "connections open before attach"),
};

#define SYS_ENTER(call)                                                                            \
	static const struct sonde_alternative enter_##call##_alts[] = {                            \
		SYSCALL("query_sys_enter", "syscalls/sys_enter_" #call, NULL)};
#define SYS_EXIT(call)                                                                             \
	static const struct sonde_alternative exit_##call##_alts[] = {                             \
		SYSCALL("query_sys_exit", "syscalls/sys_exit_" #call, NULL)};
static const struct sonde_alternative enter_recvfrom_alts[] = {
	SYSCALL("query_sys_recvfrom", "syscalls/sys_enter_recvfrom", NULL)};
SYS_ENTER(sendto)
SYS_ENTER(recvmsg)
SYS_EXIT(recvmsg)
SYS_ENTER(sendmsg)
SYS_EXIT(sendmsg)
SYS_ENTER(read)
SYS_EXIT(read)
SYS_ENTER(write)
SYS_EXIT(write)
SYS_ENTER(readv)
SYS_EXIT(readv)
SYS_ENTER(writev)
SYS_EXIT(writev)
SYS_ENTER(accept)
SYS_EXIT(accept)
SYS_ENTER(accept4)
SYS_EXIT(accept4)
#undef SYS_ENTER
#undef SYS_EXIT

#define SYS_PAIR(call)                                                                             \
	HOOK("query.sys." #call, enter_##call##_alts, false, "a system call begins"),              \
		HOOK("query.sys." #call ".exit", exit_##call##_alts, false, "and ends")

/* Beside the hooks above, whose second alternatives are the ends of recvfrom and sendto. */
static const struct sonde_hook syscall_hooks[] = {
	HOOK("query.sys.recvfrom", enter_recvfrom_alts, true, "a system call begins"),
	HOOK("query.sys.sendto", enter_sendto_alts, true, "a system call begins"),
	SYS_PAIR(recvmsg),
	SYS_PAIR(sendmsg),
	SYS_PAIR(read),
	SYS_PAIR(write),
	SYS_PAIR(readv),
	SYS_PAIR(writev),
	SYS_PAIR(accept),
	SYS_PAIR(accept4),
};

/* ---- handlers ---- */

#define ENTRY_ALTS(prog)                                                                           \
	{                                                                                          \
		{.kind = SONDE_LINK_UPROBE_MULTI,                                                  \
		 .program = prog,                                                                  \
		 .needs = {SONDE_FEAT_UPROBE_MULTI, SONDE_FEAT_TASK_STORAGE, SONDE_FEAT_NONE}},    \
		{                                                                                  \
			.kind = SONDE_LINK_UPROBE_PERF, .program = prog, .needs = {                \
				SONDE_FEAT_PERF_UPROBE,                                            \
				SONDE_FEAT_TASK_STORAGE,                                           \
				SONDE_FEAT_NONE                                                    \
			}                                                                          \
		}                                                                                  \
	}

static const struct sonde_alternative execute_alts[] = ENTRY_ALTS("query_execute");
static const struct sonde_alternative log_alts[] = ENTRY_ALTS("query_log");

static const struct sonde_hook execute_hook =
	HOOK("query.execute", execute_alts, false, "a statement begins, in the daemon's own code");
static const struct sonde_hook log_hook =
	HOOK("query.log", log_alts, false, "a search ends: index, documents found, wall time");

struct recipe_site {
	const struct sonde_target *target;
	const struct sonde_module *module;
	unsigned slot;
};

static void site_free(struct sonde_probe_site *s)
{
	if (!s)
		return;
	free(s->path);
	free(s->shown);
	free(s->symbol);
	free(s);
}

static int add_handler(const struct recipe_site *at, const struct sonde_handler *h,
		       struct sonde_hook_list *hooks)
{
	struct sonde_hook hook = h->role == SONDE_HANDLER_EXECUTE ? execute_hook : log_hook;
	struct sonde_probe_site *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	*s = (struct sonde_probe_site){
		.path = strdup(at->module->open_path),
		.shown = strdup(at->module->path),
		.symbol = strdup(h->symbol ? h->symbol : ""),
		.dev = at->module->dev,
		.inode = at->module->inode,
		.cookie = SONDE_QUERY_COOKIE(h->role, at->slot),
		.pid = at->target->pid,
		.site = h->site,
	};
	err = s->path && s->shown && s->symbol ? 0 : -ENOMEM;
	hook.sites = s;
	hook.n_sites = 1;
	err = err ? err : sonde_hook_list_add(hooks, &hook);
	if (err)
		site_free(s);
	return err;
}

/* Call @each for every handler that the recipe of @t's executable knows. */
static int each_handler(const struct sonde_target *t, unsigned *slot, void *ctx,
			int (*each)(void *ctx, const struct recipe_site *at,
				    const struct sonde_handler *h))
{
	struct sonde_modules mods = {0};
	struct sonde_recipe recipe = {0};
	struct recipe_site at = {.target = t};
	struct sonde_elf *elf = NULL;
	char root[32];
	int err = sonde_modules_read(t->pid, &mods);

	for (size_t i = 0; !err && i < mods.n; i++)
		if (mods.m[i].is_exe)
			at.module = &mods.m[i];
	if (err || !at.module)
		goto out;
	snprintf(root, sizeof(root), "/proc/%d/root", t->pid);
	err = sonde_elf_open(&elf, at.module->open_path, root);
	err = err ? err : sonde_recipe_find(NULL, t->build_id, elf, &recipe);
	for (size_t i = 0; !err && i < recipe.n && *slot < SONDE_QUERY_HANDLERS; i++) {
		at.slot = (*slot)++;
		err = each(ctx, &at, &recipe.handlers[i]);
	}
	sonde_recipe_fini(&recipe);
	sonde_elf_free(&elf);
out:
	sonde_modules_fini(&mods);
	return err == -ENOENT ? 0 : err;
}

struct handler_list {
	struct sonde_hook_list *hooks;
	bool spans;
};

/* What a search's end tells goes to its span and nowhere else: without spans it is not worth a trap. */
static int add_one(void *ctx, const struct recipe_site *at, const struct sonde_handler *h)
{
	struct handler_list *list = ctx;

	if (h->role != SONDE_HANDLER_EXECUTE && !list->spans)
		return 0;
	return add_handler(at, h, list->hooks);
}

static int add_handlers(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks)
{
	struct handler_list list = {hooks, ctx->opts->want_spans};
	unsigned slot = 0;

	for (size_t i = 0; i < ctx->targets->n; i++) {
		const struct sonde_target *t = &ctx->targets->t[i];
		int err;

		if (t->gone || !t->daemon)
			continue;
		err = each_handler(t, &slot, &list, add_one);
		if (err && sonde_target_alive(t)) /* one that has just gone needs no probe */
			return err;
	}
	return 0;
}

/* Only kernels without the socket tracepoints, or a test, read system calls. */
static bool want_syscalls(void)
{
	struct sonde_plan_choice choice = {0};

	sonde_plan_choice_from_env(&choice);
	return choice.force_syscalls || sonde_btf_tracepoint_args("sock_recv_length") < 0;
}

int query_hooks(struct sonde_lens_ctx *ctx, struct sonde_hook_list *hooks)
{
	int err = 0;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(socket_hooks) && !err; i++)
		if (socket_hooks[i].n_alts > 1 || socket_hooks[i].alts == ready_alts ||
		    !want_syscalls())
			err = sonde_hook_list_add(hooks, &socket_hooks[i]);
	for (size_t i = 0; want_syscalls() && i < SONDE_ARRAY_SIZE(syscall_hooks) && !err; i++)
		err = sonde_hook_list_add(hooks, &syscall_hooks[i]);
	err = err ? err : query_anatomy_hooks(ctx, hooks);
	if (err || ctx->opts->passive)
		return err;
	return add_handlers(ctx, hooks);
}

/* ---- seeding ---- */

static struct sonde_query_field field_of(const struct sonde_handler_field *f)
{
	return (struct sonde_query_field){f->offset < 0 ? -1 : f->arg, f->offset, f->deref};
}

static int seed_one(void *ctx, const struct recipe_site *at, const struct sonde_handler *h)
{
	struct sonde_query_handler value = {
		.index = field_of(&h->index),
		.wall_ms = field_of(&h->wall_ms),
		.wall_us = field_of(&h->wall_us),
		.found = field_of(&h->found),
	};
	uint32_t slot = at->slot;

	return bpf_map_update_elem(*(int *)ctx, &slot, &value, BPF_ANY) ? -errno : 0;
}

int query_seed_handlers(struct sonde_lens_ctx *ctx)
{
	struct query_state *st = ctx->priv;
	int fd = bpf_object__find_map_fd_by_name(ctx->obj, "query_handlers");
	unsigned slot = 0;

	for (size_t i = 0; i < ctx->plan->n; i++) {
		const struct sonde_plan_item *item = &ctx->plan->items[i];

		if (item->alt < 0)
			continue;
		st->execute_seen |= !strcmp(item->hook->name, execute_hook.name);
		st->log_seen |= !strcmp(item->hook->name, log_hook.name);
	}
	for (size_t i = 0; i < ctx->targets->n && st->log_seen; i++) {
		const struct sonde_target *t = &ctx->targets->t[i];
		int err = t->gone || !t->daemon ? 0 : each_handler(t, &slot, &fd, seed_one);

		if (err && sonde_target_alive(t))
			return sonde_err(err,
					 "query: cannot tell the kernel where a handler keeps its "
					 "figures: %s",
					 strerror(-err));
	}
	return 0;
}

/* Ports that the target listens on, for sockets that the iterator cannot see. */
static int seed_ports(struct sonde_lens_ctx *ctx, pid_t pid)
{
	int fd = bpf_object__find_map_fd_by_name(ctx->obj, "query_ports");
	sonde_autofree struct sonde_proc_sock *socks = NULL;
	size_t n = 0;
	int err = sonde_proc_sockets(pid, &socks, &n);
	uint8_t one = 1;

	for (size_t i = 0; !err && i < n; i++)
		if (socks[i].listening && socks[i].local_port &&
		    bpf_map_update_elem(fd, &socks[i].local_port, &one, BPF_ANY))
			err = -errno;
	return err;
}

/* Run an iterator to its end; what it writes to maps is the result. */
static int run_iter(int link)
{
	sonde_autoclose int fd = bpf_iter_create(link);
	char buf[64];

	if (fd < 0)
		return -errno;
	while (read(fd, buf, sizeof(buf)) > 0)
		;
	return 0;
}

/* For one process. */
static int run_seed(const struct bpf_program *prog, pid_t pid)
{
	union bpf_iter_link_info info = {.task.pid = (uint32_t)pid};
	LIBBPF_OPTS(bpf_link_create_opts, opts, .iter_info = &info, .iter_info_len = sizeof(info));
	int prog_fd = bpf_program__fd(prog);
	sonde_autoclose int link = bpf_link_create(prog_fd, 0, BPF_TRACE_ITER, &opts);

	/* Before 6.1 an iterator walks every task; the program filters anyway. */
	if (link < 0 && (errno == E2BIG || errno == EINVAL))
		link = bpf_link_create(prog_fd, 0, BPF_TRACE_ITER, NULL);
	return link < 0 ? -errno : run_iter(link);
}

/* The program that the plan chose for an iterator's hook, or NULL. */
static const struct bpf_program *iter_program(struct sonde_lens_ctx *ctx, const char *hook)
{
	for (size_t i = 0; i < ctx->plan->n; i++)
		if (ctx->plan->items[i].alt >= 0 && !strcmp(ctx->plan->items[i].hook->name, hook))
			return bpf_object__find_program_by_name(ctx->obj,
								ctx->plan->items[i].program);
	return NULL;
}

int query_sweep_sockets(struct sonde_lens_ctx *ctx)
{
	const struct bpf_program *sweep = iter_program(ctx, "query.sweep");
	int err = sweep || want_syscalls() ? 0 : -ENOTSUP;

	for (size_t i = 0; i < ctx->targets->n && sweep && !err; i++)
		if (!ctx->targets->t[i].gone) {
			err = run_seed(sweep, ctx->targets->t[i].pid);
			err = err == -ESRCH ? 0 : err; /* it went meanwhile */
		}
	return err;
}

int query_seed_sockets(struct sonde_lens_ctx *ctx)
{
	const struct bpf_program *seed = iter_program(ctx, "query.seed");

	for (size_t i = 0; i < ctx->targets->n; i++) {
		const struct sonde_target *t = &ctx->targets->t[i];
		int err = t->gone ? 0 : seed_ports(ctx, t->pid);

		if (err && err != -ESRCH)
			sonde_warn("query: the sockets of pid %d cannot be read: %s", t->pid,
				   strerror(-err));
		/* Twice: the connections of a unix listener are known by its address, seen first.
		 */
		for (int run = 0; seed && run < 2 && !t->gone; run++) {
			err = run_seed(seed, t->pid);
			if (err && err != -ESRCH && sonde_target_alive(t))
				return sonde_err(err,
						 "query: cannot walk the sockets of pid %d: %s",
						 t->pid, strerror(-err));
		}
	}
	return 0;
}
