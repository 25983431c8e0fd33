/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What becomes of stdout: a reader that went away (`sonde ... | head -1`) ends the command quietly,
 * any other failure to write is said and is exit code 1.
 */
#ifndef SONDE_CLI_OUTPUT_H
#define SONDE_CLI_OUTPUT_H

/* First thing in main: SIGPIPE becomes EPIPE, and fds 0 to 2 are never something else. */
void sonde_output_init(void);
/* Push out what was printed. 0; -EPIPE (quiet: the reader went away) or -errno (not yet logged). */
int sonde_output_flush(void);
/* The exit code of a command that ended with @err, after everything is written. */
int sonde_output_finish(int err);

#endif
