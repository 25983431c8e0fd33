// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pages made from the tables: the man page, docs/options.md and completion for bash. A test
 * compares the committed pages with what this prints.
 */
#include <string.h>

#include "cli/command.h"

static void print_default(FILE *out, const struct sonde_opt *o)
{
	if (o->initial)
		fprintf(out, " (default: %s)", o->initial);
}

/* roff: a line must not begin with a control character, and "-" is a hyphen unless escaped. */
static void man_text(FILE *out, const char *s)
{
	bool line_start = true;

	for (; *s; s++) {
		if (line_start && (*s == '.' || *s == '\''))
			fputs("\\&", out);
		if (*s == '\\')
			fputs("\\e", out);
		else if (*s == '-')
			fputs("\\-", out);
		else
			fputc(*s, out);
		line_start = *s == '\n';
	}
}

static void man_option(FILE *out, const struct sonde_opt *o)
{
	fputs(".TP\n", out);
	if (o->letter)
		fprintf(out, ".B \\-%c\\fR, \\fB\\-\\-", o->letter);
	else
		fputs(".B \\-\\-", out);
	man_text(out, o->name);
	if (o->metavar)
		fprintf(out, o->implied ? "[=\\fI%s\\fR]" : " \\fI%s", o->metavar);
	fputc('\n', out);
	man_text(out, o->help);
	print_default(out, o);
	fputc('\n', out);
}

static void man_command(FILE *out, const struct sonde_command *cmd)
{
	fprintf(out, ".SS sonde %s [\\fIOPTION\\fR...] ", cmd->name);
	man_text(out, cmd->synopsis);
	fputc('\n', out);
	man_text(out, cmd->summary);
	fputs(".\n", out);
	if (cmd->about) {
		fputs(".PP\n", out);
		man_text(out, cmd->about);
		fputc('\n', out);
	}
	for (size_t i = 0; i < 4 && cmd->examples[i].line; i++) {
		fputs(".PP\n.B ", out);
		man_text(out, cmd->examples[i].line);
		fputs("\n.br\n", out);
		man_text(out, cmd->examples[i].what);
		fputc('\n', out);
	}
	if (cmd->more) {
		fputs(".PP\n.nf\n", out);
		cmd->more(out);
		fputs(".fi\n", out);
	}
	fputs(".PP\nOptions:", out);
	for (size_t i = 0; i < sonde_options.n; i++) {
		if (!(cmd->valid & SONDE_OPT_BIT(i)) || !sonde_options.rows[i].group)
			continue;
		fputs(" \\fB\\-\\-", out);
		man_text(out, sonde_options.rows[i].name);
		fputs("\\fR", out);
	}
	fputc('\n', out);
}

void sonde_page_man(FILE *out)
{
	fprintf(out,
		".\\\" Made by `sonde help --man`; edit the tables in user/cli, not this page.\n"
		".TH SONDE 1 \"\" \"sonde %s\"\n"
		".SH NAME\nsonde \\- what memory costs a running daemon, seen from outside by "
		"eBPF\n"
		".SH SYNOPSIS\n.B sonde\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.SH COMMANDS\n",
		SONDE_VERSION);
	for (size_t i = 0; i < sonde_command_count; i++)
		man_command(out, sonde_commands[i]);
	fputs(".SH OPTIONS\n", out);
	for (size_t i = 0; i < sonde_options.n; i++)
		if (sonde_options.rows[i].group)
			man_option(out, &sonde_options.rows[i]);
	fputs(".SH EXIT STATUS\n", out);
	for (const struct sonde_exit_row *r = sonde_exit_rows; r->text; r++)
		fprintf(out, ".TP\n.B %d\n%s\n", r->code, r->text);
}

/* "|" would end a table cell. */
static void md_text(FILE *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '|' || *s == '<')
			fputc('\\', out);
		fputc(*s, out);
	}
}

static void md_command(FILE *out, const struct sonde_command *cmd)
{
	const char *group = NULL;

	fprintf(out, "\n## sonde %s\n\n`sonde %s [OPTION...]%s%s`: %s.\n", cmd->name, cmd->name,
		*cmd->synopsis ? " " : "", cmd->synopsis, cmd->summary);
	if (cmd->about)
		fprintf(out, "\n%s\n", cmd->about);
	for (size_t i = 0; i < sonde_options.n; i++) {
		const struct sonde_opt *o = &sonde_options.rows[i];
		struct sonde_str label sonde_autostr = {0};
		const char *text;

		if (!(cmd->valid & SONDE_OPT_BIT(i)) || !o->group)
			continue;
		if (!group || strcmp(group, o->group))
			fprintf(out, "\n| %s | |\n|---|---|\n", o->group);
		group = o->group;
		sonde_option_label(o, &label);
		text = sonde_str_get(&label);
		fprintf(out, "| `%s` | ", text + strspn(text, " "));
		md_text(out, o->help);
		print_default(out, o);
		fputs(" |\n", out);
	}
	if (cmd->more) {
		fputs("\n```", out);
		cmd->more(out);
		fputs("```\n", out);
	}
	for (size_t i = 0; i < 4 && cmd->examples[i].line; i++)
		fprintf(out, "%s- `%s`: %s\n", i ? "" : "\n", cmd->examples[i].line,
			cmd->examples[i].what);
}

void sonde_page_markdown(FILE *out)
{
	fputs("<!-- Made by `sonde help --markdown`; edit the tables in user/cli, not this page. "
	      "-->\n"
	      "# Commands and options\n\nNumbers take units (`64M`, `250ms`, `30s`) and are "
	      "refused "
	      "with trailing junk. stdout is data, stderr is messages.\n",
	      out);
	for (size_t i = 0; i < sonde_command_count; i++)
		md_command(out, sonde_commands[i]);
	fputs("\n## Exit codes\n\n| code | meaning |\n|---|---|\n", out);
	for (const struct sonde_exit_row *r = sonde_exit_rows; r->text; r++)
		fprintf(out, "| %d | %s |\n", r->code, r->text);
}

static void completion_command(FILE *out, const struct sonde_command *cmd)
{
	fprintf(out, "\t%s) opts=\"", cmd->name);
	for (size_t i = 0, n = 0; i < sonde_options.n; i++)
		if (cmd->valid & SONDE_OPT_BIT(i) && sonde_options.rows[i].group)
			fprintf(out, "%s--%s", n++ ? " " : "", sonde_options.rows[i].name);
	fputs("\" ;;\n", out);
}

static void completion_choices(FILE *out)
{
	for (size_t i = 0; i < sonde_options.n; i++) {
		const struct sonde_opt *o = &sonde_options.rows[i];

		if (o->type != SONDE_OPT_CHOICE)
			continue;
		fprintf(out, "\t--%s) COMPREPLY=($(compgen -W \"", o->name);
		for (const struct sonde_opt_choice *c = o->choices; c->name; c++)
			fprintf(out, "%s%s", c == o->choices ? "" : " ", c->name);
		fputs("\" -- \"$cur\")); return ;;\n", out);
	}
}

void sonde_page_completion(FILE *out)
{
	fputs("# bash completion for sonde; made by `sonde help --bash-completion`\n"
	      "_sonde()\n{\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} opts=\n"
	      "\tCOMPREPLY=()\n\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\tCOMPREPLY=($(compgen -W \"",
	      out);
	for (size_t i = 0; i < sonde_command_count; i++)
		fprintf(out, "%s ", sonde_commands[i]->name);
	fputs("--help --version\" -- \"$cur\"))\n\t\treturn\n\tfi\n"
	      "\tcase ${COMP_WORDS[COMP_CWORD-1]} in\n",
	      out);
	completion_choices(out);
	fputs("\t-p | --pid) COMPREPLY=($(compgen -W \"$(ps -eo pid=)\" -- \"$cur\")); return ;;\n"
	      "\tesac\n\tcase ${COMP_WORDS[1]} in\n",
	      out);
	for (size_t i = 0; i < sonde_command_count; i++)
		completion_command(out, sonde_commands[i]);
	fputs("\tesac\n\t[[ $cur == -* ]] && COMPREPLY=($(compgen -W \"$opts\" -- \"$cur\"))\n}\n"
	      "complete -o default -F _sonde sonde\n",
	      out);
}
