// SPDX-License-Identifier: GPL-2.0-or-later
/* Mappings: a recorded text with every oddity of a path, and this very process, whose loader is the
 * witness of what is mapped. */
#include "unit/unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>

#include "target/elf.h"
#include "target/maps.h"
#include "unit/target/fixture.h"

static const char recorded[] =
	"55d0c0000000-55d0c0057000 r--p 00000000 fe:01 1234                       "
	"/usr/bin/searchd\n"
	"55d0c0057000-55d0c0280000 r-xp 00057000 fe:01 1234                       "
	"/usr/bin/searchd\n"
	"55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]\n"
	"7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
	"7f1000000000-7f1000001000 r-xs 0000a000 00:2f 99   /a dir/x (y) \\012z.so (deleted)\n"
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

static void of_text(void **state)
{
	struct sonde_maps maps;

	(void)state;
	assert_int_equal(sonde_maps_parse(recorded, &maps), 0);
	assert_int_equal(maps.n, 6);
	assert_int_equal(maps.m[1].start, 0x55d0c0057000);
	assert_int_equal(maps.m[1].end, 0x55d0c0280000);
	assert_int_equal(maps.m[1].pgoff, 0x57000);
	assert_true(maps.m[1].r && !maps.m[1].w && maps.m[1].x && !maps.m[1].shared);
	assert_int_equal(maps.m[1].dev_major, 0xfe);
	assert_int_equal(maps.m[1].dev_minor, 1);
	assert_int_equal(maps.m[1].inode, 1234);
	assert_string_equal(maps.m[1].path, "/usr/bin/searchd");
	assert_string_equal(maps.m[2].path, "[heap]");
	assert_string_equal(maps.m[3].path, "");
	assert_true(maps.m[4].shared && maps.m[4].x);
	assert_string_equal(maps.m[4].path, "/a dir/x (y) \nz.so (deleted)");
	assert_int_equal(maps.m[5].start, 0xffffffffff600000);
	sonde_maps_fini(&maps);
	assert_int_equal(sonde_maps_parse("", &maps), 0);
	assert_int_equal(maps.n, 0);
}

static void junk(void **state)
{
	static const char *const bad[] = {
		"x",
		"1000",
		"1000-",
		"2000-1000 r--p 0 0:0 0\n",
		"1000-2000 r--p 0 0:0 \n",
		"1000-2000 r--q 0 0:0 0\n",
		"1000-2000 r--p 0 00 0\n",
		"11111111111111111-2 r--p 0 0:0 0\n",
		"1000-2000 r--p -1 0:0 0\n",
		"\n",
	};
	struct sonde_maps maps;

	(void)state;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(bad); i++)
		assert_int_equal(sonde_maps_parse(bad[i], &maps), -EINVAL);
}

static const struct sonde_module *find(const struct sonde_modules *mods, const char *part)
{
	for (size_t i = 0; i < mods->n; i++)
		if (strstr(mods->m[i].path, part))
			return &mods->m[i];
	return NULL;
}

static int count_mapped(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	/* The vdso is a module to the loader, but no file. */
	if (strncmp(info->dlpi_name, "linux-vdso", 10))
		(*(size_t *)ctx)++;
	return 0;
}

static void of_self(void **state)
{
	struct sonde_modules mods;
	size_t mapped = 0;
	uintptr_t here = (uintptr_t)(void *)of_self;

	(void)state;
	assert_int_equal(sonde_modules_read(getpid(), &mods), 0);
	dl_iterate_phdr(count_mapped, &mapped);
	assert_int_equal(mods.n, mapped);
	assert_true(mods.m[0].is_exe);
	assert_non_null(strstr(mods.m[0].path, "test_maps"));
	assert_true(mods.m[0].text_start <= here && here < mods.m[0].text_end);
	assert_true(mods.m[0].base <= mods.m[0].text_start);
	for (size_t i = 0; i < mods.n; i++) {
		assert_int_equal(mods.m[i].is_exe, i == 0);
		assert_int_equal(access(mods.m[i].open_path, R_OK), 0);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(mods.m[i].inode, mods.m[k].inode);
	}
	assert_non_null(find(&mods, "libc.so.6"));
	sonde_modules_fini(&mods);
	assert_int_equal(sonde_modules_read(0x7ffffff0, &mods), -ESRCH);
}

/* Deleted, and replaced by another file of that name: the old one is what runs, and what is opened.
 */
static void deleted(void **state)
{
	const struct sonde_module *m;
	struct sonde_modules mods;
	struct sonde_elf *elf;
	struct sonde_sym sym;
	char path[128];
	void *lib;

	(void)state;
	if (geteuid()) {
		print_message("# SKIP map_files needs CAP_SYS_ADMIN\n");
		skip();
	}
	fx_compile("gone.so", "-shared -fPIC -O1", "int fx_first(void) { return 1; }\n");
	lib = dlopen(fx_path(path, sizeof(path), "gone.so"), RTLD_NOW);
	assert_non_null(lib);
	fx_run("rm gone.so");
	fx_compile("gone.so", "-shared -fPIC -O1", "int fx_second(void) { return 2; }\n");
	assert_int_equal(sonde_modules_read(getpid(), &mods), 0);
	m = find(&mods, "gone.so");
	assert_non_null(m);
	assert_true(m->deleted);
	assert_int_equal(sonde_elf_open(&elf, m->open_path, ""), 0);
	assert_int_equal(sonde_elf_find(elf, "fx_first", &sym), 0);
	assert_int_equal(sonde_elf_find(elf, "fx_second", &sym), -ENOENT);
	sonde_elf_free(&elf);
	sonde_modules_fini(&mods);
	dlclose(lib);
}

/* A program in a mount namespace of its own: its path means nothing here, its inode does. */
static void other_namespace(void **state)
{
	char command[512], path[128];
	struct sonde_modules mods;
	struct sonde_elf *elf;
	int ready[2];
	pid_t pid;
	char c;

	(void)state;
	if (geteuid()) {
		print_message("# SKIP a mount namespace needs CAP_SYS_ADMIN\n");
		skip();
	}
	fx_compile("inside", "", FX_READY_MAIN);
	snprintf(command, sizeof(command),
		 "mkdir mnt && exec unshare -m sh -c 'mount -t tmpfs none mnt && cp inside mnt/ && "
		 "exec mnt/inside'");
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ready[1], 3);
		if (chdir(fx_dir))
			_exit(1);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	assert_int_equal(access(fx_path(path, sizeof(path), "mnt/inside"), F_OK), -1);
	assert_int_equal(sonde_modules_read(pid, &mods), 0);
	assert_string_equal(mods.m[0].path, path);
	assert_false(mods.m[0].deleted);
	assert_int_equal(sonde_elf_open(&elf, mods.m[0].open_path, ""), 0);
	sonde_elf_free(&elf);
	sonde_modules_fini(&mods);
	fx_stop(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_text),	   cmocka_unit_test(junk),
		cmocka_unit_test(of_self),	   cmocka_unit_test(deleted),
		cmocka_unit_test(other_namespace),
	};

	return cmocka_run_group_tests(tests, fx_open, fx_close);
}
