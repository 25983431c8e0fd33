// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Probe sites. Byte cases state the rule one by one; the functions in assembly below are the same
 * thing in a real ELF file, this program; the libraries of the machine are checked for the property
 * that matters, whatever their build.
 */
#include "unit/unit.h"

#include <errno.h>
#include <unistd.h>

#include "core/mem.h"
#include "target/elf.h"
#include "target/site.h"

#define FUNCTION(name, body)                                                                       \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n" body            \
		"\n.size " #name ", .-" #name "\n")

FUNCTION(fx_push, "push %rbp; mov %rsp,%rbp; pop %rbp; ret");
FUNCTION(fx_free, "test %rdi,%rdi; je 1f; mov %rdi,%rax\n1: ret");
FUNCTION(fx_loop, "mov $9,%eax\n1: test %eax,%eax; je 2f; dec %eax; jmp 1b\n2: ret");
FUNCTION(fx_cet, "endbr64; push %rbx; pop %rbx; ret");
FUNCTION(fx_cold_hot, "mov %rdi,%rax\nfx_inner: test %rax,%rax; je 1f; ret\n1: jmp fx_cold_part");
FUNCTION(fx_cold_part, "lock incl (%rax); jmp fx_inner");
FUNCTION(fx_two_rets, "test %edi,%edi; js 1f; ret\n1: neg %edi; ret");
FUNCTION(fx_tail, "test %edi,%edi; js 1f; ret\n1: jmp fx_two_rets");
FUNCTION(fx_tail_reg, "mov (%rdi),%rax; jmp *%rax");
FUNCTION(fx_tail_jcc, "test %edi,%edi; js fx_two_rets; ret");
FUNCTION(fx_switch, "lea fx_table(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax\n"
		    "fx_case: ret\n.section .rodata\nfx_table: .long fx_case-fx_table\n.text");

static struct sonde_elf *self;

struct byte_case {
	const char *what;
	uint8_t code[16];
	size_t len;
	unsigned args;
	uint32_t slide, sp_delta;
	enum sonde_insn_kind kind;
};

static const struct byte_case cases[] = {
	{"push stays", {0x55, 0xc3}, 2, 1, 0, 0, SONDE_INSN_EMULATED},
	{"push r12 stays", {0x41, 0x54, 0xc3}, 3, 1, 0, 0, SONDE_INSN_EMULATED},
	{"jmp rel32 stays", {0xe9, 0, 1, 0, 0}, 5, 1, 0, 0, SONDE_INSN_EMULATED},
	{"test, je", {0x48, 0x85, 0xff, 0x74, 0x01, 0x90, 0xc3}, 7, 1, 3, 0, SONDE_INSN_EMULATED},
	{"endbr64, push", {0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0xc3}, 6, 1, 4, 0, SONDE_INSN_EMULATED},
	{"sub rsp, call: 8 bytes pushed",
	 {0x48, 0x83, 0xec, 0x08, 0xe8, 0, 1, 0, 0, 0xc3},
	 10,
	 1,
	 4,
	 8,
	 SONDE_INSN_EMULATED},
	{"mov edi, 5 ends the slide", {0xbf, 5, 0, 0, 0, 0x74, 0, 0xc3}, 8, 1, 0, 0, 0},
	{"mov edi, 5 is free when rdi is not read",
	 {0xbf, 5, 0, 0, 0, 0x74, 0, 0xc3},
	 8,
	 2,
	 5,
	 0,
	 SONDE_INSN_EMULATED},
	{"writing dil is writing rdi", {0x40, 0xb7, 5, 0x74, 0, 0xc3}, 6, 1, 0, 0, 0},
	{"mul writes rdx unseen", {0x48, 0xf7, 0xe6, 0x74, 0, 0xc3}, 6, 4, 0, 0, 0},
	{"ret ends the slide", {0x31, 0xc0, 0xc3, 0x55}, 4, 1, 0, 0, 0},
	{"a system call ends it", {0x0f, 0x05, 0x74, 0, 0xc3}, 5, 1, 0, 0, 0},
	{"mov rsp ends it", {0x48, 0x89, 0xc4, 0x74, 0, 0xc3}, 6, 1, 0, 0, 0},
	{"nop5 at the entry stays",
	 {0x0f, 0x1f, 0x44, 0, 0, 0xc3},
	 6,
	 1,
	 0,
	 0,
	 SONDE_INSN_EMULATED},
	{"nop5 inside is never the site",
	 {0x31, 0xc0, 0x0f, 0x1f, 0x44, 0, 0, 0x55, 0xc3},
	 9,
	 1,
	 7,
	 0,
	 SONDE_INSN_EMULATED},
	{"a branch back onto the site", {0x31, 0xc0, 0x74, 2, 0xeb, 0xfc, 0xc3}, 7, 1, 0, 0, 0},
	{"a branch back to the entry is another call",
	 {0x31, 0xc0, 0x74, 2, 0xeb, 0xfa, 0xc3},
	 7,
	 1,
	 2,
	 0,
	 SONDE_INSN_EMULATED},
	{"a jump through a register could aim anywhere",
	 {0x31, 0xc0, 0x74, 2, 0xff, 0xe0, 0xc3},
	 7,
	 1,
	 0,
	 0,
	 0},
	{"what follows cannot be decoded", {0x31, 0xc0, 0x74, 1, 0x06, 0xc3}, 6, 1, 0, 0, 0},
	{"xchg r8, rax is not the nop it looks like",
	 {0x31, 0xc0, 0x41, 0x90, 0x55, 0xc3},
	 6,
	 1,
	 4,
	 0,
	 SONDE_INSN_EMULATED},
};

/* A nop of five bytes at the entry is cheap or not, as the kernel has it (tests/bpf/sites.bats). */
static enum sonde_insn_kind kind_of(const struct byte_case *c)
{
	static const uint8_t nop5[] = {0x0f, 0x1f, 0x44, 0, 0};
	enum sonde_insn_kind kind = c->kind;

	if (!memcmp(c->code, nop5, sizeof(nop5)))
		assert_int_equal(sonde_insn_kind(nop5, sizeof(nop5), &kind), 0);
	return kind;
}

static void by_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(cases); i++) {
		const struct byte_case *c = &cases[i];
		struct sonde_site site;

		print_message("# %s\n", c->what);
		assert_int_equal(sonde_site_choose_code(c->code, c->len, c->args, false, &site), 0);
		assert_int_equal(site.slide, c->slide);
		assert_int_equal(site.sp_delta, c->sp_delta);
		assert_int_equal(site.kind, kind_of(c));
		assert_true(site.insn[0]);
		assert_int_equal(sonde_site_choose_code(c->code, c->len, c->args, true, &site), 0);
		assert_int_equal(site.slide, 0);
	}
}

static void refused(void **state)
{
	static const struct {
		uint8_t code[8];
		size_t len;
		int err;
	} bad[] = {
		{{0xf0, 0xff, 0x00}, 3, -EOPNOTSUPP},	    /* lock inc */
		{{0x2e, 0x74, 0x00}, 3, -EOPNOTSUPP},	    /* cs jz */
		{{0x66, 0xe9, 0, 0, 0, 0}, 6, -EOPNOTSUPP}, /* 16-bit jump */
		{{0xcc}, 1, -EOPNOTSUPP},		    /* int3 */
		{{0xf4}, 1, -EOPNOTSUPP},		    /* hlt */
		{{0x41, 0x90}, 2, -EOPNOTSUPP},		    /* xchg r8, rax */
		{{0x06}, 1, -EINVAL},			    /* not of 64-bit mode */
		{{0xe9, 0, 0}, 3, -EINVAL},		    /* cut short */
	};
	enum sonde_insn_kind kind;
	struct sonde_site site;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(bad); i++) {
		assert_int_equal(sonde_insn_kind(bad[i].code, bad[i].len, &kind), bad[i].err);
		assert_int_equal(sonde_site_choose_code(bad[i].code, bad[i].len, 1, false, &site),
				 bad[i].err);
	}
	assert_int_equal(sonde_insn_kind((const uint8_t *)"", 0, &kind), -EINVAL);
}

static struct sonde_sym find(const char *name)
{
	struct sonde_sym sym;

	if (sonde_elf_find(self, name, &sym))
		fail_msg("no symbol %s", name);
	return sym;
}

static void in_a_file(void **state)
{
	static const struct {
		const char *name;
		uint32_t slide;
		enum sonde_insn_kind kind;
	} want[] = {
		{"fx_push", 0, SONDE_INSN_EMULATED},
		{"fx_free", 3, SONDE_INSN_EMULATED},
		{"fx_loop", 0, SONDE_INSN_STEPPED},
		{"fx_cet", 4, SONDE_INSN_EMULATED},
		/* Its cold part, a function of its own to the symbol table, comes back before the
		   je. */
		{"fx_cold_hot", 0, SONDE_INSN_STEPPED},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(want); i++) {
		struct sonde_sym sym = find(want[i].name);
		struct sonde_site site;

		assert_int_equal(sonde_site_choose(self, sym.offset, sym.size, 1, false, &site), 0);
		assert_int_equal(site.slide, want[i].slide);
		assert_int_equal(site.kind, want[i].kind);
		assert_int_equal(site.function, sym.offset);
		assert_int_equal(site.offset, sym.offset + site.slide);
		assert_int_equal(sonde_site_choose(self, sym.offset, sym.size, 1, true, &site), 0);
		assert_int_equal(site.slide, 0);
	}
}

/* Offset of the @nth byte pattern inside the function, to know exits without counting by hand. */
static uint64_t find_byte(const struct sonde_sym *sym, uint8_t byte, int nth)
{
	uint8_t code[256];

	assert_true(sym->size <= sizeof(code));
	assert_int_equal(sonde_elf_code(self, sym->offset, code, sym->size), 0);
	for (size_t i = 0; i < sym->size; i++)
		if (code[i] == byte && nth-- == 0)
			return sym->offset + i;
	fail();
	return 0;
}

static void ways_out(void **state)
{
	struct sonde_sym two = find("fx_two_rets"), tail = find("fx_tail"), sw = find("fx_switch");
	sonde_autofree uint64_t *a = NULL, *b = NULL, *c = NULL;
	uint64_t *none;
	size_t n;

	(void)state;
	assert_int_equal(sonde_site_exits(self, two.offset, two.size, &a, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(a[0], find_byte(&two, 0xc3, 0));
	assert_int_equal(a[1], find_byte(&two, 0xc3, 1));
	assert_int_equal(sonde_site_exits(self, tail.offset, tail.size, &b, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(b[0], find_byte(&tail, 0xc3, 0));
	assert_int_equal(sonde_site_exits(self, sw.offset, sw.size, &c, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(c[0], find_byte(&sw, 0xc3, 0));
	assert_int_equal(sonde_site_exits(self, find("fx_tail_reg").offset, 0, &none, &n),
			 -EOPNOTSUPP);
	assert_int_equal(sonde_site_exits(self, find("fx_tail_jcc").offset, 0, &none, &n),
			 -EOPNOTSUPP);
}

/* The cold part's return belongs to the function: `lock inc` falls through to the jump back. */
static void cold_part(void **state)
{
	struct sonde_sym hot = find("fx_cold_hot");
	sonde_autofree uint64_t *out = NULL;
	size_t n;

	(void)state;
	assert_int_equal(sonde_site_exits(self, hot.offset, hot.size, &out, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(out[0], find_byte(&hot, 0xc3, 0));
}

/* Every hot entry of the machine's allocators has a cheap site; `free` above all. */
static void libraries(void **state)
{
	static const struct {
		const char *path, *symbols[4];
	} libs[] = {
		{"/usr/lib/x86_64-linux-gnu/libc.so.6", {"malloc", "free", "realloc", "memalign"}},
		{"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
		 {"malloc", "free", "_Znwm", "_ZdlPvm"}},
		{"/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
		 {"malloc", "free", "_Znwm", "_ZdlPvm"}},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(libs); i++) {
		struct sonde_elf *elf;

		assert_int_equal(sonde_elf_open(&elf, libs[i].path, ""), 0);
		for (size_t k = 0; k < 4; k++) {
			struct sonde_site site;
			struct sonde_sym sym;

			print_message("# %s %s\n", libs[i].path, libs[i].symbols[k]);
			assert_int_equal(sonde_elf_find(elf, libs[i].symbols[k], &sym), 0);
			assert_int_equal(sonde_site_choose(elf, sym.offset, sym.size, SONDE_ARG_RDI,
							   false, &site),
					 0);
			assert_int_equal(site.kind, SONDE_INSN_EMULATED);
		}
		sonde_elf_free(&elf);
	}
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
		cmocka_unit_test(by_bytes),  cmocka_unit_test(refused),
		cmocka_unit_test(in_a_file), cmocka_unit_test(ways_out),
		cmocka_unit_test(cold_part), cmocka_unit_test(libraries),
	};

	return cmocka_run_group_tests(tests, open_self, close_self);
}
