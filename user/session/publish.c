// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A page of one value for other processes to map; see publish.h. The file is made under another
 * name and filled before it gets its own: whoever finds it finds it whole. Its own name is given by
 * link(), which never replaces anything; only a page that a dead publisher left is replaced, by
 * rename(), which acts on the name and follows no link.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/random.h>

#include "core/bus.h"
#include "core/err.h"
#include "core/mem.h"
#include "session/publish.h"

#define DEAD_NS 5000000000ull /* without a new value */

_Static_assert(sizeof(struct sonde_consumption_page) <= SONDE_CONSUMPTION_SIZE, "one page");
_Static_assert(offsetof(struct sonde_consumption_page, shown) == 64, "a cache line of its own");
_Static_assert(offsetof(struct sonde_consumption_page, slot) == 128, "both slots in one");
_Static_assert(sizeof(struct sonde_consumption) == 32, "both slots in one");

struct sonde_publisher {
	char *path;
	struct sonde_consumption_page *page;
	dev_t dev;
	ino_t inode;
	int fd;
};

/* Its process is there and has written lately: a number alone may be another process's by now. */
static bool is_alive(const struct sonde_consumption_page *head)
{
	const struct sonde_consumption *last = &head->slot[head->shown & 1];

	return head->publisher && !kill((pid_t)head->publisher, 0) &&
	       sonde_consumption_age_ns(last) < DEAD_NS + 2 * head->interval_ns;
}

/* What is at @path now: 0 nothing; 1 a page whose publisher is gone; -errno for what must stay. */
static int look_at(const char *path)
{
	struct sonde_consumption_page head;
	sonde_autoclose int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return errno == ELOOP ? sonde_err(EEXIST,
						  "--publish %s: is a symbolic link; remove it or "
						  "choose another name",
						  path)
				      : sonde_err(errno, "--publish %s: %s", path, strerror(errno));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    read(fd, &head, sizeof(head)) != sizeof(head) ||
	    memcmp(head.magic, SONDE_CONSUMPTION_MAGIC, sizeof(head.magic)))
		return sonde_err(
			EEXIST,
			"--publish %s: exists and is no page of sonde's; remove it or choose "
			"another name",
			path);
	if (is_alive(&head))
		return sonde_err(EEXIST,
				 "--publish %s: pid %u publishes there; choose another name", path,
				 head.publisher);
	return 1;
}

/* A new file beside @path, of one page that has its blocks: a full disk must not show as SIGBUS. */
static int make_file(const char *path, char *name, size_t size)
{
	uint64_t random = 0;
	int fd, err;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	if ((size_t)snprintf(name, size, "%s.%016llx", path, (unsigned long long)random) >= size)
		return -ENAMETOOLONG;
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = posix_fallocate(fd, 0, SONDE_CONSUMPTION_SIZE);
	if (err) {
		unlink(name);
		close(fd);
		return -err;
	}
	return fd;
}

static int fill(struct sonde_publisher *p, int fd, uint64_t interval_ns, pid_t target,
		const struct sonde_consumption *first)
{
	struct stat st;
	void *m = mmap(NULL, SONDE_CONSUMPTION_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (m == MAP_FAILED)
		return -errno;
	p->page = m;
	*p->page = (struct sonde_consumption_page){
		.version = SONDE_CONSUMPTION_VERSION,
		.publisher = (uint32_t)getpid(),
		.target = (uint32_t)target,
		.interval_ns = interval_ns,
		.slot = {*first, *first},
	};
	memcpy(p->page->magic, SONDE_CONSUMPTION_MAGIC, sizeof(p->page->magic));
	if (fchmod(fd, 0644) || fstat(fd, &st))
		return -errno;
	p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (p->fd < 0)
		return -errno;
	p->dev = st.st_dev;
	p->inode = st.st_ino;
	return 0;
}

static void drop(struct sonde_publisher **p)
{
	if ((*p)->page)
		munmap((*p)->page, SONDE_CONSUMPTION_SIZE);
	if ((*p)->fd >= 0)
		close((*p)->fd);
	free((*p)->path);
	free(*p);
	*p = NULL;
}

static int make(struct sonde_publisher *p, bool replace, uint64_t interval_ns, pid_t target,
		const struct sonde_consumption *first)
{
	char name[PATH_MAX];
	sonde_autoclose int fd = make_file(p->path, name, sizeof(name));
	int err = fd < 0 ? fd : fill(p, fd, interval_ns, target, first);

	if (fd >= 0 && !err && (replace ? rename(name, p->path) : link(name, p->path)))
		err = -errno;
	if (fd >= 0 && (err || !replace))
		unlink(name);
	return err ? sonde_err(err, "--publish %s: cannot make it: %s", p->path, strerror(-err))
		   : 0;
}

int sonde_publisher_open(struct sonde_publisher **out, const char *path, uint64_t interval_ns,
			 pid_t target, const struct sonde_consumption *first)
{
	struct sonde_publisher *p;
	int found = look_at(path), err;

	if (found < 0)
		return found;
	p = calloc(1, sizeof(*p));
	if (p) {
		p->fd = -1;
		p->path = strdup(path);
	}
	if (!p || !p->path) {
		free(p);
		return sonde_err(ENOMEM, "--publish: no memory");
	}
	sonde_bus_survive(); /* whoever may write the file may cut it off */
	err = make(p, found == 1, interval_ns, target, first);
	if (err) {
		drop(&p);
		return err;
	}
	*out = p;
	return 0;
}

void sonde_publisher_write(struct sonde_publisher *p, const struct sonde_consumption *value)
{
	uint64_t next = p->page->shown + 1; /* nobody else writes */
	struct sonde_consumption *slot = &p->page->slot[next & 1];

	/* A reader that is still in this slot must see that `shown` moved on before it sees a
	 * field. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&slot->bytes, value->bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->bound, value->bound, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->taken_ns, value->taken_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->source, value->source, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->ended, value->ended, __ATOMIC_RELAXED);
	__atomic_store_n(&p->page->shown, next, __ATOMIC_RELEASE);
}

static bool has_name(const struct sonde_publisher *p)
{
	struct stat st;

	return !lstat(p->path, &st) && st.st_dev == p->dev && st.st_ino == p->inode;
}

const char *sonde_publisher_damage(const struct sonde_publisher *p)
{
	struct stat st;

	if (!has_name(p))
		return "was removed, renamed or replaced";
	if (!fstat(p->fd, &st) && st.st_size < (off_t)SONDE_CONSUMPTION_SIZE)
		return "was cut off";
	return NULL;
}

void sonde_publisher_close(struct sonde_publisher **pp)
{
	struct sonde_publisher *p = *pp;
	struct sonde_consumption last;

	if (!p)
		return;
	last = p->page->slot[p->page->shown & 1];
	last.ended = 1;
	sonde_publisher_write(p, &last);
	__atomic_store_n(&p->page->publisher, 0, __ATOMIC_RELAXED);
	if (has_name(p))
		unlink(p->path);
	drop(pp);
}
