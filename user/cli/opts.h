/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Options as data. An option is one const row: its names, what its value is, which member of the
 * caller's struct receives it (offset and size, so that a row that does not fit its member is
 * caught), its bounds and its help. Parsing state lives beside the table, never in it.
 *
 * A value is taken whole or refused with one sentence that names option, value and what is
 * accepted.
 */
#ifndef SONDE_CLI_OPTS_H
#define SONDE_CLI_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/str.h"

enum sonde_opt_type {
	SONDE_OPT_FLAG = 0, /* bool */
	SONDE_OPT_COUNT,  /* unsigned: how often it was given                                     */
	SONDE_OPT_STRING, /* const char *, into argv                                              */
	SONDE_OPT_NUMBER, /* uint32_t or uint64_t                                                 */
	SONDE_OPT_BYTES,  /* uint32_t or uint64_t                                                 */
	SONDE_OPT_DURATION, /* uint64_t ns */
	SONDE_OPT_REAL,	  /* double                                                               */
	SONDE_OPT_CHOICE, /* int (or an enum): the value of one of the row's choices              */
	SONDE_OPT_OTHER,  /* anything: the row's own parser                                       */
	SONDE_OPT_TYPE__MAX
};

struct sonde_opt_choice {
	const char *name;
	int value;
};

struct sonde_opt {
	const char *name; /* long, without dashes */
	char letter; /* short, or 0                                                            */
	enum sonde_opt_type type;
	size_t offset, size; /* of the member */
	uint64_t min, max; /* in the member's unit; max 0: no upper bound                         */
	const char *initial; /* the default, in the words of the user; NULL: member stays zero */
	const char *metavar; /* "PID"; NULL for flags */
	const char *implied; /* the value where none follows after '='; NULL: it needs one        */
	const char *help;  /* one sentence, no full stop                                          */
	const char *group; /* heading in help; NULL: not shown                                    */
	const struct sonde_opt_choice *choices; /* CHOICE: ends with a NULL name */
	/* OTHER: called once for each time the option is given. 0 or -errno, with the reason in
	 * @why when `accepts` would not say enough. */
	int (*parse)(const char *value, void *member, struct sonde_str *why);
	const char *accepts; /* OTHER: what a value looks like */
};

#define SONDE_OPT_MEMBER(type, member)                                                             \
	.offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

/* At most 128 rows, so that a set of options is one mask. */
struct sonde_opt_table {
	const struct sonde_opt *rows;
	size_t n;
};

typedef unsigned __int128 sonde_opt_mask;
#define SONDE_OPT_BIT(index) ((sonde_opt_mask)1 << (index))

struct sonde_opt_result {
	sonde_opt_mask seen; /* rows that were given                                           */
	const char **words;  /* what is not an option, in order; heap array, strings in argv */
	size_t n_words;
	size_t n_before_dashes; /* words that came before "--" */
	bool dashes; /* there was a "--"                                                 */
};

/* Give every member its default. -EINVAL: a row of the table is wrong (logged). */
int sonde_opts_init(const struct sonde_opt_table *table, void *target);

/*
 * Parse argv[0..argc): "--name value", "--name=value", "-n value", "-nvalue", "-abc" for flags.
 * After
 * "--" everything is a word. Of an option given twice the last value counts, unless it counts or
 * collects. @valid: rows that make sense here; an unknown name is answered with the nearest of
 * these. @words: there may be any before "--"; else the first one ends the parsing, for what
 * follows it are another command's options. 0, -EINVAL (logged) or -ENOMEM. Free with the fini
 * either way.
 */
int sonde_opts_parse(const struct sonde_opt_table *table, sonde_opt_mask valid, bool words,
		     int argc, const char *const *argv, void *target, struct sonde_opt_result *out);
void sonde_opt_result_fini(struct sonde_opt_result *r);

/* What a value of this option looks like: "a duration (250ms, 30s, ...)". Appended to @out. */
int sonde_opt_accepts(const struct sonde_opt *o, struct sonde_str *out);
bool sonde_opt_takes_value(const struct sonde_opt *o);
/* " PID", "[=N]" or "": what follows the name where it is explained. */
void sonde_opt_value_label(const struct sonde_opt *o, char *buf, size_t size);

/* Every row filled and fit for its member? -EINVAL with a message; for tests and start-up. */
int sonde_opts_check(const struct sonde_opt_table *table);

#endif
