// SPDX-License-Identifier: GPL-2.0-or-later
/* The option engine on a table of its own, then the real table and the commands' descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "cli/command.h"
#include "cli/suggest.h"
#include "core/mem.h"

struct values {
	bool flag;
	unsigned count;
	const char *text;
	uint32_t small;
	uint64_t number, bytes, time_ns;
	double real;
	int choice;
	char collected[32];
};

static int collect(const char *value, void *member, struct sonde_str *why)
{
	char *to = member;

	if (strlen(value) != 1) {
		sonde_str_addf(why, "more than a letter");
		return -EINVAL;
	}
	strcat(to, value);
	return 0;
}

static const struct sonde_opt_choice choices[] = {{"off", 0}, {"exact", 7}, {NULL, 0}};

#define M(member) SONDE_OPT_MEMBER(struct values, member)
static const struct sonde_opt rows[] = {
	{.name = "flag", .letter = 'f', .type = SONDE_OPT_FLAG, M(flag), .help = "h", .group = "g"},
	{.name = "count",
	 .letter = 'c',
	 .type = SONDE_OPT_COUNT,
	 M(count),
	 .help = "h",
	 .group = "g"},
	{.name = "text",
	 .letter = 't',
	 .type = SONDE_OPT_STRING,
	 M(text),
	 .metavar = "T",
	 .help = "h",
	 .group = "g"},
	{.name = "small",
	 .type = SONDE_OPT_NUMBER,
	 M(small),
	 .metavar = "N",
	 .help = "h",
	 .group = "g"},
	{.name = "number",
	 .type = SONDE_OPT_NUMBER,
	 M(number),
	 .min = 2,
	 .max = 10,
	 .metavar = "N",
	 .help = "h",
	 .group = "g"},
	{.name = "bytes",
	 .type = SONDE_OPT_BYTES,
	 M(bytes),
	 .initial = "4M",
	 .metavar = "N",
	 .help = "h",
	 .group = "g"},
	{.name = "time",
	 .letter = 'd',
	 .type = SONDE_OPT_DURATION,
	 M(time_ns),
	 .metavar = "N",
	 .help = "h",
	 .group = "g"},
	{.name = "real",
	 .type = SONDE_OPT_REAL,
	 M(real),
	 .min = 1,
	 .initial = "3",
	 .metavar = "N",
	 .help = "h",
	 .group = "g"},
	{.name = "choice",
	 .type = SONDE_OPT_CHOICE,
	 M(choice),
	 .choices = choices,
	 .metavar = "N",
	 .help = "h",
	 .group = "g"},
	{.name = "letter",
	 .type = SONDE_OPT_OTHER,
	 M(collected),
	 .parse = collect,
	 .accepts = "a letter",
	 .metavar = "L",
	 .help = "h",
	 .group = "g"},
};
static const struct sonde_opt_table table = {rows, SONDE_ARRAY_SIZE(rows)};

/* Parse words (ending with NULL) after the defaults; returns the engine's answer. */
static int parse(struct values *v, struct sonde_opt_result *r, const char *const *argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	memset(v, 0, sizeof(*v));
	assert_int_equal(sonde_opts_init(&table, v), 0);
	return sonde_opts_parse(&table, UINT64_MAX, true, argc, argv, v, r);
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_values(void **state)
{
	struct sonde_opt_result r;
	struct values v;

	(void)state;
	assert_int_equal(
		parse(&v, &r,
		      ARGV("--flag", "-cc", "--count", "--text=a=b", "--small", "4294967295",
			   "--number=10", "--bytes", "1.5K", "-d250ms", "--real", "2.5", "--choice",
			   "exact", "--letter", "x", "--letter=y")),
		0);
	assert_true(v.flag);
	assert_int_equal(v.count, 3);
	assert_string_equal(v.text, "a=b");
	assert_int_equal(v.small, UINT32_MAX);
	assert_int_equal(v.number, 10);
	assert_int_equal(v.bytes, 1536);
	assert_int_equal(v.time_ns, 250000000);
	assert_true(v.real == 2.5);
	assert_int_equal(v.choice, 7);
	assert_string_equal(v.collected, "xy");
	assert_int_equal(r.seen, (1u << SONDE_ARRAY_SIZE(rows)) - 1);
	assert_int_equal(r.n_words, 0);
	sonde_opt_result_fini(&r);
}

static void test_defaults(void **state)
{
	struct sonde_opt_result r;
	struct values v;

	(void)state;
	assert_int_equal(parse(&v, &r, ARGV("word")), 0);
	assert_int_equal(v.bytes, 4 << 20);
	assert_true(v.real == 3);
	assert_int_equal(r.seen, 0);
	sonde_opt_result_fini(&r);
}

/* Every one of these is refused with exit 2 and leaves the member as it was. */
static void test_refused(void **state)
{
	static const char *const bad[][2] = {
		{"--number", "5x"},
		{"--number", "-5"},
		{"--number", ""},
		{"--number", " 5"},
		{"--number", "1"},
		{"--number", "11"},
		{"--number", "99999999999999999999"},
		{"--small", "4294967296"},
		{"--bytes", "4Q"},
		{"--bytes", "64MB2"},
		{"--bytes", "inf"},
		{"--time", "5 s"},
		{"--time", "-1s"},
		{"--time", "nan"},
		{"--real", "0.5"},
		{"--real", "1e9"},
		{"--real", "3x"},
		{"--real", "1.2.3"},
		{"--choice", "exac"},
		{"--choice", ""},
		{"--letter", "xy"},
		{"--text", ""},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(bad); i++) {
		struct sonde_opt_result r;
		struct values v, before;

		memset(&before, 0, sizeof(before));
		assert_int_equal(sonde_opts_init(&table, &before), 0);
		assert_int_equal(parse(&v, &r, ARGV(bad[i][0], bad[i][1])), -EINVAL);
		if (memcmp(&v, &before, sizeof(v)))
			fail_msg("%s '%s' changed its member", bad[i][0], bad[i][1]);
		assert_int_equal(r.seen, 0);
		sonde_opt_result_fini(&r);
	}
}

static void test_malformed(void **state)
{
	static const char *const bad[][3] = {
		{"--nothing"}, {"-x"},	 {"--flag=1"}, {"--text"}, {"-t"},
		{"-cx"},       {"--=5"}, {"--fla"},    {"-ct"},	   {"--flag", "--number"},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(bad); i++) {
		struct sonde_opt_result r;
		struct values v;

		assert_int_equal(parse(&v, &r, bad[i]), -EINVAL);
		sonde_opt_result_fini(&r);
	}
}

static void test_words(void **state)
{
	struct sonde_opt_result r;
	struct values v;

	(void)state;
	assert_int_equal(parse(&v, &r, ARGV("a", "-f", "-", "--", "-c", "--", "b")), 0);
	assert_int_equal(r.n_words, 5);
	assert_int_equal(r.n_before_dashes, 2);
	assert_true(r.dashes);
	assert_string_equal(r.words[1], "-");
	assert_string_equal(r.words[2], "-c");
	assert_string_equal(r.words[3], "--");
	assert_null(r.words[5]);
	assert_int_equal(v.count, 0);
	sonde_opt_result_fini(&r);
}

/* The value of an option is its next word, whatever it looks like. */
static void test_value_with_dash(void **state)
{
	struct sonde_opt_result r;
	struct values v;

	(void)state;
	assert_int_equal(parse(&v, &r, ARGV("--text", "--flag")), 0);
	assert_string_equal(v.text, "--flag");
	assert_false(v.flag);
	sonde_opt_result_fini(&r);
}

static const char *nearest(const char *typed)
{
	struct sonde_suggest s;

	sonde_suggest_init(&s, typed, strlen(typed));
	sonde_suggest_offer(&s, "stat");
	sonde_suggest_offer(&s, "record");
	sonde_suggest_offer(&s, "report");
	return s.best ? s.best : "";
}

static void test_suggest(void **state)
{
	(void)state;
	assert_string_equal(nearest("stta"), "stat");
	assert_string_equal(nearest("recrod"), "record");
	assert_string_equal(nearest("repor"), "report");
	assert_string_equal(nearest("rec"), "record");
	assert_string_equal(nearest("zebra"), "");
	assert_string_equal(nearest(""), "");
	assert_string_equal(nearest("a-word-that-is-far-too-long-for-the-table-of-distances"), "");
}

static void test_bad_rows(void **state)
{
	static const struct sonde_opt bad[] = {
		{.name = "size", .type = SONDE_OPT_NUMBER, M(flag), .metavar = "N", .help = "h"},
		{.name = "nohelp", .type = SONDE_OPT_FLAG, M(flag)},
		{.name = "metavar", .type = SONDE_OPT_FLAG, M(flag), .metavar = "N", .help = "h"},
		{.name = "choices",
		 .type = SONDE_OPT_CHOICE,
		 M(choice),
		 .metavar = "N",
		 .help = "h"},
		{.name = "parser", .type = SONDE_OPT_OTHER, M(choice), .metavar = "N", .help = "h"},
	};

	(void)state;
	assert_int_equal(sonde_opts_check(&table), 0);
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(bad); i++) {
		struct sonde_opt_table one = {&bad[i], 1};

		assert_int_equal(sonde_opts_check(&one), -EINVAL);
	}
}

static void test_real_table(void **state)
{
	struct sonde_args args = {0};

	(void)state;
	assert_int_equal(sonde_opts_check(&sonde_options), 0);
	assert_int_equal(sonde_opts_init(&sonde_options, &args), 0);
	for (size_t i = 0; i < sonde_options.n; i++)
		for (size_t j = 0; j < i; j++) {
			const struct sonde_opt *a = &sonde_options.rows[i],
					       *b = &sonde_options.rows[j];

			assert_string_not_equal(a->name, b->name);
			assert_false(a->letter && a->letter == b->letter);
		}
}

/* Each option belongs to a command, each descriptor is filled, and -h works everywhere. */
static void test_commands(void **state)
{
	sonde_opt_mask used = 0;

	(void)state;
	for (size_t i = 0; i < sonde_command_count; i++) {
		const struct sonde_command *c = sonde_commands[i];

		assert_non_null(c->name);
		assert_non_null(c->summary);
		assert_non_null(c->synopsis);
		assert_non_null(c->run);
		assert_true((c->valid & SONDE_O(HELP)) != 0);
		assert_true(((c->needs[0] | c->needs[1]) & ~c->valid) == 0);
		assert_true(c->min_words <= c->max_words);
		assert_ptr_equal(sonde_command_find(c->name), c);
		used |= c->valid;
	}
	for (size_t i = 0; i < sonde_options.n; i++)
		if (!(used & SONDE_OPT_BIT(i)))
			fail_msg("no command takes --%s", sonde_options.rows[i].name);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),	   cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_refused),	   cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_words),	   cmocka_unit_test(test_value_with_dash),
		cmocka_unit_test(test_suggest),	   cmocka_unit_test(test_bad_rows),
		cmocka_unit_test(test_real_table), cmocka_unit_test(test_commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
