// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory cgroups of both versions: where they are, and what their files say. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/unit.h"
/* cmocka first */
#include "core/mem.h"
#include "target/memcg.h"

static void assert_found(const char *cgroup, const char *mounts, int version, const char *path)
{
	struct sonde_memcg_dir d;

	assert_int_equal(sonde_memcg_find_in(cgroup, mounts, &d), 0);
	assert_int_equal(d.version, version);
	assert_string_equal(d.path, path);
}

#define V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1                                                                                         \
	"34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                        \
	"35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"

static void test_find(void **state)
{
	struct sonde_memcg_dir d;

	(void)state;
	assert_found("0::/system.slice/searchd.service\n", V2, 2,
		     "/sys/fs/cgroup/system.slice/searchd.service");
	assert_found("4:memory:/a\n3:cpuset:/\n0::/\n", V1 V2, 1, "/sys/fs/cgroup/memory/a");
	/* Version 1 has the controller, whatever the order. */
	assert_found("0::/b\n4:cpu,memory:/a\n", V2 V1, 1, "/sys/fs/cgroup/memory/a");
	/* "memory" as a part of another name is not it. */
	assert_found("5:name=memory:/x\n6:memoryx:/y\n0::/b\n", V1 V2, 2, "/sys/fs/cgroup/b");
	/* A container sees its own part of the tree. */
	assert_found("0::/docker/1/db\n",
		     "30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n", 2,
		     "/sys/fs/cgroup/db");
	assert_int_equal(sonde_memcg_find_in("0::/docker/12\n",
					     "30 23 0:26 /docker/1 /cg rw - cgroup2 cgroup rw\n",
					     &d),
			 -ENOENT);
	assert_int_equal(sonde_memcg_find_in("4:memory:/a\n", V2, &d), -ENOENT);
	assert_int_equal(sonde_memcg_find_in("", V2, &d), -ENOENT);
	assert_int_equal(sonde_memcg_find_in("nonsense\n:\n::\n", V2, &d), -ENOENT);
}

static char dir[64];

static void put(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/sonde-memcg-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static struct sonde_memcg read_it(int version)
{
	struct sonde_memcg_dir d = {.version = version};
	struct sonde_memcg m;

	snprintf(d.path, sizeof(d.path), "%s", dir);
	assert_int_equal(sonde_memcg_read(&d, &m), 0);
	return m;
}

static void test_version_2(void **state)
{
	struct sonde_memcg m;

	(void)state;
	put("memory.current", "104857600\n");
	put("memory.max", "max\n");
	put("cgroup.procs", "71\n");
	put("memory.stat", "anon 41943040\nfile 10485760\nkernel 2097152\nkernel_stack 32768\n"
			   "anon_thp 20971520\n");
	m = read_it(2);
	assert_int_equal(m.usage, 100 << 20);
	assert_int_equal(m.limit, -1);
	assert_int_equal(m.anon, 40 << 20);
	assert_int_equal(m.anon_huge, 20 << 20);
	assert_int_equal(m.procs, 1);
	assert_false(m.has_children);
	assert_int_equal(sonde_memcg_outside(&m), (100 - 40 - 10 - 2) << 20);
	/* Before 5.18 nothing says how much the kernel itself uses: no difference is made up. */
	put("memory.stat", "anon 41943040\nfile 10485760\n");
	m = read_it(2);
	assert_int_equal(m.kernel, -1);
	assert_int_equal(sonde_memcg_outside(&m), -1);
}

static void test_version_1(void **state)
{
	struct sonde_memcg m;

	(void)state;
	put("memory.usage_in_bytes", "8388608\n");
	put("memory.limit_in_bytes", "16777216\n");
	put("memory.kmem.usage_in_bytes", "1048576\n");
	put("cgroup.procs", "71\n72\n");
	put("memory.stat", "cache 1\nrss 2\nrss_huge 3\ntotal_cache 4194304\n"
			   "total_rss 5242880\ntotal_rss_huge 2097152\n");
	m = read_it(1);
	assert_int_equal(m.limit, 16 << 20);
	assert_int_equal(m.anon, 5 << 20);
	assert_int_equal(m.file, 4 << 20);
	assert_int_equal(m.procs, 2);
	/* The statistics lag: more than the charge is not less than nothing. */
	assert_int_equal(sonde_memcg_outside(&m), 0);
	/* What version 1 says where there is no limit. */
	put("memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(read_it(1).limit, -1);
}

static void test_root(void **state)
{
	struct sonde_memcg_dir d = {.path = "/nonexistent", .version = 2};
	struct sonde_memcg m = {.usage = 5};

	(void)state;
	assert_int_equal(sonde_memcg_read(&d, &m), -ENODATA);
	assert_int_equal(m.usage, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test_setup_teardown(test_version_2, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(test_version_1, make_dir, remove_dir),
		cmocka_unit_test(test_root),
	};

	return cmocka_run_group_tests_name("memcg", tests, NULL, NULL);
}
