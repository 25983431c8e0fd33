// SPDX-License-Identifier: GPL-2.0-or-later
/* Times are relative to the recording, so they are understood only once it is open. */
#include <errno.h>

#include "cli/read.h"
#include "core/err.h"

int sonde_read_open(const struct sonde_args *args, struct sonde_reader **r,
		    struct sonde_reader_filter *filter)
{
	int err = sonde_reader_open(r, args->words[0]);

	*filter = (struct sonde_reader_filter){.slowest = args->slowest};
	if (!err && args->since)
		err = sonde_reader_parse_time(*r, args->since, &filter->since_ns);
	if (!err && args->until)
		err = sonde_reader_parse_time(*r, args->until, &filter->until_ns);
	if (!err && filter->until_ns && filter->since_ns >= filter->until_ns)
		err = sonde_err(EINVAL, "--since %s is not before --until %s", args->since,
				args->until);
	return err;
}
