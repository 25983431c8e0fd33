// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Texts behind the memory ledger, mutated: smaps, a thread's syscall, mountinfo, cgroup. Whatever
 * they hold, the parsers return, every mapping gets a kind, and names fit their buffers.
 */
#include <assert.h>
#include <stdio.h>

#include "fuzz/fuzz_target.h"
#include "target/mapkind.h"
#include "target/memcg.h"
#include "target/smaps.h"

static const uint64_t addresses[] = {0x7f0000020000, 0x7f0004001000};

static void on_smaps(const char *text, size_t len)
{
	struct sonde_mapkind_hints h = {
		.glibc_malloc = fuzz_below(2), .sp = addresses, .n_sp = fuzz_below(3)};
	enum sonde_map_kind *kinds;
	struct sonde_smaps s;
	char buf[24];

	if (sonde_smaps_parse(text, len, &s))
		return;
	kinds = malloc((s.n + 1) * sizeof(*kinds));
	assert(kinds);
	sonde_mapkind(&s, &h, kinds);
	for (size_t i = 0; i < s.n; i++) {
		assert((unsigned)kinds[i] < SONDE_MAP__MAX && s.m[i].rss < 1ull << 62);
		sonde_map_label(&s.m[i].map, kinds[i], buf, sizeof(buf));
		assert(memchr(buf, '\0', sizeof(buf)));
		sonde_path_ext(s.m[i].map.path, buf, sizeof(buf));
		assert(buf[0] == '.' || !strcmp(buf, "(none)"));
	}
	free(kinds);
	sonde_smaps_fini(&s);
}

static void on_syscall(const char *text, size_t len)
{
	uint64_t sp = 7;

	(void)len;
	if (sonde_stack_pointer_parse(text, &sp))
		assert(sp == 7);
}

static void on_mountinfo(const char *text, size_t len)
{
	struct sonde_memcg_dir d;
	uint64_t *dev = NULL;
	size_t n = 0;

	(void)len;
	assert(!sonde_shmem_devices_parse(text, &dev, &n));
	for (size_t i = 1; i < n; i++)
		assert(dev[i - 1] <= dev[i]);
	free(dev);
	if (!sonde_memcg_find_in("4:memory:/a/b\n0::/c\n", text, &d))
		assert(memchr(d.path, '\0', sizeof(d.path)));
}

static void on_cgroup(const char *text, size_t len)
{
	struct sonde_memcg_dir d;

	(void)len;
	if (!sonde_memcg_find_in(text,
				 "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n"
				 "35 31 0:32 /a /m rw - cgroup cgroup rw,memory\n",
				 &d))
		assert(d.version == 1 || d.version == 2);
}

static const struct {
	const char *seed;
	void (*parse)(const char *text, size_t len);
} kinds_of_text[] = {
	{"55a000001000-55a000002000 r-xp 00001000 fe:00 9 /usr/bin/x.so.1\nRss: 4 kB\n"
	 "55a000002000-55a000003000 rw-p 00001000 fe:00 9 /usr/bin/x.so.1 (deleted)\n"
	 "55a000003000-55a000004000 rw-p 00000000 00:00 0 \nAnonymous: 4 kB\nSwap: 8 kB\n"
	 "7f000001f000-7f0000020000 ---p 00000000 00:00 0 \n"
	 "7f0000020000-7f0000820000 rw-p 00000000 00:00 0 \nVmFlags: rd wr nh\n"
	 "7f0004000000-7f0004021000 rw-p 00000000 00:00 0 \n"
	 "7f0004021000-7f0008000000 ---p 00000000 00:00 0 \n"
	 "7f0009000000-7f0009001000 rw-s 00000000 00:01 5 /memfd:a (deleted)\n",
	 on_smaps},
	{"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffe20 0x7f02\n", on_syscall},
	{"-1 0x7ffe20 0x7f02\n", on_syscall},
	{"22 27 0:25 / /dev/shm rw shared:4 - tmpfs tmpfs rw\n"
	 "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n"
	 "35 31 0:32 /a /m rw - cgroup cgroup rw,memory\n",
	 on_mountinfo},
	{"9:name=systemd:/\n4:cpu,memory:/a/b\n0::/c\n", on_cgroup},
};

int main(int argc, char **argv)
{
	unsigned long n = fuzz_iterations(argc, argv, 60000);

	for (unsigned long i = 0; i < n; i++) {
		size_t kind = i % (sizeof(kinds_of_text) / sizeof(kinds_of_text[0]));
		size_t len = strlen(kinds_of_text[kind].seed);
		uint8_t buf[1536];

		memcpy(buf, kinds_of_text[kind].seed, len);
		len = fuzz_mutate(buf, len, sizeof(buf) - 1);
		buf[len] = '\0';
		kinds_of_text[kind].parse((const char *)buf, len);
	}
	return 0;
}
