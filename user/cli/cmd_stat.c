// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * `sonde stat`: attach, a line per interval, a summary at the end. When the reader of stdout goes
 * away, so does the observation.
 */
#include <errno.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/observe.h"
#include "cli/output.h"
#include "cli/threads.h"
#include "core/err.h"
#include "judge/figures.h"
#include "model/stacks.h"
#include "show/sites.h"
#include "show/stat.h"
#include "sonde/fault.h"

struct stat_run {
	struct sonde_stat_view view;
	struct sonde_comm_watch threads;
	bool json, lines, instant, field;
	struct sonde_stack_table stacks;
};

/* Bytes and nothing else, for scripts; "-" where there is no value now. */
static void print_field(const struct sonde_snapshot *snap)
{
	const struct sonde_snap_metric *m =
		sonde_snapshot_find_metric(snap, "consumption.current", "", UINT32_MAX);

	if (m && m->present && !m->absent)
		printf("%.0f\n", m->last);
	else
		printf("-\n");
}

static int on_tick(void *ctx, const struct sonde_snapshot *snap)
{
	struct stat_run *run = ctx;
	int err;

	sonde_comm_watch_look(&run->threads, snap);
	if (!run->lines)
		return 0;
	if (run->field) {
		print_field(snap);
		return sonde_output_flush();
	}
	/* A few ms of an interval are no rate to put beside the others; the summary has them. */
	if (!run->json && snap->partial && run->view.any)
		return 0;
	err = run->json ? sonde_stat_json_line(run->view.out, snap)
			: sonde_stat_line(&run->view, snap);
	return err ? err : sonde_output_flush();
}

/* The command to type next: the same target, or one of its name where it has gone, a longer look.
 * "" where the target was started by us. */
static void next_command(const struct sonde_args *args, const struct sonde_snapshot *snap,
			 bool instant, char *buf, size_t size)
{
	struct sonde_figures figures;
	const char *rest = instant ? "-d 30s" : "-d 10m -o day.sonde";
	const char *verb = instant ? "stat" : "record";

	buf[0] = '\0';
	sonde_figures_of(snap, &figures);
	if (args->pids.n && *figures.target)
		snprintf(buf, size, "sonde %s %s %s", verb, figures.target, rest);
	else if (args->name)
		snprintf(buf, size, "sonde %s -n %s %s", verb, args->name, rest);
}

static bool by_stack(const struct sonde_args *args)
{
	return args->fault_by & 1u << SONDE_FAULT_BY_STACK;
}

/* Call sites come after the summary, which they would hide otherwise. */
static int print_text(const struct sonde_args *args, const struct stat_run *run,
		      const struct sonde_snapshot *snap, const struct sonde_stat_end *end)
{
	int err = sonde_stat_summary(stdout, snap, end);

	if (err || (!args->sites && !by_stack(args)))
		return err;
	fputc('\n', stdout);
	if (!run->stacks.n) {
		fprintf(stdout, "Call sites: none, for no %s was seen in this time\n",
			!by_stack(args) ? "allocation"
			: args->sites	? "allocation or page fault"
					: "page fault");
		return 0;
	}
	return sonde_sites_print(stdout, &run->stacks, args->sites ? args->sites : 20);
}

static int print_end(const struct sonde_args *args, const struct stat_run *run,
		     const struct sonde_snapshot *snap, const struct sonde_session_result *result)
{
	char next[256];
	struct sonde_stat_end end = {
		.ended = result->ended,
		.instant = run->instant,
		.all = args->verbose > 0,
		.observed_ns = result->observed_ns,
		.attach_ns = result->attach_ns,
		.detach_ns = result->detach_ns,
	};

	if (run->field) {
		if (run->instant)
			print_field(snap);
		return 0;
	}
	next_command(args, snap, run->instant, next, sizeof(next));
	end.next = *next ? next : NULL;
	if (run->json)
		return sonde_stat_json(stdout, snap, &end);
	return print_text(args, run, snap, &end);
}

int sonde_stat_session(const struct sonde_args *args, struct sonde_session_opts *opts)
{
	struct stat_run run = {.view = {.out = stdout},
			       .json = args->json,
			       .field = args->field != SONDE_FIELD_ALL,
			       .threads = {.comm = args->comm}};
	const struct sonde_visitor *sink = &run.stacks.visitor;
	struct sonde_session_result result;
	struct sonde_snapshot snap;
	int err;

	/* One document, unless intervals were asked for: then one line each. */
	run.lines = !opts->instant && (!args->json || args->seen & SONDE_O(INTERVAL));
	run.instant = opts->instant;
	opts->on_tick = on_tick;
	opts->on_tick_ctx = &run;
	if (!run.json && !run.field)
		opts->on_observing = sonde_observe_say_observing;
	sonde_stack_table_init(&run.stacks);
	opts->sinks = &sink;
	opts->n_sinks = args->sites || by_stack(args) ? 1 : 0;
	sonde_output_hold();
	sonde_snapshot_init(&snap);
	sonde_observe_say_start();
	err = sonde_session_run(opts, &snap, &result);
	if (!err)
		err = print_end(args, &run, &snap, &result);
	if (!err)
		sonde_comm_watch_end(&run.threads, &snap);
	err = sonde_observe_exit(args, err, result.degraded);
	sonde_snapshot_fini(&snap);
	sonde_stack_table_fini(&run.stacks);
	return err;
}

/* Lenses that count events and have no level to read. */
#define OF_EVENTS                                                                                  \
	(1u << SONDE_LENS_QUERY | 1u << SONDE_LENS_FAULT | 1u << SONDE_LENS_STALL |                \
	 1u << SONDE_LENS_ASK)

static int run_stat(const struct sonde_args *args)
{
	struct sonde_session_opts opts;
	int err = sonde_observe_opts(args, &opts);

	if (!err && args->json && args->field)
		err = sonde_err(EINVAL, "--field prints a bare figure; leave out --json");
	if (err)
		return err;
	/* What counts events has none to count in no time: nothing is attached for it. */
	if (opts.instant && opts.lens_mask && !(opts.lens_mask & ~OF_EVENTS))
		return sonde_err(EINVAL,
				 "-d 0 leaves no time for what --lens names to happen; give it "
				 "some (-d 10s), or look at what is there at an instant "
				 "(--lens rss,alloc)");
	if (opts.instant && !opts.lens_mask)
		opts.lens_mask = 1u << SONDE_LENS_RSS | 1u << SONDE_LENS_ALLOC;
	return args->dry_run ? sonde_observe_dry_run(args, &opts) : sonde_stat_session(args, &opts);
}

const struct sonde_command sonde_command_stat = {
	.name = "stat",
	.summary = "observe a daemon: a line per interval, a summary at the end",
	.synopsis = "[-- COMMAND...]",
	.valid = SONDE_OPTS_COMMON | SONDE_OPTS_OBSERVE | SONDE_O(FIELD),
	.needs = {SONDE_OPTS_TARGET},
	.starts_command = true,
	.about =
		"Attaches to a running daemon without restarting or changing it and says what "
		"memory "
		"it holds, what page faults cost it and how long its queries take. It ends after "
		"-d, "
		"at Ctrl-C, or when the daemon exits; nothing stays behind. After -- it starts the "
		"command itself and observes it from its first instruction.\n\n"
		"With --json it prints one document at the end; with --json and -i also one line "
		"per interval.",
	.examples = {{"sonde stat -n searchd -d 30s", "half a minute of the search daemon"},
		     {"sonde stat -p 812 -d 0", "its memory now, nothing awaited"},
		     {"sonde stat -p 812 --alloc-mode exact -d 5s",
		      "every allocation of 5 s; asks first"},
		     {"sonde stat -d 10s -- sqlite3 :memory: ...", "a command from its start"}},
	.more = sonde_observe_list_lenses,
	.run = run_stat,
};
