/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much memory a process has allocated, as sonde publishes it (`sonde stat --publish FILE`): a page that
 * any process, the observed one too, maps once and then reads without a system call.
 *
 *     const struct sonde_consumption_page *page = sonde_consumption_map("/run/kudu.mem");
 *     if (page && sonde_consumption_bytes(page) > limit) ...
 *
 * Plain C99 or C++, nothing to link, no feature macro to define. What is read was written in one
 * piece, whatever becomes of the writer: it fills the slot that is not shown, then shows it, so a
 * writer that is killed leaves the last whole value. Judge it by its age.
 */
#ifndef SONDE_CONSUMPTION_H
#define SONDE_CONSUMPTION_H

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SONDE_CONSUMPTION_MAGIC	  "SONDEMEM"
#define SONDE_CONSUMPTION_VERSION 1u
#define SONDE_CONSUMPTION_SIZE	  4096u

/* Where the value comes from. */
enum {
	SONDE_CONSUMPTION_NONE = 0,	/* not known yet                                              */
	SONDE_CONSUMPTION_CHANGE = 1,	/* every call counted since attach: the change since then     */
	SONDE_CONSUMPTION_EXACT = 2,	/* every call counted, and what was there before is known     */
	SONDE_CONSUMPTION_COUNTERS = 3, /* read from the allocator's own counters                     */
};

struct sonde_consumption {
	int64_t bytes;	   /* allocated and not freed                                                  */
	uint64_t bound;	   /* the true value was within this many bytes; UINT64_MAX: not known         */
	uint64_t taken_ns; /* when it was: CLOCK_MONOTONIC                                             */
	uint32_t source;   /* as above */
	uint32_t ended;	   /* 1: the observation is over, no newer value will come                     */
};

struct sonde_consumption_page {
	char magic[8];
	uint32_t version;
	uint32_t publisher;   /* pid of sonde                                                          */
	uint32_t target;      /* pid of the process, the first of several                              */
	uint32_t pad;
	uint64_t interval_ns; /* a new value comes this often                                          */
	char pad2[32];
	uint64_t shown; /* slot[shown & 1] is whole; each new value adds 1                             */
	char pad3[56];
	struct sonde_consumption slot[2];
};

/* -std=c99, c11 and c17 hide what is POSIX's: O_CLOEXEC, and the clock. */
#ifdef O_CLOEXEC
#define SONDE_CONSUMPTION_OPEN (O_RDONLY | O_CLOEXEC)
#else
#define SONDE_CONSUMPTION_OPEN O_RDONLY
#endif
#ifndef CLOCK_MONOTONIC
#define SONDE_CONSUMPTION_MONOTONIC 1
struct sonde_consumption_time {
	long sec, nsec;
};
extern int sonde_consumption_clock(int clock, struct sonde_consumption_time *now)
	__asm__("clock_gettime");
#endif

/* Map @path, NULL if it is not such a page. A publisher that starts again makes a new file: map again
 * when the value has ended or its age tells that nobody writes any more. */
static inline const struct sonde_consumption_page *sonde_consumption_map(const char *path)
{
	int fd = open(path, SONDE_CONSUMPTION_OPEN);
	const struct sonde_consumption_page *page;
	struct stat st;
	void *p = MAP_FAILED;

#ifndef O_CLOEXEC
	if (fd >= 0)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
#endif
	if (fd >= 0 && !fstat(fd, &st) && st.st_size >= (off_t)SONDE_CONSUMPTION_SIZE)
		p = mmap(NULL, SONDE_CONSUMPTION_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (p == MAP_FAILED)
		return NULL;
	page = (const struct sonde_consumption_page *)p;
	if (!memcmp(page->magic, SONDE_CONSUMPTION_MAGIC, sizeof(page->magic)) &&
	    page->version == SONDE_CONSUMPTION_VERSION)
		return page;
	munmap(p, SONDE_CONSUMPTION_SIZE);
	return NULL;
}

static inline void sonde_consumption_unmap(const struct sonde_consumption_page *page)
{
	munmap((void *)(uintptr_t)page, SONDE_CONSUMPTION_SIZE);
}

/* The value alone: two loads. */
static inline int64_t sonde_consumption_bytes(const struct sonde_consumption_page *page)
{
	uint64_t shown = __atomic_load_n(&page->shown, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&page->slot[shown & 1].bytes, __ATOMIC_RELAXED);
}

/* All of it, in one piece: 1; or 0 when a reader was held up over two writes several times running. */
static inline int sonde_consumption_read(const struct sonde_consumption_page *page,
					 struct sonde_consumption *out)
{
	int tries;

	for (tries = 0; tries < 8; tries++) {
		uint64_t shown = __atomic_load_n(&page->shown, __ATOMIC_ACQUIRE);
		const struct sonde_consumption *slot = &page->slot[shown & 1];

		out->bytes = __atomic_load_n(&slot->bytes, __ATOMIC_RELAXED);
		out->bound = __atomic_load_n(&slot->bound, __ATOMIC_RELAXED);
		out->taken_ns = __atomic_load_n(&slot->taken_ns, __ATOMIC_RELAXED);
		out->source = __atomic_load_n(&slot->source, __ATOMIC_RELAXED);
		out->ended = __atomic_load_n(&slot->ended, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&page->shown, __ATOMIC_RELAXED) == shown)
			return 1;
	}
	return 0;
}

/* Age of a value in ns, by the clock that the kernel maps into every process (no system call). */
static inline uint64_t sonde_consumption_age_ns(const struct sonde_consumption *c)
{
	uint64_t ns;
#ifdef SONDE_CONSUMPTION_MONOTONIC
	struct sonde_consumption_time now;

	sonde_consumption_clock(SONDE_CONSUMPTION_MONOTONIC, &now);
	ns = (uint64_t)now.sec * 1000000000u + (uint64_t)now.nsec;
#else
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
	return ns > c->taken_ns ? ns - c->taken_ns : 0;
}

#endif
