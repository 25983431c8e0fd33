// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Help on the terminal, written from the tables: nothing about an option or a command is said here
 * that its row does not say.
 */
#include <string.h>

#include "cli/command.h"
#include "core/err.h"

#define LABEL_WIDTH 26
#define LINE_WIDTH  96

const struct sonde_exit_row sonde_exit_rows[] = {
	{SONDE_EXIT_OK, "done"},
	{SONDE_EXIT_FAILED, "failed"},
	{SONDE_EXIT_USAGE, "the command line is wrong, or consent was not given"},
	{SONDE_EXIT_NO_TARGET, "there is no such target"},
	{SONDE_EXIT_NOT_PERMITTED, "not permitted: a privilege is missing"},
	{SONDE_EXIT_KERNEL_CANNOT, "this kernel cannot do it"},
	{SONDE_EXIT_DEGRADED, "done, but something was degraded (only with --strict)"},
	{0, NULL},
};

void sonde_option_label(const struct sonde_opt *o, struct sonde_str *out)
{
	char label[32];

	if (o->letter)
		sonde_str_addf(out, "-%c, ", o->letter);
	else
		sonde_str_addf(out, "    ");
	sonde_opt_value_label(o, label, sizeof(label));
	sonde_str_addf(out, "--%s%s", o->name, label);
}

void sonde_help_wrap(FILE *out, const char *text, size_t at, size_t indent)
{
	while (*text) {
		size_t len = strcspn(text, " \n");

		if (at + len > LINE_WIDTH && at > indent) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		}
		fwrite(text, 1, len, out);
		at += len;
		text += len;
		if (*text == '\n') {
			fprintf(out, "\n%*s", text[1] && text[1] != '\n' ? (int)indent : 0, "");
			at = indent;
			text++;
		} else if (*text == ' ') {
			text++;
			at++;
			if (at + strcspn(text, " \n") <= LINE_WIDTH)
				fputc(' ', out);
		}
	}
	fputc('\n', out);
}

static void print_option(FILE *out, const struct sonde_opt *o)
{
	struct sonde_str label sonde_autostr = {0}, text sonde_autostr = {0};
	size_t indent = 2 + LABEL_WIDTH;

	sonde_option_label(o, &label);
	sonde_str_addf(&text, "%s", o->help);
	if (o->initial)
		sonde_str_addf(&text, " (default: %s)", o->initial);
	fprintf(out, "  %-*s", LABEL_WIDTH, sonde_str_get(&label));
	if (label.len >= LABEL_WIDTH)
		fprintf(out, "\n%*s", (int)indent, "");
	sonde_help_wrap(out, sonde_str_get(&text), indent, indent);
}

static void print_options(FILE *out, sonde_opt_mask valid)
{
	const char *group = NULL;

	for (size_t i = 0; i < sonde_options.n; i++) {
		const struct sonde_opt *o = &sonde_options.rows[i];

		if (!(valid & SONDE_OPT_BIT(i)) || !o->group)
			continue;
		if (!group || strcmp(group, o->group))
			fprintf(out, "\n%s:\n", o->group);
		group = o->group;
		print_option(out, o);
	}
}

static void print_examples(FILE *out, const struct sonde_command *cmd)
{
	for (size_t i = 0; i < 4 && cmd->examples[i].line; i++)
		fprintf(out, "%s  %s\n        %s\n", i ? "" : "\nExamples:\n",
			cmd->examples[i].line, cmd->examples[i].what);
}

void sonde_help_command(FILE *out, const struct sonde_command *cmd)
{
	fprintf(out, "sonde %s: %s\n\nusage: sonde %s [OPTION...]%s%s\n", cmd->name, cmd->summary,
		cmd->name, *cmd->synopsis ? " " : "", cmd->synopsis);
	if (cmd->about) {
		fputc('\n', out);
		sonde_help_wrap(out, cmd->about, 0, 0);
	}
	print_options(out, cmd->valid);
	if (cmd->more)
		cmd->more(out);
	print_examples(out, cmd);
}

void sonde_help_overview(FILE *out)
{
	fprintf(out, "sonde: what memory costs a running daemon, seen from outside by eBPF\n\n"
		     "usage: sonde COMMAND [OPTION...]\n\nCommands:\n");
	for (size_t i = 0; i < sonde_command_count; i++)
		fprintf(out, "  %-10s %s\n", sonde_commands[i]->name, sonde_commands[i]->summary);
	fprintf(out, "\nExit codes:\n");
	for (const struct sonde_exit_row *r = sonde_exit_rows; r->text; r++)
		fprintf(out, "  %d  %s\n", r->code, r->text);
	fprintf(out, "\nBegin with:\n"
		     "  sonde ps                     which daemons can be observed\n"
		     "  sonde doctor -n searchd      what would be attached to one, and why\n"
		     "  sonde stat -n searchd -d 30s a line each second and a summary\n"
		     "  sonde COMMAND --help         the options of a command\n");
}
