// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A command under a setting; see run.h. prctl(PR_SET_THP_DISABLE) holds for the whole process and
 * is kept over fork and exec (man PR_SET_THP_DISABLE; tests/e2e/run.bats). What PR_GET says
 * afterwards can only be asked by the process itself: the child leaves it in memory that it shares
 * with us.
 */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "core/err.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/str.h"
#include "lab/library.h"
#include "lab/run.h"
#include "target/elf.h"
#include "target/maps.h"

#ifndef PR_SET_THP_DISABLE
#define PR_SET_THP_DISABLE 41
#define PR_GET_THP_DISABLE 42
#endif
#ifndef PR_THP_DISABLE_EXCEPT_ADVISED
#define PR_THP_DISABLE_EXCEPT_ADVISED (1 << 1)
#endif

/* Allocators by name: sonames in order of preference, and where their own settings go. */
static const struct known {
	const char *name;
	const char *sonames[4];
	const char *package; /* of Debian */
	const char *conf;    /* environment variable, NULL: it has several */
} known[] = {
	{"system", {NULL}, "", "GLIBC_TUNABLES"},
	{"jemalloc", {"libjemalloc.so.2", "libjemalloc.so"}, "libjemalloc2", "MALLOC_CONF"},
	{"tcmalloc",
	 {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4", "libtcmalloc_minimal.so"},
	 "libtcmalloc-minimal4",
	 NULL},
};

static const char *const thp_names[] = {
	[SONDE_RUN_THP_SYSTEM] = "system",
	[SONDE_RUN_THP_OFF] = "off",
	[SONDE_RUN_THP_ADVISED] = "advised",
};

struct sonde_run {
	struct sonde_run_setting set;
	const struct known *known; /* NULL: a path was given */
	char library[PATH_MAX];	   /* "" : none */
	ino_t ino;
	int *thp_disable; /* shared with the child: what PR_GET_THP_DISABLE said, -1 before */
};

static const struct known *find_known(const char *name)
{
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(known); i++)
		if (!strcmp(known[i].name, name))
			return &known[i];
	return NULL;
}

/* It must be something that the dynamic linker can load and that serves malloc. */
static int check_library(struct sonde_run *run, const char *path)
{
	struct sonde_elf *elf = NULL;
	struct stat st;
	bool serves;
	int err;

	if (!realpath(path, run->library))
		return sonde_err(errno, "--alloc: %s: %s", path, strerror(errno));
	if (stat(run->library, &st) || !S_ISREG(st.st_mode))
		return sonde_err(EINVAL, "--alloc: %s is not a file", path);
	if (strpbrk(run->library, " :"))
		return sonde_err(EINVAL,
				 "--alloc: LD_PRELOAD cannot hold the path %s: it has a space or a "
				 "colon",
				 run->library);
	err = sonde_elf_open(&elf, run->library, "");
	if (err)
		return -EINVAL;
	serves = sonde_elf_exports(elf, "malloc") && sonde_elf_exports(elf, "free");
	sonde_elf_free(&elf);
	if (!serves)
		return sonde_err(EINVAL, "--alloc: %s is no allocator: it has no malloc and free",
				 run->library);
	run->ino = st.st_ino;
	return 0;
}

static int find_allocator(struct sonde_run *run, const char *name)
{
	char path[PATH_MAX];

	run->known = find_known(name);
	if (!run->known && !strchr(name, '/'))
		return sonde_err(EINVAL,
				 "--alloc: '%s' is not system, jemalloc, tcmalloc or the path of a "
				 "library (with a /)",
				 name);
	if (!run->known)
		return check_library(run, name);
	if (!run->known->sonames[0])
		return 0;
	for (size_t i = 0; i < SONDE_ARRAY_SIZE(run->known->sonames); i++)
		if (run->known->sonames[i] &&
		    !sonde_library_find(run->known->sonames[i], path, sizeof(path)))
			return check_library(run, path);
	return sonde_err(
		ENOENT, "--alloc: %s is not installed (%s); install %s, or give the library's path",
		name, run->known->sonames[0], run->known->package);
}

static int check_env(const struct sonde_run *run)
{
	const struct sonde_run_setting *set = &run->set;

	for (size_t i = 0; i < set->n_env; i++) {
		const char *equals = strchr(set->env[i], '=');

		if (!equals || equals == set->env[i])
			return sonde_err(EINVAL, "--env: '%s' is not NAME=VALUE", set->env[i]);
		if (sonde_str_starts(set->env[i], "LD_PRELOAD=") && run->library[0])
			return sonde_err(EINVAL, "--env LD_PRELOAD and --alloc are the same "
						 "setting; give one of them");
	}
	if (!set->alloc_conf || (run->known && run->known->conf))
		return 0;
	return sonde_err(EINVAL,
			 "--alloc-conf: %s has no single variable for its settings; give them with "
			 "--env NAME=VALUE",
			 run->known ? run->known->name : "a library given by path");
}

int sonde_run_new(struct sonde_run **out, const struct sonde_run_setting *setting)
{
	struct sonde_run *run = calloc(1, sizeof(*run));
	int err;

	if (!run)
		return -ENOMEM;
	run->set = *setting;
	run->thp_disable =
		mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	err = run->thp_disable == MAP_FAILED ? -errno : 0;
	if (err)
		run->thp_disable = NULL;
	else
		*run->thp_disable = -1;
	err = err ? err : find_allocator(run, setting->alloc ? setting->alloc : "system");
	err = err ? err : check_env(run);
	if (err)
		sonde_run_free(&run);
	else
		*out = run;
	return err;
}

void sonde_run_free(struct sonde_run **run)
{
	if (*run && (*run)->thp_disable)
		munmap((*run)->thp_disable, sizeof(int));
	free(*run);
	*run = NULL;
}

const char *sonde_run_library(const struct sonde_run *run)
{
	return run->library;
}

/* ---- in the child, before its exec ---- */

static int set_thp(struct sonde_run *run)
{
	unsigned long on = run->set.thp != SONDE_RUN_THP_SYSTEM;
	unsigned long flags =
		run->set.thp == SONDE_RUN_THP_ADVISED ? PR_THP_DISABLE_EXCEPT_ADVISED : 0;

	if (!prctl(PR_SET_THP_DISABLE, on, flags, 0ul, 0ul)) {
		*run->thp_disable = prctl(PR_GET_THP_DISABLE, 0ul, 0ul, 0ul, 0ul);
		return 0;
	}
	if (!on)
		return 0; /* a kernel without huge pages: there is nothing to restore */
	if (flags)
		return sonde_err(EOPNOTSUPP,
				 "--thp=advised: this kernel cannot keep huge pages to advised "
				 "memory for one process (%s); Linux 6.18 can",
				 strerror(errno));
	return sonde_err(EOPNOTSUPP, "--thp=off: the kernel refuses it: %s", strerror(errno));
}

/* In front of what is preloaded already, so that it is the one that serves. */
static int set_preload(const struct sonde_run *run)
{
	const char *before = getenv("LD_PRELOAD");
	sonde_autostr struct sonde_str value = {0};
	int err = sonde_str_addf(&value, "%s%s%s", run->library, before && *before ? ":" : "",
				 before ? before : "");

	return err ? err : setenv("LD_PRELOAD", sonde_str_get(&value), 1) ? -errno : 0;
}

static int prepare(void *ctx)
{
	struct sonde_run *run = ctx;
	int err = set_thp(run);

	for (size_t i = 0; i < run->set.n_env && !err; i++)
		err = putenv((char *)run->set.env[i]) ? -errno : 0;
	if (!err && run->set.alloc_conf)
		err = setenv(run->known->conf, run->set.alloc_conf, 1) ? -errno : 0;
	if (!err && run->library[0])
		err = set_preload(run);
	return err;
}

/* ---- in the parent ---- */

static int describe(void *ctx, struct sonde_meta *meta)
{
	const struct sonde_run *run = ctx;
	int err = sonde_meta_set(meta, "run.thp", "%s", thp_names[run->set.thp]);

	if (!err && *run->thp_disable >= 0)
		err = sonde_meta_set(meta, "run.thp_disable", "%d", *run->thp_disable);
	err = err ? err
		  : sonde_meta_set(meta, "run.alloc", "%s",
				   run->set.alloc ? run->set.alloc : "system");
	return err ? err : sonde_meta_set(meta, "run.preload", "%s", run->library);
}

/* Set by the kernel for a program that gains privileges: then the linker ignores LD_PRELOAD. */
static bool is_secure(pid_t pid)
{
	sonde_autofree char *bytes = NULL;
	size_t len;

	if (sonde_read_filef(&bytes, &len, "/proc/%d/auxv", pid))
		return false;
	for (size_t at = 0; at + sizeof(Elf64_auxv_t) <= len; at += sizeof(Elf64_auxv_t)) {
		Elf64_auxv_t v;

		memcpy(&v, bytes + at, sizeof(v));
		if (v.a_type == AT_SECURE)
			return v.a_un.a_val;
	}
	return false;
}

static bool is_static(const struct sonde_modules *mods)
{
	struct sonde_elf *elf = NULL;
	bool yes;

	if (!mods->n || !mods->m[0].is_exe || sonde_elf_open(&elf, mods->m[0].open_path, ""))
		return false;
	yes = sonde_elf_is_static(elf);
	sonde_elf_free(&elf);
	return yes;
}

/* The linker maps what is preloaded before any library that the program needs. */
static int look(const struct sonde_run *run, pid_t pid, const struct sonde_modules *mods)
{
	const char *exe = mods->n ? mods->m[0].path : "?";
	bool linked = false;

	for (size_t i = 0; i < mods->n; i++) {
		const char *base = strrchr(mods->m[i].path, '/');

		if (mods->m[i].inode == run->ino)
			return 0;
		linked |= base && sonde_str_starts(base, "/libc.so");
	}
	if (is_static(mods))
		return sonde_err(EINVAL,
				 "%s is statically linked: no library can be preloaded into it, so "
				 "--alloc has no effect; build it with the allocator",
				 exe);
	if (is_secure(pid))
		return sonde_err(EINVAL,
				 "%s gains privileges at its start, so the dynamic linker ignores "
				 "LD_PRELOAD and --alloc has no effect; start it as its own user",
				 exe);
	if (linked)
		return sonde_err(
			ENOENT,
			"%s runs without %s: LD_PRELOAD did not reach it (was its "
			"environment cleared on the way?) or the linker refused the library",
			exe, run->library);
	return -EAGAIN;
}

static int verify(void *ctx, pid_t pid)
{
	const struct sonde_run *run = ctx;
	struct sonde_modules mods = {0};
	int err;

	if (!run->library[0])
		return 0;
	err = sonde_modules_read(pid, &mods);
	if (err || !mods.n)
		err = -ESRCH; /* a zombie has no mappings */
	else
		err = look(run, pid, &mods);
	sonde_modules_fini(&mods);
	return err;
}

struct sonde_session_start sonde_run_start(struct sonde_run *run)
{
	return (struct sonde_session_start){
		.ctx = run,
		.prepare = prepare,
		.verify = verify,
		.describe = describe,
		.keep = run->set.keep,
	};
}
