// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Texts that target/ parses, mutated: /proc/PID/maps, stat, status, the socket tables, recipes.
 * Whatever they hold, the parsers return, and what they return is whole.
 */
#include <assert.h>
#include <stdio.h>

#include "core/log.h"
#include "fuzz/fuzz_target.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/recipe.h"

static void on_maps(const char *text)
{
	struct sonde_maps maps;

	if (sonde_maps_parse(text, &maps))
		return;
	for (size_t i = 0; i < maps.n; i++)
		assert(maps.m[i].path && maps.m[i].start < maps.m[i].end);
	sonde_maps_fini(&maps);
}

static void on_stat(const char *text)
{
	struct sonde_proc_stat s;

	if (!sonde_proc_stat_parse(text, &s))
		assert(memchr(s.comm, '\0', sizeof(s.comm)));
}

static void on_status(const char *text)
{
	struct sonde_proc_mem m;

	assert(!sonde_proc_mem_parse(text, &m));
	assert(m.rss >= -1 && m.swap >= -1);
}

static void on_table(const char *file, const char *text)
{
	struct sonde_proc_sock s[3] = {{.fd = 5, .inode = 77}, {.fd = 4, .inode = 77}, {.fd = 3}};

	assert(!sonde_proc_sockets_join(s, 3, file, text));
	assert(s[0].fd == 3 && s[1].fd == 4 && s[2].fd == 5);
	assert(memchr(s[2].path, '\0', sizeof(s[2].path)));
}

static void on_tcp(const char *text)
{
	on_table("tcp", text);
	on_table("tcp6", text);
}

static void on_unix(const char *text)
{
	on_table("unix", text);
}

static void on_recipe(const char *text)
{
	struct sonde_recipe_list list;

	if (sonde_recipe_parse("fuzz", text, &list))
		return;
	for (size_t i = 0; i < list.n; i++)
		assert(list.r[i].title && list.r[i].n);
	sonde_recipe_list_fini(&list);
}

static const struct {
	const char *seed;
	void (*parse)(const char *text);
} kinds[] = {
	{"55d0c0057000-55d0c0280000 r-xp 00057000 fe:01 1234     /usr/bin/searchd\n"
	 "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
	 "7f1000000000-7f1000001000 r-xs 0000a000 00:2f 99   /a \\012z.so (deleted)\n",
	 on_maps},
	{"4711 (a) R (b) S 17 4711 4711 0 -1 4194560 1234 56 7 8 250 125 9 10 20 0 13 0 987654 "
	 "1000 "
	 "10 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0\n",
	 on_stat},
	{"VmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\nRssAnon:\t 512 kB\nVmSwap:\t 0 "
	 "kB\nTHP_enabled:\t1\n",
	 on_status},
	{"   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1 0\n"
	 "   1: 00000000000000000000000001000000:0CEA 00000000000000000000000000000000:0000 0A "
	 "00000000:00000000 00:00000000 00000000 0 0 77 1 0\n",
	 on_tcp},
	{"0000000000000000: 00000002 00000000 00010000 0001 01 77 /run/a socket\n"
	 "0000000000000000: 00000003 00000000 00000000 0001 03 78\n",
	 on_unix},
	{"title One\nbuild-id 0123456789abcdef\nhandler execute\nsymbol _Z1x*\noffset 0x1230\n"
	 "text *(rsi+16)\nhandler log\noffset 9\nindex *rdi\nwall_ms rsi+8\nfound rcx\n"
	 "title Two\nhandler command\nsymbol y\nfind caller x\nprotocol sphinxapi\nsocket =edi\n"
	 "command 3\nversion =rsi\nlength rdx+28\nend return\nhandler yield\nsymbol z\n",
	 on_recipe},
};

int main(int argc, char **argv)
{
	unsigned long n = fuzz_iterations(argc, argv, 60000);

	/* Refusals are logged as errors, hundreds of thousands of them. */
	if (!freopen("/dev/null", "w", stderr))
		return 1;
	for (unsigned long i = 0; i < n; i++) {
		size_t kind = i % (sizeof(kinds) / sizeof(kinds[0]));
		uint8_t buf[1024];
		size_t len = strlen(kinds[kind].seed);

		memcpy(buf, kinds[kind].seed, len);
		len = fuzz_mutate(buf, len, sizeof(buf) - 1);
		buf[len] = '\0';
		kinds[kind].parse((const char *)buf);
	}
	return 0;
}
