// SPDX-License-Identifier: GPL-2.0-or-later
/* `sonde report`: a recording as text. */
#include "cli/command.h"
#include "cli/output.h"
#include "cli/read.h"
#include "model/stacks.h"
#include "show/report.h"
#include "show/sites.h"

static int print_report(const struct sonde_args *args, struct sonde_report *rep)
{
	FILE *out;
	int err = sonde_output_open(&out, args);

	if (err)
		return err;
	err = sonde_report_print(rep, out);
	return sonde_output_close(&out, args, err);
}

static int print_sites(const struct sonde_args *args, const struct sonde_stack_table *table)
{
	size_t rows = args->sites ? args->sites : 20;
	FILE *out;
	int err = sonde_output_open(&out, args);

	if (err)
		return err;
	err = args->growth ? sonde_growth_print(out, table, rows)
			   : sonde_sites_print(out, table, rows);
	return sonde_output_close(&out, args, err);
}

/* By call site only: --sites or --growth. */
static int report_sites(const struct sonde_args *args, struct sonde_reader *r,
			const struct sonde_reader_filter *filter)
{
	struct sonde_stack_table table;
	int err;

	sonde_stack_table_init(&table);
	err = sonde_reader_visit(r, filter, &table.visitor);
	if (!err)
		err = print_sites(args, &table);
	sonde_stack_table_fini(&table);
	return err;
}

static const char *form_text(void *ctx, uint64_t id, char *buf, size_t size)
{
	return sonde_reader_fingerprint(ctx, id, buf, size);
}

static int run_report(const struct sonde_args *args)
{
	struct sonde_report_opts opts = {.slowest = args->slowest,
					 .rows = args->rows,
					 .tail_share = args->tail_share,
					 .by = args->by,
					 .running_ns = args->running_ns,
					 .all = args->verbose > 0};
	struct sonde_reader_filter filter;
	struct sonde_report *rep = NULL;
	struct sonde_reader *r = NULL;
	int err = sonde_read_open(args, &r, &filter);

	/* The report lists the slowest itself, and needs all the others for everything else. */
	filter.slowest = 0;
	filter.rebase = true;
	if (!err && (args->sites || args->growth)) {
		err = report_sites(args, r, &filter);
		sonde_reader_free(&r);
		return err;
	}
	opts.form_text = form_text;
	opts.form_ctx = r;
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
	.valid = SONDE_OPTS_COMMON | SONDE_O(SLOWEST) | SONDE_O(TAIL) | SONDE_O(BY) |
		 SONDE_O(RUNNING) | SONDE_O(ROWS) | SONDE_O(SITES) | SONDE_O(GROWTH) |
		 SONDE_O(SINCE) | SONDE_O(UNTIL) | SONDE_O(OUTPUT) | SONDE_O(OVERWRITE),
	.min_words = 1,
	.max_words = 1,
	.about = "Reads a recording that is finished, was cut short, or is still being written.",
	.examples = {{"sonde report day.sonde", "all of it"},
		     {"sonde report day.sonde --since -1h --slowest 20",
		      "its last hour, 20 queries"},
		     {"sonde report day.sonde --tail=p99.9", "what the slowest 0.1 % waited for"},
		     {"sonde report day.sonde --by index", "latency by index"},
		     {"sonde report day.sonde --sites=5", "the five call sites of most bytes"},
		     {"sonde report day.sonde --growth", "where live memory keeps growing"}},
	.run = run_report,
};
