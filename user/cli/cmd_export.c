// SPDX-License-Identifier: GPL-2.0-or-later
/* `sonde export`: a recording in other tools' formats; which there are is exporters.def's business.
 */
#include <errno.h>
#include <string.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/read.h"
#include "cli/suggest.h"
#include "core/err.h"
#include "export/export.h"

static int check_format(const char *name)
{
	struct sonde_suggest near;

	if (sonde_exporter_find(name))
		return 0;
	sonde_suggest_init(&near, name, strlen(name));
	for (size_t i = 0; i < sonde_exporter_count; i++)
		sonde_suggest_offer(&near, sonde_exporters[i]->name);
	if (near.best)
		return sonde_err(EINVAL, "--to: there is no format '%s'; did you mean %s?", name,
				 near.best);
	return sonde_err(EINVAL, "--to: there is no format '%s'; `sonde export --help` lists them",
			 name);
}

static int export_to(const struct sonde_args *args, struct sonde_reader *r,
		     const struct sonde_reader_filter *filter, FILE *out)
{
	struct sonde_export_opts opts = {.series = args->series, .lens_mask = args->lens_mask};
	struct sonde_export *x = NULL;
	int err = sonde_export_open(&x, args->to, &opts, out), closed;

	if (err)
		return err;
	err = sonde_reader_visit(r, filter, sonde_export_visitor(x));
	closed = sonde_export_close(&x);
	return err ? err : closed;
}

/* --lens says whose call stacks: there are two kinds, and few formats have any. */
static int check_lens(const struct sonde_args *args)
{
	const uint32_t stacks = 1u << SONDE_LENS_ALLOC | 1u << SONDE_LENS_FAULT;
	const struct sonde_exporter *e = sonde_exporter_find(args->to);

	if (args->series && !(e->takes & SONDE_TAKES_METRIC))
		return sonde_err(EINVAL,
				 "--series is figures over time, and %s has none; leave it out",
				 e->name);
	if (!args->lens_mask)
		return 0;
	if (e->takes != SONDE_TAKES_STACK)
		return sonde_err(EINVAL,
				 "--lens says whose call stacks are exported, and %s is not "
				 "about call stacks alone; leave it out",
				 e->name);
	if (args->lens_mask & ~stacks)
		return sonde_err(EINVAL, "--lens: there are call stacks of alloc and of fault");
	return 0;
}

static int run_export(const struct sonde_args *args)
{
	struct sonde_reader_filter filter;
	struct sonde_reader *r = NULL;
	int err = check_format(args->to);
	FILE *out = NULL;

	if (!err)
		err = check_lens(args);
	if (!err)
		err = sonde_read_open(args, &r, &filter);
	if (!err)
		err = sonde_output_open(&out, args);
	sonde_output_raw();
	if (!err) {
		err = export_to(args, r, &filter, out);
		err = sonde_output_close(&out, args, err);
	}
	sonde_reader_free(&r);
	return err;
}

static void list_formats(FILE *out)
{
	fputs("\nFormats (--to):\n", out);
	for (size_t i = 0; i < sonde_exporter_count; i++)
		fprintf(out, "  %-10s %s\n", sonde_exporters[i]->name, sonde_exporters[i]->summary);
}

const struct sonde_command sonde_command_export = {
	.name = "export",
	.summary = "a recording's query traces and figures in other tools' formats",
	.synopsis = "FILE",
	.valid = SONDE_OPTS_COMMON | SONDE_O(TO) | SONDE_O(SERIES) | SONDE_O(LENS) |
		 SONDE_O(SLOWEST) | SONDE_O(SINCE) | SONDE_O(UNTIL) | SONDE_O(OUTPUT) |
		 SONDE_O(OVERWRITE),
	.needs = {0, SONDE_O(TO)},
	.min_words = 1,
	.max_words = 1,
	.about = "What a format cannot carry is said, never dropped silently.",
	.examples = {{"sonde export day.sonde --to csv >queries.csv", "a row per query"},
		     {"sonde export day.sonde --to csv --series -o rss.csv", "figures over time"},
		     {"sonde export day.sonde --to chrome --slowest 100 -o slow.json",
		      "the 100 slowest on a time line, for a browser"},
		     {"sonde export day.sonde --to folded --lens fault",
		      "page faults by call stack, for a flame graph"}},
	.more = list_formats,
	.run = run_export,
};
