// SPDX-License-Identifier: GPL-2.0-or-later
/* Parse, dispatch, account for what was written. */
#include "cli/command.h"
#include "cli/output.h"

int main(int argc, char **argv)
{
	const struct sonde_command *cmd;
	struct sonde_args args;
	int err;

	sonde_output_init();
	err = sonde_command_parse(argc, argv, &args, &cmd);
	if (!err && args.help)
		sonde_help_command(stdout, cmd);
	else if (!err)
		err = cmd->run(&args);
	sonde_args_fini(&args);
	return sonde_output_finish(err);
}
