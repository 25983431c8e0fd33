/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What report and export share: open the recording, and say what part of it is wanted. */
#ifndef SONDE_CLI_READ_H
#define SONDE_CLI_READ_H

#include "cli/args.h"
#include "record/reader.h"

/* Opens args->words[0]; *filter from --since, --until, --slowest. 0 or -errno (logged). Free *r
 * either way. */
int sonde_read_open(const struct sonde_args *args, struct sonde_reader **r,
		    struct sonde_reader_filter *filter);

#endif
