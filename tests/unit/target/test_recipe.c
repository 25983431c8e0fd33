// SPDX-License-Identifier: GPL-2.0-or-later
/* Recipes: the text, the choice by build-id or by symbol, and those that sonde ships. */
#include "unit/unit.h"

#include <errno.h>

#include "core/log.h"
#include "target/elf.h"
#include "target/recipe.h"
#include "unit/target/fixture.h"

static const char good[] = "# a comment\n"
			   "title  One daemon \t\n"
			   "build-id 0123456789abcdef\n"
			   "\n"
			   "handler execute\n"
			   "  symbol _Z1xv\n"
			   "  offset 0x1230\n"
			   "  text *(rsi+16)\r\n"
			   "handler log\n"
			   "offset 99\n"
			   "index *rdi\n"
			   "wall_ms rsi+8\n"
			   "wall_us rdx+0x10\n"
			   "found rcx\n"
			   "title Another\n"
			   "handler execute\n"
			   "symbol fx*\n"
			   "title A third\n"
			   "handler command\n"
			   "symbol x\n"
			   "find string anything at all\n"
			   "protocol sphinxapi\n"
			   "command 8\n"
			   "version =esi\n"
			   "length =rdx\n"
			   "socket rdi+0x40\n"
			   "end return\n"
			   "handler yield\n"
			   "symbol y\n";

static void assert_field(struct sonde_handler_field f, int arg, int offset, bool deref)
{
	assert_int_equal(f.arg, arg);
	assert_int_equal(f.offset, offset);
	assert_int_equal(f.deref, deref);
}

static void of_command(const struct sonde_handler *h)
{
	assert_int_equal(h->role, SONDE_HANDLER_COMMAND);
	assert_int_equal(h->proto, SONDE_PROTO_SPHINXAPI);
	assert_int_equal(h->end, SONDE_HANDLER_END_RETURN);
	assert_true(h->command.is_constant);
	assert_int_equal(h->command.offset, 8);
	assert_true(h->version.is_value);
	assert_int_equal(h->version.arg, 1);
	assert_true(h->length.is_value);
	assert_int_equal(h->length.arg, 2);
	assert_field(h->socket, 0, 0x40, false);
	assert_int_equal(h->text.offset, -1);
}

static void of_text(void **state)
{
	struct sonde_recipe_list list;
	const struct sonde_handler *h;

	(void)state;
	assert_int_equal(sonde_recipe_parse("good", good, &list), 0);
	assert_int_equal(list.n, 3);
	assert_string_equal(list.r[0].title, "One daemon");
	assert_string_equal(list.r[0].build_id, "0123456789abcdef");
	assert_int_equal(list.r[0].n, 2);
	h = list.r[0].handlers;
	assert_int_equal(h[0].role, SONDE_HANDLER_EXECUTE);
	assert_string_equal(h[0].symbol, "_Z1xv");
	assert_int_equal(h[0].offset, 0x1230);
	assert_field(h[0].text, 1, 16, true);
	assert_int_equal(h[0].index.offset, -1);
	assert_int_equal(h[1].role, SONDE_HANDLER_LOG);
	assert_null(h[1].symbol);
	assert_int_equal(h[1].offset, 99);
	assert_field(h[1].index, 0, 0, true);
	assert_field(h[1].wall_ms, 1, 8, false);
	assert_field(h[1].wall_us, 2, 16, false);
	assert_field(h[1].found, 3, 0, false);
	assert_null(list.r[1].build_id);
	assert_int_equal(list.r[1].handlers[0].proto, SONDE_PROTO_UNKNOWN);
	assert_int_equal(list.r[1].handlers[0].end, SONDE_HANDLER_END_SOCKET);
	of_command(&list.r[2].handlers[0]);
	assert_int_equal(list.r[2].handlers[1].role, SONDE_HANDLER_YIELD);
	sonde_recipe_list_fini(&list);
}

static void junk(void **state)
{
	static const char *const bad[] = {
		"",
		"# nothing\n",
		"handler execute\nsymbol x\n",
		"title x\n",
		"title x\nhandler execute\n",
		"title x\nhandler other\nsymbol y\n",
		"title x\nbuild-id xyz\nhandler log\noffset 1\n",
		"title x\nhandler log\noffset 1\n",
		"title x\nbuild-id 0123456789abcdef\nhandler log\noffset 0\n",
		"title x\nbuild-id 0123456789abcdef\nhandler log\noffset 1x\n",
		"title x\nbuild-id 0123456789abcdef\nbuild-id 0123456789abcdef\n",
		"title x\nhandler log\nsymbol y\nbuild-id 0123456789abcdef\n",
		"title x\nhandler log\nsymbol\n",
		"title x\nhandler log\nsymbol y\nwhatever 1\n",
		"title x\nhandler log\nsymbol y\nfound rax\n",
		"title x\nhandler log\nsymbol y\nfound rsi-8\n",
		"title x\nhandler log\nsymbol y\nfound rsi+\n",
		"title x\nhandler log\nsymbol y\nfound (rsi+8)\n",
		"title x\nhandler log\nsymbol y\nfound *(rsi+8\n",
		"title x\nhandler log\nsymbol y\nfound *\n",
		"title x\nhandler log\nsymbol y\nfound rsi+99999999\n",
		"title x\nhandler log\nsymbol y\ntext =rax\n",
		"title x\nhandler log\nsymbol y\ntext =rdi+8\n",
		"title x\nhandler log\nsymbol y\ncommand 3x\n",
		"title x\nhandler log\nsymbol y\ncommand 99999999\n",
		"title x\nhandler log\nsymbol y\nprotocol smtp\n",
		"title x\nhandler log\nsymbol y\nend soon\n",
		"title x\nend return\nhandler log\nsymbol y\n",
		"title x\nprotocol mysql\nhandler log\nsymbol y\n",
		"title x\nfind string y\nhandler log\nsymbol y\n",
		"text rsi\n",
		"symbol x\n",
	};
	struct sonde_recipe_list list;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(bad); i++)
		assert_int_equal(sonde_recipe_parse("junk", bad[i], &list), -EINVAL);
}

static struct sonde_elf *open_elf(const char *path)
{
	struct sonde_elf *elf = NULL;

	assert_int_equal(sonde_elf_open(&elf, path, ""), 0);
	return elf;
}

static const char program[] =
	"__attribute__((noinline)) int fx_exec_long_name(char *s) { return *s; }\n"
	"__attribute__((noinline)) int fx_log_a(char *s) { return s[1]; }\n"
	"__attribute__((noinline)) int fx_log_b(char *s) { return s[2]; }\n"
	"int main(int c, char **v) { return fx_exec_long_name(v[0]) + fx_log_a(v[0]) + "
	"fx_log_b(v[0]); }\n";

/* Make folder "dir" hold one recipe file, and find with it. */
static int find(const char *text, const char *build_id, struct sonde_elf *elf,
		struct sonde_recipe *out)
{
	char dir[128];

	fx_run("rm -rf dir && mkdir dir");
	fx_write("dir/a.recipe", text);
	fx_write("dir/b.recipe~", "not a recipe\n");
	return sonde_recipe_find(fx_path(dir, sizeof(dir), "dir"), build_id, elf, out);
}

static void by_symbol(void **state)
{
	struct sonde_recipe r;
	struct sonde_elf *elf;
	struct sonde_sym sym;
	char path[128];

	(void)state;
	fx_compile("prog", "-O1 -fcf-protection=none", program);
	elf = open_elf(fx_path(path, sizeof(path), "prog"));
	assert_int_equal(sonde_elf_find(elf, "fx_exec_long_name", &sym), 0);
	assert_int_equal(find("title x\nhandler execute\nsymbol fx_exec_*\ntext rdi\n"
			      "handler log\nsymbol fx_absent\n",
			      "ffff", elf, &r),
			 0);
	assert_int_equal(r.n, 1);
	assert_string_equal(r.title, "x");
	assert_int_equal(r.handlers[0].offset, sym.offset);
	assert_int_equal(r.handlers[0].site.function, sym.offset);
	sonde_recipe_fini(&r);
	/* Two functions begin so: no answer is better than a wrong one. */
	assert_int_equal(find("title x\nhandler log\nsymbol fx_log_*\n", "", elf, &r), -ENOENT);
	/* Offsets of another build are no offsets of this one. */
	assert_int_equal(find("title x\nbuild-id 0123456789abcdef\nhandler log\nsymbol fx_log_a\n"
			      "offset 0x1139\n",
			      "fedcba9876543210", elf, &r),
			 -ENOENT);
	sonde_elf_free(&elf);
}

static void by_build_id(void **state)
{
	char path[128], text[256];
	struct sonde_recipe r;
	struct sonde_elf *elf;
	struct sonde_sym sym;

	(void)state;
	fx_compile("ided", "-O1 -fcf-protection=none -Wl,--build-id=0x00112233445566778899",
		   program);
	elf = open_elf(fx_path(path, sizeof(path), "ided"));
	assert_int_equal(sonde_elf_find(elf, "fx_log_a", &sym), 0);
	sonde_elf_free(&elf);
	fx_run("strip -s ided");
	elf = open_elf(path);
	snprintf(text, sizeof(text),
		 "title by symbol\nhandler log\nsymbol main\n"
		 "title stripped\nbuild-id 00112233445566778899\nhandler log\noffset 0x%lx\n",
		 (unsigned long)sym.offset);
	assert_int_equal(find(text, "00112233445566778899", elf, &r), 0);
	assert_string_equal(r.title, "stripped");
	assert_int_equal(r.handlers[0].site.function, sym.offset);
	sonde_recipe_fini(&r);
	/* An offset into the middle of a function is a mistake that must be told. */
	snprintf(text, sizeof(text),
		 "title x\nbuild-id 00112233445566778899\nhandler log\noffset 0x%lx\n",
		 (unsigned long)sym.offset + 1);
	assert_int_equal(find(text, "00112233445566778899", elf, &r), -EINVAL);
	assert_int_equal(find("title x\n", "00", elf, &r), -EINVAL);
	assert_int_equal(sonde_recipe_find("/nonexistent", "00", elf, &r), -ENOENT);
	sonde_elf_free(&elf);
}

/* Those in recipes/ parse, and the first fits Debian's searchd where it is installed. */
static void shipped(void **state)
{
	static const char searchd[] = "/usr/bin/searchd";
	struct sonde_recipe r;
	struct sonde_elf *elf;
	char id[64];

	(void)state;
	elf = open_elf(access(searchd, R_OK) ? "/proc/self/exe" : searchd);
	sonde_elf_build_id(elf, id, sizeof(id));
	if (strcmp(id, "272029b6651b7dbdbca116df8d6aa3076d0170cd")) {
		assert_int_equal(sonde_recipe_find("recipes", id, elf, &r), -ENOENT);
	} else {
		assert_int_equal(sonde_recipe_find("recipes", id, elf, &r), 0);
		assert_int_equal(r.n, 8);
		assert_int_equal(r.handlers[0].role, SONDE_HANDLER_EXECUTE);
		assert_int_equal(r.handlers[0].site.offset, 0xd5800);
		assert_field(r.handlers[0].text, 1, 0, true);
		/* Moved from a mov to the je behind it, which is emulated. */
		assert_int_equal(r.handlers[7].role, SONDE_HANDLER_LOG);
		assert_int_equal(r.handlers[7].site.function, 0x73320);
		assert_int_equal(r.handlers[7].site.offset, 0x73328);
		assert_int_equal(r.handlers[7].site.kind, SONDE_INSN_EMULATED);
		sonde_recipe_fini(&r);
	}
	sonde_elf_free(&elf);
}

/* A function of that mangled name in a program of its own, and what the shipped recipes make of it.
 */
static void by_pattern(void **state)
{
	static const struct {
		const char *symbol, *title;
		enum sonde_handler_role role;
		enum sonde_proto proto;
		int text; /* register, -1: none */
	} known[] = {
		{"_Z16dispatch_command19enum_server_commandP3THDPcjb",
		 "MariaDB, or MySQL up to 5.6", SONDE_HANDLER_EXECUTE, SONDE_PROTO_MYSQL, 2},
		{"_Z16dispatch_command19enum_server_commandP3THDPcjbb",
		 "MariaDB, or MySQL up to 5.6", SONDE_HANDLER_EXECUTE, SONDE_PROTO_MYSQL, 2},
		{"_Z16dispatch_commandP3THDPK8COM_DATA19enum_server_command", "MySQL 5.7 or later",
		 SONDE_HANDLER_EXECUTE, SONDE_PROTO_MYSQL, 1},
		{"_ZN15ClientSession_c7ExecuteESt4pairIPKciER11RowBuffer_i", "Manticore Search",
		 SONDE_HANDLER_EXECUTE, SONDE_PROTO_MYSQL, 1},
		{"_ZN19HttpRequestParser_c17ProcessClientHttpER16AsyncNetBuffer_c",
		 "Manticore Search", SONDE_HANDLER_COMMAND, SONDE_PROTO_HTTP, -1},
		{"_Z17ExecuteApiCommand16SearchdCommand_etiR13InputBuffer_cR21GenericOutputBuffer_"
		 "c",
		 "Manticore Search", SONDE_HANDLER_COMMAND, SONDE_PROTO_SPHINXAPI, -1},
		{"_ZN16CSphinxqlSession7ExecuteERK10CSphStringR16ISphOutputBufferRhR9ThdDesc_t",
		 "Sphinx 2.2 or 2.3", SONDE_HANDLER_EXECUTE, SONDE_PROTO_MYSQL, 1},
		{"_Z19HandleCommandSearchiiR13InputBuffer_cP9ThdDesc_t", "Sphinx 2.2 or 2.3",
		 SONDE_HANDLER_COMMAND, SONDE_PROTO_SPHINXAPI, 2},
		{"_Z19HandleCommandSearchR16ISphOutputBufferiR13InputBuffer_cR9ThdDesc_t",
		 "Sphinx 2.2 or 2.3", SONDE_HANDLER_COMMAND, SONDE_PROTO_SPHINXAPI, 2},
	};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(known); i++) {
		char path[128], text[512];
		struct sonde_recipe r;
		struct sonde_elf *elf;

		snprintf(text, sizeof(text),
			 "int f(char *s) __asm__(\"%s\");\n"
			 "__attribute__((noinline)) int f(char *s) { return *s; }\n"
			 "int main(int c, char **v) { return f(v[0]); }\n",
			 known[i].symbol);
		fx_compile("named", "-O1 -fcf-protection=none", text);
		elf = open_elf(fx_path(path, sizeof(path), "named"));
		assert_int_equal(sonde_recipe_find("recipes", "ffff", elf, &r), 0);
		assert_string_equal(r.title, known[i].title);
		assert_int_equal(r.n, 1);
		assert_int_equal(r.handlers[0].role, known[i].role);
		assert_int_equal(r.handlers[0].proto, known[i].proto);
		assert_int_equal(r.handlers[0].text.arg, known[i].text);
		sonde_recipe_fini(&r);
		sonde_elf_free(&elf);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_text),   cmocka_unit_test(junk),
		cmocka_unit_test(by_symbol), cmocka_unit_test(by_build_id),
		cmocka_unit_test(shipped),   cmocka_unit_test(by_pattern),
	};

	return cmocka_run_group_tests(tests, fx_open, fx_close);
}
