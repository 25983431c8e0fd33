// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * `sonde ps`: the processes worth observing: daemons that sonde knows and whatever listens; with -a
 * all. What may not be looked into is counted, so that a short list is not mistaken for a whole
 * one.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/facts.h"
#include "cli/output.h"
#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/num.h"
#include "sonde/query.h"
#include "target/daemon.h"
#include "target/proc.h"

#define DENIED_NAMED 8

struct ps_list {
	struct sonde_facts *f;
	size_t n, cap;
	pid_t denied_pids[DENIED_NAMED];
	size_t denied; /* processes that we may not look into; the first of them are named */
};

/* Cheap: says whether opening the process is worth the time. */
static bool wanted(pid_t pid, bool all)
{
	struct sonde_proc_sock *socks sonde_autofree = NULL;
	char link[64], exe[512];
	size_t n = 0;
	ssize_t len;

	if (all)
		return true;
	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	len = readlink(link, exe, sizeof(exe) - 1);
	if (len > 0) {
		exe[len] = '\0';
		if (sonde_daemon_match(exe))
			return true;
	}
	if (sonde_proc_sockets(pid, &socks, &n))
		return false;
	for (size_t i = 0; i < n; i++)
		if (socks[i].listening)
			return true;
	return false;
}

static bool may_look_into(pid_t pid)
{
	char path[64], target[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return readlink(path, target, sizeof(target)) >= 0 || (errno != EACCES && errno != EPERM);
}

static void deny(struct ps_list *list, pid_t pid)
{
	if (list->denied < DENIED_NAMED)
		list->denied_pids[list->denied] = pid;
	list->denied++;
}

static int add(struct ps_list *list, pid_t pid)
{
	struct sonde_target t = {.pidfd = -1};
	int err = sonde_target_open(&t, pid);

	if (err)
		return err == -ENOMEM ? err : 0;
	err = SONDE_GROW(list->f, list->n, list->cap);
	if (!err && !sonde_facts_read(&t, &list->f[list->n]))
		list->n++;
	sonde_target_fini(&t);
	return err;
}

/* A process that goes while it is looked at is simply not listed: its errors are silenced. */
static int gather(struct ps_list *list, bool all)
{
	pid_t *pids sonde_autofree = NULL;
	enum sonde_log_level level = sonde_log_get_level();
	size_t n = 0;
	int err = sonde_proc_mounted();

	if (err)
		return err;
	err = sonde_proc_all(&pids, &n);
	sonde_log_set_level(SONDE_LOG_NONE);
	for (size_t i = 0; i < n && !err; i++) {
		struct sonde_proc_stat st;

		if (pids[i] == getpid() || sonde_proc_stat(pids[i], &st) || st.kernel_thread ||
		    st.state == 'Z')
			continue;
		if (!may_look_into(pids[i]))
			deny(list, pids[i]);
		else if (wanted(pids[i], all))
			err = add(list, pids[i]);
	}
	sonde_log_set_level(level);
	return err ? sonde_err(err, "cannot list processes: %s", strerror(-err)) : 0;
}

/* Known daemons first, the larger the earlier. */
static int by_interest(const void *pa, const void *pb)
{
	const struct sonde_facts *a = pa, *b = pb;

	if (!a->daemon != !b->daemon)
		return a->daemon ? -1 : 1;
	return (a->rss_bytes < b->rss_bytes) - (a->rss_bytes > b->rss_bytes);
}

static const char *or_dash(const char *s)
{
	return *s ? s : "-";
}

static const char *where_queries(const struct sonde_facts *f)
{
	if (!f->n_listens)
		return "-";
	if (!f->daemon)
		return "if protocol known";
	if (!f->speaks)
		return "- (not decoded)";
	return *f->recipe ? "sockets, handlers" : "sockets";
}

/* searchd's parent process only restarts its child: say so, that nobody observes it by mistake. */
static void where_listens(const struct ps_list *list, const struct sonde_facts *f, char *buf,
			  size_t size)
{
	snprintf(buf, size, "%s", f->n_listens ? sonde_str_get(&f->listens) : "-");
	for (size_t i = 0; i < list->n && f->daemon && !f->n_listens; i++)
		if (list->f[i].ppid == f->pid && list->f[i].n_listens &&
		    list->f[i].daemon == f->daemon)
			snprintf(buf, size, "- (watchdog of %d)", list->f[i].pid);
}

static void print_table(const struct ps_list *list)
{
	printf("%8s %-15s %-20s %-12s %9s %7s %-18s %s\n", "PID", "NAME", "ALLOCATOR", "THP", "RSS",
	       "UP", "QUERIES SEEN AT", "LISTENS ON");
	for (size_t i = 0; i < list->n; i++) {
		const struct sonde_facts *f = &list->f[i];
		char rss[32] = "?", age[32], listens[512];

		if (f->rss_bytes >= 0)
			sonde_fmt_bytes(rss, sizeof(rss), (double)f->rss_bytes);
		where_listens(list, f, listens, sizeof(listens));
		printf("%8d %-15s %-20s %-12s %9s %7s %-18s %s\n", f->pid, f->name,
		       or_dash(f->allocator), or_dash(f->thp), rss,
		       sonde_fmt_age(age, sizeof(age), f->age_ns), where_queries(f), listens);
	}
}

static json_t *to_json(const struct sonde_facts *f)
{
	json_t *o = json_pack(
		"{s:i, s:s, s:s?, s:s?, s:s?, s:s?, s:s?, s:s}", "pid", (int)f->pid, "name",
		f->name, "daemon", f->daemon, "allocator", *f->allocator ? f->allocator : NULL,
		"thp", *f->thp ? f->thp : NULL, "recipe", *f->recipe ? f->recipe : NULL, "listens",
		f->n_listens ? sonde_str_get(&f->listens) : NULL, "queries", where_queries(f));

	if (!o)
		return NULL;
	json_object_set_new(o, "rss_bytes",
			    f->rss_bytes >= 0 ? json_integer(f->rss_bytes) : json_null());
	json_object_set_new(o, "age_ns",
			    f->age_ns ? json_integer((json_int_t)f->age_ns) : json_null());
	return o;
}

static int print_json(const struct ps_list *list)
{
	json_t *rows = json_array(), *root;

	for (size_t i = 0; i < list->n; i++)
		json_array_append_new(rows, to_json(&list->f[i]));
	root = json_pack("{s:o, s:I}", "processes", rows, "denied", (json_int_t)list->denied);
	if (!root)
		return sonde_err(ENOMEM, "out of memory");
	json_dumpf(root, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
	return 0;
}

static void say_denied(const struct ps_list *list)
{
	sonde_autostr struct sonde_str pids = {0};
	bool one = list->denied == 1;

	for (size_t i = 0; i < list->denied && i < DENIED_NAMED; i++)
		sonde_str_addf(&pids, "%s%d", i ? ", " : "", list->denied_pids[i]);
	if (list->denied > DENIED_NAMED)
		sonde_str_addf(&pids, ", ...");
	sonde_say("%zu process%s (pid %s) may not be looked into and %s not listed%s", list->denied,
		  one ? "" : "es", sonde_str_get(&pids), one ? "is" : "are",
		  geteuid() ? "; root sees more" : "");
}

static int run_ps(const struct sonde_args *args)
{
	struct ps_list list = {0};
	int err = gather(&list, args->all);

	if (!err) {
		qsort(list.f, list.n, sizeof(*list.f), by_interest);
		if (args->json)
			err = print_json(&list);
		else
			print_table(&list);
	}
	if (!err && !args->json) {
		if (list.denied)
			say_denied(&list);
		sonde_say("queries are decoded in these protocols: " SONDE_QUERY_PROTOCOLS);
		sonde_say("memory, faults and CPU can be observed of any process, listed or not: "
			  "-p PID%s",
			  args->all ? "" : "; -a lists all");
		sonde_say("next: sonde doctor -p PID says what would be attached, and why");
	}
	for (size_t i = 0; i < list.n; i++)
		sonde_facts_fini(&list.f[i]);
	free(list.f);
	return err;
}

const struct sonde_command sonde_command_ps = {
	.name = "ps",
	.summary = "daemons and other servers that run here, and where their queries are seen",
	.synopsis = "",
	.valid = SONDE_OPTS_COMMON | SONDE_O(ALL) | SONDE_O(JSON),
	.about = "Lists daemons that sonde knows by name and every process that listens on a "
		 "socket: its "
		 "allocator, the huge page setting that holds for it, and where its queries can be "
		 "seen. Nothing is attached.",
	.examples = {{"sudo sonde ps", "all users' daemons"}},
	.run = run_ps,
};
