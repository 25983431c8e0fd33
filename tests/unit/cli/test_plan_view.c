// SPDX-License-Identifier: GPL-2.0-or-later
/* What a plan writes: bytes are counted by site, pages once for each process and file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cli/plan_view.h"
#include "core/mem.h"

static struct sonde_probe_site site(pid_t pid, uint64_t inode, uint64_t offset)
{
	return (struct sonde_probe_site){
		.pid = pid, .dev = 1, .inode = inode, .site = {.offset = offset}};
}

static void test_writes(void **state)
{
	struct sonde_probe_site a[] = {site(1, 7, 0x1000), site(1, 7, 0x1fff), site(1, 7, 0x2000),
				       site(1, 8, 0x1000)};
	struct sonde_probe_site b[] = {site(1, 7, 0x1800), site(2, 7, 0x1000)};
	struct sonde_hook hooks[] = {{.sites = a, .n_sites = 4},
				     {.sites = b, .n_sites = 2},
				     {.sites = a, .n_sites = 4},
				     {.sites = b, .n_sites = 2}};
	struct sonde_plan_item items[] = {
		{.hook = &hooks[0], .kind = SONDE_LINK_UPROBE_MULTI},
		{.hook = &hooks[1], .kind = SONDE_LINK_UPROBE_PERF},
		{.hook = &hooks[2], .kind = SONDE_LINK_UPROBE_MULTI, .alt = -1},
		{.hook = &hooks[3], .kind = SONDE_LINK_TP_BTF},
	};
	struct sonde_session_plan p = {.plan = {.items = items, .n = SONDE_ARRAY_SIZE(items)}};
	struct sonde_plan_writes w = sonde_plan_writes(&p);

	(void)state;
	assert_int_equal(w.sites, 6);
	assert_int_equal(w.pages, 4);
}

static void test_lenses(void **state)
{
	struct sonde_session_opts opts = {0};

	(void)state;
	assert_true(sonde_plan_uses_lens(&opts, sonde_lens_find("rss")));
	assert_false(sonde_plan_uses_lens(&opts, sonde_lens_find("alloc")));
	opts.lens_mask = 1u << SONDE_LENS_FAULT;
	assert_false(sonde_plan_uses_lens(&opts, sonde_lens_find("rss")));
	assert_true(sonde_plan_uses_lens(&opts, sonde_lens_find("fault")));
	assert_true(sonde_plan_uses_lens(&opts, sonde_lens_find("proc")));
	opts.alloc_mode = SONDE_ALLOC_MODE_EXACT;
	assert_true(sonde_plan_uses_lens(&opts, sonde_lens_find("alloc")));
}

/* Once for each kind of link, and for each cost of it where the instructions differ. */
static void test_costs(void **state)
{
	struct sonde_probe_site stepped = {.site.kind = SONDE_INSN_STEPPED};
	struct sonde_probe_site emulated = {.site.kind = SONDE_INSN_EMULATED};
	struct sonde_hook kernel = {.name = "k"};
	struct sonde_probe_site both[] = {stepped, emulated};
	struct sonde_hook dear = {.sites = both, .n_sites = 2}; /* not its first site alone */
	struct sonde_hook cheap = {.sites = &emulated, .n_sites = 1};
	struct sonde_plan_item items[] = {
		{.hook = &kernel, .kind = SONDE_LINK_TP_BTF},
		{.hook = &dear, .kind = SONDE_LINK_UPROBE_MULTI},
		{.hook = &kernel, .kind = SONDE_LINK_TP_BTF},
		{.hook = &kernel, .kind = SONDE_LINK_PERF_SW, .alt = -1},
		{.hook = &cheap, .kind = SONDE_LINK_UPROBE_MULTI},
		{.hook = &dear, .kind = SONDE_LINK_UPROBE_MULTI},
	};
	struct sonde_session_plan p = {.plan = {.items = items, .n = SONDE_ARRAY_SIZE(items)}};
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	(void)state;
	p.calibration.hit_ns[SONDE_LINK_TP_BTF][SONDE_INSN_STEPPED] = 61;
	p.calibration.hit_ns[SONDE_LINK_PERF_SW][SONDE_INSN_STEPPED] = 170;
	p.calibration.hit_ns[SONDE_LINK_UPROBE_MULTI][SONDE_INSN_STEPPED] = 1500;
	p.calibration.hit_ns[SONDE_LINK_UPROBE_MULTI][SONDE_INSN_EMULATED] = 600;
	sonde_plan_print_costs(out, &p);
	fflush(out);
	assert_int_equal(n, 0);
	p.calibrated = true;
	sonde_plan_print_costs(out, &p);
	fclose(out);
	assert_string_equal(text,
			    "costs a hit    tp_btf 61 ns, uprobe_multi (single-stepped) 1.50 us, "
			    "uprobe_multi (emulated) 600 ns (calibrated here, now)\n");
	free(text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writes),
		cmocka_unit_test(test_lenses),
		cmocka_unit_test(test_costs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
