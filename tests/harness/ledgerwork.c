// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Takes known amounts of memory of every kind that the memory ledger tells apart.
 *
 *   ledgerwork DIR      DIR is on a disk; /dev/shm is used too
 *
 * Prints "ready PID", waits for a line on stdin, takes, prints "done KIND=BYTES..." (what it took
 * of each kind, whole pages), waits for a line, makes 8 huge pages and gives back 504 of 512 pages
 * of each, prints "purged gone=BYTES huge=N", waits for a line and ends.
 *
 * Amounts of malloc are those asked for: what it adds is below a page a request, and what it keeps
 * for itself is there before "ready".
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <unistd.h>

#define MIB	    (1ul << 20)
#define PAGE	    4096ul
#define HUGE	    (2 * MIB)
#define HUGE_PAGES  8
#define KEEP	    8 /* pages of each huge page that stay */
#define THREADS	    4
#define STACK_BYTES (256ul << 10)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static sem_t touched, leave;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *check(void *p, const char *what)
{
	if (p == MAP_FAILED || !p)
		die(what);
	return p;
}

/* Written to: in RSS. */
static void *fill(void *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		((volatile char *)p)[i] = 1;
	return p;
}

/* Between two pages without rights: it merges with no neighbour. */
static char *private_bytes(size_t bytes)
{
	char *p = check(mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			"mmap");

	if (mprotect(p + PAGE, bytes, PROT_READ | PROT_WRITE))
		die("mprotect");
	return p + PAGE;
}

static void wait_line(void)
{
	char line[16];

	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static void *arena_thread(void *arg)
{
	fill(check(malloc((size_t)arg), "malloc"), (size_t)arg);
	sem_post(&touched);
	sem_wait(&leave);
	return NULL;
}

static void *stack_thread(void *arg)
{
	char on_stack[STACK_BYTES];

	(void)arg;
	fill(on_stack, sizeof(on_stack));
	on_stack[sizeof(on_stack) - 1] = 1;
	sem_post(&touched);
	sem_wait(&leave);
	return on_stack[0] ? NULL : NULL;
}

static void start(void *(*run)(void *), void *arg)
{
	pthread_t t;

	if (pthread_create(&t, NULL, run, arg))
		die("pthread_create");
	sem_wait(&touched);
}

static void take_shm(size_t sysv, size_t mem)
{
	int id = shmget(IPC_PRIVATE, sysv, IPC_CREAT | 0600);
	int fd = memfd_create("ledger pool", MFD_CLOEXEC);

	if (id < 0 || fd < 0 || ftruncate(fd, (off_t)mem))
		die("shared memory");
	fill(check(shmat(id, NULL, 0), "shmat"), sysv);
	shmctl(id, IPC_RMID, NULL);
	fill(check(mmap(NULL, mem, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), "mmap"), mem);
}

/* A file of that size; half of @copied bytes of a private mapping of it are written to. */
static void take_file(const char *dir, const char *name, size_t bytes, size_t copied)
{
	char path[512], page[PAGE] = {1};
	volatile char sum = 0;
	char *p;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (size_t i = 0; i < bytes; i += PAGE)
		if (fd < 0 || write(fd, page, PAGE) != (ssize_t)PAGE)
			die(path);
	p = check(
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, copied ? MAP_PRIVATE : MAP_SHARED, fd, 0),
		"mmap");
	for (size_t i = 0; i < bytes; i += PAGE)
		sum = (char)(sum + p[i]);
	fill(p, copied);
}

/* MADV_FREE marks pages in batches of this CPU; any munmap completes its batch. */
static void take_lazyfree(size_t bytes)
{
	char *p = fill(private_bytes(bytes), bytes);
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	if (madvise(p, bytes, MADV_FREE))
		die("madvise");
	munmap(private_bytes(PAGE), PAGE);
}

static void take(const char *dir)
{
	enum { HEAP = 6, ARENA = 5, LARGE = 40, MMAP = 12, LAZY = 3, LOCKED = 2 };
	enum { SHARED = 7, MEMFD = 4, SYSV = 2, TMPFS = 3, SPD = 9, SPP = 1, COPIED = 1 };

	fill(check(malloc(HEAP * MIB), "malloc"), HEAP * MIB);
	fill(check(malloc(LARGE * MIB), "malloc"), LARGE * MIB + PAGE - 16);
	start(arena_thread, (void *)(ARENA * MIB));
	for (int i = 0; i < THREADS; i++)
		start(stack_thread, NULL);
	fill(private_bytes(MMAP * MIB), MMAP * MIB);
	take_lazyfree(LAZY * MIB);
	if (mlock(private_bytes(LOCKED * MIB), LOCKED * MIB))
		die("mlock");
	fill(check(mmap(NULL, SHARED * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			0),
		   "mmap"),
	     SHARED * MIB);
	take_shm(SYSV * MIB, MEMFD * MIB);
	take_file(dir, "docs.spd", SPD * MIB, 0);
	take_file(dir, "docs.0.spp", SPP * MIB, COPIED * MIB / 2);
	take_file("/dev/shm", "ledgerwork.tmp", TMPFS * MIB, 0);
	unlink("/dev/shm/ledgerwork.tmp");
	printf("done heap=%lu arenas=%lu large=%lu mapped=%lu stacks=%lu lazyfree=%lu locked=%lu "
	       "shared=%lu sysv=%lu memfd=%lu tmpfs=%lu spd=%lu spp=%lu data=%lu\n",
	       HEAP * MIB, ARENA * MIB, LARGE * MIB + PAGE, (MMAP + LAZY + LOCKED) * MIB,
	       THREADS * STACK_BYTES, LAZY * MIB, LOCKED * MIB, SHARED * MIB, SYSV * MIB,
	       MEMFD * MIB, TMPFS * MIB, SPD * MIB, SPP * MIB - COPIED * MIB / 2, COPIED * MIB / 2);
}

/* How many of the 8 became huge: none where huge pages are forbidden. */
static size_t purge(void)
{
	char *raw = private_bytes((HUGE_PAGES + 2) * HUGE);
	char *p = (char *)(((uintptr_t)raw + HUGE) & ~(HUGE - 1));
	size_t huge = 0;

	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	madvise(p, HUGE_PAGES * HUGE, MADV_HUGEPAGE);
	for (size_t i = 0; i < HUGE_PAGES; i++) {
		fill(p + i * HUGE, HUGE);
		huge += !madvise(p + i * HUGE, HUGE, MADV_COLLAPSE);
		/* Otherwise khugepaged would fill it again. */
		madvise(p + i * HUGE, HUGE, MADV_NOHUGEPAGE);
		if (madvise(p + i * HUGE + KEEP * PAGE, HUGE - KEEP * PAGE, MADV_DONTNEED))
			die("madvise");
	}
	return huge;
}

int main(int argc, char **argv)
{
	size_t huge;

	if (argc != 2) {
		fprintf(stderr, "usage: ledgerwork DIR\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* until purge(), whatever the system says */
	sem_init(&touched, 0, 0);
	sem_init(&leave, 0, 0);
	/* The main arena grows by brk for all but what is above 32 MiB, and gives nothing back. */
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	free(check(malloc(64 << 10), "malloc"));
	printf("ready %d\n", getpid());
	wait_line();
	take(argv[1]);
	wait_line();
	huge = purge();
	printf("purged gone=%lu huge=%zu\n", huge * (HUGE - KEEP * PAGE), huge);
	wait_line();
	return 0;
}
