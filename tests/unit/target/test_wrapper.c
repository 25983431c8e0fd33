// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Wrappers, from functions in assembly whose shape is that of real allocators. fx_counted is the
 * entry that is counted already.
 */
#include "unit/unit.h"

#include <errno.h>

#include "target/elf.h"
#include "target/wrapper.h"

#define FUNCTION(name, body)                                                                       \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" body            \
		"\n.size " #name ", .-" #name "\n")

FUNCTION(fx_counted, "ret");
FUNCTION(fx_other, "ret");
FUNCTION(fx_thunk, "jmp fx_counted");
FUNCTION(fx_null_check, "test %rdi,%rdi; je 1f; sub $8,%rsp; call fx_counted; add $8,%rsp\n1: ret");
/* posix_memalign: a bad alignment returns an error, and the result is stored afterwards. */
FUNCTION(fx_checks, "test $7,%sil; jne 1f; push %rbx; mov %rdi,%rbx; call fx_counted; "
		    "mov %rax,(%rbx); pop %rbx; ret\n1: mov $22,%eax; ret");
/* A helper is called on a way that still ends in the counted entry. */
FUNCTION(fx_helper_first, "push %rdi; call fx_other; pop %rdi; jmp fx_counted");
FUNCTION(fx_works, "mov %rdi,(%rsi); ret");
FUNCTION(fx_calls_other, "jmp fx_other");
/* Sized delete of gperftools: page-aligned pointers are handed over. */
FUNCTION(fx_sized, "mov fx_hooks(%rip),%rax; test %rax,%rax; jne 1f; test $0x1fff,%edi; je 2f; "
		   "mov %rsi,%rax; cmp $0x400,%rsi; ja 3f; mov %rdi,(%rax); ret\n"
		   "1: jmp fx_other\n2: jmp fx_counted\n3: incl (%rdi); ret\n"
		   ".section .data\nfx_hooks: .quad 0\n.text");
/* The argument is gone before it is known who does the work: no place serves. */
FUNCTION(fx_mixed, "test %rdi,%rdi; je 1f; mov %rsi,%rdi; jmp 2f\n1: nop; mov $1,%edi\n"
		   "2: test %rsi,%rsi; je 3f; mov %rdi,(%rsi); ret\n3: jmp fx_counted");

static struct sonde_elf *self;

static struct sonde_sym find(const char *name)
{
	struct sonde_sym sym;

	if (sonde_elf_find(self, name, &sym))
		fail_msg("no symbol %s", name);
	return sym;
}

static uint64_t analysed;

static bool counted(void *ctx, int64_t target)
{
	return analysed + (uint64_t)target == *(const uint64_t *)ctx;
}

static struct sonde_wrapper analyse(const char *name)
{
	struct sonde_sym sym = find(name), entry = find("fx_counted");
	struct sonde_wrapper w;
	uint8_t code[256];

	assert_true(sym.size && sym.size <= sizeof(code));
	assert_int_equal(sonde_elf_code(self, sym.offset, code, sym.size), 0);
	analysed = sym.offset;
	assert_int_equal(
		sonde_wrapper_analyse(code, sym.size, SONDE_ARG_RDI, counted, &entry.offset, &w),
		0);
	return w;
}

static void shapes(void **state)
{
	static const struct {
		const char *name;
		enum sonde_wrap wrap;
	} want[] = {
		{"fx_thunk", SONDE_WRAP_ALWAYS},    {"fx_null_check", SONDE_WRAP_ALWAYS},
		{"fx_checks", SONDE_WRAP_ALWAYS},   {"fx_helper_first", SONDE_WRAP_ALWAYS},
		{"fx_works", SONDE_WRAP_NEVER},	    {"fx_calls_other", SONDE_WRAP_NEVER},
		{"fx_sized", SONDE_WRAP_SOMETIMES}, {"fx_mixed", SONDE_WRAP_SOMETIMES},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		print_message("# %s\n", want[i].name);
		assert_int_equal(analyse(want[i].name).wrap, want[i].wrap);
	}
}

/* One site on the way of the hooks, one behind the check, each cheap and with rdi intact. */
static void split(void **state)
{
	struct sonde_wrapper w = analyse("fx_sized");
	struct sonde_sym sym = find("fx_sized");
	uint8_t code[256];

	(void)state;
	assert_int_equal(sonde_elf_code(self, sym.offset, code, sym.size), 0);
	assert_int_equal(w.n_split, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(w.split[i].kind, SONDE_INSN_EMULATED);
		assert_int_equal(w.split[i].sp_delta, 0);
	}
	/* `jmp fx_other` and `ja`, in the order in which the paths are followed. */
	assert_true(code[w.split[0].offset] == 0xe9 || code[w.split[0].offset] == 0xeb);
	assert_int_equal(code[w.split[1].offset], 0x77);
}

static void no_split(void **state)
{
	(void)state;
	assert_int_equal(analyse("fx_mixed").n_split, 0);
}

static void junk(void **state)
{
	static const uint8_t bad[] = {0x06, 0xc3};
	struct sonde_wrapper w;
	uint64_t none = 0;

	(void)state;
	assert_int_equal(sonde_wrapper_analyse(bad, sizeof(bad), 1, counted, &none, &w), -EINVAL);
	assert_int_equal(sonde_wrapper_analyse(bad, 0, 1, counted, &none, &w), -EINVAL);
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
		cmocka_unit_test(shapes),
		cmocka_unit_test(split),
		cmocka_unit_test(no_split),
		cmocka_unit_test(junk),
	};

	return cmocka_run_group_tests(tests, open_self, close_self);
}
