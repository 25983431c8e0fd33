// SPDX-License-Identifier: GPL-2.0-or-later
/* `sonde report`: a recording as text. */
#include "cli/command.h"
#include "cli/output.h"
#include "cli/read.h"
#include "show/report.h"

static int print_report(const struct sonde_args *args, struct sonde_report *rep)
{
	FILE *out;
	int err = sonde_output_open(&out, args);

	if (err)
		return err;
	err = sonde_report_print(rep, out);
	return sonde_output_close(&out, args, err);
}

static int run_report(const struct sonde_args *args)
{
	struct sonde_report_opts opts = {.slowest = args->slowest};
	struct sonde_reader_filter filter;
	struct sonde_report *rep = NULL;
	struct sonde_reader *r = NULL;
	int err = sonde_read_open(args, &r, &filter);

	/* The report lists the slowest itself, and needs all the others for everything else. */
	filter.slowest = 0;
	filter.rebase = true;
	if (!err)
		err = sonde_report_new(&rep, &opts);
	if (!err)
		err = sonde_reader_visit(r, &filter, sonde_report_visitor(rep));
	if (!err)
		err = print_report(args, rep);
	sonde_report_free(&rep);
	sonde_reader_free(&r);
	return err;
}

const struct sonde_command sonde_command_report = {
	.name = "report",
	.summary = "a recording as text",
	.synopsis = "FILE",
	.valid = SONDE_OPTS_COMMON | SONDE_O(SLOWEST) | SONDE_O(SINCE) | SONDE_O(UNTIL) |
		 SONDE_O(OUTPUT) | SONDE_O(OVERWRITE),
	.min_words = 1,
	.max_words = 1,
	.about = "Reads a recording that is finished, was cut short, or is still being written.",
	.examples = {{"sonde report day.sonde", "all of it"},
		     {"sonde report day.sonde --since -1h --slowest 20",
		      "its last hour, 20 queries"}},
	.run = run_report,
};
