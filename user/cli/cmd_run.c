// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * `sonde run`: start a command under a setting and observe it, as stat does, or as record does with
 * -o. The setting is that of this one command; nothing of the system is changed.
 */
#include <errno.h>

#include "cli/command.h"
#include "cli/observe.h"
#include "core/err.h"
#include "lab/run.h"

/* A command that is started is there to be followed: its children are, and there is no successor.
 */
#define NOT_FOR_RUN                                                                                \
	(SONDE_OPTS_TARGET | SONDE_O(CHILDREN) | SONDE_O(TID) | SONDE_O(FOLLOW) | SONDE_O(DRY_RUN))

static int check(const struct sonde_args *args)
{
	sonde_opt_mask only_record = SONDE_OPTS_RECORD & ~SONDE_O(OUTPUT);

	if (!args->command)
		return sonde_err(EINVAL,
				 "there is nothing to start; write: sonde run [OPTION...] -- "
				 "COMMAND ...");
	if (args->seen & SONDE_O(DURATION) && !args->duration_ns)
		return sonde_err(EINVAL,
				 "-d 0 would end before the command has begun; leave it out "
				 "or give a time");
	if (args->output && args->json)
		return sonde_err(EINVAL, "--json is for what is shown and -o records it; give one "
					 "of them");
	if (!args->output && args->seen & only_record)
		return sonde_err(EINVAL, "nothing is recorded without -o FILE: leave out --spans, "
					 "--max-size, --query-text and --overwrite");
	return 0;
}

static int run_run(const struct sonde_args *args)
{
	struct sonde_run_setting setting = {
		.thp = (enum sonde_run_thp)args->thp,
		.alloc = args->alloc,
		.alloc_conf = args->alloc_conf,
		.env = args->env.text,
		.n_env = args->env.n,
		.keep = args->keep,
	};
	struct sonde_session_opts opts;
	struct sonde_run *run = NULL;
	int err = check(args);

	err = err ? err : sonde_observe_opts(args, &opts);
	err = err ? err : sonde_run_new(&run, &setting);
	if (err)
		return err;
	opts.start = sonde_run_start(run);
	opts.children = true;
	err = args->output ? sonde_record_session(args, &opts) : sonde_stat_session(args, &opts);
	sonde_run_free(&run);
	return err;
}

const struct sonde_command sonde_command_run = {
	.name = "run",
	.summary = "start a command under a huge page setting or an allocator, and observe it",
	.synopsis = "-- COMMAND...",
	.valid = SONDE_OPTS_COMMON | (SONDE_OPTS_OBSERVE & ~(NOT_FOR_RUN)) | SONDE_OPTS_RECORD |
		 SONDE_O(THP) | SONDE_O(ALLOC) | SONDE_O(ALLOC_CONF) | SONDE_O(ENV) | SONDE_O(KEEP),
	.starts_command = true,
	.about = "Starts the command with the given setting and observes it and whatever it forks "
		 "from its first instruction: on the terminal like stat, or with -o into a file "
		 "like "
		 "record. A daemon that goes into the background is followed to the process that "
		 "listens. The setting holds for this command alone: no system-wide setting is "
		 "changed, and a change of one meanwhile is noted with its time.\n\n"
		 "A preloaded allocator is looked for in the process after its start; where it is "
		 "not there (a static or privileged program, a cleared environment) the run ends "
		 "with the reason. The command ends with the observation unless --keep is given.",
	.examples = {{"sonde run --thp=off -d 5m -o off.sonde -- searchd --nodetach",
		      "no huge pages, recorded"},
		     {"sonde run --alloc=jemalloc --alloc-conf thp:never -- searchd --nodetach",
		      "another allocator"},
		     {"sonde run --alloc-conf glibc.malloc.hugetlb=1 -d 30s -- ./server",
		      "malloc asks for huge pages"}},
	.more = sonde_observe_list_lenses,
	.run = run_run,
};
