// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From argv to a command that may run. Everything that a descriptor's masks can tell is checked
 * here, so that each kind of mistake has one sentence, the same for every command.
 */
#include <errno.h>
#include <string.h>

#include "cli/command.h"
#include "cli/suggest.h"
#include "core/err.h"
#include "core/log.h"
#include "core/mem.h"

#define SONDE_COMMAND(name) extern const struct sonde_command sonde_command_##name;
#include "cli/commands.def"
#undef SONDE_COMMAND

const struct sonde_command *const sonde_commands[] = {
#define SONDE_COMMAND(name) &sonde_command_##name,
#include "cli/commands.def"
#undef SONDE_COMMAND
};
const size_t sonde_command_count = SONDE_ARRAY_SIZE(sonde_commands);

const struct sonde_command *sonde_command_find(const char *name)
{
	for (size_t i = 0; i < sonde_command_count; i++)
		if (!strcmp(sonde_commands[i]->name, name))
			return sonde_commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	struct sonde_suggest near;

	sonde_suggest_init(&near, name, strlen(name));
	for (size_t i = 0; i < sonde_command_count; i++)
		sonde_suggest_offer(&near, sonde_commands[i]->name);
	if (near.best)
		return sonde_err(EINVAL, "there is no command '%s'; did you mean `sonde %s`?", name,
				 near.best);
	return sonde_err(EINVAL, "there is no command '%s'; `sonde help` lists them", name);
}

static int print_version(const struct sonde_args *args)
{
	(void)args;
	printf("sonde %s\n", SONDE_VERSION);
	return 0;
}

static int print_overview(const struct sonde_args *args)
{
	(void)args;
	sonde_help_overview(stdout);
	return 0;
}

static int no_command(const struct sonde_args *args)
{
	(void)args;
	sonde_help_overview(stderr);
	return SONDE_EXIT_USAGE;
}

/* What may stand where a command's name is expected. */
static const struct {
	const char *word;
	struct sonde_command cmd;
} stand_ins[] = {
	{"--version", {.name = "--version", .run = print_version}},
	{"-V", {.name = "--version", .run = print_version}},
	{"--help", {.name = "--help", .run = print_overview}},
	{"-h", {.name = "--help", .run = print_overview}},
};

static int find_command(int argc, char **argv, const struct sonde_command **cmd)
{
	static const struct sonde_command nothing = {.name = "", .run = no_command};

	if (argc < 2) {
		*cmd = &nothing;
		return 0;
	}
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(stand_ins); i++) {
		if (strcmp(argv[1], stand_ins[i].word))
			continue;
		*cmd = &stand_ins[i].cmd;
		return argc == 2 ? 0
				 : sonde_err(EINVAL,
					     "%s stands alone; `sonde COMMAND --help` explains "
					     "a command",
					     argv[1]);
	}
	if (argv[1][0] == '-')
		return sonde_err(EINVAL,
				 "the command comes first: sonde COMMAND %s ...; `sonde help` "
				 "lists the commands",
				 argv[1]);
	*cmd = sonde_command_find(argv[1]);
	return *cmd ? 0 : unknown_command(argv[1]);
}

/* "-p, -n, --unit": the options of a mask, by their shortest names. */
static void list_options(sonde_opt_mask mask, struct sonde_str *out)
{
	for (size_t i = 0; i < sonde_options.n; i++) {
		const struct sonde_opt *o = &sonde_options.rows[i];

		if (!(mask & SONDE_OPT_BIT(i)))
			continue;
		sonde_str_addf(out, "%s", out->len ? ", " : "");
		if (o->letter)
			sonde_str_addf(out, "-%c", o->letter);
		else
			sonde_str_addf(out, "--%s", o->name);
	}
}

static int check_valid(const struct sonde_command *cmd, const struct sonde_args *args)
{
	struct sonde_str takers sonde_autostr = {0};
	sonde_opt_mask wrong = args->seen & ~cmd->valid;
	size_t bit = 0;

	if (!wrong)
		return 0;
	while (!(wrong & SONDE_OPT_BIT(bit)))
		bit++;
	for (size_t i = 0; i < sonde_command_count; i++)
		if (sonde_commands[i]->valid & SONDE_OPT_BIT(bit))
			sonde_str_addf(&takers, "%ssonde %s", takers.len ? ", " : "",
				       sonde_commands[i]->name);
	return sonde_err(EINVAL, "`sonde %s` takes no --%s; it belongs to: %s", cmd->name,
			 sonde_options.rows[bit].name, sonde_str_get(&takers));
}

static int check_words(const struct sonde_command *cmd, const struct sonde_args *args)
{
	if (args->command && !args->command[0])
		return sonde_err(EINVAL, "nothing follows --; write: sonde %s -- COMMAND ...",
				 cmd->name);
	if (args->n_words < cmd->min_words)
		return sonde_err(EINVAL, "something is missing; write: sonde %s [OPTION...] %s",
				 cmd->name, cmd->synopsis);
	if (args->n_words > cmd->max_words && cmd->needs[0] &&
	    !args->words[0][strspn(args->words[0], "0123456789")])
		return sonde_err(EINVAL,
				 "'%s' stands alone; a process is given by its option: -p %s",
				 args->words[0], args->words[0]);
	if (args->n_words > cmd->max_words && cmd->starts_command)
		return sonde_err(EINVAL,
				 "'%s' stands where an option is expected; put -- before the "
				 "command that is to be started: sonde %s [OPTION...] -- %s ...",
				 args->words[0], cmd->name, args->words[0]);
	if (args->n_words > cmd->max_words)
		return sonde_err(EINVAL,
				 "'%s' is one word too many; write: sonde %s [OPTION...] %s",
				 args->words[cmd->max_words], cmd->name, cmd->synopsis);
	return 0;
}

static int check_needs(const struct sonde_command *cmd, const struct sonde_args *args)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(cmd->needs); i++) {
		struct sonde_str names sonde_autostr = {0};
		bool started = i == 0 && cmd->starts_command;

		if (!cmd->needs[i] || args->seen & cmd->needs[i] || (started && args->command))
			continue;
		list_options(cmd->needs[i], &names);
		return sonde_err(EINVAL, "`sonde %s` needs %s%s%s; `sonde %s --help` explains",
				 cmd->name, strchr(sonde_str_get(&names), ',') ? "one of: " : "",
				 sonde_str_get(&names), started ? ", or -- COMMAND" : "",
				 cmd->name);
	}
	return 0;
}

/* Pairs that contradict each other. */
static const struct {
	sonde_opt_mask a, b;
	const char *why;
} conflicts[] = {
	{SONDE_O(QUIET), SONDE_O(VERBOSE), "-q and -v contradict each other"},
	{SONDE_O(TID), SONDE_O(COMM), "--tid and --comm both choose threads; give one of them"},
	{SONDE_O(PID), SONDE_O(NAME) | SONDE_O(UNIT) | SONDE_O(CGROUP),
	 "targets are given by one of -p, -n, --unit and --cgroup"},
	{SONDE_O(NAME), SONDE_O(UNIT) | SONDE_O(CGROUP),
	 "targets are given by one of -p, -n, --unit and --cgroup"},
	{SONDE_O(UNIT), SONDE_O(CGROUP), "targets are given by one of -p, -n, --unit and --cgroup"},
};

static int check_conflicts(const struct sonde_args *args)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(conflicts); i++)
		if (args->seen & conflicts[i].a && args->seen & conflicts[i].b)
			return sonde_err(EINVAL, "%s", conflicts[i].why);
	if (args->command && args->seen & SONDE_OPTS_TARGET)
		return sonde_err(EINVAL,
				 "-- COMMAND starts the target itself; leave out -p, -n, --unit "
				 "and --cgroup");
	return 0;
}

static int check(const struct sonde_command *cmd, const struct sonde_args *args)
{
	int err = check_valid(cmd, args);

	if (!err)
		err = check_words(cmd, args);
	if (!err)
		err = check_needs(cmd, args);
	return err ? err : check_conflicts(args);
}

static char *join(int argc, char **argv)
{
	struct sonde_str line = {0};

	for (int i = 0; i < argc; i++)
		sonde_str_addf(&line, "%s%s", i ? " " : "", i ? argv[i] : "sonde");
	return line.s;
}

/* Words after "--" are a command to start, or just words. */
static void take_words(const struct sonde_command *cmd, struct sonde_args *args)
{
	const struct sonde_opt_result *r = &args->parsed;

	args->seen = r->seen;
	args->words = (const char *const *)r->words;
	args->n_words = r->n_words;
	if (!cmd->starts_command || !r->dashes)
		return;
	args->n_words = r->n_before_dashes;
	args->command = args->words + r->n_before_dashes;
}

static void set_log_level(const struct sonde_args *args)
{
	int level = SONDE_LOG_WARN + (int)(args->verbose > 2 ? 2 : args->verbose);

	sonde_log_set_level(args->quiet ? SONDE_LOG_ERROR : (enum sonde_log_level)level);
}

int sonde_command_parse(int argc, char **argv, struct sonde_args *args,
			const struct sonde_command **out)
{
	const struct sonde_command *cmd = NULL;
	int err;

	*args = (struct sonde_args){0};
	err = find_command(argc, argv, &cmd);
	if (!err)
		err = sonde_opts_init(&sonde_options, args);
	if (!err && argc > 2)
		err = sonde_opts_parse(&sonde_options, cmd->valid,
				       !cmd->starts_command || cmd->max_words, argc - 2,
				       (const char *const *)argv + 2, args, &args->parsed);
	if (err)
		return err;
	args->line = join(argc, argv);
	take_words(cmd, args);
	set_log_level(args);
	if (!args->help)
		err = check(cmd, args);
	if (!err)
		*out = cmd;
	return err;
}
