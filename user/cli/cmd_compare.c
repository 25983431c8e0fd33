// SPDX-License-Identifier: GPL-2.0-or-later
/* `sonde compare`: two recordings side by side. Both readers live until the end: the arms borrow.
 */
#include <errno.h>
#include <sys/stat.h>

#include "cli/command.h"
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

static int run_compare(const struct sonde_args *args)
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

const struct sonde_command sonde_command_compare = {
	.name = "compare",
	.summary = "two recordings side by side, what differs most first",
	.synopsis = "A B",
	.valid = SONDE_OPTS_COMMON | SONDE_O(JSON) | SONDE_O(OUTPUT) | SONDE_O(OVERWRITE),
	.min_words = 2,
	.max_words = 2,
	.about = "Says first which settings were not the same (huge pages, allocator, kernel, "
		 "build, "
		 "load) and what makes the comparison weaker, then what differs most, then page "
		 "faults, stalls, huge pages, memory at equal uptime and query latency of both. A "
		 "difference is relative; figures too small for a ratio are left out of the text. "
		 "It "
		 "gives no verdict: one run of each shows no spread to judge a difference by.",
	.examples = {{"sonde compare off.sonde always.sonde", "what huge pages change"},
		     {"sonde compare a.sonde b.sonde --json", "every figure, for a program"}},
	.run = run_compare,
};
