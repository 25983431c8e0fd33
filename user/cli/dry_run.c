// SPDX-License-Identifier: GPL-2.0-or-later
/* `--dry-run`: everything that the command would touch. Attaches, loads and creates nothing. */
#include <stdio.h>

#include "cli/observe.h"
#include "cli/plan_view.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/str.h"

static int print_json(const struct sonde_session_plan *p)
{
	struct sonde_str text sonde_autostr = {0};
	int err = sonde_plan_json(&p->plan, &text);

	if (err)
		return sonde_err(err, "out of memory");
	printf("%s\n", sonde_str_get(&text));
	return 0;
}

static int print_text(const struct sonde_args *args, const struct sonde_session_opts *opts,
		      const struct sonde_session_plan *p)
{
	for (size_t i = 0; i < p->targets.n; i++)
		printf("target         %s (pid %d), %s\n", SONDE_PLAIN(p->targets.t[i].comm),
		       p->targets.t[i].pid,
		       SONDE_PLAIN(p->targets.t[i].exe ? p->targets.t[i].exe : "?"));
	sonde_plan_print_lenses(stdout, opts, p);
	sonde_plan_print_sites(stdout, p);
	sonde_plan_print_touch(stdout, opts, p);
	if (args->output)
		printf("creates        %s\n", args->output);
	printf("Nothing attached.\n");
	return 0;
}

int sonde_observe_dry_run(const struct sonde_args *args, const struct sonde_session_opts *opts)
{
	struct sonde_session_plan p;
	int err = sonde_session_plan(opts, false, &p);

	if (err)
		return err;
	err = args->json ? print_json(&p) : print_text(args, opts, &p);
	err = sonde_observe_exit(args, err, p.plan.degraded);
	sonde_session_plan_fini(&p);
	return err;
}
