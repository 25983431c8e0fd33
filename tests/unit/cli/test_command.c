// SPDX-License-Identifier: GPL-2.0-or-later
/* From argv to a command that may run: what each row of a descriptor refuses, and what it lets
 * pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "cli/command.h"
#include "cli/observe.h"
#include "core/err.h"
#include "core/mem.h"

static struct sonde_args args;
static const struct sonde_command *cmd;

/* Parse a command line given as one string; words are split at spaces. */
static int parse(const char *line)
{
	static char words[256];
	static char *argv[32];
	int argc = 0;

	sonde_args_fini(&args);
	snprintf(words, sizeof(words), "%s", line);
	for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
		argv[argc++] = w;
	argv[argc] = NULL;
	return sonde_command_parse(argc, argv, &args, &cmd);
}

static int finish(void **state)
{
	(void)state;
	sonde_args_fini(&args);
	return 0;
}

static void test_accepts(void **state)
{
	(void)state;
	assert_int_equal(parse("sonde stat -p 12,13 -p 14 -p 12 --children --lens rss,query -d 0"),
			 0);
	assert_string_equal(cmd->name, "stat");
	assert_int_equal(args.pids.n, 3);
	assert_int_equal(args.pids.pid[1], 13);
	assert_int_equal(args.lens_mask, 1u << SONDE_LENS_RSS | 1u << SONDE_LENS_QUERY);
	assert_int_equal(args.interval_ns, SONDE_NS_PER_SEC);
	assert_string_equal(args.line,
			    "sonde stat -p 12,13 -p 14 -p 12 --children --lens rss,query -d 0");
	assert_int_equal(parse("sonde record -n searchd -o f --spans slowest=5/h -d 1m"), 0);
	assert_int_equal(args.spans.mode, SONDE_SPANS_SLOWEST);
	assert_int_equal(args.spans.slowest_n, 5);
	assert_int_equal(args.duration_ns, 60 * SONDE_NS_PER_SEC);
}

static void test_started_command(void **state)
{
	(void)state;
	assert_int_equal(parse("sonde stat -d 1s -- prog -p x"), 0);
	assert_string_equal(args.command[0], "prog");
	assert_string_equal(args.command[2], "x");
	assert_null(args.command[3]);
	assert_int_equal(args.n_words, 0);
	/* Elsewhere "--" only ends the options. */
	assert_int_equal(parse("sonde report -- -file"), 0);
	assert_null(args.command);
	assert_string_equal(args.words[0], "-file");
}

static void test_refuses(void **state)
{
	static const char *const lines[] = {
		"sonde nothing",
		"sonde stat",
		"sonde stat word -p 1",
		"sonde stat -p 1 -- prog",
		"sonde stat --",
		"sonde stat -p 1 --to csv",
		"sonde stat -p 1 -n x",
		"sonde stat --unit a --cgroup b",
		"sonde stat -p 1 -q -v",
		"sonde stat -p 1 --tid 1 --comm c",
		"sonde record -p 1",
		"sonde record -o f",
		"sonde report",
		"sonde report a b",
		"sonde export a",
		"sonde -v stat -p 1",
		"sonde --version stat",
		"sonde stat -p 1 --lens rss,,query",
		"sonde stat -p 1 --lens x",
		"sonde ps -p 1",
		"sonde stat -p 1,",
		"sonde stat -p 1,x",
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(lines); i++)
		if (parse(lines[i]) != -EINVAL)
			fail_msg("'%s' was not refused", lines[i]);
}

/* Whatever else is missing or wrong with the words, --help answers. */
/* What follows a word is not parsed: its options are another's. */
static void test_dashes_forgotten(void **state)
{
	(void)state;
	assert_int_equal(parse("sonde run -d 12s searchd --config x"), -EINVAL);
	assert_true(args.seen && !(args.seen & (args.seen - 1)));
	assert_int_equal(args.n_words, 1);
	assert_int_equal(parse("sonde record -o f -d 1s prog -p 3"), -EINVAL);
	assert_int_equal(args.n_words, 1);
	assert_int_equal(args.pids.n, 0);
	assert_int_equal(parse("sonde report -q f --slowest 3"), 0);
	assert_int_equal(args.slowest, 3);
}

static void test_help_comes_first(void **state)
{
	(void)state;
	assert_int_equal(parse("sonde record --help"), 0);
	assert_true(args.help);
	assert_int_equal(parse("sonde report -h"), 0);
	assert_string_equal(cmd->name, "report");
}

static void test_session_opts(void **state)
{
	struct sonde_session_opts opts;

	(void)state;
	assert_int_equal(parse("sonde stat -p 1 -d 0 --ring-size 5000000 --passive"), 0);
	assert_int_equal(sonde_observe_opts(&args, &opts), 0);
	assert_true(opts.instant);
	assert_true(opts.lens.passive);
	assert_int_equal(opts.ring_bytes, 8 << 20);
	assert_int_equal(opts.target.n_pids, 1);
	assert_int_equal(parse("sonde stat -n x"), 0);
	assert_int_equal(sonde_observe_opts(&args, &opts), 0);
	assert_false(opts.instant);
	assert_true(opts.duration_ns == UINT64_MAX);
	assert_true(opts.harm_limit == 0); /* the session's own default, which knows exact mode */
	assert_int_equal(parse("sonde stat -p 1 --alloc-mode exact -d 5s"), 0);
	assert_int_equal(sonde_observe_opts(&args, &opts), 0);
	assert_int_equal(opts.alloc_mode, SONDE_ALLOC_MODE_EXACT);
	assert_true(opts.lens.alloc_exact);
	assert_false(opts.lens.alloc_counters);
}

/* Counters are the default; asked for by name they may cost more, and --lens may leave them out. */
static void test_alloc_modes(void **state)
{
	static const struct {
		const char *line;
		bool counters, asked, wants;
	} rows[] = {
		{"sonde stat -p 1", true, false, true},
		{"sonde stat -p 1 --passive", true, false, true},
		{"sonde stat -p 1 --lens rss", true, false, false},
		{"sonde stat -p 1 --lens alloc", true, false, true},
		{"sonde stat -p 1 --alloc-mode counters", true, true, true},
		{"sonde stat -p 1 --alloc-mode off", false, false, false},
		{"sonde stat -p 1 --lens rss --alloc-mode exact -d 1s", false, false, true},
		{"sonde stat -p 1 --lens rss --alloc-mode windows", false, false, true},
		{"sonde stat -p 1 --sites", false, false, true},
	};
	struct sonde_session_opts opts;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		assert_int_equal(parse(rows[i].line), 0);
		assert_int_equal(sonde_observe_opts(&args, &opts), 0);
		assert_int_equal(opts.lens.alloc_counters, rows[i].counters);
		assert_int_equal(opts.lens.alloc_asked, rows[i].asked);
		assert_int_equal(sonde_session_wants_alloc(&opts), rows[i].wants);
	}
}

/* --sites by itself means windows; the budget is in percent. */
static void test_windows(void **state)
{
	struct sonde_session_opts opts;

	(void)state;
	assert_int_equal(parse("sonde stat -p 1 --sites"), 0);
	assert_int_equal(sonde_observe_opts(&args, &opts), 0);
	assert_int_equal(opts.alloc_mode, SONDE_ALLOC_MODE_WINDOWS);
	assert_true(opts.lens.alloc_windows);
	assert_true(opts.lens.budget_cpu == 0.01 && opts.lens.budget_time == 0.005);
	assert_int_equal(parse("sonde stat -p 1 --alloc-mode windows --budget 2,25"), 0);
	assert_int_equal(sonde_observe_opts(&args, &opts), 0);
	assert_true(opts.lens.budget_cpu == 0.02 && opts.lens.budget_time == 0.25);
	assert_int_equal(parse("sonde stat -p 1 --alloc-mode exact --sites -d 1s"), 0);
	assert_int_equal(sonde_observe_opts(&args, &opts), 0);
	assert_false(opts.lens.alloc_windows);
	assert_int_equal(parse("sonde stat -p 1 --alloc-mode windows --budget 2"), -EINVAL);
	assert_int_equal(parse("sonde stat -p 1 --alloc-mode windows --budget 0,1"), -EINVAL);
	assert_int_equal(parse("sonde stat -p 1 --alloc-mode windows --budget 1,101"), -EINVAL);
	assert_int_equal(parse("sonde stat -p 1 --alloc-mode windows --budget nan,1"), -EINVAL);
}

static void test_session_opts_refused(void **state)
{
	static const struct {
		const char *line;
		int err;
	} rows[] = {
		{"sonde stat -p 1 --alloc-mode exact", -EINVAL},
		{"sonde stat -p 1 --alloc-mode exact -d 0", -EINVAL},
		{"sonde stat -p 1 --alloc-mode exact -d 1s --passive", -EINVAL},
		{"sonde stat -p 1 --lens alloc --alloc-mode off -d 1s", -EINVAL},
		{"sonde stat -p 1 --alloc-mode counters --passive -d 1s", -EINVAL},
		{"sonde stat -p 1 --alloc-mode windows --passive", -EINVAL},
		{"sonde stat -p 1 --sites --passive", -EINVAL},
		{"sonde stat -p 1 --sites --alloc-mode counters", -EINVAL},
		{"sonde stat -p 1 --sites --sites-sample 4", -EINVAL},
		{"sonde stat -p 1 --budget 1,1", -EINVAL},
		{"sonde stat -p 1 --alloc-mode exact -d 1s --budget 1,1", -EINVAL},
		{"sonde stat -p 1 --comm a-name-of-16-chars", -EINVAL},
		{"sonde stat --dry-run -- prog", -EINVAL},
		{"sonde stat -p 1 --tid 4194304", -ESRCH},
	};
	struct sonde_session_opts opts;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		assert_int_equal(parse(rows[i].line), 0);
		if (sonde_observe_opts(&args, &opts) != rows[i].err)
			fail_msg("'%s' was not refused", rows[i].line);
	}
}

static void test_exit(void **state)
{
	(void)state;
	assert_int_equal(parse("sonde stat -p 1"), 0);
	assert_int_equal(sonde_observe_exit(&args, 0, true), 0);
	assert_int_equal(sonde_observe_exit(&args, -ESRCH, true), -ESRCH);
	assert_int_equal(sonde_observe_exit(&args, -ECANCELED, false), SONDE_EXIT_USAGE);
	assert_int_equal(parse("sonde stat -p 1 --strict"), 0);
	assert_int_equal(sonde_observe_exit(&args, 0, true), SONDE_EXIT_DEGRADED);
	assert_int_equal(sonde_observe_exit(&args, 0, false), 0);
	assert_int_equal(sonde_observe_exit(&args, -EIO, true), -EIO);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accepts),
		cmocka_unit_test(test_started_command),
		cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_dashes_forgotten),
		cmocka_unit_test(test_help_comes_first),
		cmocka_unit_test(test_session_opts),
		cmocka_unit_test(test_session_opts_refused),
		cmocka_unit_test(test_alloc_modes),
		cmocka_unit_test(test_exit),
		cmocka_unit_test(test_windows),
	};

	return cmocka_run_group_tests(tests, NULL, finish);
}
