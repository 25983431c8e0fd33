// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does to huge pages what allocators and the kernel do, a known number of times.
 *
 *   thpwork KIND COUNT
 *
 * On COUNT x 2 MiB of memory:
 *     purge      huge pages, of each of which 504 of 512 pages are given back by MADV_DONTNEED
 *     refill     the same; then waits until khugepaged has filled them again
 *     collapse   4 KiB pages, all there, made huge by MADV_COLLAPSE; "enabled" must be madvise
 *     ways       COUNT calls of each kind, aligned to 2 MiB and not: see work_ways()
 *     small      COUNT mappings of 64 KiB, unmapped: none can hold a huge page
 *     touch      writes huge pages, after a file of the same size was read: for memory pressure
 *     fragment   4 KiB pages, given back but for one in 16; then writes half as many huge pages
 *     file       reads a file of that size, through the page cache, twice
 *     grow       writes 4 KiB pages: for memory pressure without huge pages
 *     idle       nothing
 *     exec       runs itself again as "collapse COUNT"
 *
 * Prints "ready PID", waits for a line on stdin, works, prints "done NAME=VALUE ..." (KiB of
 * the region that are mapped before, after the purge and at the end; minor faults in between),
 * waits for a line and ends.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HUGE (2ul << 20)
#define PAGE 4096ul
#define KEPT 8 /* pages of a huge page that a purge leaves */

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static size_t count;
static char *memory;
static const char *self;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void advise(char *p, size_t len, int advice, const char *what)
{
	if (madvise(p, len, advice))
		die(what);
}

/* COUNT x 2 MiB, aligned, and none of it touched; 2 MiB more of the mapping on both sides. */
static char *region(int advice)
{
	size_t bytes = count * HUGE;
	char *raw = mmap(NULL, bytes + 3 * HUGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *p;

	if (raw == MAP_FAILED)
		die("mmap");
	p = (char *)(((uintptr_t)raw + 2 * HUGE - 1) & ~(HUGE - 1));
	advise(raw, bytes + 3 * HUGE, advice, "madvise");
	return p;
}

static void touch(char *p, size_t step)
{
	for (size_t i = 0; i < count * HUGE; i += step)
		((volatile char *)p)[i] = 1;
}

static unsigned char *pages; /* what mincore() says of each page of the region */

static void prepare_pages(void)
{
	pages = mmap(NULL, count * (HUGE / PAGE), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (pages == MAP_FAILED)
		die("mmap");
}

/*
 * KiB of the region that are mapped, without a page fault. By a walk of the page tables, for the
 * counters (RssAnon) are exact only since 6.16: before 6.2 each thread keeps up to 64 events to
 * itself (SPLIT_RSS_COUNTING), after it each CPU up to max(32, 2 x CPUs) pages.
 */
static long resident(void)
{
	long n = 0;

	if (mincore(memory, count * HUGE, pages))
		die("mincore");
	for (size_t i = 0; i < count * (HUGE / PAGE); i++)
		n += pages[i] & 1;
	return n * (long)(PAGE / 1024);
}

static long minflt(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

static void prepare_huge(void)
{
	memory = region(MADV_HUGEPAGE);
	touch(memory, PAGE);
	prepare_pages();
}

static void purge_parts(void)
{
	for (size_t i = 0; i < count; i++)
		advise(memory + i * HUGE + KEPT * PAGE, HUGE - KEPT * PAGE, MADV_DONTNEED,
		       "madvise dontneed");
}

static void work_purge(void)
{
	long before = resident();

	purge_parts();
	printf("done before=%ld after=%ld\n", before, resident());
}

/* khugepaged keeps off while the purge is measured. */
static void work_refill(void)
{
	struct timespec nap = {0, 2000000};
	long before = resident(), purged, faults;
	size_t bytes = count * HUGE;

	advise(memory, bytes, MADV_NOHUGEPAGE, "madvise");
	purge_parts();
	purged = resident();
	nanosleep(&nap, NULL);
	faults = minflt();
	advise(memory, bytes, MADV_HUGEPAGE, "madvise");
	for (int i = 0; i < 30000 && resident() < before; i++)
		nanosleep(&nap, NULL);
	faults = minflt() - faults;
	printf("done before=%ld after=%ld end=%ld faults=%ld\n", before, purged, resident(),
	       faults);
}

static void prepare_base(void)
{
	memory = region(MADV_NORMAL);
	touch(memory, PAGE);
}

/* Nobody asked for huge pages here, so khugepaged does not come first; this call ignores that. */
static void work_collapse(void)
{
	int err = madvise(memory, count * HUGE, MADV_COLLAPSE);

	printf("done before=0 err=%d\n", err);
}

static void move_brk(char *to)
{
	if (syscall(SYS_brk, to) != (long)to)
		die("brk");
}

/*
 * COUNT times each. Cut through a huge page: DONTNEED of the middle, FREE of the first half, mremap
 * to the half, munmap of the rest's second half; not cut: DONTNEED of the whole. brk is moved up by
 * 8 MiB, down by 2 MiB and a page, which cuts, and down by the rest, which does not: it starts from
 * a multiple of 2 MiB, else its random place decides whether the heap reaches over the 2 MiB there.
 */
static void work_ways(void)
{
	char *heap = (char *)(((uintptr_t)syscall(SYS_brk, 0) + HUGE - 1) & ~(HUGE - 1));

	move_brk(heap);
	for (size_t i = 0; i < count; i++) {
		char *p = mmap(NULL, 8 * HUGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		char *q = (char *)(((uintptr_t)p + 2 * HUGE - 1) & ~(HUGE - 1));

		if (p == MAP_FAILED)
			die("mmap");
		advise(q, HUGE, MADV_DONTNEED, "dontneed");
		advise(q + HUGE / 4, HUGE / 2, MADV_DONTNEED, "dontneed");
		advise(q, HUGE / 2, MADV_FREE, "free");
		if (munmap(q + HUGE + HUGE / 2, HUGE))
			die("munmap");
		if (mremap(q, HUGE, HUGE / 2, 0) == MAP_FAILED)
			die("mremap");
		move_brk(heap + 4 * HUGE);
		move_brk(heap + 3 * HUGE - PAGE);
		move_brk(heap);
	}
	printf("done before=0\n");
}

static void work_small(void)
{
	for (size_t i = 0; i < count; i++) {
		char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

		if (p == MAP_FAILED || munmap(p, 16 * PAGE))
			die("mmap");
	}
	printf("done before=0\n");
}

static int file_fd;

static void prepare_file(void)
{
	char path[] = "/var/tmp/thpwork.XXXXXX", block[64 * 1024];

	file_fd = mkstemp(path);
	if (file_fd < 0)
		die("mkstemp");
	unlink(path);
	memset(block, 1, sizeof(block));
	for (size_t i = 0; i < count * HUGE; i += sizeof(block))
		if (write(file_fd, block, sizeof(block)) != sizeof(block))
			die("write");
	fsync(file_fd);
	posix_fadvise(file_fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void read_file(void)
{
	static char block[64 * 1024];

	lseek(file_fd, 0, SEEK_SET);
	while (read(file_fd, block, sizeof(block)) > 0)
		;
}

static void work_file(void)
{
	read_file();
	read_file();
	printf("done before=0\n");
}

/* The cgroup is full of the file's pages when the huge pages are charged to it. */
static void prepare_touch(void)
{
	prepare_file();
	read_file();
	memory = region(MADV_HUGEPAGE);
}

static void work_touch(void)
{
	touch(memory, PAGE);
	printf("done before=0\n");
}

static void prepare_grow(void)
{
	memory = region(MADV_NOHUGEPAGE);
}

/* COUNT should be nearly all that is free: what is left in one piece is used up first. */
static void prepare_fragment(void)
{
	char *p = region(MADV_NOHUGEPAGE);

	touch(p, PAGE);
	for (size_t i = 0; i < count * HUGE; i += 16 * PAGE)
		advise(p + i, 15 * PAGE, MADV_DONTNEED, "madvise dontneed");
	count /= 2;
	memory = region(MADV_HUGEPAGE);
}

static void work_idle(void)
{
	printf("done before=0\n");
}

static void work_exec(void)
{
	char number[16];

	snprintf(number, sizeof(number), "%zu", count);
	execl(self, self, "collapse", number, NULL);
	die("exec");
}

static const struct kind {
	const char *name;
	void (*prepare)(void);
	void (*work)(void);
} kinds[] = {
	{"purge", prepare_huge, work_purge},
	{"refill", prepare_huge, work_refill},
	{"collapse", prepare_base, work_collapse},
	{"ways", NULL, work_ways},
	{"small", NULL, work_small},
	{"touch", prepare_touch, work_touch},
	{"file", prepare_file, work_file},
	{"fragment", prepare_fragment, work_touch},
	{"grow", prepare_grow, work_touch},
	{"idle", NULL, work_idle},
	{"exec", NULL, work_exec},
};

static void wait_line(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

int main(int argc, char **argv)
{
	const struct kind *kind = NULL;

	self = argv[0];
	for (size_t i = 0; argc > 2 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(argv[1], kinds[i].name))
			kind = &kinds[i];
	count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	if (!kind || !count) {
		fprintf(stderr, "usage: thpwork KIND COUNT\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 4096);
	if (kind->prepare)
		kind->prepare();
	printf("ready %d\n", getpid());
	wait_line();
	kind->work();
	wait_line();
	return 0;
}
