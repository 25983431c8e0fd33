/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What becomes of stdout: a reader that went away (`sonde ... | head -1`) ends the command quietly,
 * any other failure to write is said and is exit code 1.
 */
#ifndef SONDE_CLI_OUTPUT_H
#define SONDE_CLI_OUTPUT_H

#include <stdio.h>

#include "cli/args.h"

/* First thing in main: SIGPIPE becomes EPIPE, SIGXFSZ EFBIG, and fds 0 to 2 are never something
 * else. */
void sonde_output_init(void);
/* From here on a reader that goes away is an error of stdout that the command must see, since it
 * has something to let go of first. Without this the process ends at once, exit code 0. */
void sonde_output_hold(void);
/* Push out what was printed. 0; -EPIPE (quiet: the reader went away) or -errno (not yet logged). */
int sonde_output_flush(void);
/* The exit code of a command that ended with @err, after everything is written. */
int sonde_output_finish(int err);

/* What is printed are bytes for another program: pass them on as they are, except to a terminal.
 * Otherwise control characters are replaced on their way. */
void sonde_output_raw(void);

/* A message that is no warning, to stderr, unless -q. */
void sonde_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Open what -o names for writing: nothing or "-" is stdout. Without --overwrite an existing file is
 * left alone; with it the file is replaced only when all is written. A file that the command reads
 * (args->words) is refused. One at a time. 0 or -errno (logged).
 */
int sonde_output_open(FILE **out, const struct sonde_args *args);
/* @err: how the work went; returned as it is when nothing is wrong with the file. Who writes to a
 * stream leaves its failure to whoever opened it, so that is said here, once. 0 or -errno (logged).
 */
int sonde_output_close(FILE **out, const struct sonde_args *args, int err);

#endif
