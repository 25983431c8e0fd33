// SPDX-License-Identifier: GPL-2.0-or-later
/* Who asks the allocator, from a snapshot: order, shares, and the sentence. */
#include <math.h>
#include <stdio.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/mem.h"
#include "judge/asking.h"
#include "judge/figures.h"
#include "show/summary.h"

static const struct sonde_metric_desc descs[] = {
	{"ask.calls", "count", SONDE_COUNTER, ""},
	{"ask.time", "ns", SONDE_COUNTER, ""},
	{"ask.cpu", "ns", SONDE_COUNTER, ""},
	{"ask.rate", "count", SONDE_GAUGE, ""},
	{"ask.cpu_share", "ratio", SONDE_GAUGE, ""},
	{"ask.cpus", "ratio", SONDE_GAUGE, ""},
	{"ask.caller_calls", "count", SONDE_COUNTER, ""},
	{"ask.caller_cpu", "ns", SONDE_COUNTER, ""},
	{"ask.target_cpu", "ns", SONDE_COUNTER, ""},
};

static void put(struct sonde_snapshot *s, const char *name, const char *label, double value)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(descs); i++) {
		struct sonde_metric m = {
			.desc = &descs[i], .label = label, .ts_ns = 1, .value = value};

		if (!strcmp(descs[i].name, name))
			assert_int_equal(s->visitor.metric(s->visitor.ctx, &m), 0);
	}
}

static void put_caller(struct sonde_snapshot *s, const char *label, double calls, double cpu)
{
	put(s, "ask.caller_calls", label, calls);
	put(s, "ask.caller_cpu", label, cpu);
}

static void test_nobody(void **state)
{
	struct sonde_snapshot s;
	struct sonde_asking a;
	struct sonde_figures f;

	(void)state;
	sonde_snapshot_init(&s);
	assert_false(sonde_asking_of(&s, &a));
	sonde_figures_of(&s, &f);
	assert_string_equal(f.memory.asking, "");
	put(&s, "ask.cpu_share", "", 0);
	assert_true(sonde_asking_of(&s, &a));
	assert_int_equal(a.n, 0);
	sonde_snapshot_fini(&s);
}

static void fill(struct sonde_snapshot *s)
{
	put(s, "ask.cpu_share", "", 0.63);
	put(s, "ask.target_cpu", "", 1e9);
	put(s, "ask.calls", "mallinfo2", 10);
	put(s, "ask.cpu", "mallinfo2", 1e7);
	put(s, "ask.time", "mallinfo2", 1e7);
	put(s, "ask.calls", "MallocExtension::GetNumericProperty", 41203);
	put(s, "ask.rate", "MallocExtension::GetNumericProperty", 41203);
	put(s, "ask.cpu", "MallocExtension::GetNumericProperty", 6.2e8);
	put(s, "ask.time", "MallocExtension::GetNumericProperty", 41203 * 20000.0);
	put_caller(s, "MallocExtension::GetNumericProperty < limit+0x8 (kudu)", 5000, 1.1e8);
	put_caller(s, "MallocExtension::GetNumericProperty < handle+0x1c (kudu)", 36203, 5.1e8);
	put_caller(s, "mallinfo2 < main+0x9 (kudu)", 10, 1e7);
}

static void test_order_and_sentence(void **state)
{
	struct sonde_snapshot s;
	struct sonde_asking a;
	struct sonde_figures f;
	struct sonde_diagnosis d;

	(void)state;
	sonde_snapshot_init(&s);
	fill(&s);
	assert_true(sonde_asking_of(&s, &a));
	assert_int_equal(a.n, 2);
	assert_string_equal(a.func[0].name, "MallocExtension::GetNumericProperty");
	assert_int_equal(a.func[0].n_callers, 2);
	assert_string_equal(a.func[0].caller[0].name, "handle+0x1c (kudu)");
	assert_int_equal(a.func[1].n_callers, 1);
	assert_true(isnan(a.func[1].rate));
	sonde_figures_of(&s, &f);
	sonde_diagnose(&f.memory, &d); /* RSS is not known, and yet this is */
	assert_int_equal(d.n, 1);
	assert_int_equal(d.f[0].cause, SONDE_CAUSE_ASKING);
	assert_string_equal(d.f[0].text,
			    "asking the allocator for statistics takes 63 % of the target's CPU: "
			    "MallocExtension::GetNumericProperty 62 % (41,203 calls a second of "
			    "20.0 us), called from handle+0x1c (kudu) 51 %, limit+0x8 (kudu) 11 %");
	sonde_snapshot_fini(&s);
}

static char *summary(const struct sonde_snapshot *s)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	sonde_summary_ask(out, s);
	fclose(out);
	return text;
}

/* A share of next to nothing is no finding: an idle redis asks once a second and does little else.
 */
static void test_idle(void **state)
{
	static const struct {
		double cpus;
		const char *says;
		bool matters;
	} rows[] = {
		{0.00032, "statistics: 63 % of the target's CPU (0.03 % of a CPU), next to", false},
		{0.00001, "(under 0.01 % of a CPU), next to nothing\n", false},
		{0.009999, "(1.00 % of a CPU), next to nothing\n", false},
		{0.01, "takes 63 % of the target's CPU (1.0 % of a CPU)\n  MallocExt", true},
		{0.5, "takes 63 % of the target's CPU (50 % of a CPU)\n", true},
		{3.14, "takes 63 % of the target's CPU (314 % of a CPU)\n", true},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(rows); i++) {
		struct sonde_snapshot s;
		struct sonde_figures f;
		struct sonde_diagnosis d;
		char *text;

		sonde_snapshot_init(&s);
		fill(&s);
		put(&s, "ask.cpus", "", rows[i].cpus);
		text = summary(&s);
		if (!strstr(text, rows[i].says))
			fail_msg("'%s' is not in:\n%s", rows[i].says, text);
		free(text);
		sonde_figures_of(&s, &f);
		sonde_diagnose(&f.memory, &d);
		assert_int_equal(d.n, rows[i].matters);
		sonde_snapshot_fini(&s);
	}
}

/* More of both than are kept, and names that fill any buffer. */
static void test_many(void **state)
{
	struct sonde_snapshot s;
	struct sonde_asking a;
	char label[512], text[160];

	(void)state;
	sonde_snapshot_init(&s);
	put(&s, "ask.cpu_share", "", 0.9);
	put(&s, "ask.target_cpu", "", 100);
	for (int i = 0; i < 9; i++) {
		snprintf(label, sizeof(label), "f%d", i);
		put(&s, "ask.calls", label, 1 + i);
		put(&s, "ask.cpu", label, i);
		for (int c = 0; c < 9; c++) {
			snprintf(label, sizeof(label), "f%d < %0300d%d", i, 0, c);
			put_caller(&s, label, c, 0);
		}
	}
	assert_true(sonde_asking_of(&s, &a));
	assert_int_equal(a.n, SONDE_ASKING_FUNCS);
	assert_string_equal(a.func[0].name, "f8");
	assert_string_equal(a.func[3].name, "f5");
	assert_int_equal(a.func[0].n_callers, SONDE_ASKING_CALLERS);
	assert_true(a.func[0].caller[0].calls == 8);
	assert_true(a.calls == 45);
	sonde_asking_text(&a, text, sizeof(text));
	assert_int_equal(strlen(text), sizeof(text) - 1);
	sonde_snapshot_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_order_and_sentence),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
