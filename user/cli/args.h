/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the command line said: one struct for all commands, filled by the rows of options.def.
 * Strings point into argv.
 */
#ifndef SONDE_CLI_ARGS_H
#define SONDE_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/opts.h"
#include "cli/pairs.h"
#include "record/writer.h"
#include "session/abort.h"

struct sonde_pid_list {
	pid_t *pid;
	size_t n, cap;
};

struct sonde_env_list {
	const char **text;
	size_t n, cap;
};

/* --field: one figure instead of a line of them. */
enum sonde_field { SONDE_FIELD_ALL = 0, SONDE_FIELD_CONSUMPTION };

/* Texts of an option that is given several times, each checked when it was parsed. */
struct sonde_text_list {
	const char **text;
	size_t n, cap;
};

/* --budget: shares, not percent. */
struct sonde_budget {
	double cpu, time;
};

struct sonde_args {
	struct sonde_pid_list pids;
	const char *name, *unit, *cgroup, *comm;
	bool children, all;
	uint32_t tid;

	int query_source; /* enum sonde_query_source */
	const char *recipe;
	uint64_t duration_ns, interval_ns, slower_than_ns;
	uint32_t lens_mask; /* bit per enum sonde_lens_id; 0: not given */
	int alloc_mode;	    /* enum sonde_alloc_mode */
	uint32_t sites;	    /* rows to show; 0: not asked for */
	uint32_t sites_sample;
	struct sonde_budget budget;
	bool growth;
	int ledger;	   /* enum sonde_ledger_mode */
	int fault_mode;	   /* 1: full */
	int anatomy;	   /* enum sonde_anatomy_mode */
	uint32_t fault_by; /* bit per enum sonde_fault_by; 0: not given */
	bool yes, passive, dry_run, follow, strict;
	struct sonde_abort_rules abort_if;
	double harm_limit;
	uint32_t ring_bytes;
	int field; /* enum sonde_field */
	const char *publish;
	uint64_t consumption_interval_ns;

	int thp; /* enum sonde_run_thp */
	const char *alloc, *alloc_conf;
	struct sonde_env_list env;
	bool keep;

	struct sonde_spans_choice spans;
	uint64_t max_bytes; /* 0: no limit */
	bool query_text, overwrite;

	const char *to;
	bool series;
	double tail_share;	   /* of the queries, the slowest; 0: not asked for */
	int by;			   /* enum sonde_query_key + 1; 0: not asked for */
	uint64_t running_ns;	   /* half-life; 0: not asked for */
	uint32_t rows;		   /* 0: the default */
	uint32_t slowest;	   /* 0: all */
	const char *since, *until; /* relative to a recording: parsed once it is open */

	struct sonde_text_list pairs, controls, margins; /* see cli/pairs.h */
	const char *pre, *post;
	struct sonde_look_text look;
	bool why;
	uint32_t fingerprints, hosts; /* hosts 0: not given */
	uint64_t ram_per_host;	      /* 0: not given */
	const char *next_plans;

	const char *output;
	bool json, help, man, markdown, completion;
	unsigned quiet, verbose;

	/* Not options: */
	const char *const *words; /* positional arguments */
	size_t n_words;
	const char *const *command;	/* after "--": NULL-terminated, or NULL */
	sonde_opt_mask seen;		/* mask of options given, by SONDE_O_... */
	struct sonde_opt_result parsed; /* owns the arrays above */
	char *line;			/* the whole command line, for recordings */
};

enum sonde_option {
#define SONDE_OPTION(sym, ...) SONDE_O_##sym,
#include "cli/options.def"
#undef SONDE_OPTION
	SONDE_O__MAX
};

#define SONDE_O(sym) SONDE_OPT_BIT(SONDE_O_##sym)

/* Sets that several commands take. */
#define SONDE_OPTS_COMMON (SONDE_O(QUIET) | SONDE_O(VERBOSE) | SONDE_O(HELP))
#define SONDE_OPTS_TARGET (SONDE_O(PID) | SONDE_O(NAME) | SONDE_O(UNIT) | SONDE_O(CGROUP))
#define SONDE_OPTS_OBSERVE                                                                         \
	(SONDE_OPTS_TARGET | SONDE_O(CHILDREN) | SONDE_O(TID) | SONDE_O(COMM) |                    \
	 SONDE_O(DURATION) | SONDE_O(INTERVAL) | SONDE_O(LENS) | SONDE_O(ALLOC_MODE) |             \
	 SONDE_O(SITES) | SONDE_O(SITES_SAMPLE) | SONDE_O(BUDGET) | SONDE_O(LEDGER) |              \
	 SONDE_O(FAULT_MODE) | SONDE_O(FAULT_BY) | SONDE_O(ANATOMY) | SONDE_O(YES) |               \
	 SONDE_O(PASSIVE) | SONDE_O(DRY_RUN) | SONDE_O(FOLLOW) | SONDE_O(HARM_LIMIT) |             \
	 SONDE_O(ABORT_IF) | SONDE_O(RING_SIZE) | SONDE_O(SLOWER_THAN) | SONDE_O(STRICT) |         \
	 SONDE_O(JSON) | SONDE_O(PUBLISH) | SONDE_O(CONSUMPTION_INTERVAL) |                        \
	 SONDE_O(QUERY_SOURCE) | SONDE_O(RECIPE))

/* What a recording needs besides. */
#define SONDE_OPTS_RECORD                                                                          \
	(SONDE_O(OUTPUT) | SONDE_O(SPANS) | SONDE_O(MAX_SIZE) | SONDE_O(QUERY_TEXT) |              \
	 SONDE_O(OVERWRITE))

extern const struct sonde_opt_table sonde_options;

void sonde_args_fini(struct sonde_args *args);

#endif
