// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Allocators of real processes, started with the libraries of this machine, and of programs made to
 * look like rarer ones. The set's property is checked on the code itself: no two sites in one
 * place.
 */
#include "unit/unit.h"

#include <errno.h>

#include "core/log.h"
#include "target/allocator.h"
#include "target/elf.h"
#include "unit/target/fixture.h"

#define LIBS "/usr/lib/x86_64-linux-gnu/"

struct seen {
	const struct sonde_allocator *a;
	char version[32], module[256];
	struct sonde_alloc_site *sites;
	size_t n;
	int err;
};

/* Start @program with @env, look at it, stop it. */
static struct seen look(const char *program, const char *env, bool with_returns)
{
	struct sonde_modules mods;
	struct seen s = {0};
	char path[128];
	size_t module;
	pid_t pid = fx_spawn(fx_path(path, sizeof(path), program), env);

	assert_int_equal(sonde_modules_read(pid, &mods), 0);
	s.err = sonde_allocator_detect(pid, &mods, &s.a, &module, s.version, sizeof(s.version));
	if (!s.err) {
		snprintf(s.module, sizeof(s.module), "%s", mods.m[module].path);
		assert_int_equal(
			sonde_allocator_sites(s.a, &mods.m[module], with_returns, &s.sites, &s.n),
			0);
	}
	sonde_modules_fini(&mods);
	fx_stop(pid);
	return s;
}

static bool has(const struct seen *s, const char *symbol)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->sites[i].symbol, symbol))
			return true;
	return false;
}

static void assert_no_two_in_one_place(const struct seen *s)
{
	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(s->sites[i].site.offset, s->sites[k].site.offset);
}

static void glibc(void **state)
{
	static const char *const set[] = {"malloc",	    "calloc", "realloc", "memalign",
					  "posix_memalign", "valloc", "pvalloc", "free"};
	struct seen s = look("plain", NULL, false), e = look("plain", NULL, true);

	(void)state;
	assert_int_equal(s.err, 0);
	assert_string_equal(s.a->name, "glibc");
	assert_int_equal(s.a->rule, SONDE_BLOCK_HEADER);
	assert_non_null(strstr(s.module, "libc.so.6"));
	assert_true(s.version[0] == '2' && s.version[1] == '.');
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(set); i++)
		assert_true(has(&s, set[i]));
	assert_no_two_in_one_place(&s);
	/* A return probe sits at the true entry; free has no return to see and stays cheap. */
	assert_int_equal(e.n, s.n);
	for (size_t i = 0; i < e.n; i++) {
		if (e.sites[i].entry->op == SONDE_ALLOC_FREE)
			assert_int_equal(e.sites[i].site.kind, SONDE_INSN_EMULATED);
		else
			assert_int_equal(e.sites[i].site.slide, 0);
	}
	free(s.sites);
	free(e.sites);
}

static void jemalloc(void **state)
{
	struct seen s = look("plain", "LD_PRELOAD=" LIBS "libjemalloc.so.2", false);

	(void)state;
	assert_int_equal(s.err, 0);
	assert_string_equal(s.a->name, "jemalloc");
	assert_int_equal(s.version[0], '5');
	assert_true(has(&s, "malloc") && has(&s, "free") && has(&s, "_Znwm"));
	assert_true(has(&s, "_ZdlPvm") && has(&s, "mallocx") && has(&s, "sdallocx"));
	/* new[] jumps to new, plain delete to free, aligned new calls aligned_alloc. */
	assert_false(has(&s, "_Znam") || has(&s, "_ZdlPv") || has(&s, "_ZnwmSt11align_val_t"));
	assert_no_two_in_one_place(&s);
	free(s.sites);
}

static void tcmalloc(void **state)
{
	static const char *const preloads[] = {"LD_PRELOAD=" LIBS "libtcmalloc_minimal.so.4",
					       "LD_PRELOAD=" LIBS "libtcmalloc.so.4"};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(preloads); i++) {
		struct seen s = look("plain", preloads[i], false);

		assert_int_equal(s.err, 0);
		assert_string_equal(s.a->name, "tcmalloc (gperftools)");
		assert_int_equal(s.version[0], '2');
		assert_true(has(&s, "malloc") && has(&s, "free") && has(&s, "_Znwm"));
		assert_true(has(&s, "memalign") && has(&s, "_ZdlPvm"));
		/* These call memalign; delete is free by another name. */
		assert_false(has(&s, "posix_memalign") || has(&s, "valloc") || has(&s, "pvalloc"));
		assert_false(has(&s, "_ZdlPv") || has(&s, "_ZdaPv") || has(&s, "_Znam"));
		assert_no_two_in_one_place(&s);
		free(s.sites);
	}
}

/* Preloaded or not, what comes first in link order serves; a dlopen()ed allocator does not. */
static void link_order(void **state)
{
	struct seen needed, opened, both;

	(void)state;
	fx_compile("needs", "-Wl,--no-as-needed " LIBS "libjemalloc.so.2", FX_READY_MAIN);
	needed = look("needs", NULL, false);
	assert_string_equal(needed.a->name, "jemalloc");
	both = look("needs", "LD_PRELOAD=" LIBS "libtcmalloc_minimal.so.4", false);
	assert_string_equal(both.a->name, "tcmalloc (gperftools)");
	fx_compile("opens", "",
		   "#include <dlfcn.h>\n#include <unistd.h>\nint main(void) { "
		   "if (!dlopen(\"" LIBS "libtcmalloc_minimal.so.4\", RTLD_NOW)) return 1;"
		   "write(3, \"r\", 1); for (;;) pause(); }\n");
	opened = look("opens", NULL, false);
	assert_string_equal(opened.a->name, "glibc");
	free(needed.sites);
	free(both.sites);
	free(opened.sites);
}

/* The environment can be overwritten, as setproctitle() does: the address tells a preload then. */
static void preload_forgotten(void **state)
{
	struct seen s;

	(void)state;
	fx_compile("forgets", "",
		   "#include <string.h>\n#include <unistd.h>\nextern char **environ;\n"
		   "int main(void) { for (char **e = environ; *e; e++) memset(*e, 'x', "
		   "strlen(*e)); write(3, \"r\", 1); for (;;) pause(); }\n");
	s = look("forgets", "LD_PRELOAD=" LIBS "libjemalloc.so.2", false);
	assert_int_equal(s.err, 0);
	assert_string_equal(s.a->name, "jemalloc");
	free(s.sites);
}

/* Section headers are no part of what runs: the dynamic linker finds symbols without. */
static void without_sections(void **state)
{
	static const struct {
		const char *lib, *name, *malloc;
	} libs[] = {
		{"libjemalloc.so.2", "jemalloc", "mallocx"},
		{"libtcmalloc.so.4", "tcmalloc (gperftools)", "tc_malloc"},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(libs); i++) {
		char command[512], env[192], path[128];
		struct seen s;

		snprintf(command, sizeof(command),
			 "cp -L " LIBS "%s stripped.so && for at in 40:8 58:6; do dd if=/dev/zero "
			 "of=stripped.so bs=1 seek=${at%%:*} count=${at#*:} conv=notrunc "
			 "status=none; done && test $(readelf -h stripped.so | awk '/Number of "
			 "section/ { print $5 }') = 0",
			 libs[i].lib);
		fx_run(command);
		snprintf(env, sizeof(env), "LD_PRELOAD=%s",
			 fx_path(path, sizeof(path), "stripped.so"));
		s = look("plain", env, false);
		assert_int_equal(s.err, 0);
		assert_string_equal(s.a->name, libs[i].name);
		assert_true(has(&s, "malloc"));
		free(s.sites);
	}
}

/* A library that stands before libc and whose symbols cannot be read may be what serves. */
static void hidden_symbols(void **state)
{
	char env[192], path[128];
	struct seen s;

	(void)state;
	fx_compile("hidden.so", "-O1 -shared -fPIC -Wl,--hash-style=gnu",
		   "int fx(void) { return 1; }\n");
	snprintf(env, sizeof(env), "LD_PRELOAD=%s", fx_path(path, sizeof(path), "hidden.so"));
	s = look("plain", env, false);
	assert_int_equal(s.err, 0);
	assert_string_equal(s.a->name, "glibc");
	free(s.sites);
	/* No table by section headers, and the string table's size is not told. */
	fx_run("table=$(readelf -d hidden.so | awk '/ at offset / { sub(\"0x\", \"\", $5); print "
	       "$5 "
	       "}') && "
	       "for at in 40:8 58:6; do dd if=/dev/zero of=hidden.so bs=1 seek=${at%:*} "
	       "count=${at#*:} conv=notrunc status=none; done && python3 -c \"\n"
	       "import struct,sys\n"
	       "d=bytearray(open('hidden.so','rb').read())\n"
	       "at=int('$table',16)\n"
	       "while struct.unpack_from('<q',d,at)[0]!=10: at+=16\n"
	       "struct.pack_into('<q',d,at,0x6ffffeee)\n"
	       "open('hidden.so','wb').write(d)\"");
	s = look("plain", env, false);
	assert_int_equal(s.err, -ENOENT);
}

static void static_program(void **state)
{
	struct seen s;

	(void)state;
	fx_compile("static", "-static -O1",
		   "#include <stdlib.h>\n#include <unistd.h>\nint main(void)"
		   " { free(malloc(9)); write(3, \"r\", 1); for (;;) pause(); }\n");
	s = look("static", NULL, false);
	assert_int_equal(s.err, 0);
	assert_string_equal(s.a->name, "glibc");
	/* The banner that tells the version is not linked in: unknown, not wrong. */
	assert_string_equal(s.version, "");
	assert_true(has(&s, "malloc") && has(&s, "free"));
	free(s.sites);
}

/* An allocator that is built in under a prefix, beside libc's. */
static void prefixed(void **state)
{
	struct seen s;

	(void)state;
	fx_compile("prefixed", "-O1",
		   "#include <unistd.h>\n#define F __attribute__((noinline,used))\n"
		   "F void *je_malloc(long n) { return (void *)n; }\n"
		   "F void je_free(void *p) { *(volatile long *)&p = 1; }\n"
		   "F void *je_mallocx(long n, int f) { return (void *)(n + f); }\n"
		   "F int je_mallctl(void) { return 0; }\n"
		   "int main(void) { write(3, \"r\", 1); for (;;) pause(); }\n");
	s = look("prefixed", NULL, false);
	assert_int_equal(s.err, 0);
	assert_string_equal(s.a->name, "jemalloc");
	assert_string_equal(s.version, "");
	assert_true(has(&s, "je_malloc") && has(&s, "je_free") && has(&s, "je_mallocx"));
	assert_int_equal(s.n, 3);
	free(s.sites);
}

static void unknown(void **state)
{
	struct seen s;

	(void)state;
	fx_compile("own", "-O1 -rdynamic",
		   "#include <unistd.h>\nvoid *malloc(unsigned long n) { return 0; }\n"
		   "int main(void) { write(3, \"r\", 1); for (;;) pause(); }\n");
	s = look("own", NULL, false);
	assert_int_equal(s.err, -ENOENT);
}

static int setup(void **state)
{
	int err = fx_open(state);

	sonde_log_set_level(SONDE_LOG_ERROR);
	if (!err)
		fx_compile("plain", "", FX_READY_MAIN);
	return err;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(glibc),
		cmocka_unit_test(jemalloc),
		cmocka_unit_test(tcmalloc),
		cmocka_unit_test(link_order),
		cmocka_unit_test(preload_forgotten),
		cmocka_unit_test(without_sections),
		cmocka_unit_test(hidden_symbols),
		cmocka_unit_test(static_program),
		cmocka_unit_test(prefixed),
		cmocka_unit_test(unknown),
	};

	return cmocka_run_group_tests(tests, setup, fx_close);
}
