// SPDX-License-Identifier: GPL-2.0-or-later
/* `sonde help`: the overview, one command, or a page made from the tables (for the build). */
#include <errno.h>

#include "cli/command.h"
#include "core/err.h"
#include "core/mem.h"

static const struct {
	sonde_opt_mask option;
	void (*print)(FILE *out);
} pages[] = {
	{SONDE_O(MAN), sonde_page_man},
	{SONDE_O(MARKDOWN), sonde_page_markdown},
	{SONDE_O(COMPLETION), sonde_page_completion},
};

static int run_help(const struct sonde_args *args)
{
	const struct sonde_command *cmd;

	for (size_t i = 0; i < SONDE_ARRAY_SIZE(pages); i++) {
		if (!(args->seen & pages[i].option))
			continue;
		pages[i].print(stdout);
		return 0;
	}
	if (!args->n_words) {
		sonde_help_overview(stdout);
		return 0;
	}
	cmd = sonde_command_find(args->words[0]);
	if (!cmd)
		return sonde_err(EINVAL, "there is no command '%s'; `sonde help` lists them",
				 args->words[0]);
	sonde_help_command(stdout, cmd);
	return 0;
}

const struct sonde_command sonde_command_help = {
	.name = "help",
	.summary = "explain sonde, or one command",
	.synopsis = "[COMMAND]",
	.valid = SONDE_OPTS_COMMON | SONDE_O(MAN) | SONDE_O(MARKDOWN) | SONDE_O(COMPLETION),
	.max_words = 1,
	.examples = {{"sonde help stat", "the options of `sonde stat`"}},
	.run = run_help,
};
