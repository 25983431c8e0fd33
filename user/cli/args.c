// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The table of options and the parsers of values that only one option has. A parser writes its
 * member only when the whole value was understood.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/pairs.h"
#include "cli/suggest.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/num.h"
#include "lab/run.h"
#include "session/session.h"
#include "show/report_queries.h"
#include "sonde/fault.h"
#include "sonde/handler.h"
#include "sonde/limits.h"

static int add_pid(struct sonde_pid_list *list, pid_t pid)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->pid[i] == pid)
			return 0;
	if (SONDE_GROW(list->pid, list->n, list->cap))
		return -ENOMEM;
	list->pid[list->n++] = pid;
	return 0;
}

/* "812" or "812,813": all are understood before the first is added. */
static int parse_pid(const char *value, void *member, struct sonde_str *why)
{
	pid_t pids[SONDE_MAX_TARGETS];
	size_t n = 0;
	int err = 0;

	for (const char *p = value;; p++) {
		size_t len = strcspn(p, ",");
		char digits[12];
		uint64_t v;

		snprintf(digits, sizeof(digits), "%.*s", (int)len, p);
		if (len >= sizeof(digits) || sonde_parse_u64(digits, &v) || !v || v > INT32_MAX)
			return -EINVAL;
		if (n == SONDE_MAX_TARGETS) {
			sonde_str_addf(why, "more than %d targets", SONDE_MAX_TARGETS);
			return -ERANGE;
		}
		pids[n++] = (pid_t)v;
		p += len;
		if (!*p)
			break;
	}
	for (size_t i = 0; i < n && !err; i++)
		err = add_pid(member, pids[i]);
	return err;
}

/* Names only, so that parsing needs no lens. */
static const char *const lens_names[] = {
#define SONDE_LENS(name) #name,
#include "lens/lenses.def"
#undef SONDE_LENS
};

static int unknown_lens(const char *name, size_t len, struct sonde_str *why)
{
	struct sonde_suggest near;

	sonde_suggest_init(&near, name, len);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(lens_names); i++)
		sonde_suggest_offer(&near, lens_names[i]);
	sonde_str_addf(why, "there is no lens '%.*s'", (int)len, name);
	if (near.best) {
		sonde_str_addf(why, "; did you mean %s?", near.best);
		return -EINVAL;
	}
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(lens_names); i++)
		sonde_str_addf(why, "%s%s", i ? ", " : "; lenses are: ", lens_names[i]);
	return -EINVAL;
}

/* The lens's number, or -1. */
static int find_lens(const char *name, size_t len)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(lens_names); i++) {
		if (strlen(lens_names[i]) != len || memcmp(lens_names[i], name, len))
			continue;
		for (int id = 0; id < SONDE_LENS__MAX; id++)
			if (!strcmp(sonde_lens_id_name((enum sonde_lens_id)id), lens_names[i]))
				return id;
	}
	return -1;
}

static int parse_lenses(const char *value, void *member, struct sonde_str *why)
{
	uint32_t mask = 0;

	for (const char *p = value;; p++) {
		size_t len = strcspn(p, ",");
		int id = find_lens(p, len);

		if (id < 0)
			return unknown_lens(p, len, why);
		mask |= 1u << id;
		p += len;
		if (!*p)
			break;
	}
	*(uint32_t *)member = mask;
	return 0;
}

static int parse_abort_if(const char *value, void *member, struct sonde_str *why)
{
	return sonde_abort_parse(value, member, why);
}

/* "p99" is the slowest 1 %, as is "1%". */
static int parse_tail(const char *value, void *member, struct sonde_str *why)
{
	bool percentile = *value == 'p';
	char digits[16];
	double v;
	size_t n = strlen(value);

	n -= !percentile && n && value[n - 1] == '%';
	if (percentile || value[n] == '%') {
		snprintf(digits, sizeof(digits), "%.*s", (int)(n - percentile), value + percentile);
		if (strlen(digits) == n - percentile && !sonde_parse_real(digits, &v) && v > 0 &&
		    v < 100) {
			v = percentile ? 100 - v : v;
			if (v <= 45) {
				*(double *)member = v / 100;
				return 0;
			}
		}
	}
	sonde_str_addf(why,
		       "'%s' is no tail: a percentile above p55 or a share of at most 45%% "
		       "(p99, p99.9, 1%%)",
		       value);
	return -EINVAL;
}

static int parse_fault_by(const char *value, void *member, struct sonde_str *why)
{
	static const char *const names[] = {
#define NAME(id, sym, name) [id] = name,
		SONDE_FAULT_BY(NAME)
#undef NAME
	};
	uint32_t mask = 0;

	for (const char *p = value;; p++) {
		size_t len = strcspn(p, ","), i = 0;

		while (i < SONDE_ARRAY_SIZE(names) &&
		       (strlen(names[i]) != len || memcmp(names[i], p, len)))
			i++;
		if (i == SONDE_ARRAY_SIZE(names)) {
			sonde_str_addf(why,
				       "faults are not told by '%.*s', but by thread, mapping, "
				       "site and stack",
				       (int)len, p);
			return -EINVAL;
		}
		mask |= 1u << i;
		p += len;
		if (!*p)
			break;
	}
	*(uint32_t *)member = mask;
	return 0;
}

static int parse_spans(const char *value, void *member, struct sonde_str *why)
{
	(void)why;
	return sonde_parse_spans(value, member);
}

/* The name is the environment's business; that there is one is ours. */
static int parse_env(const char *value, void *member, struct sonde_str *why)
{
	struct sonde_env_list *list = member;
	const char *equals = strchr(value, '=');

	(void)why;
	if (!equals || equals == value)
		return -EINVAL;
	if (SONDE_GROW(list->text, list->n, list->cap))
		return -ENOMEM;
	list->text[list->n++] = value;
	return 0;
}

static int add_text(struct sonde_text_list *list, const char *text)
{
	if (SONDE_GROW(list->text, list->n, list->cap))
		return -ENOMEM;
	list->text[list->n++] = text;
	return 0;
}

static int parse_pair(const char *value, void *member, struct sonde_str *why)
{
	struct sonde_pair_text pair;
	int err = sonde_pair_split(value, &pair);

	(void)why;
	return err ? err : add_text(member, value);
}

static int parse_margin(const char *value, void *member, struct sonde_str *why)
{
	struct sonde_margin_text margin;
	int err = sonde_margin_split(value, &margin);

	(void)why;
	return err ? err : add_text(member, value);
}

static int parse_look(const char *value, void *member, struct sonde_str *why)
{
	(void)why;
	return sonde_look_split(value, member);
}

/* "1,0.5": percent of the target's CPU, and of the time. */
static int parse_budget(const char *value, void *member, struct sonde_str *why)
{
	struct sonde_budget b;
	char extra;

	if (sscanf(value, "%lf,%lf%c", &b.cpu, &b.time, &extra) != 2 || !(b.cpu > 0) ||
	    !(b.time > 0) || b.cpu > 100 || b.time > 100) {
		sonde_str_addf(why, "two figures above 0 and up to 100 are needed, not '%s'",
			       value);
		return -EINVAL;
	}
	*(struct sonde_budget *)member = (struct sonde_budget){b.cpu / 100, b.time / 100};
	return 0;
}

static const struct sonde_opt_choice thp_choices[] = {
	{"system", SONDE_RUN_THP_SYSTEM},
	{"off", SONDE_RUN_THP_OFF},
	{"advised", SONDE_RUN_THP_ADVISED},
	{NULL, 0},
};

static const struct sonde_opt_choice ledger_modes[] = {
	{"auto", SONDE_LEDGER_AUTO},
	{"full", SONDE_LEDGER_FULL},
	{"off", SONDE_LEDGER_OFF},
	{NULL, 0},
};
static const struct sonde_opt_choice query_keys[] = {
	{"fingerprint", 1 + SONDE_QUERY_BY_FORM}, {"command", 1 + SONDE_QUERY_BY_COMMAND},
	{"index", 1 + SONDE_QUERY_BY_INDEX},	  {"connection", 1 + SONDE_QUERY_BY_CONNECTION},
	{"client", 1 + SONDE_QUERY_BY_CLIENT},	  {"thread", 1 + SONDE_QUERY_BY_THREAD},
	{"status", 1 + SONDE_QUERY_BY_STATUS},	  {NULL, 0},
};

static const struct sonde_opt_choice anatomy_modes[] = {
	{"auto", SONDE_ANATOMY_AUTO},
	{"on", SONDE_ANATOMY_ON},
	{"off", SONDE_ANATOMY_OFF},
	{NULL, 0},
};
static const struct sonde_opt_choice fault_modes[] = {
	{"sampled", 0},
	{"full", 1},
	{NULL, 0},
};
static const struct sonde_opt_choice alloc_modes[] = {
	{"auto", SONDE_ALLOC_MODE_AUTO},   {"counters", SONDE_ALLOC_MODE_COUNTERS},
	{"exact", SONDE_ALLOC_MODE_EXACT}, {"windows", SONDE_ALLOC_MODE_WINDOWS},
	{"off", SONDE_ALLOC_MODE_OFF},	   {NULL, 0},
};

static const struct sonde_opt_choice query_sources[] = {
	{"auto", SONDE_SOURCE_AUTO},
	{"socket", SONDE_SOURCE_SOCKET},
	{"handler", SONDE_SOURCE_HANDLER},
	{NULL, 0},
};

static const struct sonde_opt_choice fields[] = {
	{"all", SONDE_FIELD_ALL},
	{"consumption", SONDE_FIELD_CONSUMPTION},
	{NULL, 0},
};

#define GROUP_TARGET "What to observe"
#define GROUP_HOW    "How"
#define GROUP_START  "How to start it"
#define GROUP_KEEP   "What to keep"
#define GROUP_READ   "What to read"
#define GROUP_JUDGE  "What to judge"
#define GROUP_OUTPUT "Output"

#define MEMBER(member) SONDE_OPT_MEMBER(struct sonde_args, member)

static const struct sonde_opt rows[] = {
#define SONDE_OPTION(sym, ...) [SONDE_O_##sym] = {__VA_ARGS__},
#include "cli/options.def"
#undef SONDE_OPTION
};
_Static_assert(SONDE_O__MAX <= 128, "a set of options is one mask");

const struct sonde_opt_table sonde_options = {.rows = rows, .n = SONDE_ARRAY_SIZE(rows)};

void sonde_args_fini(struct sonde_args *args)
{
	sonde_opt_result_fini(&args->parsed);
	free(args->pids.pid);
	free(args->env.text);
	free(args->pairs.text);
	free(args->controls.text);
	free(args->margins.text);
	free(args->line);
	*args = (struct sonde_args){0};
}
