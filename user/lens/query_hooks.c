// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the query lens attaches: socket tracepoints, or where the kernel has none the system calls
 * themselves. The daemon's own handlers are query_handlers.c's.
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

#define HOOK(nm, al, req, what) SONDE_HOOK(SONDE_LENS_QUERY, nm, al, req, what)

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
	return query_handler_hooks(ctx, hooks);
}

/* ---- seeding ---- */

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
	const struct sonde_plan_item *item = sonde_plan_find(ctx->plan, hook);

	return item ? bpf_object__find_program_by_name(ctx->obj, item->program) : NULL;
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
