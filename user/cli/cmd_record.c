// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * `sonde record`: the same observation as stat, into a file. Says after the first intervals how
 * large the file will become, and at the end what is in it and what to type next.
 */
#include <errno.h>
#include <string.h>

#include "cli/command.h"
#include "cli/observe.h"
#include "cli/output.h"
#include "cli/threads.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"

#define FORECAST_TICKS 5
#define TEXT_BYTES     120 /* of a query, before anything is known about them */

struct record_run {
	const struct sonde_args *args;
	struct sonde_writer_opts writer_opts;
	struct sonde_writer *writer;
	struct sonde_visitor sink; /* becomes the writer's when the session begins */
	struct sonde_comm_watch threads;
	bool forecast_said;
};

/* The file is created only once the session begins, so that a target that is not there leaves none.
 */
static int begin(void *ctx, const struct sonde_meta *meta)
{
	struct record_run *run = ctx;
	int err = sonde_writer_open(&run->writer, run->args->output, &run->writer_opts);

	if (err)
		return err;
	run->sink = *sonde_writer_visitor(run->writer);
	return sonde_visit(&run->sink, begin, meta);
}

static void say_forecast(struct record_run *run, const struct sonde_snapshot *snap, double seconds)
{
	const struct sonde_args *args = run->args;
	bool timed = args->seen & SONDE_O(DURATION);
	struct sonde_writer_forecast f = {
		.spans_per_s = (double)snap->spans / seconds,
		.text_bytes_per_span = args->query_text ? TEXT_BYTES : 0,
		.metric_series = (uint32_t)snap->n_metrics,
		.hist_series = (uint32_t)snap->n_hists,
		.interval_ns = args->interval_ns,
		.duration_ns = timed ? args->duration_ns : 3600 * SONDE_NS_PER_SEC,
	};
	uint64_t bytes = sonde_writer_projected_bytes(&run->writer_opts, &f);
	char size[32], length[32];

	snprintf(length, sizeof(length), "%.0f s", (double)f.duration_ns / 1e9);
	sonde_say("%s will hold about %s after %s at this rate (%.0f queries/s)", args->output,
		  sonde_fmt_bytes(size, sizeof(size), (double)bytes), timed ? length : "an hour",
		  f.spans_per_s);
}

static int on_tick(void *ctx, const struct sonde_snapshot *snap)
{
	struct record_run *run = ctx;
	double seconds = (double)(snap->last_tick_ns - snap->first_tick_ns) / 1e9;

	sonde_comm_watch_look(&run->threads, snap);
	if (run->forecast_said || snap->ticks < FORECAST_TICKS || seconds <= 0)
		return 0;
	run->forecast_said = true;
	say_forecast(run, snap, seconds);
	return 0;
}

static void say_end(const struct record_run *run, const struct sonde_session_result *result)
{
	struct sonde_writer_stats stats;
	char size[32], length[32], stored[32], seen[32];

	sonde_writer_stats(run->writer, &stats);
	sonde_say("recorded %s (ended by: %s), %s of %s query traces, %s; next: sonde report %s",
		  sonde_fmt_ns(length, sizeof(length), (double)result->observed_ns), result->ended,
		  sonde_fmt_count(stored, sizeof(stored), stats.spans_stored),
		  sonde_fmt_count(seen, sizeof(seen), stats.spans_seen),
		  sonde_fmt_bytes(size, sizeof(size), (double)stats.file_bytes), run->args->output);
}

static int record_session(struct record_run *run, struct sonde_session_opts *opts)
{
	const struct sonde_visitor *sink = &run->sink;
	struct sonde_session_result result;
	struct sonde_snapshot snap;
	int err, closed;

	run->sink = (struct sonde_visitor){.ctx = run, .begin = begin};
	opts->sinks = &sink;
	opts->n_sinks = 1;
	opts->on_tick = on_tick;
	opts->on_tick_ctx = run;
	opts->on_observing = sonde_observe_say_observing;
	sonde_snapshot_init(&snap);
	sonde_observe_say_start();
	err = sonde_session_run(opts, &snap, &result);
	if (!err)
		say_end(run, &result);
	if (!err)
		sonde_comm_watch_end(&run->threads, &snap);
	closed = sonde_writer_close(&run->writer);
	sonde_snapshot_fini(&snap);
	return sonde_observe_exit(run->args, err ? err : closed, result.degraded);
}

static int check_output(const char *path)
{
	if (strcmp(path, "-"))
		return 0;
	return sonde_err(EINVAL, "-o -: a recording is a SQLite file and cannot go to stdout; "
				 "name a file (./- if it must be that)");
}

int sonde_record_session(const struct sonde_args *args, struct sonde_session_opts *opts)
{
	struct record_run run = {
		.args = args,
		.threads = {.comm = args->comm},
		.writer_opts = {.spans = args->spans,
				.max_bytes = args->max_bytes,
				.slower_than_ns = args->slower_than_ns,
				.overwrite = args->overwrite},
	};

	if (check_output(args->output))
		return -EINVAL;
	if (opts->instant)
		return sonde_err(EINVAL,
				 "-d 0 records nothing; for one reading use `sonde stat -d 0`");
	/* The writer refuses it too, but only after the user was asked for consent. */
	if (!args->overwrite && !access(args->output, F_OK))
		return sonde_err(EEXIST, "%s exists; choose another name or give --overwrite",
				 args->output);
	opts->lens.want_spans = true; /* those that are not kept still make figures by fingerprint */
	return record_session(&run, opts);
}

static int run_record(const struct sonde_args *args)
{
	struct sonde_session_opts opts;
	int err = check_output(args->output);

	if (!err)
		err = sonde_observe_opts(args, &opts);

	if (err)
		return err;
	return args->dry_run ? sonde_observe_dry_run(args, &opts)
			     : sonde_record_session(args, &opts);
}

const struct sonde_command sonde_command_record = {
	.name = "record",
	.summary = "observe a daemon into a file, with every query's trace",
	.synopsis = "[-- COMMAND...]",
	.valid = SONDE_OPTS_COMMON | (SONDE_OPTS_OBSERVE & ~SONDE_O(JSON)) | SONDE_OPTS_RECORD,
	.needs = {SONDE_OPTS_TARGET, SONDE_O(OUTPUT)},
	.starts_command = true,
	.about =
		"The recording is one SQLite file that survives kill -9 and a full disk up to its "
		"last "
		"interval. Queries are kept with their literals replaced, unless --query-text is "
		"given. Histograms are always complete, whatever --spans and --max-size leave out.",
	.examples = {{"sonde record -n searchd -d 10m -o day.sonde", "ten minutes"},
		     {"sonde record -n searchd --follow --spans slowest=1000/h -o week.sonde",
		      "until stopped, over restarts, bounded"}},
	.more = sonde_observe_list_lenses,
	.run = run_record,
};
