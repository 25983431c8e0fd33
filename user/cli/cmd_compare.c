// SPDX-License-Identifier: GPL-2.0-or-later
/* `sonde compare`: two recordings side by side, or with --pair the verdict of an experiment.
 * Readers live until the end: the arms borrow. */
#include <errno.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "cli/compare_arms.h"
#include "cli/output.h"
#include "core/err.h"
#include "core/mem.h"
#include "judge/compare.h"
#include "record/reader.h"
#include "show/compare.h"

struct side {
	struct sonde_reader *reader;
	struct sonde_arm arm;
};

/* A file beside itself would show differences of nothing. */
static int check_two(const char *a, const char *b)
{
	struct stat x, y;

	if (stat(a, &x) || stat(b, &y) || x.st_ino != y.st_ino || x.st_dev != y.st_dev)
		return 0;
	return sonde_err(EINVAL, "%s and %s are the same recording; give two", a, b);
}

static int read_side(struct side *side, const char *path)
{
	struct sonde_reader_filter filter = {.rebase = false};
	struct sonde_visitor v;
	int err = sonde_reader_open(&side->reader, path);

	sonde_arm_init(&side->arm, path);
	if (err)
		return err;
	v = *sonde_arm_visitor(&side->arm);
	v.span = NULL; /* histograms say all that is compared */
	return sonde_reader_visit(side->reader, &filter, &v);
}

static int print(const struct sonde_args *args, struct side *side, const struct sonde_compare *c)
{
	FILE *out;
	int err = sonde_output_open(&out, args);

	if (err)
		return err;
	err = args->json ? sonde_compare_json(out, &side[0].arm, &side[1].arm, c)
			 : sonde_compare_print(out, &side[0].arm, &side[1].arm, c);
	return sonde_output_close(&out, args, err);
}

static int compare_two(const struct sonde_args *args)
{
	struct side side[2] = {{0}};
	struct sonde_compare c = {0};
	int err = check_two(args->words[0], args->words[1]);

	for (int k = 0; k < 2 && !err; k++)
		err = read_side(&side[k], args->words[k]);
	err = err ? err : sonde_compare_make(&side[0].arm, &side[1].arm, &c);
	err = err ? err : print(args, side, &c);
	sonde_compare_fini(&c);
	for (int k = 0; k < 2; k++) {
		sonde_arm_fini(&side[k].arm);
		sonde_reader_free(&side[k].reader);
	}
	return err;
}

/* Without a pair two recordings are all that there can be. */
static int check_words(const struct sonde_args *args)
{
	sonde_opt_mask judged =
		args->seen & (SONDE_O(CONTROL) | SONDE_O(PRE) | SONDE_O(POST) | SONDE_O(MARGIN) |
			      SONDE_O(LOOK) | SONDE_O(WHY) | SONDE_O(FINGERPRINTS) |
			      SONDE_O(HOSTS) | SONDE_O(RAM_PER_HOST) | SONDE_O(NEXT_PLANS));

	if (judged)
		return sonde_err(EINVAL, "--control, --pre, --post, --margin, --look, --why, "
					 "--fingerprints, --hosts, --ram-per-host and --next-plans "
					 "belong to a verdict; name what was treated: --pair "
					 "ARM=A/B");
	if (args->n_words < 2)
		return sonde_err(EINVAL, "something is missing; write: sonde compare A B, or sonde "
					 "compare --pair ARM=A/B --control ARM=C/D FILE...");
	if (args->n_words > 2)
		return sonde_err(EINVAL,
				 "'%s' is one word too many: without --pair two recordings "
				 "are compared",
				 args->words[2]);
	return 0;
}

static int run_compare(const struct sonde_args *args)
{
	int err;

	if (args->pairs.n && args->ram_per_host && !args->hosts)
		return sonde_err(EINVAL, "--ram-per-host says how many of --hosts are saved; give "
					 "both");
	if (args->pairs.n)
		return sonde_compare_arms(args);
	err = check_words(args);
	return err ? err : compare_two(args);
}

const struct sonde_command sonde_command_compare = {
	.name = "compare",
	.summary = "two recordings side by side; with pairs and a control, the verdict",
	.synopsis = "A B | --pair ARM=A/B --control ARM=C/D FILE...",
	.valid = SONDE_OPTS_COMMON | SONDE_O(JSON) | SONDE_O(OUTPUT) | SONDE_O(OVERWRITE) |
		 SONDE_O(PAIR) | SONDE_O(CONTROL) | SONDE_O(PRE) | SONDE_O(POST) | SONDE_O(MARGIN) |
		 SONDE_O(LOOK) | SONDE_O(WHY) | SONDE_O(FINGERPRINTS) | SONDE_O(HOSTS) |
		 SONDE_O(RAM_PER_HOST) | SONDE_O(NEXT_PLANS),
	.max_words = 256,
	.about =
		"Says first which settings were not the same (huge pages, allocator, kernel, "
		"build, load) and what makes the comparison weaker, then what differs most, then "
		"page faults, stalls, huge pages, memory at equal uptime and query latency of "
		"both. "
		"A difference is relative; figures too small for a ratio are left out of the text. "
		"Two recordings get no verdict: one run of each shows no spread to judge a "
		"difference by.\n\n"
		"With --pair and --control it is the verdict of an experiment: servers under the "
		"same load, of which one of each pair was changed. Each recording belongs to the "
		"server that its file is named after, else to that of its host; of a server there "
		"may be several. The change of a pair from before to after, less that of the "
		"control, comes with an interval that allows for neighbouring minutes being alike, "
		"and with a word: different, equivalent, inconclusive (and how many more days "
		"would "
		"tell) or unstable (the control differs from itself by too much). Forms of queries "
		"and classes by their cost before the change have rows of their own. --why splits "
		"the "
		"change into what queries spent their time on; what differs between the servers "
		"besides the treatment is told with the verdict.",
	.examples = {{"sonde compare off.sonde always.sonde", "what huge pages change"},
		     {"sonde compare a.sonde b.sonde --json", "every figure, for a program"},
		     {"sonde compare --pair off=se03-2/se03 --control restart=se04-2/se04 --post "
		      "2026-11-16T00:00:00Z.. *.sonde",
		      "two weeks before a change against the time since"},
		     {"sonde compare --pair off=b/a --control restart=d/c --post -7d.. --why "
		      "--hosts 40 "
		      "--ram-per-host 64G *.sonde",
		      "and why, and what it is worth"}},
	.run = run_compare,
};
