// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Is off its CPU a known number of times for a known reason.
 *
 *   stallwork KIND COUNT MS
 *
 * KIND, and what happens COUNT times:
 *     sleep   clock_nanosleep of MS
 *     poll0   poll of nothing, for MS
 *     futex   a futex that another thread releases after MS
 *     alloc   likewise, the futex lies 64 bytes above a multiple of 64 MiB, as an arena's lock does
 *     arena   (once) four threads malloc and free in one arena, the main one, COUNT times
 *     socket  recv of a byte that another thread sends after MS
 *     epoll   epoll_wait for such a byte
 *     pipe    read of a pipe, likewise
 *     io      pread of 4 KiB with O_DIRECT (MS has no meaning)
 *     spin    two threads on one CPU use it for MS; COUNT must be 1
 *     mmap    three threads map, touch and unmap 4 MiB each, all at once
 *     calls   madvise, mremap, munmap, mmap and brk of 4 MiB, and their time each
 *
 * Prints "ready PID", waits for a line on stdin, works, prints "done n=N ns=N delay=N" (n: how
 * often it happened, ns: how long by its own clock; delay: what the kernel's schedstat says all
 * threads waited for a CPU meanwhile), waits for a line and ends. Threads live to the end.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MB (1ul << 20)

static unsigned count, ms;
static uint64_t done_n, done_ns;
static atomic_uint go, finished;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * Nobody preempts a real-time thread: not between setting its timer and going to sleep, so that
 * each sleep is one, nor on the way back from a system call, which is in our time of it.
 */
static void be_first(void)
{
	struct sched_param first = {.sched_priority = 1};

	if (sched_setscheduler(0, SCHED_FIFO, &first))
		die("SCHED_FIFO");
}

static void nap(void)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

/* Run by the main thread: take the time of one wait. */
static void timed(void (*wait)(void))
{
	uint64_t begin = now_ns();

	wait();
	done_ns += now_ns() - begin;
	done_n++;
}

static void start(void *(*body)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, arg) || pthread_detach(thread))
		die("pthread_create");
}

/* Until all have finished, without a futex of our own. */
static void await(unsigned threads)
{
	while (atomic_load(&finished) < threads)
		sched_yield();
}

static void park(void)
{
	atomic_fetch_add(&finished, 1);
	for (;;)
		pause();
}

/* ---- waits that another thread ends ---- */

static atomic_uint *word;
static int ends[2], ep;
static void (*wake)(void);

static void futex_wait(void)
{
	while (!atomic_load(word))
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	atomic_store(word, 0);
}

static void futex_wake(void)
{
	atomic_store(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void send_byte(void)
{
	if (write(ends[1], "x", 1) != 1)
		die("write");
}

static void take_byte(void)
{
	char c;

	if (read(ends[0], &c, 1) != 1)
		die("read");
}

static void recv_byte(void)
{
	char c;

	if (recv(ends[0], &c, 1, 0) != 1)
		die("recv");
}

static void epoll_byte(void)
{
	struct epoll_event ev;

	if (epoll_wait(ep, &ev, 1, -1) != 1)
		die("epoll_wait");
	recv_byte();
}

/* Each nap begins when the other is about to wait; it wakes once a turn. */
static void *waker(void *arg)
{
	(void)arg;
	for (unsigned i = 1; i <= count; i++) {
		while (atomic_load(&go) < i)
			sched_yield();
		nap();
		wake();
	}
	park();
	return NULL;
}

static void turns(void (*wait)(void), void (*waking)(void))
{
	wake = waking;
	be_first(); /* so is the thread, which inherits it */
	start(waker, NULL);
	for (unsigned i = 0; i < count; i++) {
		atomic_fetch_add(&go, 1);
		timed(wait);
	}
	await(1);
}

static void work_futex(void)
{
	static atomic_uint mine;

	word = &mine;
	turns(futex_wait, futex_wake);
}

static void work_alloc(void)
{
	char *p = mmap(NULL, 128 * MB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	p = (char *)(((uintptr_t)p + 64 * MB - 1) & ~(64 * MB - 1));
	word = (atomic_uint *)(p + 64);
	turns(futex_wait, futex_wake);
}

static void make_pair(void)
{
	struct epoll_event ev = {.events = EPOLLIN};

	ep = epoll_create1(0);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || epoll_ctl(ep, EPOLL_CTL_ADD, ends[0], &ev))
		die("socketpair");
}

static void work_socket(void)
{
	make_pair();
	turns(recv_byte, send_byte);
}

static void work_epoll(void)
{
	make_pair();
	turns(epoll_byte, send_byte);
}

static void work_pipe(void)
{
	if (pipe(ends))
		die("pipe");
	turns(take_byte, send_byte);
}

/* ---- waits of one thread ---- */

static void work_sleep(void)
{
	be_first();
	for (unsigned i = 0; i < count; i++)
		timed(nap);
}

static void poll_nothing(void)
{
	poll(NULL, 0, (int)ms);
}

static void work_poll0(void)
{
	be_first();
	for (unsigned i = 0; i < count; i++)
		timed(poll_nothing);
}

static int file;
static void *block;

static void read_block(void)
{
	if (pread(file, block, 4096, (off_t)(done_n * 4096)) != 4096)
		die("pread");
}

static void work_io(void)
{
	char path[] = "/var/tmp/stallwork.XXXXXX";
	int fd = mkstemp(path);

	block = aligned_alloc(4096, 4096);
	memset(block, 1, 4096);
	for (unsigned i = 0; i < count; i++)
		if (write(fd, block, 4096) != 4096)
			die("write");
	fsync(fd);
	file = open(path, O_RDONLY | O_DIRECT);
	unlink(path);
	if (file < 0)
		die("O_DIRECT");
	for (unsigned i = 0; i < count; i++)
		timed(read_block);
}

/* ---- the CPU and the address space ---- */

static _Atomic uint64_t spin_end;

static void *spinner(void *arg)
{
	cpu_set_t one;
	uint64_t end = 0;

	(void)arg;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	atomic_fetch_add(&go, 1);
	while (!end || now_ns() < end)
		end = atomic_load(&spin_end);
	park();
	return NULL;
}

static void work_spin(void)
{
	start(spinner, NULL);
	start(spinner, NULL);
	while (atomic_load(&go) < 2) /* from here on, one of the two waits at any moment */
		usleep(1000);
	atomic_store(&spin_end, now_ns() + ms * 1000000ull);
	while (atomic_load(&finished) < 2)
		usleep(10000);
	done_n = 2;
	done_ns = ms * 1000000ull;
}

static void *mapper(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < count; i++) {
		char *p = mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

		if (p == MAP_FAILED)
			die("mmap");
		madvise(p, 4 * MB, MADV_NOHUGEPAGE);
		for (size_t at = 0; at < 4 * MB; at += 4096)
			p[at] = 1;
		munmap(p, 4 * MB);
	}
	park();
	return NULL;
}

static void work_mmap(void)
{
	for (int i = 0; i < 3; i++)
		start(mapper, NULL);
	while (atomic_load(&finished) < 3)
		usleep(1000);
	done_n = 3 * count;
}

/* Blocks too large for the thread's cache, so that each call takes the arena's lock. */
static void *allocator(void *arg)
{
	static _Thread_local void *volatile slots[64];

	(void)arg;
	for (unsigned i = 0; i < count * 64; i++) {
		free(slots[i % 64]);
		slots[i % 64] = malloc(2000 + i % 64 * 16);
	}
	park();
	return NULL;
}

static void work_arena(void)
{
	mallopt(M_ARENA_MAX, 1);
	for (int i = 0; i < 4; i++)
		start(allocator, NULL);
	while (atomic_load(&finished) < 4)
		usleep(1000);
	done_n = 1;
}

static char *area;
static uint64_t madvise_ns, munmap_ns, mmap_ns, mremap_ns, brk_ns;

static uint64_t lap(uint64_t *since)
{
	uint64_t before = *since;

	*since = now_ns();
	return *since - before;
}

/* One of each call. Pages are there, so that there is work in madvise and munmap. */
static void one_of_each(void)
{
	uint64_t t = now_ns();
	char *end;

	area = mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	mmap_ns += lap(&t);
	madvise(area, 4 * MB, MADV_DONTNEED);
	madvise_ns += lap(&t);
	memset(area, 1, 4 * MB);
	lap(&t);
	area = mremap(area, 4 * MB, 8 * MB, MREMAP_MAYMOVE);
	mremap_ns += lap(&t);
	munmap(area, 8 * MB);
	munmap_ns += lap(&t);
	end = sbrk(0);
	lap(&t);
	syscall(SYS_brk, end + 4 * MB);
	brk_ns += lap(&t);
	memset(end, 1, 4 * MB);
	lap(&t);
	syscall(SYS_brk, end);
	brk_ns += lap(&t);
}

static void work_calls(void)
{
	be_first();
	for (unsigned i = 0; i < count; i++)
		one_of_each();
	done_n = count;
	printf("calls madvise=%ju munmap=%ju mmap=%ju mremap=%ju brk=%ju\n", (uintmax_t)madvise_ns,
	       (uintmax_t)munmap_ns, (uintmax_t)mmap_ns, (uintmax_t)mremap_ns, (uintmax_t)brk_ns);
}

static const struct {
	const char *name;
	void (*work)(void);
} kinds[] = {
	{"sleep", work_sleep}, {"poll0", work_poll0},	{"futex", work_futex},
	{"alloc", work_alloc}, {"socket", work_socket}, {"epoll", work_epoll},
	{"pipe", work_pipe},   {"io", work_io},		{"spin", work_spin},
	{"arena", work_arena}, {"mmap", work_mmap},	{"calls", work_calls},
};

/* What all threads waited for a CPU so far: the second number of schedstat. */
static uint64_t run_delay(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	uint64_t sum = 0;

	while (dir && (entry = readdir(dir))) {
		uintmax_t ran, waited;
		char path[300];
		FILE *f;

		if (entry->d_name[0] == '.')
			continue; /* ".." is the process, whose schedstat is its first thread's */
		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", entry->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fscanf(f, "%ju %ju", &ran, &waited) == 2)
			sum += waited;
		fclose(f);
	}
	if (dir)
		closedir(dir);
	return sum;
}

int main(int argc, char **argv)
{
	char line[16];

	for (size_t i = 0; argc == 4 && i < sizeof(kinds) / sizeof(*kinds); i++) {
		uint64_t before;

		if (strcmp(kinds[i].name, argv[1]))
			continue;
		count = (unsigned)atoi(argv[2]);
		ms = (unsigned)atoi(argv[3]);
		printf("ready %d\n", getpid());
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 1;
		before = run_delay();
		kinds[i].work();
		printf("done n=%ju ns=%ju delay=%ju\n", (uintmax_t)done_n, (uintmax_t)done_ns,
		       (uintmax_t)before);
		fflush(stdout);
		return fgets(line, sizeof(line), stdin) ? 0 : 1;
	}
	fprintf(stderr, "usage: stallwork KIND COUNT MS\n");
	return 2;
}
