// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where a function gives its result: all of its `ret` instructions and of those that it leaves to,
 * or none; on handwritten functions, each with a known number of them, and on operator new of the
 * machine's allocators.
 */
#include <errno.h>

#include "core/mem.h"
#include "target/allocator.h"
#include "target/elf.h"
#include "target/returns.h"
#include "unit/unit.h"

#define FUNCTION(name, body)                                                                       \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" body            \
		"\n.size " #name ",.-" #name)

FUNCTION(rt_plain, "test %edi,%edi; js 1f; ret\n1: neg %edi; repz ret");
FUNCTION(rt_tail, "test %edi,%edi; js 1f; ret\n1: jmp rt_plain");
FUNCTION(rt_tail_jcc, "test %edi,%edi; js rt_plain; ret");
FUNCTION(rt_twice, "test %edi,%edi; js 1f; jmp rt_tail\n1: jmp rt_tail_jcc");
FUNCTION(rt_round, "test %edi,%edi; js 1f; jmp rt_back\n1: ret");
FUNCTION(rt_back, "dec %edi; jmp rt_round");
FUNCTION(rt_reg, "mov (%rdi),%rax; jmp *%rax");
FUNCTION(rt_behind_reg, "test %edi,%edi; js 1f; ret\n1: jmp rt_reg");
FUNCTION(rt_word, "jmp *(%rip)");
FUNCTION(rt_middle, "test %edi,%edi; js 1f; ret\n1: jmp rt_plain+2");
FUNCTION(rt_throws, "test %edi,%edi; js 1f; ret\n1: call abort@plt; ud2");
FUNCTION(rt_hot, "mov %rdi,%rax\nrt_inner: test %rax,%rax; je 1f; ret\n1: jmp rt_part");
FUNCTION(rt_part, "test %esi,%esi; je rt_inner; ret");

static struct sonde_elf *self;
static struct sonde_module self_module = {.open_path = "/proc/self/exe", .path = "itself"};

static struct sonde_sym find(const char *name)
{
	struct sonde_sym sym;

	assert_int_equal(sonde_elf_find(self, name, &sym), 0);
	return sym;
}

static bool is(void *ctx, uint64_t function)
{
	return ctx && *(uint64_t *)ctx == function;
}

/* The returns of @name in bytes from @from's begin, -1 behind the last; -EOPNOTSUPP: refused. */
static int returns(const char *name, uint64_t *counted, uint64_t **out, size_t *n)
{
	char why[128] = "";
	int err = sonde_site_returns(self, find(name).offset, 0, is, counted, out, n, why,
				     sizeof(why));

	print_message("# %s: %zu %s\n", name, err ? 0 : *n, why);
	assert_int_equal(!err, !*why);
	return err;
}

static void same(const char *name, uint64_t *counted, const char *const *functions)
{
	sonde_autofree uint64_t *got = NULL;
	size_t n = 0, of_them = 0, want = 0;

	assert_int_equal(returns(name, counted, &got, &n), 0);
	for (; *functions; functions++) {
		struct sonde_sym sym = find(*functions);
		uint8_t code[64];

		assert_true(sym.size <= sizeof(code));
		assert_int_equal(sonde_elf_code(self, sym.offset, code, sym.size), 0);
		for (size_t i = 0; i < sym.size; i++)
			want += code[i] == 0xc3;
		for (size_t i = 0; i < n; i++)
			of_them += got[i] - sym.offset < sym.size;
	}
	assert_int_equal(n, want);
	assert_int_equal(of_them, n);
	for (size_t i = 1; i < n; i++)
		assert_true(got[i - 1] < got[i]);
}

static void all_of_them(void **state)
{
	(void)state;
	same("rt_plain", NULL, (const char *const[]){"rt_plain", NULL});
	same("rt_tail", NULL, (const char *const[]){"rt_tail", "rt_plain", NULL});
	same("rt_tail_jcc", NULL, (const char *const[]){"rt_tail_jcc", "rt_plain", NULL});
	same("rt_twice", NULL, (const char *const[]){"rt_tail", "rt_tail_jcc", "rt_plain", NULL});
	same("rt_round", NULL, (const char *const[]){"rt_round", NULL});
	same("rt_throws", NULL, (const char *const[]){"rt_throws", NULL});
	/* A part of a function is taken for one of its own: its returns are the jump's. */
	same("rt_middle", NULL, (const char *const[]){"rt_middle", "rt_plain", NULL});
	same("rt_hot", NULL, (const char *const[]){"rt_hot", "rt_part", NULL});
}

static void counted_ends_it(void **state)
{
	uint64_t plain = find("rt_plain").offset, reg = find("rt_reg").offset;

	(void)state;
	same("rt_tail", &plain, (const char *const[]){"rt_tail", NULL});
	same("rt_behind_reg", &reg, (const char *const[]){"rt_behind_reg", NULL});
}

static void refused(void **state)
{
	static const char *const names[] = {"rt_reg", "rt_behind_reg", "rt_word"};
	uint64_t *none;
	size_t n;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(names); i++)
		assert_int_equal(returns(names[i], NULL, &none, &n), -EOPNOTSUPP);
}

/* One refused does not take the others with it, and is not said to be tracked. */
static void one_refused(void **state)
{
	static const struct sonde_alloc_entry news = {"_Znwm", SONDE_ALLOC_NEW, .args = 0,
						      .may_throw = true},
					      frees = {"free", SONDE_ALLOC_FREE, .args = 0};
	struct sonde_alloc_site sites[] = {
		{.entry = &news, .symbol = "rt_behind_reg"},
		{.entry = &news, .symbol = "rt_tail"},
		{.entry = &news, .symbol = "rt_tail_jcc"},
		{.entry = &frees, .symbol = "rt_round"},
	};
	sonde_autofree struct sonde_alloc_return *out = NULL;
	size_t n;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(sites); i++)
		sites[i].site.function = find(sites[i].symbol).offset;
	assert_int_equal(
		sonde_allocator_returns(&self_module, sites, SONDE_ARRAY_SIZE(sites), &out, &n), 0);
	assert_false(sites[0].tracked);
	assert_true(sites[1].tracked);
	assert_true(sites[2].tracked);
	assert_false(sites[3].tracked);
	assert_int_equal(n, 4); /* those of rt_plain are shared */
}

static void library(const char *path, const char *const *symbols)
{
	struct sonde_elf *elf;

	if (sonde_elf_try(&elf, path, "")) {
		print_message("# %s is not installed\n", path);
		return;
	}
	for (; *symbols; symbols++) {
		sonde_autofree uint64_t *out = NULL;
		struct sonde_sym sym;
		char why[128] = "";
		size_t n = 0;

		assert_int_equal(sonde_elf_find(elf, *symbols, &sym), 0);
		assert_int_equal(sonde_site_returns(elf, sym.offset, 0, is, NULL, &out, &n, why,
						    sizeof(why)),
				 0);
		print_message("# %s of %s: %zu\n", *symbols, path, n);
		assert_true(n > 0);
		for (size_t i = 0; i < n; i++) {
			struct sonde_insn insn;
			uint8_t code[16];

			assert_int_equal(sonde_elf_code(elf, out[i], code, sizeof(code)), 0);
			assert_int_equal(sonde_insn_decode(code, sizeof(code), &insn, NULL, 0), 0);
			assert_int_equal(insn.flow, SONDE_FLOW_RET);
		}
	}
	sonde_elf_free(&elf);
}

static void libraries(void **state)
{
	static const char *const forms[] = {
		"_Znwm",
		"_Znam",
		"_ZnwmRKSt9nothrow_t",
		"_ZnamRKSt9nothrow_t",
		"_ZnwmSt11align_val_t",
		"_ZnamSt11align_val_t",
		"_ZnwmSt11align_val_tRKSt9nothrow_t",
		"_ZnamSt11align_val_tRKSt9nothrow_t",
		NULL,
	};

	(void)state;
	library("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", forms);
	library("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4", forms);
	library("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", forms);
}

static int open_self(void **state)
{
	(void)state;
	return sonde_elf_open(&self, "/proc/self/exe", "");
}

static int close_self(void **state)
{
	(void)state;
	sonde_elf_free(&self);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_them), cmocka_unit_test(counted_ends_it),
		cmocka_unit_test(refused),     cmocka_unit_test(one_refused),
		cmocka_unit_test(libraries),
	};

	return cmocka_run_group_tests(tests, open_self, close_self);
}
