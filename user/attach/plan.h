/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The plan: (hooks of the lenses, kernel features, the user's choices) -> what will be attached, with
 * the reason for each choice. A pure function: tested from tables, printed by doctor and --dry-run,
 * kept in recordings. It comes before the load, since a program's attach type accepts only its own
 * kind of link.
 */
#ifndef SONDE_ATTACH_PLAN_H
#define SONDE_ATTACH_PLAN_H

#include "attach/hook.h"

/* User's and tests' wishes. */
struct sonde_plan_choice {
	bool passive;	/* no uprobes */
	/* Tests: only this uprobe link family ("session", "multi", "perf"), or NULL; from the environment
	 * variable SONDE_FORCE_LINK. Asking for one that the kernel lacks is an error, never a skip. */
	const char *force_link;
	bool force_syscalls; /* tests (SONDE_FORCE_SYSCALLS=1): pretend the socket tracepoints are absent */
};

struct sonde_plan_item {
	const struct sonde_hook *hook; /* borrowed from the hook list, which must outlive the plan   */
	int alt;		       /* index into hook->alts, -1: none was possible               */
	enum sonde_link_kind kind;
	const char *program, *ret_program;
	char *reason; /* one sentence: why this one, and which better one was refused and why        */
	bool degraded;
};

struct sonde_plan {
	struct sonde_plan_item *items;
	size_t n;
	bool degraded;	   /* any item is */
	bool has_uprobes;  /* writes breakpoint bytes into private copies of the target's text pages */
	size_t n_sites;
};

/*
 * 0, or -EOPNOTSUPP / -EPERM when a required hook has no alternative (logged, with the remedy), or
 * -EINVAL for a forced link kind that does not exist, or -ENOMEM.
 */
int sonde_plan_make(const struct sonde_hook_list *hooks, const struct sonde_features *features,
		    const struct sonde_plan_choice *choice, struct sonde_plan *out);
void sonde_plan_fini(struct sonde_plan *plan);
/* The first item of the hook @name that can be attached; NULL where there is none, or no plan yet. */
const struct sonde_plan_item *sonde_plan_find(const struct sonde_plan *plan, const char *name);

/* Read SONDE_FORCE_LINK and SONDE_FORCE_SYSCALLS. */
void sonde_plan_choice_from_env(struct sonde_plan_choice *choice);

/* The plan as text (one line an item) and as JSON, appended. */
struct sonde_str;
int sonde_plan_text(const struct sonde_plan *plan, struct sonde_str *out);
int sonde_plan_json(const struct sonde_plan *plan, struct sonde_str *out);

#endif
