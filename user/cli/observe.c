// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From the command line to a session, and the question before anything that slows the target. The
 * invariant: exact mode never starts without an end time and an explicit yes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/observe.h"
#include "cli/output.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "sonde/fault.h"
#include "sonde/handler.h"

#define INDENT 11 /* of the lenses' help */

/* Yes only when typed on a terminal, or given beforehand. The session says what a no leads to. */
static bool ask(void *ctx, const char *question)
{
	const struct sonde_args *args = ctx;
	char answer[16] = "";

	fflush(stdout);
	if (args->yes) {
		sonde_say("%s yes (--yes)", question);
		return true;
	}
	if (!isatty(STDIN_FILENO))
		return false;
	fprintf(stderr, "sonde: %s [y/N] ", question);
	if (!fgets(answer, sizeof(answer), stdin))
		return false;
	return !strcasecmp(answer, "y\n") || !strcasecmp(answer, "yes\n");
}

/* Then --sites says how many of them are shown. */
static bool fault_stacks(const struct sonde_args *args)
{
	return args->fault_by & 1u << SONDE_FAULT_BY_STACK;
}

static bool probes_alloc(enum sonde_alloc_mode mode)
{
	return mode == SONDE_ALLOC_MODE_EXACT || mode == SONDE_ALLOC_MODE_WINDOWS;
}

/* Call stacks need probes: in windows, unless another mode, or the stacks of faults, are asked for.
 */
static enum sonde_alloc_mode mode_of(const struct sonde_args *args)
{
	if (args->alloc_mode == SONDE_ALLOC_MODE_AUTO && args->sites && !fault_stacks(args))
		return SONDE_ALLOC_MODE_WINDOWS;
	return (enum sonde_alloc_mode)args->alloc_mode;
}

static int check_alloc(const struct sonde_args *args)
{
	if (mode_of(args) == SONDE_ALLOC_MODE_WINDOWS && args->passive)
		return sonde_err(EINVAL, "--alloc-mode windows (and --sites) probes the target and "
					 "--passive forbids it; leave one of them out");
	if (args->seen & SONDE_O(BUDGET) && mode_of(args) != SONDE_ALLOC_MODE_WINDOWS)
		return sonde_err(EINVAL, "--budget is of --alloc-mode windows; give both");
	if (args->alloc_mode == SONDE_ALLOC_MODE_OFF && args->lens_mask & 1u << SONDE_LENS_ALLOC)
		return sonde_err(EINVAL,
				 "--lens alloc looks at nothing with --alloc-mode off; leave "
				 "one of them out");
	if (args->alloc_mode == SONDE_ALLOC_MODE_COUNTERS && args->passive)
		return sonde_err(EINVAL, "--alloc-mode counters reads the target's memory and "
					 "--passive forbids it; leave one of them out");
	if (args->alloc_mode != SONDE_ALLOC_MODE_EXACT)
		return 0;
	if (args->passive)
		return sonde_err(EINVAL,
				 "--alloc-mode exact probes the target and --passive forbids "
				 "it; leave one of them out");
	if (!(args->seen & SONDE_O(DURATION)) || !args->duration_ns)
		return sonde_err(EINVAL, "--alloc-mode exact slows the target, so it needs an end: "
					 "add -d, for example -d 5s");
	return 0;
}

static int check_source(const struct sonde_args *args)
{
	if (args->passive && args->query_source == SONDE_SOURCE_HANDLER)
		return sonde_err(EINVAL,
				 "--query-source handler probes the target and --passive forbids "
				 "it; leave one of them out");
	if (args->passive && args->recipe)
		return sonde_err(EINVAL, "--recipe is about probes in the target, which --passive "
					 "forbids; leave one of them out");
	return 0;
}

/* The allocator's call stacks come with probes. */
static int check_abort(const struct sonde_args *args)
{
	if (args->abort_if.n && args->lens_mask && !(args->lens_mask & 1u << SONDE_LENS_QUERY))
		return sonde_err(EINVAL,
				 "--abort-if is about queries, and --lens leaves them out: add "
				 "query to it");
	return 0;
}

static int check_sites(const struct sonde_args *args)
{
	if (args->sites_sample && !args->sites)
		return sonde_err(EINVAL, "--sites-sample is of --sites; give both");
	if (args->sites_sample && mode_of(args) != SONDE_ALLOC_MODE_EXACT)
		return sonde_err(EINVAL, "--sites-sample is of live blocks, which windows do not "
					 "follow: add --alloc-mode exact -d TIME");
	if (args->sites && !probes_alloc(mode_of(args)) && !fault_stacks(args))
		return sonde_err(
			EINVAL,
			"--sites is about call stacks: add --alloc-mode windows, or --alloc-mode "
			"exact -d "
			"TIME, for the allocator's, --fault-by stack for those of page faults");
	return 0;
}

/* A thread that is not there would be observed as silence. */
static int check_tid(const struct sonde_args *args)
{
	char path[64];

	if (!args->tid || !args->pids.n)
		return 0;
	for (size_t i = 0; i < args->pids.n; i++) {
		snprintf(path, sizeof(path), "/proc/%d/task/%u", args->pids.pid[i], args->tid);
		if (!access(path, F_OK))
			return 0;
	}
	return sonde_err(ESRCH, "--tid: pid %d has no thread %u", args->pids.pid[0], args->tid);
}

static uint32_t round_up_pow2(uint32_t n)
{
	uint32_t p = 4096;

	while (p < n && p < 1u << 30)
		p <<= 1;
	return p;
}

void sonde_observe_fill(const struct sonde_args *args, struct sonde_session_opts *opts)
{
	bool timed = args->seen & SONDE_O(DURATION);
	enum sonde_alloc_mode mode = mode_of(args);

	*opts = (struct sonde_session_opts){
		.target = {.pids = args->pids.pid,
			   .n_pids = args->pids.n,
			   .name = args->name,
			   .unit = args->unit,
			   .cgroup = args->cgroup,
			   .children = args->children},
		.command = args->command,
		.lens_mask = args->lens_mask,
		.lens = {.passive = args->passive,
			 .alloc_exact = mode == SONDE_ALLOC_MODE_EXACT,
			 .alloc_windows = mode == SONDE_ALLOC_MODE_WINDOWS,
			 .budget_cpu = args->budget.cpu,
			 .budget_time = args->budget.time,
			 .sites = args->sites && probes_alloc(mode),
			 .sites_sample = args->sites_sample,
			 .alloc_counters =
				 mode == SONDE_ALLOC_MODE_COUNTERS || mode == SONDE_ALLOC_MODE_AUTO,
			 .alloc_asked = mode == SONDE_ALLOC_MODE_COUNTERS,
			 .query_source = args->query_source,
			 .recipe = args->recipe,
			 .children = args->children,
			 .query_text = args->query_text,
			 .slower_than_ns = args->slower_than_ns,
			 .ledger = (enum sonde_ledger_mode)args->ledger,
			 .anatomy = (enum sonde_anatomy_mode)args->anatomy,
			 .fault_full = args->fault_mode,
			 .fault_by = args->fault_by},
		.alloc_mode = mode,
		.duration_ns = timed ? args->duration_ns : UINT64_MAX,
		.instant = timed && !args->duration_ns,
		.interval_ns = args->interval_ns,
		.want_consumption = args->field == SONDE_FIELD_CONSUMPTION,
		.publish = args->publish,
		.consumption_interval_ns = args->consumption_interval_ns,
		.follow = args->follow,
		.children = args->children,
		.only_tid = args->tid,
		.only_comm = args->comm,
		.harm_limit = args->harm_limit,
		.abort_if = args->abort_if,
		.ring_bytes = round_up_pow2(args->ring_bytes),
		.argv = args->line,
		.consent = ask,
		.consent_ctx = (void *)args,
	};
}

int sonde_observe_opts(const struct sonde_args *args, struct sonde_session_opts *opts)
{
	int err = check_alloc(args);

	if (!err)
		err = check_sites(args);
	if (!err)
		err = check_abort(args);
	if (!err)
		err = check_source(args);
	if (!err && args->command && args->dry_run)
		err = sonde_err(EINVAL, "--dry-run needs a target that runs: give -p or -n");
	if (!err && args->comm && strlen(args->comm) > 15)
		err = sonde_err(EINVAL,
				"--comm: '%s' is longer than the 15 letters the kernel keeps",
				args->comm);
	if (!err)
		err = check_tid(args);
	if (!err)
		sonde_observe_fill(args, opts);
	return err;
}

int sonde_observe_exit(const struct sonde_args *args, int err, bool degraded)
{
	if (err == -ECANCELED)
		return SONDE_EXIT_USAGE;
	if (!err && args->strict && degraded)
		return SONDE_EXIT_DEGRADED;
	return err;
}

void sonde_observe_say_start(void)
{
	if (isatty(STDERR_FILENO))
		sonde_say("starting (calibrating, about 1 s)...");
}

void sonde_observe_say_observing(void *ctx, const struct sonde_target_list *targets,
				 uint64_t attach_ns)
{
	char took[32], more[32] = "";

	(void)ctx;
	if (targets->n > 1)
		snprintf(more, sizeof(more), " and %zu more", targets->n - 1);
	sonde_say("attached to %d (%s)%s in %s, observing", targets->t[0].pid,
		  SONDE_PLAIN(targets->t[0].comm), more,
		  sonde_fmt_ns(took, sizeof(took), (double)attach_ns));
}

void sonde_observe_list_lenses(FILE *out)
{
	fputs("\nLenses (--lens; without it all but those marked *):\n", out);
	for (size_t i = 0; i < sonde_lens_count; i++) {
		const struct sonde_lens *lens = sonde_lenses[i];

		fprintf(out, "  %-7s%c %s\n", lens->name, lens->on_request ? '*' : ' ',
			lens->summary);
		if (!lens->overhead)
			continue;
		fprintf(out, "%*scosts: ", INDENT, "");
		sonde_help_wrap(out, lens->overhead, INDENT + strlen("costs: "), INDENT);
	}
}
