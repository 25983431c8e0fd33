// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which files a scratch process gets, and the talk with the program inside it; see scratch.h. The
 * library and all it needs are preloaded in order from the box's root: every name that one of them
 * needs is then already loaded, so nothing is looked for anywhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/str.h"
#include "target/elf.h"
#include "target/heap/scratch.h"
#include "target/heap/scratch_box.h"

#define THREADS	    "libpthread.so.0"
#define LOADER	    "ld-linux-x86-64.so.2"
#define FILE_MAX    (64u << 20)
#define DAMAGED	    "compare the file with its package (dpkg -V, rpm -V)"
#define LIFETIME_NS (20 * SONDE_NS_PER_SEC)

asm(".section .rodata\n"
    ".balign 16\n"
    "sonde_inside_begin:\n"
    ".incbin \"" SONDE_INSIDE "\"\n"
    "sonde_inside_end:\n"
    ".previous\n");
extern const char sonde_inside_begin[], sonde_inside_end[];

struct sonde_scratch {
	struct sonde_box_child child;
	uint64_t deadline_ns;
	uint32_t states; /* that it said it has; 0: nothing read yet */
	uint32_t next;
	bool waits; /* for our byte */
};

/* What is collected before the start. */
struct plan {
	const struct sonde_modules *mods;
	struct sonde_box box;
	bool *taken; /* by module */
	char preload[8 * SONDE_BOX_FILES + 16];
	char arg[2];
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int open_file(const struct sonde_module *m, char *why, size_t size)
{
	int fd = open(m->open_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		int err = -errno;

		snprintf(why, size, "cannot open %s: %s", SONDE_PLAIN(m->path), strerror(-err));
		if (fd >= 0)
			close(fd);
		return err;
	}
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX) {
		snprintf(why, size, "%s is too large to try out in a scratch process",
			 SONDE_PLAIN(m->path));
		close(fd);
		return -EOPNOTSUPP;
	}
	return fd;
}

static int add_file(struct plan *p, const char *name, const struct sonde_module *m, char *why,
		    size_t size)
{
	struct sonde_box_file *f = &p->box.file[p->box.n];
	int fd;

	if (p->box.n == SONDE_BOX_FILES) {
		snprintf(why, size, "the allocator needs more than %d libraries", SONDE_BOX_FILES);
		return -EOPNOTSUPP;
	}
	fd = open_file(m, why, size);
	if (fd < 0)
		return fd;
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->fd = fd;
	p->box.n++;
	return 0;
}

static ssize_t find_module(const struct plan *p, const char *soname)
{
	for (size_t i = 0; i < p->mods->n; i++) {
		struct sonde_elf *elf = NULL;
		bool same = !strcmp(base_name(p->mods->m[i].path), soname);

		if (!same && !sonde_elf_try(&elf, p->mods->m[i].open_path, ""))
			same = !strcmp(sonde_elf_soname(elf), soname);
		sonde_elf_free(&elf);
		if (same)
			return (ssize_t)i;
	}
	return -1;
}

/* One more file to preload. */
static int preload(struct plan *p, const struct sonde_module *m, char *why, size_t size)
{
	char name[16];
	int err;

	snprintf(name, sizeof(name), "/%zu", p->box.n);
	err = add_file(p, name, m, why, size);
	if (err)
		return err;
	strcat(p->preload, p->preload[strlen(p->preload) - 1] == '=' ? "" : ":");
	strcat(p->preload, name);
	return 0;
}

static int take_library(struct plan *p, size_t i, char *why, size_t size)
{
	if (p->taken[i])
		return 0;
	p->taken[i] = true;
	return preload(p, &p->mods->m[i], why, size);
}

/* The library, and after it, breadth first, what it needs. */
static int take_closure(struct plan *p, size_t lib, char *why, size_t size)
{
	size_t queue[SONDE_BOX_FILES], head = 0, tail = 0;
	int err = take_library(p, lib, why, size);

	queue[tail++] = lib;
	while (!err && head < tail) {
		struct sonde_elf *elf;
		size_t at = queue[head++];

		if (sonde_elf_try(&elf, p->mods->m[at].open_path, ""))
			continue;
		for (const char *const *n = sonde_elf_needed(elf); *n && !err; n++) {
			ssize_t i = strcmp(*n, LOADER) ? find_module(p, *n) : -1;

			if (i < 0 || p->taken[i] || tail == SONDE_BOX_FILES)
				continue;
			err = take_library(p, (size_t)i, why, size);
			queue[tail++] = (size_t)i;
		}
		sonde_elf_free(&elf);
	}
	return err;
}

static bool has_threads(const struct sonde_module *libc)
{
	struct sonde_elf *elf;
	bool has = true;

	if (!sonde_elf_try(&elf, libc->open_path, "")) {
		has = sonde_elf_exports(elf, "pthread_create");
		sonde_elf_free(&elf);
	}
	return has;
}

/*
 * Before 2.34 threads are a library of their own, which a program that makes none does not map:
 * then it is what lies beside its C library.
 */
static int take_threads(struct plan *p, char *why, size_t size)
{
	ssize_t libc = find_module(p, "libc.so.6"), threads = find_module(p, THREADS);
	char path[PATH_MAX];
	struct sonde_module m = {.path = path, .open_path = path};
	const char *beside;

	if (libc < 0 || has_threads(&p->mods->m[libc]))
		return 0;
	if (threads >= 0)
		return take_library(p, (size_t)threads, why, size);
	/* A file that is known by its mapping alone lies beside nothing. */
	beside = p->mods->m[libc].open_path;
	if (strstr(beside, "/map_files/")) {
		snprintf(why, size,
			 "the target's C library makes no threads by itself, and the file "
			 "that it belongs with is gone");
		return -EOPNOTSUPP;
	}
	snprintf(path, sizeof(path), "%.*s/" THREADS, (int)(base_name(beside) - beside - 1),
		 beside);
	return preload(p, &m, why, size);
}

static int make_plan(struct plan *p, size_t lib, char what, char *why, size_t size)
{
	ssize_t loader = find_module(p, LOADER);
	int err;

	if (loader < 0) {
		snprintf(why, size, "the target does not use glibc's dynamic linker");
		return -EOPNOTSUPP;
	}
	err = add_file(p, "/ld.so", &p->mods->m[loader], why, size);
	if (err)
		return err;
	p->taken[loader] = true;
	p->box.file[p->box.n++] = (struct sonde_box_file){
		.name = "/inside",
		.fd = -1,
		.data = sonde_inside_begin,
		.size = (size_t)(sonde_inside_end - sonde_inside_begin),
	};
	strcpy(p->preload, "LD_PRELOAD=");
	err = take_closure(p, lib, why, size);
	if (!err)
		err = take_threads(p, why, size);
	p->arg[0] = what;
	p->box.argv[0] = (char *)"/ld.so";
	p->box.argv[1] = (char *)"/inside";
	p->box.argv[2] = p->arg;
	p->box.envp[0] = p->preload;
	return err;
}

int sonde_scratch_start(struct sonde_scratch **out, pid_t pid, const struct sonde_modules *mods,
			size_t lib, char what, char *why, size_t size)
{
	struct sonde_scratch *s = calloc(1, sizeof(*s));
	struct plan *p = calloc(1, sizeof(*p));
	int err = -ENOMEM;

	(void)pid; /* the modules say by what path they can be opened */
	snprintf(why, size, "out of memory");
	if (p) {
		p->mods = mods;
		p->taken = calloc(mods->n, sizeof(*p->taken));
	}
	if (s && p && p->taken)
		err = make_plan(p, lib, what, why, size);
	if (!err)
		err = sonde_box_start(&p->box, &s->child, why, size);
	for (size_t i = 0; p && i < p->box.n; i++)
		if (p->box.file[i].fd >= 0)
			close(p->box.file[i].fd);
	if (p)
		free(p->taken);
	free(p);
	if (err) {
		free(s);
		return err;
	}
	s->deadline_ns = sonde_mono_ns() + LIFETIME_NS;
	*out = s;
	return 0;
}

pid_t sonde_scratch_pid(const struct sonde_scratch *s)
{
	return s->child.pid;
}

/* It ended or failed: what it said, else how it ended. */
static int explain_end(struct sonde_scratch *s, char *why, size_t size)
{
	char said[256];
	struct pollfd p = {.fd = s->child.err, .events = POLLIN};
	ssize_t n = poll(&p, 1, 100) > 0 ? read(s->child.err, said, sizeof(said) - 1) : 0;
	int status = 0;

	said[n > 0 ? n : 0] = '\0';
	kill(s->child.pid, SIGKILL);
	if (waitpid(s->child.pid, &status, 0) == s->child.pid)
		s->child.pid = 0;
	if (said[0])
		snprintf(why, size, "the scratch process says: %s", SONDE_PLAIN(said));
	else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		snprintf(why, size,
			 "the scratch process was killed: the library used up its %d s of CPU time "
			 "there, or memory was short; %s",
			 SONDE_BOX_CPU_S, DAMAGED);
	else if (WIFSIGNALED(status))
		snprintf(why, size, "the scratch process was ended by signal %d; %s",
			 WTERMSIG(status), DAMAGED);
	else
		snprintf(why, size, "the scratch process ended with status %d",
			 WEXITSTATUS(status));
	/* 126: a step of the box was refused by the system. */
	return WIFEXITED(status) && WEXITSTATUS(status) == 126 ? -EOPNOTSUPP : -EPROTO;
}

/*
 * A descriptor that is readable while a signal that ends us waits to be taken. Nothing takes it
 * here: who blocked it will find it where it waits for it. Where it is not blocked it ends us at
 * once, and the scratch process with us.
 */
static int watch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* 0, -ETIMEDOUT, -ECANCELED: we are told to end, or -errno. */
static int wait_readable(struct sonde_scratch *s)
{
	uint64_t now = sonde_mono_ns();
	sonde_autoclose int end = watch_signals();
	struct pollfd p[] = {{.fd = s->child.out, .events = POLLIN}, {.fd = end, .events = POLLIN}};
	int n;

	if (now >= s->deadline_ns)
		return -ETIMEDOUT;
	do
		n = poll(p, 2, (int)((s->deadline_ns - now) / SONDE_NS_PER_MS) + 1);
	while (n < 0 && errno == EINTR);
	if (n > 0 && p[1].revents)
		return -ECANCELED;
	return n < 0 ? -errno : n ? 0 : -ETIMEDOUT;
}

static int read_report(struct sonde_scratch *s, struct sonde_report *r, char *why, size_t size)
{
	size_t got = 0;

	while (got < sizeof(*r)) {
		int err = wait_readable(s);
		ssize_t n;

		if (err) {
			snprintf(why, size, "%s",
				 err == -ECANCELED
					 ? "told to end while a scratch process was running"
					 : "the scratch process did not answer within 20 s: the "
					   "machine is busy, or the library hangs there; " DAMAGED);
			return err;
		}
		n = read(s->child.out, (char *)r + got, sizeof(*r) - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return explain_end(s, why, size);
		got += (size_t)n;
	}
	return 0;
}

int sonde_scratch_next(struct sonde_scratch *s, struct sonde_report *out, char *why, size_t size)
{
	struct sonde_report r;
	int err;

	if (s->states && s->next == s->states)
		return -ENODATA;
	/* An end that is gone is told by the read below. */
	if (s->waits && send(s->child.in, "g", 1, MSG_NOSIGNAL) < 0 && errno != EPIPE) {
		snprintf(why, size, "cannot talk to the scratch process: %s", strerror(errno));
		return -errno;
	}
	s->waits = false;
	err = read_report(s, &r, why, size);
	if (err)
		return err;
	if (r.magic != SONDE_REPORT_MAGIC || r.state != s->next || r.n > SONDE_REPORT_FIELDS ||
	    r.states > 64 || r.state >= r.states) {
		snprintf(why, size, "the scratch process sent something that is no report");
		return -EPROTO;
	}
	s->states = r.states;
	s->next++;
	s->waits = true;
	*out = r;
	return 0;
}

void sonde_scratch_free(struct sonde_scratch **ref)
{
	struct sonde_scratch *s = *ref;

	*ref = NULL;
	if (!s)
		return;
	if (s->child.pid) {
		kill(s->child.pid, SIGKILL);
		waitpid(s->child.pid, NULL, 0);
	}
	close(s->child.in);
	close(s->child.out);
	close(s->child.err);
	free(s);
}
