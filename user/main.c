// SPDX-License-Identifier: GPL-2.0-or-later
/* Parse, dispatch, account for what was written. */
#include <malloc.h>

#include "cli/command.h"
#include "cli/output.h"

int main(int argc, char **argv)
{
	const struct sonde_command *cmd;
	struct sonde_args args;
	int err;

	/* glibc raises this bound when a large block is freed, and would then keep the verifier's log
	 * buffers (16 MiB) in the heap for good. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	sonde_output_init();
	err = sonde_command_parse(argc, argv, &args, &cmd);
	if (!err && args.help)
		sonde_help_command(stdout, cmd);
	else if (!err)
		err = cmd->run(&args);
	sonde_args_fini(&args);
	return sonde_output_finish(err);
}
