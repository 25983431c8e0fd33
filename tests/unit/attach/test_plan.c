// SPDX-License-Identifier: GPL-2.0-or-later
/* The plan from tables: a hook, what the kernel answers, what the user chose, what must come out.
 */
#include "unit/unit.h"

#include <errno.h>
#include <jansson.h>

#include "attach/plan.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/str.h"

#define NEEDS(...)                                                                                 \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define NOTHING NEEDS(SONDE_FEAT_NONE, SONDE_FEAT_NONE, SONDE_FEAT_NONE)

static const struct sonde_alternative pair_alts[] = {
	{.kind = SONDE_LINK_UPROBE_SESSION, .program = "x_session", .needs = NOTHING},
	{.kind = SONDE_LINK_UPROBE_MULTI,
	 .program = "x_entry",
	 .ret_program = "x_return",
	 .needs = NOTHING},
	{.kind = SONDE_LINK_UPROBE_PERF,
	 .program = "x_entry",
	 .ret_program = "x_return",
	 .needs = NOTHING},
};
static const struct sonde_alternative entry_alts[] = {
	{.kind = SONDE_LINK_UPROBE_MULTI, .program = "x_entry", .needs = NOTHING},
	{.kind = SONDE_LINK_UPROBE_PERF, .program = "x_entry", .needs = NOTHING},
};
static const struct sonde_alternative socket_alts[] = {
	{.kind = SONDE_LINK_TP_BTF,
	 .program = "q_recv",
	 .event = "sock_recv_length",
	 .needs = NEEDS(SONDE_FEAT_SOCK_LENGTH, SONDE_FEAT_SK_STORAGE, SONDE_FEAT_NONE)},
	{.kind = SONDE_LINK_TRACEPOINT,
	 .program = "q_sys",
	 .event = "syscalls/sys_exit_recvfrom",
	 .needs = NOTHING,
	 .weaker = "io_uring is not seen"},
};

enum hook_kind { PAIR, ENTRY, SOCKET, N_HOOKS };

static struct sonde_probe_site sites[2] = {
	{.path = "/x",
	 .shown = "/x",
	 .symbol = "f",
	 .pid = 7,
	 .want_return = true,
	 .site = {.insn = "push", .kind = SONDE_INSN_EMULATED}},
	{.path = "/x",
	 .shown = "/x",
	 .symbol = "g",
	 .pid = 7,
	 .want_return = true,
	 .site = {.insn = "push", .kind = SONDE_INSN_EMULATED}},
};

static struct sonde_hook hook_of(enum hook_kind kind)
{
	static const struct sonde_hook hooks[N_HOOKS] = {
		[PAIR] = {.name = "x.pair",
			  .alts = pair_alts,
			  .n_alts = 3,
			  .sites = sites,
			  .n_sites = 2,
			  .purpose = "calls"},
		[ENTRY] = {.name = "x.entry",
			   .alts = entry_alts,
			   .n_alts = 2,
			   .sites = sites,
			   .n_sites = 1,
			   .purpose = "entries"},
		[SOCKET] = {.name = "q.recv",
			    .alts = socket_alts,
			    .n_alts = 2,
			    .purpose = "request read"},
	};

	return hooks[kind];
}

static struct sonde_features all_yes(void)
{
	struct sonde_features f = {};

	for (int i = 0; i < SONDE_FEAT__MAX; i++)
		f.have[i] = SONDE_YES;
	return f;
}

struct plan_case {
	const char *what;
	enum hook_kind hook;
	bool required;
	struct {
		enum sonde_feature feat;
		enum sonde_answer answer;
	} set[4];
	int n_set;
	struct sonde_plan_choice choice;
	/* expected */
	int err, alt;
	bool degraded;
	const char *reason; /* a part of it */
};

#define MULTI_NO                                                                                   \
	{                                                                                          \
		SONDE_FEAT_UPROBE_MULTI, SONDE_NO                                                  \
	}
#define SESSION_NO                                                                                 \
	{                                                                                          \
		SONDE_FEAT_UPROBE_SESSION, SONDE_NO                                                \
	}

static const struct plan_case cases[] = {
	{"the first choice", PAIR, .alt = 0, .reason = "uprobe_session, the first choice"},
	{"no session: a pair of multi links", PAIR, .set = {SESSION_NO}, .n_set = 1, .alt = 1,
	 .reason = "uprobe_multi pair; better but refused: uprobe_session (this kernel lacks "
		   "uprobe_session (since 6.13))"},
	{"neither: perf", PAIR, .set = {SESSION_NO, MULTI_NO}, .n_set = 2, .alt = 2,
	 .reason = "uprobe_perf pair"},
	{"denied is not absent", PAIR, .set = {{SONDE_FEAT_UPROBE_SESSION, SONDE_DENIED}},
	 .n_set = 1, .alt = 1, .degraded = true, .reason = "uprobe_session is denied: "},
	{"a weaker one is degraded", SOCKET, .set = {{SONDE_FEAT_SOCK_LENGTH, SONDE_NO}},
	 .n_set = 1, .alt = 1, .degraded = true, .reason = "weaker: io_uring is not seen"},
	{"every need counts", SOCKET, .set = {{SONDE_FEAT_SK_STORAGE, SONDE_NO}}, .n_set = 1,
	 .alt = 1, .degraded = true, .reason = "lacks sk_storage"},
	{"a kind's own feature counts", SOCKET, .set = {{SONDE_FEAT_TP_BTF, SONDE_NO}}, .n_set = 1,
	 .alt = 1, .degraded = true, .reason = "lacks tp_btf"},
	{"nothing left, optional", SOCKET,
	 .set = {{SONDE_FEAT_TP_BTF, SONDE_NO}, {SONDE_FEAT_TRACEFS, SONDE_NO}}, .n_set = 2,
	 .alt = -1, .degraded = true, .reason = "not attached: tp_btf (this kernel lacks"},
	{"nothing left, required", SOCKET, .required = true,
	 .set = {{SONDE_FEAT_TP_BTF, SONDE_NO}, {SONDE_FEAT_TRACEFS, SONDE_NO}}, .n_set = 2,
	 .err = -EOPNOTSUPP},
	{"nothing left for want of a right", SOCKET, .required = true,
	 .set = {{SONDE_FEAT_TP_BTF, SONDE_DENIED}, {SONDE_FEAT_TRACEFS, SONDE_NO}}, .n_set = 2,
	 .err = -EPERM},
	{"passive leaves an optional uprobe out", PAIR, .choice = {.passive = true}, .alt = -1,
	 .reason = "not attached: uprobe_session, uprobe_multi pair, uprobe_perf pair (--passive "
		   "forbids"},
	{"passive and a required uprobe", PAIR, .required = true, .choice = {.passive = true},
	 .err = -EINVAL},
	{"passive keeps tracepoints", SOCKET, .choice = {.passive = true}, .alt = 0,
	 .reason = "tp_btf, the first choice"},
	{"forced multi", PAIR, .choice = {.force_link = "multi"}, .alt = 1,
	 .reason = "SONDE_FORCE_LINK=multi excludes it"},
	{"forced perf", PAIR, .choice = {.force_link = "perf"}, .alt = 2, .reason = "uprobe_perf"},
	{"forced session", PAIR, .choice = {.force_link = "session"}, .alt = 0,
	 .reason = "uprobe_session"},
	{"forced session, entries only: multi", ENTRY, .choice = {.force_link = "session"},
	 .alt = 0, .reason = "uprobe_multi"},
	{"forced, but lacking, is an error even if optional", PAIR, .set = {SESSION_NO}, .n_set = 1,
	 .choice = {.force_link = "session"}, .err = -EOPNOTSUPP},
	{"forced, but denied", PAIR, .set = {{SONDE_FEAT_UPROBE_MULTI, SONDE_DENIED}}, .n_set = 1,
	 .choice = {.force_link = "multi"}, .err = -EPERM},
	{"forced to what does not exist", PAIR, .choice = {.force_link = "kprobe"}, .err = -EINVAL},
	{"forcing leaves kernel hooks alone", SOCKET, .choice = {.force_link = "perf"}, .alt = 0,
	 .reason = "tp_btf"},
	{"forced system calls", SOCKET, .choice = {.force_syscalls = true}, .alt = 1,
	 .degraded = true, .reason = "switched off by SONDE_FORCE_SYSCALLS"},
};

static int make(const struct plan_case *c, struct sonde_hook *hook, struct sonde_plan *plan)
{
	struct sonde_hook_list list = {.h = hook, .n = 1};
	struct sonde_features f = all_yes();

	for (int i = 0; i < c->n_set; i++)
		f.have[c->set[i].feat] = c->set[i].answer;
	hook->required = c->required;
	return sonde_plan_make(&list, &f, &c->choice, plan);
}

static void check_case(const struct plan_case *c)
{
	struct sonde_hook hook = hook_of(c->hook);
	struct sonde_plan plan = {};
	const struct sonde_plan_item *item;

	assert_int_equal(make(c, &hook, &plan), c->err);
	if (c->err) {
		assert_null(plan.items); /* outputs change only on success */
		return;
	}
	assert_int_equal(plan.n, 1);
	item = &plan.items[0];
	assert_int_equal(item->alt, c->alt);
	assert_int_equal(item->degraded, c->degraded);
	assert_int_equal(plan.degraded, c->degraded);
	assert_non_null(strstr(item->reason, c->reason));
	assert_int_equal(plan.has_uprobes, c->alt >= 0 && c->hook != SOCKET);
	assert_int_equal(plan.n_sites, plan.has_uprobes ? hook.n_sites : 0);
	assert_int_equal(item->kind, c->alt >= 0 ? hook.alts[c->alt].kind : SONDE_LINK_NONE);
	sonde_plan_fini(&plan);
}

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(cases); i++) {
		print_message("# %s\n", cases[i].what);
		check_case(&cases[i]);
	}
}

/* The word at the stack pointer becomes a trampoline: away from the entry that kills the target. */
static void test_no_return_probe_off_the_entry(void **state)
{
	struct sonde_probe_site moved = sites[0], entry_only = sites[0];
	struct sonde_hook hook = hook_of(PAIR);
	const struct plan_case plain = {.alt = 0};
	struct sonde_plan plan = {};

	(void)state;
	hook.n_sites = 1;
	hook.sites = &moved;
	moved.site.slide = 4;
	assert_int_equal(make(&plain, &hook, &plan), 0);
	assert_int_equal(plan.items[0].alt, -1);
	assert_non_null(strstr(plan.items[0].reason, "not every site may carry a return probe"));
	sonde_plan_fini(&plan);
	/* A site that wants no return may sit anywhere, but a session would arm one. */
	entry_only.want_return = false;
	entry_only.site.slide = 4;
	hook.sites = &entry_only;
	assert_int_equal(make(&plain, &hook, &plan), 0);
	assert_int_equal(plan.items[0].alt, 1);
	sonde_plan_fini(&plan);
}

static void test_no_site_is_no_uprobe(void **state)
{
	struct sonde_hook hook = hook_of(ENTRY);
	const struct plan_case plain = {.alt = -1};
	struct sonde_plan plan = {};

	(void)state;
	hook.n_sites = 0;
	assert_int_equal(make(&plain, &hook, &plan), 0);
	assert_int_equal(plan.items[0].alt, -1);
	assert_true(plan.items[0].degraded);
	assert_non_null(strstr(plan.items[0].reason, "no place to probe"));
	sonde_plan_fini(&plan);
}

static void test_environment(void **state)
{
	struct sonde_plan_choice c = {};

	(void)state;
	setenv("SONDE_FORCE_LINK", "perf", 1);
	setenv("SONDE_FORCE_SYSCALLS", "1", 1);
	sonde_plan_choice_from_env(&c);
	assert_string_equal(c.force_link, "perf");
	assert_true(c.force_syscalls);
	setenv("SONDE_FORCE_LINK", "", 1);
	setenv("SONDE_FORCE_SYSCALLS", "0", 1);
	sonde_plan_choice_from_env(&c);
	assert_null(c.force_link);
	assert_false(c.force_syscalls);
}

/* Names in the target's files are bytes; JSON must stay JSON. */
static void test_text_and_json(void **state)
{
	sonde_autostr struct sonde_str text = {}, json = {};
	struct sonde_probe_site odd = sites[0];
	struct sonde_hook hook = hook_of(PAIR);
	const struct plan_case plain = {.alt = 0};
	struct sonde_plan plan = {};
	json_t *root, *item;

	(void)state;
	odd.shown = "/tmp/\xff\"x";
	odd.cookie = ~0ull;
	hook.sites = &odd;
	hook.n_sites = 1;
	assert_int_equal(make(&plain, &hook, &plan), 0);
	assert_int_equal(sonde_plan_text(&plan, &text), 0);
	assert_non_null(strstr(sonde_str_get(&text), "x.pair"));
	assert_non_null(strstr(sonde_str_get(&text), "f+0 in /tmp/\xef\xbf\xbd\"x at"));
	assert_non_null(strstr(sonde_str_get(&text), "pid 7: push (emulated), and its return"));
	assert_int_equal(sonde_plan_json(&plan, &json), 0);
	root = json_loads(sonde_str_get(&json), 0, NULL);
	assert_non_null(root);
	item = json_array_get(json_object_get(root, "items"), 0);
	assert_string_equal(json_string_value(json_object_get(item, "link")), "uprobe_session");
	assert_int_equal(json_array_size(json_object_get(item, "sites")), 1);
	item = json_array_get(json_object_get(item, "sites"), 0);
	assert_string_equal(json_string_value(json_object_get(item, "cookie")),
			    "0xffffffffffffffff");
	json_decref(root);
	sonde_plan_fini(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_no_return_probe_off_the_entry),
		cmocka_unit_test(test_no_site_is_no_uprobe),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_text_and_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
