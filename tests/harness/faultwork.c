// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Takes a known number of page faults of a known kind.
 *
 *   faultwork KIND COUNT [THREADS]
 *
 * COUNT x 2 MiB a thread. KIND, and the faults for each 2 MiB:
 *     base      512: 4 KiB pages, huge pages forbidden
 *     huge        1: a touch in each 2 MiB, huge pages asked for
 *     mthp       16: of 64 KiB, in a mapping where 2 MiB do not fit; 64 KiB must be enabled
 *     kernel    512: 4 KiB pages that read(2) is the first to touch
 *     cow       512: 4 KiB pages written after fork()
 *     children  512: 4 KiB pages, each 2 MiB in a child of its own that lives as long as we do
 *     populate  512: 4 KiB pages brought in by madvise, without any exception
 *     refused     2: and one refused access that a SIGSEGV handler mends
 *     major       1: a page of a file that is not in the page cache
 *
 * Prints "ready PID", waits for a line on stdin, works (threads are created after that), prints
 * "done faults=N minflt=N majflt=N" (N expected, and what getrusage counted), waits for a line and
 * ends.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE	 (2ul << 20)
#define PAGE	 4096ul
#define PER_HUGE (HUGE / PAGE)

static size_t count;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* COUNT x 2 MiB, aligned to 2 MiB, with no page in it. */
static char *region(int advice)
{
	size_t bytes = count * HUGE;
	char *raw = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *p;

	if (raw == MAP_FAILED)
		die("mmap");
	p = (char *)(((uintptr_t)raw + HUGE - 1) & ~(HUGE - 1));
	if (madvise(p, bytes, advice))
		die("madvise");
	return p;
}

static void touch(char *p, size_t step)
{
	for (size_t i = 0; i < count * HUGE; i += step)
		((volatile char *)p)[i] = 1;
}

static void work_base(void)
{
	touch(region(MADV_NOHUGEPAGE), PAGE);
}

static void work_huge(void)
{
	touch(region(MADV_HUGEPAGE), HUGE);
}

/* The middle 1 MiB of each 2 MiB: no aligned 2 MiB fit in its mapping. */
static void work_mthp(void)
{
	char *p = region(MADV_NOHUGEPAGE);

	for (size_t i = 0; i < count; i++) {
		char *middle = p + i * HUGE + HUGE / 4;

		if (madvise(middle, HUGE / 2, MADV_HUGEPAGE))
			die("madvise");
		for (size_t j = 0; j < HUGE / 2; j += 16 * PAGE)
			((volatile char *)middle)[j] = 1;
	}
}

static void work_kernel(void)
{
	char *p = region(MADV_NOHUGEPAGE);
	int fd = open("/dev/zero", O_RDONLY);

	for (size_t i = 0; i < count * HUGE; i += PAGE)
		if (read(fd, p + i, 1) != 1)
			die("read /dev/zero");
	close(fd);
}

/* The pages are there before the line on stdin; only the writes to the shared copies are counted.
 */
static char *cow_pages;

static void work_cow(void)
{
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child) {
		pause();
		_exit(0);
	}
	touch(cow_pages, PAGE);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void work_children(void)
{
	size_t children = count;
	int done[2], end[2];
	char byte;

	if (pipe(done) || pipe(end))
		die("pipe");
	count = 1;
	for (size_t i = 0; i < children; i++) {
		pid_t child = fork();

		if (child < 0)
			die("fork");
		if (child)
			continue;
		close(end[1]);
		work_base();
		if (write(done[1], "x", 1) != 1 || read(end[0], &byte, 1))
			_exit(1);
		_exit(0);
	}
	for (size_t i = 0; i < children; i++)
		if (read(done[0], &byte, 1) != 1)
			die("read");
	count = children; /* they end with us, who hold the last writer of `end` */
}

static void work_populate(void)
{
	if (madvise(region(MADV_NOHUGEPAGE), count * HUGE, MADV_POPULATE_WRITE))
		die("madvise populate");
}

static void mend(int sig, siginfo_t *info, void *ctx)
{
	(void)sig;
	(void)ctx;
	if (mprotect((void *)((uintptr_t)info->si_addr & ~(PAGE - 1)), PAGE,
		     PROT_READ | PROT_WRITE))
		_exit(1);
}

/* The refused address and the mended one differ, so that each refusal is overtaken by a new fault.
 */
static void work_refused(void)
{
	char *p = region(MADV_NOHUGEPAGE);
	struct sigaction sa = {.sa_sigaction = mend, .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &sa, NULL);
	for (size_t i = 0; i < count; i++)
		((volatile char *)p)[i * HUGE] = 1;
	for (size_t i = 0; i < count; i++) {
		volatile char *page = p + i * HUGE;

		if (mprotect((void *)page, PAGE, PROT_READ))
			die("mprotect");
		page[0] = 2;
		page[PAGE] = 1;
	}
}

static char *file_pages;

static void work_major(void)
{
	volatile char sum = 0;

	for (size_t i = 0; i < count; i++)
		sum = (char)(sum + file_pages[i * HUGE]);
}

static void map_uncached_file(void)
{
	char path[] = "/var/tmp/faultwork.XXXXXX", block[PAGE];
	int fd = mkstemp(path);

	if (fd < 0)
		die("mkstemp");
	unlink(path);
	memset(block, 1, sizeof(block));
	for (size_t i = 0; i < count * PER_HUGE; i++)
		if (write(fd, block, sizeof(block)) != sizeof(block))
			die("write");
	fsync(fd);
	file_pages = mmap(NULL, count * HUGE, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file_pages == MAP_FAILED)
		die("mmap file");
	/* No read-ahead and no neighbours: one page a fault. */
	madvise(file_pages, count * HUGE, MADV_RANDOM);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	close(fd);
}

static void prepare_cow(void)
{
	cow_pages = region(MADV_NOHUGEPAGE);
	touch(cow_pages, PAGE);
}

static const struct kind {
	const char *name;
	void (*prepare)(void);
	void (*work)(void);
	size_t faults; /* for each 2 MiB */
} kinds[] = {
	{"base", NULL, work_base, PER_HUGE},
	{"huge", NULL, work_huge, 1},
	{"mthp", NULL, work_mthp, HUGE / 2 / (16 * PAGE)},
	{"kernel", NULL, work_kernel, PER_HUGE},
	{"cow", prepare_cow, work_cow, PER_HUGE},
	{"children", NULL, work_children, PER_HUGE},
	{"populate", NULL, work_populate, PER_HUGE},
	{"refused", NULL, work_refused, 2},
	{"major", map_uncached_file, work_major, 1},
};

static void *thread_main(void *work)
{
	((void (*)(void))work)();
	return NULL;
}

static void run(void (*work)(void), size_t threads)
{
	pthread_t t[64];

	if (!threads) {
		work();
		return;
	}
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, thread_main, (void *)work))
			die("pthread_create");
	for (size_t i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
}

static void wait_line(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

int main(int argc, char **argv)
{
	const struct kind *kind = NULL;
	struct rusage before, after;
	size_t threads = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;

	for (size_t i = 0; argc > 2 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(argv[1], kinds[i].name))
			kind = &kinds[i];
	count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	if (!kind || !count || threads > 64) {
		fprintf(stderr, "usage: faultwork KIND COUNT [THREADS]\n");
		return 2;
	}
	if (kind->prepare)
		kind->prepare();
	printf("ready %d\n", getpid());
	fflush(stdout);
	wait_line();
	getrusage(RUSAGE_SELF, &before);
	run(kind->work, threads);
	getrusage(RUSAGE_SELF, &after);
	printf("done faults=%zu minflt=%ld majflt=%ld\n",
	       count * kind->faults * (threads ? threads : 1), after.ru_minflt - before.ru_minflt,
	       after.ru_majflt - before.ru_majflt);
	fflush(stdout);
	wait_line();
	return 0;
}
