// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Symbols of ELF files. The linker is told addresses that differ from file offsets, and objcopy
 * moves symbols into mini-debug data and separate files; the code at the offset found proves the
 * answer.
 */
#include "unit/unit.h"

#include <errno.h>

#include "core/log.h"
#include "target/elf.h"
#include "unit/target/fixture.h"

#define LIBC "/usr/lib/x86_64-linux-gnu/libc.so.6"

/* `mov eax, MARK` is the first instruction of fx_marked. */
static const char marked[] =
	"__asm__(\".text\\n.globl fx_marked\\n.type fx_marked,@function\\n\"\n"
	"	\"fx_marked: mov $0x50de123,%eax; ret\\n.size fx_marked,.-fx_marked\");\n"
	"static __attribute__((noinline,used)) int fx_local(int a) { return a * 3; }\n"
	"int main(int argc, char **argv) { return fx_local(argc); }\n";

static struct sonde_elf *open_fixture(const char *name, const char *root)
{
	struct sonde_elf *elf = NULL;
	char path[128];

	assert_int_equal(sonde_elf_open(&elf, fx_path(path, sizeof(path), name), root), 0);
	return elf;
}

static void assert_marked(struct sonde_elf *elf, const char *table)
{
	static const uint8_t want[] = {0xb8, 0x23, 0xe1, 0x0d, 0x05, 0xc3};
	uint8_t code[sizeof(want)];
	uint64_t start, size;
	struct sonde_sym sym;

	assert_int_equal(sonde_elf_find(elf, "fx_marked", &sym), 0);
	assert_string_equal(sym.table, table);
	assert_int_equal(sonde_elf_code(elf, sym.offset, code, sizeof(code)), 0);
	assert_memory_equal(code, want, sizeof(want));
	assert_int_equal(sonde_elf_function_at(elf, sym.offset + 3, &start, &size), 0);
	assert_int_equal(start, sym.offset);
	assert_int_equal(size, sizeof(want));
}

static void offsets(void **state)
{
	static const struct {
		const char *name, *flags, *table;
	} builds[] = {
		{"pie", "-O1 -pie", ".symtab"},
		{"exec", "-O1 -no-pie -Wl,-Ttext-segment=0x12340000", ".symtab"},
		{"aligned", "-O1 -no-pie -Wl,-z,max-page-size=0x200000", ".symtab"},
		{"dynamic", "-O1 -rdynamic", ".dynsym"},
		{"static", "-O1 -static", ".symtab"},
		{"shared", "-O1 -shared -fPIC", ".dynsym"},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(builds); i++) {
		struct sonde_elf *elf;
		struct sonde_sym sym;

		fx_compile(builds[i].name, builds[i].flags, marked);
		elf = open_fixture(builds[i].name, "");
		assert_marked(elf, builds[i].table);
		if (strcmp(builds[i].name, "shared"))
			assert_int_equal(sonde_elf_is_static(elf),
					 !strcmp(builds[i].name, "static"));
		assert_int_equal(sonde_elf_find(elf, "fx_absent", &sym), -ENOENT);
		/* Undefined here: it is libc's. */
		if (strcmp(builds[i].name, "static"))
			assert_int_equal(sonde_elf_find(elf, "__libc_start_main", &sym), -ENOENT);
		sonde_elf_free(&elf);
		assert_null(elf);
	}
}

/* As distributions do it: symbols that .dynsym lacks, packed into a section. */
static void mini_debug(void **state)
{
	struct sonde_elf *elf;
	struct sonde_sym sym;

	(void)state;
	fx_compile("mini", "-O1", marked);
	fx_run("objcopy --only-keep-debug mini mini.sym && objcopy -S --remove-section .comment "
	       "--keep-symbol fx_marked --keep-symbol fx_local mini.sym mini.dbg 2>/dev/null; "
	       "cp mini.sym mini.dbg && strip --strip-debug mini.dbg 2>/dev/null; xz -f mini.dbg "
	       "&& "
	       "strip -s mini && objcopy --add-section .gnu_debugdata=mini.dbg.xz mini");
	elf = open_fixture("mini", "");
	assert_marked(elf, "mini");
	assert_int_equal(sonde_elf_find(elf, "fx_local", &sym), 0);
	sonde_elf_free(&elf);
}

static void separate_file(void **state)
{
	struct sonde_elf *elf;
	struct sonde_sym sym;

	(void)state;
	fx_compile("sep", "-O1 -Wl,--build-id=0xabcdef0123456789", marked);
	fx_compile("other", "-O2 -Wl,--build-id=0x1111111111111111", marked);
	fx_run("mkdir -p root/usr/lib/debug/.build-id/ab && objcopy --only-keep-debug sep "
	       "root/usr/lib/debug/.build-id/ab/cdef0123456789.debug && strip -s sep");
	elf = open_fixture("sep", fx_dir);
	assert_int_equal(sonde_elf_find(elf, "fx_marked", &sym), -ENOENT);
	sonde_elf_free(&elf);
	{
		char root[128];

		elf = open_fixture("sep", fx_path(root, sizeof(root), "root"));
		assert_marked(elf, "debug");
		sonde_elf_free(&elf);
		/* A file of another build in its place must not be believed. */
		fx_run("objcopy --only-keep-debug other "
		       "root/usr/lib/debug/.build-id/ab/cdef0123456789.debug");
		sonde_log_set_level(SONDE_LOG_ERROR);
		elf = open_fixture("sep", root);
		assert_int_equal(sonde_elf_find(elf, "fx_marked", &sym), -ENOENT);
		sonde_elf_free(&elf);
	}
}

/* A stripped file still has .eh_frame. */
static void extents_of_stripped(void **state)
{
	struct sonde_elf *whole, *bare;
	uint64_t start, size;
	struct sonde_sym sym;

	(void)state;
	fx_compile("eh", "-O1", marked);
	fx_run("cp eh eh.bare && strip -s eh.bare");
	whole = open_fixture("eh", "");
	bare = open_fixture("eh.bare", "");
	assert_int_equal(sonde_elf_find(whole, "fx_local", &sym), 0);
	assert_int_equal(sonde_elf_find(bare, "fx_local", &(struct sonde_sym){0}), -ENOENT);
	assert_int_equal(sonde_elf_function_at(bare, sym.offset + 1, &start, &size), 0);
	assert_int_equal(start, sym.offset);
	assert_int_equal(size, sym.size);
	assert_int_equal(sonde_elf_function_at(bare, 1, &start, &size), -ENOENT);
	sonde_elf_free(&whole);
	sonde_elf_free(&bare);
}

static void default_version_wins(void **state)
{
	static const char source[] =
		"__asm__(\".symver fx_old,fx_v@V1\\n.symver fx_new,fx_v@@V2\");\n"
		"int fx_old(void) { return 1; }\nint fx_new(void) { return 2; }\n";
	struct sonde_sym found, want;
	struct sonde_elf *elf;

	(void)state;
	fx_write("v.map", "V1 { global: fx_v; };\nV2 { global: fx_new; fx_v; } V1;\n");
	fx_compile("v.so", "-O1 -shared -fPIC -Wl,--version-script=v.map", source);
	elf = open_fixture("v.so", "");
	assert_int_equal(sonde_elf_find(elf, "fx_v", &found), 0);
	assert_int_equal(sonde_elf_find(elf, "fx_new", &want), 0);
	assert_int_equal(found.offset, want.offset);
	assert_true(sonde_elf_exports(elf, "fx_v"));
	assert_false(sonde_elf_exports(elf, "fx_absent"));
	sonde_elf_free(&elf);
}

static void of_libc(void **state)
{
	char id[128], line[256] = "";
	struct sonde_elf *elf;
	struct sonde_sym sym;
	FILE *readelf;

	(void)state;
	assert_int_equal(sonde_elf_open(&elf, LIBC, ""), 0);
	assert_string_equal(sonde_elf_soname(elf), "libc.so.6");
	assert_string_equal(sonde_elf_needed(elf)[0], "ld-linux-x86-64.so.2");
	assert_null(sonde_elf_needed(elf)[1]);
	assert_false(sonde_elf_is_static(elf));
	assert_int_equal(sonde_elf_find(elf, "malloc", &sym), 0);
	assert_string_equal(sym.table, ".dynsym");
	assert_true(sym.size > 0);
	/* Chosen at run time: its symbol is the chooser, which runs once. */
	assert_int_equal(sonde_elf_find(elf, "memcpy", &sym), -ENOENT);
	sonde_elf_build_id(elf, id, sizeof(id));
	readelf = popen("readelf -n " LIBC " | sed -n 's/ *Build ID: //p'", "r");
	assert_non_null(fgets(line, sizeof(line), readelf));
	pclose(readelf);
	line[strcspn(line, "\n")] = '\0';
	assert_string_equal(id, line);
	sonde_elf_free(&elf);
}

/* By PT_DYNAMIC, the number of symbols by either kind of hash table. */
static void without_sections(void **state)
{
	static const char *const styles[] = {"gnu", "sysv", "both"};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(styles); i++) {
		struct sonde_elf *elf;
		char flags[128];

		snprintf(flags, sizeof(flags),
			 "-O1 -shared -fPIC -Wl,-soname,fx.so.1 -Wl,--no-as-needed -lm "
			 "-Wl,--hash-style=%s",
			 styles[i]);
		fx_compile("bare", flags, marked);
		fx_run("for at in 40:8 58:6; do dd if=/dev/zero of=bare bs=1 seek=${at%:*} "
		       "count=${at#*:} conv=notrunc status=none; done");
		elf = open_fixture("bare", "");
		assert_marked(elf, ".dynsym");
		assert_true(sonde_elf_has_dynamic_symbols(elf));
		assert_true(sonde_elf_exports(elf, "fx_marked"));
		assert_true(sonde_elf_exports(elf, "main"));
		assert_false(sonde_elf_exports(elf, "fx_local"));
		assert_string_equal(sonde_elf_soname(elf), "fx.so.1");
		assert_string_equal(sonde_elf_needed(elf)[0], "libm.so.6");
		sonde_elf_free(&elf);
	}
}

static void refused(void **state)
{
	struct sonde_elf *elf = NULL;
	char path[128];

	(void)state;
	fx_write("text", "no ELF at all\n");
	fx_write("empty", "");
	fx_write("m32.s", ".globl _start\n_start: nop\n");
	fx_run("as --32 -o m32 m32.s && mkfifo fifo");
	sonde_log_set_level(SONDE_LOG_ERROR);
	assert_int_equal(sonde_elf_open(&elf, fx_path(path, sizeof(path), "text"), ""), -ENOEXEC);
	assert_int_equal(sonde_elf_open(&elf, fx_path(path, sizeof(path), "empty"), ""), -ENOEXEC);
	assert_int_equal(sonde_elf_open(&elf, fx_path(path, sizeof(path), "m32"), ""), -EOPNOTSUPP);
	assert_int_equal(sonde_elf_open(&elf, fx_path(path, sizeof(path), "fifo"), ""), -ENOEXEC);
	assert_int_equal(sonde_elf_open(&elf, fx_path(path, sizeof(path), "absent"), ""), -ENOENT);
	assert_null(elf);
}

static void code_stays_in_text(void **state)
{
	uint64_t start, size;
	struct sonde_elf *elf;
	struct sonde_sym sym;
	uint8_t byte;

	(void)state;
	assert_int_equal(sonde_elf_open(&elf, LIBC, ""), 0);
	assert_int_equal(sonde_elf_find(elf, "malloc", &sym), 0);
	assert_int_equal(sonde_elf_text(elf, sym.offset, &start, &size), 0);
	assert_int_equal(sonde_elf_code(elf, start + size - 1, &byte, 1), 0);
	assert_int_equal(sonde_elf_code(elf, start + size, &byte, 1), -ERANGE);
	assert_int_equal(sonde_elf_code(elf, 0, &byte, 1), -ERANGE);
	assert_int_equal(sonde_elf_code(elf, start, &byte, (size_t)-1), -ERANGE);
	sonde_elf_free(&elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offsets),
		cmocka_unit_test(mini_debug),
		cmocka_unit_test(separate_file),
		cmocka_unit_test(extents_of_stripped),
		cmocka_unit_test(default_version_wins),
		cmocka_unit_test(of_libc),
		cmocka_unit_test(without_sections),
		cmocka_unit_test(refused),
		cmocka_unit_test(code_stays_in_text),
	};

	return cmocka_run_group_tests(tests, fx_open, fx_close);
}
