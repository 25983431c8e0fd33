// SPDX-License-Identifier: GPL-2.0-or-later
/* Recorded and odd texts of /proc/PID/smaps, whose memory a mapping is, and names for people. */
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/mem.h"
#include "target/mapkind.h"
#include "target/mchunk.h"
#include "target/smaps.h"

#define PARSE(text, out) sonde_smaps_parse((text), strlen(text), (out))

static void test_rows(void **state)
{
	static const char text[] =
		"55a75a379000-55a75a37b000 r--p 00000000 fe:00 247134       /usr/bin/a b:c d\n"
		"Size:                  8 kB\nKernelPageSize:        4 kB\nRss:      8 kB\n"
		"Pss:                   2 kB\nAnonymous:             4 kB\nLazyFree:   0 kB\n"
		"THPeligible:           0\nProtectionKey:         0\nVmFlags: rd mr mw me \n"
		"7f0000000000-7f0040000000 rw-p 00000000 00:00 0 \n"
		"Rss:             1048576 kB\nAnonymous:       1048576 kB\n"
		"LazyFree:           2048 kB\nAnonHugePages:    614400 kB\n"
		"Shared_Hugetlb:        8 kB\nPrivate_Hugetlb:      16 kB\n"
		"Swap:                 12 kB\nVmFlags: rd wr nh hg ht gd lo\n";
	struct sonde_smaps s;

	(void)state;
	assert_int_equal(PARSE(text, &s), 0);
	assert_int_equal(s.n, 2);
	assert_string_equal(s.m[0].map.path, "/usr/bin/a b:c d");
	assert_int_equal(s.m[0].rss, 8192);
	assert_int_equal(s.m[0].anonymous, 4096);
	assert_int_equal(s.m[0].flags, 0);
	assert_int_equal(s.m[1].rss, 1ull << 30);
	assert_int_equal(s.m[1].lazyfree, 2 << 20);
	assert_int_equal(s.m[1].anon_huge, 600ull << 20);
	assert_int_equal(s.m[1].hugetlb, 24 << 10);
	assert_int_equal(s.m[1].swap, 12 << 10);
	assert_int_equal(s.m[1].flags, SONDE_SMAP_NOHUGE | SONDE_SMAP_HUGETLB |
					       SONDE_SMAP_GROWSDOWN | SONDE_SMAP_LOCKED);
	sonde_smaps_fini(&s);
}

static void test_odd(void **state)
{
#define MAP "1000-2000 rw-p 00000000 00:00 0 \n"
	static const char *const bad[] = {
		"Rss: 4 kB\n",				 /* of no mapping        */
		MAP "Rss: kB\n",			 /* no number            */
		MAP "Rss: 4\n",				 /* no unit              */
		MAP "Rss: -4 kB\n",			 /* below 0              */
		MAP "Rss: 99999999999999999999999 kB\n", /* above 2^64           */
		MAP "Rss: 9007199254740992 kB\n",	 /* bytes above 2^62     */
		"2000-1000 rw-p 00000000 00:00 0 \n",	 /* ends before it begins */
		"nonsense\n",
	};
	static const char *const good[] = {
		"",
		MAP,
		MAP "NewRow: whatever\nRssX: no number\n",
		MAP "VmFlags:\n",
		MAP "Rss: 4 kB", /* cut off */
	};
	struct sonde_smaps s = {.n = 77};

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(bad); i++) {
		if (PARSE(bad[i], &s) != -EINVAL)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(s.n, 77);
	}
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(good); i++) {
		if (PARSE(good[i], &s))
			fail_msg("refused: %s", good[i]);
		sonde_smaps_fini(&s);
	}
	/* A NUL inside is not what the kernel writes. */
	assert_int_equal(sonde_smaps_parse("1000-2000 rw-p\0\n", 16, &s), -EINVAL);
}

/* As many mappings as a process may have by default (vm.max_map_count). */
static void test_many(void **state)
{
	enum { N = 65530 };
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	struct sonde_smaps s;
	uint64_t sum = 0;

	(void)state;
	for (uint64_t i = 0; i < N; i++)
		fprintf(f,
			"%" PRIx64 "-%" PRIx64 " rw-s 00000000 fe:00 %" PRIu64 "  /index/%" PRIu64
			".spd\n"
			"Rss: %" PRIu64 " kB\nAnonymous: 0 kB\nVmFlags: rd wr sh\n",
			0x10000 + i * 8192, 0x10000 + i * 8192 + 4096, i + 1, i, (i % 2) * 4);
	fclose(f);
	assert_int_equal(sonde_smaps_parse(text, len, &s), 0);
	assert_int_equal(s.n, N);
	for (size_t i = 0; i < s.n; i++)
		sum += s.m[i].rss;
	assert_int_equal(sum, N / 2 * 4096);
	sonde_smaps_fini(&s);
	free(text);
}

/* Kinds of @text's mappings as a string of one letter each. */
static void assert_kinds(const char *text, const struct sonde_mapkind_hints *h, const char *want)
{
	static const char letters[] = "halLmsdSMVtf";
	enum sonde_map_kind kinds[64];
	char got[65] = "";
	struct sonde_smaps s;

	assert_int_equal(PARSE(text, &s), 0);
	assert_true(s.n < 64);
	sonde_mapkind(&s, h, kinds);
	for (size_t i = 0; i < s.n; i++)
		got[i] = letters[kinds[i]];
	assert_string_equal(got, want);
	sonde_smaps_fini(&s);
}

static void test_names_decide(void **state)
{
	static const uint64_t tmpfs[] = {0x19};
	struct sonde_mapkind_hints h = {.glibc_malloc = true, .shmem_dev = tmpfs, .n_shmem_dev = 1};

	(void)state;
	assert_kinds("55a000000000-55a000021000 rw-p 00000000 00:00 0 [heap]\n"
		     "7f0000001000-7f0000002000 rw-s 00000000 00:01 5 /dev/zero (deleted)\n"
		     "7f0000003000-7f0000004000 rw-s 00000000 00:01 6 /memfd:x (deleted)\n"
		     "7f0000005000-7f0000006000 rw-s 00000000 00:01 7 /SYSV0000beef (deleted)\n"
		     "7f0000007000-7f0000008000 rw-s 00000000 00:19 8 /dev/shm/a\n"
		     "7f0000009000-7f000000a000 r--s 00000000 fe:00 9 /index/docs.spd\n"
		     "7f000000b000-7f000000c000 rw-p 00000000 00:00 0 [anon:jemalloc_pg]\n"
		     "7f000000d000-7f000000e000 rw-p 00000000 00:00 0 [anon:tcmalloc_region_N]\n"
		     "7f000000f000-7f0000010000 rw-p 00000000 00:00 0 [anon:mine]\n"
		     "7f0000011000-7f0000012000 rw-p 00000000 00:00 0 [anon: glibc: malloc]\n"
		     "7f0000013000-7f0000014000 rw-s 00000000 00:01 3 [anon_shmem:pool]\n"
		     "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n"
		     "7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0 [vdso]\n",
		     &h, "hSMVtfllmlSsm");
}

static void test_arena_shapes(void **state)
{
	struct sonde_mapkind_hints glibc = {.glibc_malloc = true}, other = {0};
	/* 7f00_0400_0000 is a multiple of 64 MiB. */
	static const char fresh[] = "7f0004000000-7f0004021000 rw-p 00000000 00:00 0 \n"
				    "7f0004021000-7f0008000000 ---p 00000000 00:00 0 \n";
	static const char merged[] = "7f0004000000-7f0008021000 rw-p 00000000 00:00 0 \n"
				     "7f0008021000-7f000c000000 ---p 00000000 00:00 0 \n";
	static const char from_below[] = "7f0003800000-7f0004021000 rw-p 00000000 00:00 0 \n"
					 "7f0004021000-7f0008001000 ---p 00000000 00:00 0 \n";
	static const char full[] = "7f0004000000-7f0008000000 rw-p 00000000 00:00 0 \n";
	static const char cut[] = "7f0004000000-7f0004021000 rw-p 00000000 00:00 0 \n"
				  "7f0004021000-7f0004022000 ---p 00000000 00:00 0 \n";
	static const char gap[] = "7f0004000000-7f0004021000 rw-p 00000000 00:00 0 \n"
				  "7f0004022000-7f0008000000 ---p 00000000 00:00 0 \n";
	static const char unaligned[] = "7f0004001000-7f0008000000 rw-p 00000000 00:00 0 \n";

	(void)state;
	assert_kinds(fresh, &glibc, "am");
	assert_kinds(fresh, &other, "mm");
	assert_kinds(merged, &glibc, "am");
	assert_kinds(from_below, &glibc, "am");
	assert_kinds(full, &glibc, "a");
	assert_kinds(cut, &glibc, "mm");
	assert_kinds(gap, &glibc, "mm");
	assert_kinds(unaligned, &glibc, "m");
}

static void test_stack_shapes(void **state)
{
	static const uint64_t sp[] = {0x7f00107ff000, 0x7f0030000800};
	struct sonde_mapkind_hints h = {.sp = sp, .n_sp = 2}, none = {0};
	/* Two of 8 MiB with guards, only the first waited on; the program's own big buffer that a
	 * thread's stack pointer is in; a buffer with nothing about it. */
	static const char text[] = "7f000ffff000-7f0010000000 ---p 00000000 00:00 0 \n"
				   "7f0010000000-7f0010800000 rw-p 00000000 00:00 0 \n"
				   "7f001ffff000-7f0020000000 ---p 00000000 00:00 0 \n"
				   "7f0020000000-7f0020800000 rw-p 00000000 00:00 0 \n"
				   "7f0030000000-7f0070000000 rw-p 00000000 00:00 0 \n"
				   "7f0080000000-7f0080800000 rw-p 00000000 00:00 0 \n";
	static const char flagged[] = "7f000ffff000-7f0010000000 ---p 00000000 00:00 0 \n"
				      "VmFlags: mr mw me nh\n"
				      "7f0010000000-7f0010800000 rw-p 00000000 00:00 0 \n"
				      "VmFlags: rd wr mr mw me nh\n";

	(void)state;
	assert_kinds(text, &h, "msmsmm");
	assert_kinds(text, &none, "mmmmmm");
	assert_kinds(flagged, &none, "ms");
}

static void test_bss(void **state)
{
	struct sonde_mapkind_hints h = {0};

	(void)state;
	assert_kinds("55a000000000-55a000001000 r-xp 00000000 fe:00 9 /usr/bin/x\n"
		     "55a000001000-55a000002000 rw-p 00001000 fe:00 9 /usr/bin/x\n"
		     "55a000002000-55a000003000 rw-p 00000000 00:00 0 \n"
		     "55a000003000-55a000004000 ---p 00000000 00:00 0 \n",
		     &h, "ffdm");
	/* Above a file that is no program it is there by chance. */
	assert_kinds("55a000001000-55a000002000 rw-p 00001000 fe:00 9 /index/docs.spp\n"
		     "55a000002000-55a000003000 rw-p 00000000 00:00 0 \n",
		     &h, "fm");
}

static void test_labels(void **state)
{
	static const struct {
		const char *path, *ext;
	} exts[] = {
		{"/x/docs.spd", ".spd"},    {"/x/docs.0.spp (deleted)", ".spp"},
		{"/lib/libc.so.6", ".so"},  {"/lib/libm.so", ".so"},
		{"/x.d/searchd", "(none)"}, {"/x/.hidden", "(none)"},
		{"/x/end.", "(none)"},	    {"/x/a.verylongextension", "(none)"},
		{"/x/a.sold", ".sold"},	    {"", "(none)"},
		{" (deleted)", "(none)"},
	};
	struct sonde_map m = {.path = (char *)"/memfd:pool (deleted)"};
	char buf[64];

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(exts); i++)
		assert_string_equal(sonde_path_ext(exts[i].path, buf, sizeof(buf)), exts[i].ext);
	assert_string_equal(sonde_map_label(&m, SONDE_MAP_MEMFD, buf, sizeof(buf)), "memfd:pool");
	m.path = (char *)"/dev/zero (deleted)";
	assert_string_equal(sonde_map_label(&m, SONDE_MAP_SHARED, buf, sizeof(buf)), "anonymous");
	m.path = (char *)"/SYSV0000beef (deleted)";
	assert_string_equal(sonde_map_label(&m, SONDE_MAP_SYSV, buf, sizeof(buf)), "SYSV0000beef");
}

static void test_hint_texts(void **state)
{
	uint64_t *dev = NULL, sp = 0;
	size_t n = 0;

	(void)state;
	assert_int_equal(sonde_stack_pointer_parse("running\n", &sp), -EAGAIN);
	assert_int_equal(sonde_stack_pointer_parse("-1 0x7ffd10 0x7f01\n", &sp), 0);
	assert_int_equal(sp, 0x7ffd10);
	assert_int_equal(
		sonde_stack_pointer_parse("202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffe20 0x7f02\n", &sp), 0);
	assert_int_equal(sp, 0x7ffe20);
	assert_int_equal(sonde_stack_pointer_parse("202 0x1\n", &sp), -EINVAL);
	assert_int_equal(
		sonde_shmem_devices_parse("22 27 0:25 / /dev/shm rw shared:4 - tmpfs tmpfs rw\n"
					  "23 27 254:0 / / rw - ext4 /dev/vda rw\nnonsense\n"
					  "24 27 0:6 / /dev rw master:1 - devtmpfs udev rw\n",
					  &dev, &n),
		0);
	assert_int_equal(n, 2);
	assert_int_equal(dev[0], 6);
	assert_int_equal(dev[1], 25);
	free(dev);
}

static const struct sonde_smap *find(const struct sonde_smaps *s, const void *at)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->m[i].map.start <= (uintptr_t)at && (uintptr_t)at < s->m[i].map.end)
			return &s->m[i];
	fail();
	return NULL;
}

/* The real file of this very process. */
static void test_live(void **state)
{
	size_t bytes = 1 << 20;
	char *mine = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct sonde_smaps s;
	uint64_t took = 0;

	(void)state;
	memset(mine, 1, bytes);
	assert_int_equal(sonde_smaps_read(getpid(), &s, &took), 0);
	assert_true(took > 0);
	assert_int_equal(find(&s, mine)->rss, bytes);
	assert_int_equal(find(&s, mine)->anonymous, 0);
	sonde_smaps_fini(&s);
	munmap(mine, bytes);
	assert_int_equal(sonde_smaps_read(1 << 22, &s, NULL), -ESRCH);
}

/* malloc's own mappings are told from the program's by what malloc wrote. */
static void test_big_chunks(void **state)
{
#ifdef __SANITIZE_ADDRESS__
	(void)state;
	skip(); /* malloc is the sanitizer's */
#else
	size_t bytes = 40 << 20; /* above the highest threshold */
	char *chunk = malloc(bytes);
	char *direct =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t begin = (uintptr_t)chunk - 16;
	struct sonde_mchunk c;

	(void)state;
	*(volatile char *)chunk = 1;
	*(volatile char *)direct = 1;
	assert_int_equal(sonde_mchunk_init(&c, getpid()), 0);
	assert_int_equal(sonde_mchunk_covered(&c, begin, begin + bytes + 4096), bytes + 4096);
	/* It does not end within what is asked about: it is no chunk of that mapping. */
	assert_int_equal(sonde_mchunk_covered(&c, begin, begin + bytes), 0);
	assert_int_equal(sonde_mchunk_covered(&c, (uintptr_t)direct, (uintptr_t)direct + bytes), 0);
	c.left = 0;
	assert_int_equal(sonde_mchunk_covered(&c, begin, begin + bytes + 4096), 0);
	sonde_mchunk_fini(&c);
	munmap(direct, bytes);
	free(chunk);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),	     cmocka_unit_test(test_odd),
		cmocka_unit_test(test_many),	     cmocka_unit_test(test_names_decide),
		cmocka_unit_test(test_arena_shapes), cmocka_unit_test(test_stack_shapes),
		cmocka_unit_test(test_bss),	     cmocka_unit_test(test_labels),
		cmocka_unit_test(test_hint_texts),   cmocka_unit_test(test_live),
		cmocka_unit_test(test_big_chunks),
	};

	return cmocka_run_group_tests_name("smaps", tests, NULL, NULL);
}
