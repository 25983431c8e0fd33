// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * `sonde doctor`: what this kernel and this target allow, what would be attached and why, what it
 * costs and what stays invisible. Attaches nothing to the target; the calibration runs on a child
 * of its own.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "cli/command.h"
#include "cli/doctor_json.h"
#include "cli/facts.h"
#include "cli/observe.h"
#include "cli/plan_view.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/num.h"
#include "core/str.h"
#include "sonde/query.h"
#include "target/heap/heap.h"

#define LABEL "%-14s "

static void print_kernel(void)
{
	struct utsname u;
	char thp[32];

	uname(&u);
	sonde_facts_thp_system(thp, sizeof(thp));
	printf(LABEL "%s %s; transparent huge pages: %s\n", "kernel", u.release, u.machine,
	       *thp ? thp : "not built in");
}

/* What is there, on one line; what is not, with what it means and the remedy. */
static void print_features(const struct sonde_features *f)
{
	bool first = true;

	printf(LABEL, "features");
	for (int i = 0; i < SONDE_FEAT__MAX; i++) {
		if (f->have[i] != SONDE_YES)
			continue;
		printf("%s%s", first ? "" : " ", sonde_feature_name((enum sonde_feature)i));
		first = false;
	}
	printf("%s\n", first ? "none" : "");
	for (int i = 0; i < SONDE_FEAT__MAX; i++) {
		enum sonde_feature feat = (enum sonde_feature)i;

		if (f->have[i] != SONDE_YES)
			printf(LABEL "%s %s: %s (since Linux %s); %s\n", "",
			       sonde_feature_name(feat), sonde_answer_name(f->have[i]),
			       sonde_feature_what(feat), sonde_feature_since(feat),
			       sonde_features_advice(f, feat));
	}
}

/* Which way the heap would be looked at, and why. Reads the target's memory, as the session would.
 */
static void print_heap(const struct sonde_session_opts *opts, const struct sonde_target *t)
{
	struct sonde_heap *heap;
	char why[256];

	if (!opts->lens.alloc_counters || !sonde_session_wants_alloc(opts))
		return;
	if (opts->lens.passive) {
		printf(LABEL "heap: not read (--passive)\n", "");
	} else if (sonde_heap_open(&heap, t->pid, why, sizeof(why))) {
		printf(LABEL "heap: no counters mode: %s\n", "", SONDE_PLAIN(why));
	} else {
		printf(LABEL "heap: counters mode, %s\n", "", sonde_heap_describe(heap));
		sonde_heap_close(&heap);
	}
}

/* Whose queries would be seen depends on what its clients speak. */
static void print_queries(const struct sonde_facts *f)
{
	if (f->speaks)
		printf(LABEL "queries: decoded where clients speak %s\n", "", f->speaks);
	else if (f->daemon)
		printf(LABEL "queries: none will be seen, its protocol is not known here "
			     "(known: " SONDE_QUERY_PROTOCOLS ")\n",
		       "");
	else
		printf(LABEL
		       "queries: seen where clients speak a known protocol (" SONDE_QUERY_PROTOCOLS
		       ")\n",
		       "");
}

static int print_target(const struct sonde_session_opts *opts, const struct sonde_target *t)
{
	struct sonde_facts f;
	char age[32], rss[32] = "?";
	int err = sonde_facts_read(t, &f);

	if (err)
		return sonde_err(err, "cannot read about pid %d: %s", t->pid, strerror(-err));
	sonde_facts_use_recipe(&f, opts->lens.recipe);
	if (f.rss_bytes >= 0)
		sonde_fmt_bytes(rss, sizeof(rss), (double)f.rss_bytes);
	printf(LABEL "%s (pid %d), %s%s%s, up %s\n", "target", f.name, t->pid,
	       f.daemon ? f.daemon : "unknown daemon", t->exe ? ", " : "",
	       SONDE_PLAIN(t->exe ? t->exe : ""), sonde_fmt_age(age, sizeof(age), f.age_ns));
	printf(LABEL "RSS %s, allocator %s, huge pages %s\n", "", rss,
	       *f.allocator ? f.allocator : "not recognised", *f.thp ? f.thp : "not built in");
	printf(LABEL "listens on %s; query handlers: %s%s\n", "",
	       f.n_listens ? sonde_str_get(&f.listens) : "nothing",
	       *f.recipe ? "known by " : "not known, sockets only", f.recipe);
	print_queries(&f);
	print_heap(opts, t);
	if (t->exe_deleted)
		printf(LABEL "its executable was replaced on disk; the running one is used\n", "");
	sonde_facts_fini(&f);
	return 0;
}

static void print_ready(const struct sonde_session_plan *p)
{
	const char *sep = " (", *missing = sonde_doctor_missing(&p->features);

	if (missing) {
		printf("Ready: NO, %s is missing (see features). Nothing attached.\n", missing);
		return;
	}
	printf("Ready: %s", p->plan.degraded ? "DEGRADED" : "OK");
	for (size_t i = 0; i < p->plan.n; i++) {
		if (!p->plan.items[i].degraded)
			continue;
		printf("%s%s", sep, p->plan.items[i].hook->name);
		sep = ", ";
	}
	printf("%s. Nothing attached.\n", p->plan.degraded ? ")" : "");
}

static int print_plan(const struct sonde_session_opts *opts, const struct sonde_session_plan *p)
{
	for (size_t i = 0; i < p->targets.n; i++) {
		int err = print_target(opts, &p->targets.t[i]);

		if (err)
			return err;
	}
	sonde_plan_print_lenses(stdout, opts, p);
	sonde_plan_print_costs(stdout, p);
	sonde_plan_print_sites(stdout, p);
	sonde_plan_print_touch(stdout, opts, p);
	sonde_plan_print_blind_spots(stdout, opts);
	printf(LABEL "Ctrl-C or SIGKILL; nothing remains\n", "stop");
	print_ready(p);
	printf("Next: sonde stat -p %d %s\n", p->targets.t[0].pid,
	       opts->lens.alloc_exact ? "--alloc-mode exact -d 5s" : "-d 30s");
	return 0;
}

static int run_host(const struct sonde_args *args)
{
	struct sonde_features features;

	sonde_features_probe(&features);
	if (args->json)
		return sonde_doctor_json(&features, NULL, NULL);
	print_kernel();
	print_features(&features);
	printf("Nothing attached.\nNext: sonde ps lists daemons; sonde doctor -p PID looks at "
	       "one\n");
	return 0;
}

static int run_target(const struct sonde_args *args, const struct sonde_session_opts *opts)
{
	struct sonde_session_plan p;
	int err = sonde_session_plan(opts, true, &p);

	if (err)
		return err;
	if (args->json) {
		err = sonde_doctor_json(&p.features, opts, &p);
	} else {
		print_kernel();
		print_features(&p.features);
		err = print_plan(opts, &p);
	}
	err = sonde_observe_exit(args, err, p.plan.degraded);
	sonde_session_plan_fini(&p);
	return err;
}

static int run_doctor(const struct sonde_args *args)
{
	struct sonde_session_opts opts;

	if (!(args->seen & SONDE_OPTS_TARGET))
		return run_host(args);
	sonde_observe_fill(args, &opts);
	return run_target(args, &opts);
}

const struct sonde_command sonde_command_doctor = {
	.name = "doctor",
	.summary = "what this kernel and this target allow, and what would be attached",
	.synopsis = "",
	.valid = SONDE_OPTS_COMMON | SONDE_OPTS_TARGET | SONDE_O(CHILDREN) | SONDE_O(LENS) |
		 SONDE_O(ALLOC_MODE) | SONDE_O(PASSIVE) | SONDE_O(QUERY_TEXT) |
		 SONDE_O(QUERY_SOURCE) | SONDE_O(RECIPE) | SONDE_O(STRICT) |
		 SONDE_O(JSON),
	.about = "Says which kernel features are there, what would be attached to the target and "
		 "why, "
		 "what each probe costs here (calibrated on a process of its own), what would be "
		 "written into the target and what stays invisible. Attaches nothing.",
	.examples = {{"sonde doctor", "this machine"},
		     {"sonde doctor -n searchd", "the plan for a daemon"},
		     {"sonde doctor -p 812 --alloc-mode exact", "the probes exact mode would use"}},
	.more = sonde_observe_list_lenses,
	.run = run_doctor,
};
