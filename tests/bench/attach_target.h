/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process that attachdrv probes: itself, run again. It has worker threads from the start and
 * does counted things when told by a line on stdin, answering "ok" when they are done. Commands:
 * `go N` (main and every worker call both functions N times), `fresh N` (a new thread does), `fault
 * N` (every thread and a new one touch N new pages), `name N` (N prctl calls), `fds N` (open N more
 * files).
 */
#ifndef ATTACH_TARGET_H
#define ATTACH_TARGET_H

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { TARGET_WORKERS = 3, TARGET_REGION = 64 << 20 };

struct target_hello {
	uint64_t pair, slid; /* addresses of the probed instructions */
	uint64_t lo, hi;     /* of the region that `fault` touches   */
};

/* Entry and return: its first instruction is a push. */
static __attribute__((naked, noinline, used)) void target_pair(void)
{
	__asm__ volatile("push %rbp; pop %rbp; ret");
}

/* Entry only: the probe sits on the push, two bytes in. */
static __attribute__((naked, noinline, used)) void target_slid(void)
{
	__asm__ volatile("test %edi, %edi; push %rbx; pop %rbx; ret");
}
enum { TARGET_SLIDE = 2 };

struct target_job {
	char what;
	long n;
};

static struct {
	pthread_barrier_t begin, end;
	struct target_job job;
	char *region;
	size_t used;
} target_state;

static void target_do(const struct target_job *job)
{
	long page = sysconf(_SC_PAGESIZE);
	size_t at;

	if (job->what == 'g')
		for (long i = 0; i < job->n; i++) {
			target_pair();
			target_slid();
		}
	if (job->what != 'f')
		return;
	at = __atomic_fetch_add(&target_state.used, (size_t)(job->n * page), __ATOMIC_SEQ_CST);
	for (long i = 0; i < job->n; i++)
		*(volatile char *)(target_state.region + at + (size_t)(i * page)) = 1;
}

static void *target_worker(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&target_state.begin);
		target_do(&target_state.job);
		pthread_barrier_wait(&target_state.end);
	}
	return arg;
}

static void *target_fresh(void *arg)
{
	target_do(arg);
	return NULL;
}

static void target_in_fresh(struct target_job *job)
{
	pthread_t t;

	pthread_create(&t, NULL, target_fresh, job);
	pthread_join(t, NULL);
}

static void target_everywhere(const struct target_job *job)
{
	target_state.job = *job;
	pthread_barrier_wait(&target_state.begin);
	target_do(job);
	pthread_barrier_wait(&target_state.end);
}

static int target_count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *d;
	int n = 0;

	while ((d = readdir(dir)))
		n += d->d_name[0] != '.';
	closedir(dir);
	return n - 1; /* the directory itself */
}

static void target_obey(const char *cmd, long n)
{
	struct target_job job = {.what = cmd[0], .n = n};
	int answer = 0;

	if (!strcmp(cmd, "go") || !strcmp(cmd, "fault"))
		target_everywhere(&job);
	if (!strcmp(cmd, "fresh"))
		job.what = 'g';
	if (!strcmp(cmd, "fresh") || !strcmp(cmd, "fault"))
		target_in_fresh(&job);
	for (long i = 0; !strcmp(cmd, "name") && i < n; i++)
		prctl(PR_SET_NAME, "target");
	for (long i = 0; !strcmp(cmd, "fds") && i < n; i++)
		answer = open("/dev/null", O_RDONLY) < 0 ? -1 : 0;
	if (!strcmp(cmd, "fds") && !answer)
		answer = target_count_fds();
	printf("ok %d\n", answer);
	fflush(stdout);
}

static int target_main(void)
{
	char cmd[32];
	long n;

	target_state.region = mmap(NULL, TARGET_REGION, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (target_state.region == MAP_FAILED)
		return 1;
	madvise(target_state.region, TARGET_REGION, MADV_NOHUGEPAGE);
	pthread_barrier_init(&target_state.begin, NULL, TARGET_WORKERS + 1);
	pthread_barrier_init(&target_state.end, NULL, TARGET_WORKERS + 1);
	for (int i = 0; i < TARGET_WORKERS; i++) {
		pthread_t t;

		pthread_create(&t, NULL, target_worker, NULL);
	}
	printf("%lu %lu %lu %lu\n", (unsigned long)(uintptr_t)target_pair,
	       (unsigned long)(uintptr_t)target_slid + TARGET_SLIDE,
	       (unsigned long)(uintptr_t)target_state.region,
	       (unsigned long)(uintptr_t)target_state.region + TARGET_REGION);
	fflush(stdout);
	while (scanf("%31s %ld", cmd, &n) == 2)
		target_obey(cmd, n);
	return 0;
}

#endif
