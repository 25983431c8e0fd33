/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A command is one const descriptor beside its code and one line in commands.def: its name, the
 * options it takes and needs as masks, its words, its help and what it runs. All checks that can be
 * told from these are made once, in command.c; no command repeats them.
 */
#ifndef SONDE_CLI_COMMAND_H
#define SONDE_CLI_COMMAND_H

#include <stdio.h>

#include "cli/args.h"

struct sonde_example {
	const char *line, *what;
};

struct sonde_command {
	const char *name;
	const char *summary;  /* one line, no full stop  */
	const char *synopsis; /* what follows the options: "FILE", "[-- COMMAND...]", "" */
	sonde_opt_mask valid;    /* options it takes                                                    */
	sonde_opt_mask needs[2]; /* of each mask that is not 0, at least one option; a started command
			    * stands in for the first */
	size_t min_words, max_words;
	bool starts_command; /* words after "--" are a command to start                           */
	const char *about;   /* paragraphs for help and the man page                              */
	struct sonde_example examples[6];
	/* More help that tables elsewhere know (formats, lenses); may be NULL. */
	void (*more)(FILE *out);
	/* 0 or -errno (logged), or a code of enum sonde_exit that no errno means. */
	int (*run)(const struct sonde_args *args);
};

/* All commands, in commands.def order. */
extern const struct sonde_command *const sonde_commands[];
extern const size_t sonde_command_count;
const struct sonde_command *sonde_command_find(const char *name);

/*
 * The whole command line: defaults, options, words, and the checks of the descriptor. `sonde`,
 * `--help` and `--version` become commands too. *cmd is what to run. 0 or -errno (logged). Free
 * @args either way.
 */
int sonde_command_parse(int argc, char **argv, struct sonde_args *args,
			const struct sonde_command **cmd);

/* "-p, --pid PID" */
void sonde_option_label(const struct sonde_opt *o, struct sonde_str *out);
/* Words of @text from column @at on, broken to fit a terminal and continued at @indent; newline
 * added. */
void sonde_help_wrap(FILE *out, const char *text, size_t at, size_t indent);
/* What `sonde help` and `sonde CMD --help` print. */
void sonde_help_overview(FILE *out);
void sonde_help_command(FILE *out, const struct sonde_command *cmd);
/* Pages made from the tables. */
void sonde_page_man(FILE *out);
void sonde_page_markdown(FILE *out);
void sonde_page_completion(FILE *out);

/* Exit codes as rows, for help and pages; ends with a NULL text. */
struct sonde_exit_row {
	int code;
	const char *text;
};
extern const struct sonde_exit_row sonde_exit_rows[];

#endif
