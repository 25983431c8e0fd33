// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Takes a known number of page faults of a known kind.
 *
 *   faultwork KIND COUNT [THREADS]
 *
 * COUNT x 2 MiB a thread. KIND, and the faults for each 2 MiB:
 *     base       512: 4 KiB pages, huge pages forbidden
 *     huge         1: a touch in each 2 MiB, huge pages asked for
 *     mthpN        1 MiB / N KiB: of N KiB, in a mapping where 2 MiB do not fit; N must be enabled
 *     kernel     512: 4 KiB pages that read(2) is the first to touch
 *     zero       512: reads of pages that were never written
 *     hugezero     1: a read in each 2 MiB, huge pages asked for
 *     zerowrite  512: writes to pages that were read before
 *     cow        512: 4 KiB pages written after fork(), while the child lives
 *     inplace    512: the same when the child is gone
 *     shmem      512: pages of shared anonymous memory
 *     file         1: a read of a file that is in the page cache
 *     filecopy   512: writes to a private mapping of such a file
 *     major        1: a page of a file that is not in the page cache
 *     swap       512: pages that were paged out; there must be swap
 *     hugetlb      1: pages of the hugetlb pool, which must have them
 *     stack      512: threads' stacks of COUNT x 2 MiB, of which the lowest 64 KiB and what is in
 *                     use already are left out; give THREADS
 *     children   512: 4 KiB pages, each 2 MiB in a child of its own that lives as long as we do
 *     populate   512: 4 KiB pages brought in by madvise, without any exception
 *     reuse      512: 4 KiB pages of a mapping that then goes; into the hole come 8 threads'
 * stacks, of which 64 pages each are touched beside refused      2: and one refused access that a
 * SIGSEGV handler mends
 *
 * Prints "ready PID", waits for a line on stdin, works (threads are created after that), prints
 * "done faults=N minflt=N majflt=N ns=N p50=N" (N expected, what getrusage counted, the sum and the
 * middle of what the touches took by this program's own clock), waits for a line and ends.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
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

/* What each touch took by this program's own clock, less what reading the clock takes. */
static uint64_t *touches;
static size_t n_touches;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t clock_ns(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 1000; i++) {
		uint64_t begin = now_ns(), took = now_ns() - begin;

		least = took < least ? took : least;
	}
	return least;
}

static void touch(char *p, size_t step)
{
	uint64_t clock = clock_ns();

	for (size_t i = 0; i < count * HUGE; i += step) {
		uint64_t begin = now_ns(), took;

		((volatile char *)p)[i] = 1;
		took = now_ns() - begin;
		touches[__atomic_fetch_add(&n_touches, 1, __ATOMIC_RELAXED)] =
			took > clock ? took - clock : 0;
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print_touches(void)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n_touches; i++)
		sum += touches[i];
	if (n_touches)
		qsort(touches, n_touches, sizeof(*touches), compare);
	printf(" ns=%llu p50=%llu", (unsigned long long)sum,
	       (unsigned long long)(n_touches ? touches[n_touches / 2] : 0));
}

static void look(const char *p, size_t step)
{
	volatile char sum = 0;

	for (size_t i = 0; i < count * HUGE; i += step)
		sum = (char)(sum + ((const volatile char *)p)[i]);
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
static size_t folio_bytes;

static void work_mthp(void)
{
	char *p = region(MADV_NOHUGEPAGE);

	for (size_t i = 0; i < count; i++) {
		char *middle = p + i * HUGE + HUGE / 4;

		/* 1 MiB lies at a multiple of its size. */
		if (folio_bytes > HUGE / 4)
			middle = p + i * HUGE + HUGE / 2;
		if (madvise(middle, HUGE / 2, MADV_HUGEPAGE))
			die("madvise");
		for (size_t j = 0; j < HUGE / 2; j += folio_bytes)
			((volatile char *)middle)[j] = 1;
	}
}

static void work_zero(void)
{
	look(region(MADV_NOHUGEPAGE), PAGE);
}

static void work_hugezero(void)
{
	look(region(MADV_HUGEPAGE), HUGE);
}

static char *prepared;

static void prepare_zero(void)
{
	prepared = region(MADV_NOHUGEPAGE);
	look(prepared, PAGE);
}

static void prepare_touched(void)
{
	prepared = region(MADV_NOHUGEPAGE);
	touch(prepared, PAGE);
}

static void work_prepared(void)
{
	touch(prepared, PAGE);
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
static void work_cow(void)
{
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child) {
		pause();
		_exit(0);
	}
	touch(prepared, PAGE);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void work_inplace(void)
{
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	touch(prepared, PAGE);
}

static void work_shmem(void)
{
	char *p =
		mmap(NULL, count * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap shared");
	madvise(p, count * HUGE, MADV_NOHUGEPAGE);
	touch(p, PAGE);
}

static void work_swap(void)
{
	if (madvise(prepared, count * HUGE, MADV_PAGEOUT))
		die("madvise pageout");
	touch(prepared, PAGE);
}

static void work_hugetlb(void)
{
	char *p = mmap(NULL, count * HUGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (p == MAP_FAILED)
		die("mmap hugetlb");
	touch(p, HUGE);
}

/* From here down to 64 KiB above the end: what lies above was used to get here. */
static void work_stack(void)
{
	volatile char *here =
		(volatile char *)((uintptr_t)__builtin_frame_address(0) & ~(PAGE - 1));
	size_t pages = (count * HUGE - 128 * 1024) / PAGE;

	for (size_t i = 1; i < pages; i++)
		here[-(ptrdiff_t)(i * PAGE)] = 1;
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

enum { REUSERS = 8, REUSED_PAGES = 64 };

static void *reuse_main(void *unused)
{
	char space[REUSED_PAGES * PAGE];
	volatile char *pages = space;

	for (size_t i = 0; i < REUSED_PAGES; i++)
		pages[i * PAGE] = 1;
	return unused;
}

static void work_reuse(void)
{
	size_t bytes = count * HUGE;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	pthread_attr_t attr;
	pthread_t t[REUSERS];

	if (p == MAP_FAILED || madvise(p, bytes, MADV_NOHUGEPAGE))
		die("mmap");
	for (size_t i = 0; i < bytes; i += PAGE)
		p[i] = 1;
	munmap(p, bytes);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, bytes / REUSERS / 2);
	for (size_t i = 0; i < REUSERS; i++)
		if (pthread_create(&t[i], &attr, reuse_main, NULL))
			die("pthread_create");
	for (size_t i = 0; i < REUSERS; i++)
		pthread_join(t[i], NULL);
	pthread_attr_destroy(&attr);
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

static int file_fd;

/* COUNT x 2 MiB that are in the page cache. */
static void prepare_file(void)
{
	char path[] = "/var/tmp/faultwork.XXXXXX", block[PAGE];

	file_fd = mkstemp(path);
	if (file_fd < 0)
		die("mkstemp");
	unlink(path);
	memset(block, 1, sizeof(block));
	for (size_t i = 0; i < count * PER_HUGE; i++)
		if (write(file_fd, block, sizeof(block)) != sizeof(block))
			die("write");
	fsync(file_fd);
	prepared = mmap(NULL, count * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file_fd, 0);
	if (prepared == MAP_FAILED)
		die("mmap file");
	madvise(prepared, count * HUGE, MADV_RANDOM);
}

/* No read-ahead and no neighbours: one page a fault. */
static void prepare_major(void)
{
	prepare_file();
	posix_fadvise(file_fd, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(file_fd, 0, 0, POSIX_FADV_RANDOM);
}

static void work_file(void)
{
	look(prepared, HUGE);
}

static const struct kind {
	const char *name;
	void (*prepare)(void);
	void (*work)(void);
	size_t faults; /* for each 2 MiB */
} kinds[] = {
	{"base", NULL, work_base, PER_HUGE},
	{"huge", NULL, work_huge, 1},
	{"kernel", NULL, work_kernel, PER_HUGE},
	{"zero", NULL, work_zero, PER_HUGE},
	{"hugezero", NULL, work_hugezero, 1},
	{"zerowrite", prepare_zero, work_prepared, PER_HUGE},
	{"cow", prepare_touched, work_cow, PER_HUGE},
	{"inplace", prepare_touched, work_inplace, PER_HUGE},
	{"shmem", NULL, work_shmem, PER_HUGE},
	{"file", prepare_file, work_file, 1},
	{"filecopy", prepare_file, work_prepared, PER_HUGE},
	{"major", prepare_major, work_file, 1},
	{"swap", prepare_touched, work_swap, PER_HUGE},
	{"hugetlb", NULL, work_hugetlb, 1},
	{"stack", NULL, work_stack, PER_HUGE},
	{"children", NULL, work_children, PER_HUGE},
	{"populate", NULL, work_populate, PER_HUGE},
	{"reuse", NULL, work_reuse, PER_HUGE},
	{"refused", NULL, work_refused, 2},
};

static void *thread_main(void *work)
{
	((void (*)(void))work)();
	return NULL;
}

static void run(void (*work)(void), size_t threads)
{
	pthread_attr_t attr;
	pthread_t t[64];

	if (!threads) {
		work();
		return;
	}
	pthread_attr_init(&attr);
	if (work == work_stack && pthread_attr_setstacksize(&attr, count * HUGE))
		die("pthread_attr_setstacksize");
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&t[i], &attr, thread_main, (void *)work))
			die("pthread_create");
	for (size_t i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	pthread_attr_destroy(&attr);
}

static const struct kind *find_kind(const char *name)
{
	static struct kind mthp;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(name, kinds[i].name))
			return &kinds[i];
	if (strncmp(name, "mthp", 4))
		return NULL;
	folio_bytes = strtoul(name + 4, NULL, 10) * 1024;
	if (folio_bytes < PAGE || folio_bytes > HUGE / 2)
		return NULL;
	mthp = (struct kind){name, NULL, work_mthp, HUGE / 2 / folio_bytes};
	return &mthp;
}

static void wait_line(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

int main(int argc, char **argv)
{
	const struct kind *kind = argc > 2 ? find_kind(argv[1]) : NULL;
	struct rusage before, after;
	size_t threads = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;

	count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	if (!kind || !count || threads > 64) {
		fprintf(stderr, "usage: faultwork KIND COUNT [THREADS]\n");
		return 2;
	}
	touches = malloc(count * PER_HUGE * (threads ? threads : 1) * sizeof(*touches));
	if (!touches)
		die("malloc");
	memset(touches, 1, count * PER_HUGE * (threads ? threads : 1) * sizeof(*touches));
	if (kind->prepare)
		kind->prepare();
	printf("ready %d\n", getpid());
	fflush(stdout);
	wait_line();
	n_touches = 0;
	getrusage(RUSAGE_SELF, &before);
	run(kind->work, threads);
	getrusage(RUSAGE_SELF, &after);
	printf("done faults=%zu minflt=%ld majflt=%ld",
	       count * kind->faults * (threads ? threads : 1), after.ru_minflt - before.ru_minflt,
	       after.ru_majflt - before.ru_majflt);
	print_touches();
	printf("\n");
	fflush(stdout);
	wait_line();
	return 0;
}
