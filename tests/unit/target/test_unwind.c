// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Unwind tables against libdw's own interpreter, address by address, over real libraries; and over
 * small programs built here for what the libraries lack.
 */
#include "unit/unit.h"

#include <errno.h>
#include <stdio.h>

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "target/elf.h"
#include "target/elf_file.h"
#include "target/unwind.h"
#include "unit/target/fixture.h"

#define LIBDIR "/usr/lib/x86_64-linux-gnu/"

struct oracle {
	struct sonde_elf *elf;
	Dwarf_CFI *cfi;
	struct sonde_unwind_table t;
	size_t rows, followed;
};

/* rsp + n or rbp + n as libdw says it; HARD where it is anything else. */
static uint32_t oracle_rule(Dwarf_Frame *frame)
{
	Dwarf_Op mem[3], *ops = NULL;
	size_t n = 0;
	uint32_t saved = 0, cfa;
	int kind;

	if (dwarf_frame_register(frame, 16, mem, &ops, &n) == 0 && !n && ops == mem)
		return SONDE_UNWIND_RULE(SONDE_UNWIND_END, 0, 0);
	if (n != 2 || ops[0].atom != DW_OP_call_frame_cfa || (int64_t)ops[1].number != -8)
		return SONDE_UNWIND_RULE(SONDE_UNWIND_HARD, 0, 0); /* as in vfork */
	if (dwarf_frame_cfa(frame, &ops, &n) || n != 1 || ops[0].atom != DW_OP_bregx)
		return SONDE_UNWIND_RULE(SONDE_UNWIND_HARD, 0, 0);
	kind = ops[0].number == 7   ? SONDE_UNWIND_RSP
	       : ops[0].number == 6 ? SONDE_UNWIND_RBP
				    : SONDE_UNWIND_HARD;
	cfa = (uint32_t)ops[0].number2;
	assert_int_equal(dwarf_frame_register(frame, 6, mem, &ops, &n), 0);
	if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst)
		saved = (uint32_t) - (int64_t)ops[1].number;
	else if (n)
		kind = SONDE_UNWIND_HARD;
	return kind == SONDE_UNWIND_HARD ? SONDE_UNWIND_RULE(kind, 0, 0)
					 : SONDE_UNWIND_RULE(kind, cfa, saved);
}

/* What libdw gives as an expression this may follow or not; everything else must be equal. */
static void compare(struct oracle *o, uint64_t pc)
{
	uint32_t got = sonde_unwind_find(&o->t, pc), want;
	unsigned kind = SONDE_UNWIND_KIND(got);
	Dwarf_Frame *frame = NULL;

	o->rows++;
	if (dwarf_cfi_addrframe(o->cfi, pc, &frame)) {
		assert_int_equal(kind, SONDE_UNWIND_NONE);
		return;
	}
	want = oracle_rule(frame);
	free(frame);
	if (SONDE_UNWIND_KIND(want) == SONDE_UNWIND_HARD) {
		assert_true(kind == SONDE_UNWIND_HARD || kind == SONDE_UNWIND_PLT ||
			    kind == SONDE_UNWIND_DEREF || kind == SONDE_UNWIND_SIGNAL);
		return;
	}
	if (got != want)
		print_error("at %lx: %x, libdw says %x\n", (unsigned long)pc, got, want);
	assert_int_equal(got, want);
	o->followed++;
}

static void open_oracle(struct oracle *o, const char *path)
{
	*o = (struct oracle){0};
	assert_int_equal(sonde_elf_open(&o->elf, path, ""), 0);
	assert_int_equal(sonde_unwind_build(o->elf, &o->t), 0);
	o->cfi = dwarf_getcfi_elf(o->elf->elf);
	assert_non_null(o->cfi);
}

static void close_oracle(struct oracle *o)
{
	dwarf_cfi_end(o->cfi);
	sonde_unwind_fini(&o->t);
	sonde_elf_free(&o->elf);
}

static void as_libdw(void **state)
{
	static const char *const files[] = {LIBDIR "libc.so.6", LIBDIR "libstdc++.so.6",
					    LIBDIR "ld-linux-x86-64.so.2"};
	struct oracle o;

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		open_oracle(&o, files[i]);
		for (size_t row = 0; row < o.t.n; row++) {
			compare(&o, o.t.rows[row].pc);
			compare(&o, o.t.rows[row].pc + 1);
		}
		print_message("%s: %zu functions, %zu rows (%zu KiB), %zu not followed\n", files[i],
			      o.t.functions, o.t.n, o.t.n * sizeof(*o.t.rows) / 1024, o.t.hard);
		assert_true(o.t.functions > 200 && o.t.n > o.t.functions);
		assert_true(o.followed > o.rows * 8 / 10);
		assert_true(o.t.hard * 100 < o.t.n);
		close_oracle(&o);
	}
}

static const char source[] =
	"#include <stdlib.h>\n"
	"__attribute__((noinline)) void *leaf(long n) { return malloc(n); }\n"
	"__attribute__((noinline)) void *middle(long n) { void *p = leaf(n + 1); free(p); return "
	"p; }\n"
	"int main(int argc, char **argv) { return middle(argc) == (void *)argv; }\n";

static uint32_t rule_in(const char *name, const char *symbol, unsigned past,
			struct sonde_unwind_table *t)
{
	struct sonde_elf *elf = NULL;
	struct sonde_sym sym;
	char path[128];
	uint32_t rule;

	assert_int_equal(sonde_elf_open(&elf, fx_path(path, sizeof(path), name), ""), 0);
	assert_int_equal(sonde_unwind_build(elf, t), 0);
	assert_int_equal(sonde_elf_find(elf, symbol, &sym), 0);
	rule = sonde_unwind_find(t, sym.value + past);
	sonde_elf_free(&elf);
	return rule;
}

/* No table, but frame pointers: rows all the same. */
static void by_frame_pointer(void **state)
{
	struct sonde_unwind_table t;

	(void)state;
	fx_compile(
		"fp",
		"-O1 -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fcf-protection=none",
		source);
	assert_int_equal(rule_in("fp", "middle", 0, &t), SONDE_UNWIND_RULE(SONDE_UNWIND_RSP, 8, 0));
	assert_int_equal(sonde_unwind_find(&t, 0), SONDE_UNWIND_NONE);
	assert_true(t.by_frame_pointer >= 3);
	sonde_unwind_fini(&t);
	assert_int_equal(rule_in("fp", "middle", 1, &t),
			 SONDE_UNWIND_RULE(SONDE_UNWIND_RSP, 16, 16));
	sonde_unwind_fini(&t);
	assert_int_equal(rule_in("fp", "middle", 4, &t),
			 SONDE_UNWIND_RULE(SONDE_UNWIND_RBP, 16, 16));
	sonde_unwind_fini(&t);
}

/* Neither: nothing is claimed. */
static void nothing_to_go_by(void **state)
{
	struct sonde_unwind_table t;

	(void)state;
	fx_compile("bare", "-O2 -fomit-frame-pointer -fno-asynchronous-unwind-tables", source);
	assert_int_equal(rule_in("bare", "middle", 4, &t), SONDE_UNWIND_NONE);
	sonde_unwind_fini(&t);
}

/* Nobody called a thread's first function. */
static void first_function(void **state)
{
	struct sonde_unwind_table t;

	(void)state;
	fx_compile("plain", "-O2", source);
	assert_int_equal(rule_in("plain", "_start", 8, &t),
			 SONDE_UNWIND_RULE(SONDE_UNWIND_END, 0, 0));
	sonde_unwind_fini(&t);
}

/* A stack realigned by 64 bytes. */
static void realigned(void **state)
{
	static const char text[] =
		"#include <stdlib.h>\n#include <alloca.h>\n"
		"__attribute__((noinline)) long wide(long n) {\n"
		"  char v[n] __attribute__((aligned(64)));\n"
		"  volatile char *p = malloc(n); v[n - 1] = 1; p[0] = v[n - 1]; free((void *)p);\n"
		"  return (long)v; }\n"
		"int main(int argc, char **argv) { return (int)wide(argc); }\n";
	struct sonde_unwind_table t;
	size_t n = 0;

	(void)state;
	fx_compile("wide", "-O2 -mstackrealign -mincoming-stack-boundary=3", text);
	rule_in("wide", "wide", 0, &t);
	for (size_t i = 0; i < t.n; i++)
		n += SONDE_UNWIND_KIND(t.rows[i].rule) == SONDE_UNWIND_DEREF;
	assert_true(n > 0);
	sonde_unwind_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_libdw),	    cmocka_unit_test(by_frame_pointer),
		cmocka_unit_test(nothing_to_go_by), cmocka_unit_test(first_function),
		cmocka_unit_test(realigned),
	};

	return cmocka_run_group_tests(tests, fx_open, fx_close);
}
