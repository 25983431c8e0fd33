// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A MySQL server whose queries say what they are to cost, and that writes down what each step did
 * cost by its own clocks.
 *
 *   anatomywork [--pool N | --batch N] OUT
 *
 * Prints its port. A thread a connection; or N workers that answer what such threads read; or one
 * thread, which reads a request from each of N connections before it answers them. A query's text
 * is a list of steps, "spin 2000; sleep 1000": spin US      use the CPU          sleep US    sleep
 *     lock US      wait for a mutex     socket US   wait for an answer over a socket
 *     touch PAGES  first touch          huge N      the same of 2 MiB each
 *     purge KB     MADV_DONTNEED        map KB      mmap with MAP_POPULATE, then munmap
 *     brk KB       grow the heap, touch it, shrink it
 *     io N         read 4 KiB, N times, with O_DIRECT
 *     cache KB     read so much of a file that is all holes, through the page cache
 *     mmaplock KB  mmap while another thread, which populates so much, holds mmap_lock
 *     forget 0     give no answer
 *
 * OUT: a row a query, tab-separated: the client's port, the query's number on its connection, then
 * ns of wall time, CPU and run queue (schedstat) of all of it, faults, and ns of each step: of CPU
 * where it works, off the CPU where it waits. What a step uses up is made good after the answer.
 */
#include <pthread.h>
#include <sched.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "wire.h"

#define KB	  1024ul
#define MB	  (KB * KB)
#define ROOM	  (64 * MB)
#define MAX_CONNS 256

enum { SPIN, TOUCH, HUGE, PURGE, MAP, UNMAP, BRK, SLEEP, LOCK, SOCKET, IO, MMAPLOCK, CACHE, STEPS };

struct clocks {
	uint64_t wall, cpu, rq, faults;
};

struct truth {
	struct clocks all;
	int64_t step[STEPS];
	bool forget;
};

/* A thread that works, with what its steps need. */
struct worker {
	int stat, file, holes, pair[2];
	char *pages, *huge, *full, *other;
	pthread_mutex_t mutex;
	sem_t start;
	atomic_uint held, hold_us, populate;
	pthread_t helper, peer;
};

struct conn {
	int fd;
	uint16_t port;
	unsigned seq;
	bool logged_in;
	char text[256];
	struct conn *next;
};

static FILE *out;
static const char *out_path;
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_us(uint64_t us)
{
	struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* CPU time is read last: what reading costs is in the step before it. */
static struct clocks read_clocks(struct worker *w)
{
	struct clocks c = {0};
	struct rusage ru;
	char line[96];
	ssize_t n = pread(w->stat, line, sizeof(line) - 1, 0);

	if (n <= 0)
		die("/proc/thread-self/schedstat");
	line[n] = '\0';
	sscanf(line, "%*u %lu", &c.rq);
	getrusage(RUSAGE_THREAD, &ru);
	c.faults = (uint64_t)(ru.ru_minflt + ru.ru_majflt);
	c.wall = clock_ns(CLOCK_MONOTONIC);
	c.cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return c;
}

/* ---- helpers of the steps that wait ---- */

static void *hold(void *arg)
{
	struct worker *w = arg;

	for (;;) {
		while (sem_wait(&w->start))
			;
		if (w->populate) {
			w->held = 1;
			madvise(w->other, w->populate * KB, MADV_POPULATE_WRITE);
			w->populate = 0;
			continue;
		}
		pthread_mutex_lock(&w->mutex);
		w->held = 1;
		sleep_us(w->hold_us);
		pthread_mutex_unlock(&w->mutex);
	}
	return NULL;
}

static void *reply(void *arg)
{
	struct worker *w = arg;
	unsigned us;

	while (read(w->pair[1], &us, sizeof(us)) == sizeof(us)) {
		sleep_us(us);
		if (write(w->pair[1], "", 1) != 1)
			die("write");
	}
	return NULL;
}

static char *map(size_t bytes, int advice)
{
	char *p = mmap(NULL, bytes + 2 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	p += 2 * MB - ((uintptr_t)p & (2 * MB - 1));
	madvise(p, bytes, advice);
	return p;
}

/* As it was before a query. */
static void make_good(struct worker *w)
{
	madvise(w->pages, ROOM, MADV_DONTNEED);
	madvise(w->huge, ROOM, MADV_DONTNEED);
	madvise(w->other, ROOM, MADV_DONTNEED);
	for (size_t i = 0; i < ROOM / 8; i += 4096)
		w->full[i] = 1;
}

static struct worker *worker_new(void)
{
	struct worker *w = calloc(1, sizeof(*w));
	char name[256];

	if (!w)
		die("worker");
	w->stat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	snprintf(name, sizeof(name), "%s.io", out_path);
	w->file = open(name, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
	if (w->file < 0) /* no file system for it: io is not asked for there */
		w->file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	w->pages = map(ROOM, MADV_NOHUGEPAGE);
	w->huge = map(ROOM, MADV_HUGEPAGE);
	w->full = map(ROOM, MADV_NOHUGEPAGE);
	w->other = map(ROOM, MADV_NOHUGEPAGE);
	if (w->file < 0 || pwrite(w->file, w->full, 4 * MB, 0) != 4 * MB)
		die(name);
	snprintf(name, sizeof(name), "%s.holes", out_path);
	w->holes = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (w->holes < 0 || ftruncate(w->holes, 1024 * MB))
		die(name);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, w->pair))
		die("socketpair");
	pthread_mutex_init(&w->mutex, NULL);
	sem_init(&w->start, 0, 0);
	if (pthread_create(&w->helper, NULL, hold, w) || pthread_create(&w->peer, NULL, reply, w))
		die("pthread_create");
	make_good(w);
	return w;
}

/* ---- steps ---- */

static void do_spin(uint64_t us)
{
	uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + us * 1000;

	/* The clock is a system call: most of the time is to be the program's own. */
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile unsigned i = 0; i < 200000; i++)
			;
}

static void do_lock(struct worker *w, uint64_t us)
{
	w->hold_us = (unsigned)us;
	w->held = 0;
	sem_post(&w->start);
	while (!w->held)
		sched_yield();
	pthread_mutex_lock(&w->mutex);
	pthread_mutex_unlock(&w->mutex);
}

static void do_mmaplock(struct worker *w, uint64_t kb)
{
	char *p;

	w->populate = (unsigned)kb;
	w->held = 0;
	sem_post(&w->start);
	while (!w->held)
		sched_yield();
	sleep_us(200); /* by then it has the lock */
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || munmap(p, 4096))
		die("mmap");
}

static void do_socket(struct worker *w, uint64_t us)
{
	unsigned n = (unsigned)us;
	char c;

	if (write(w->pair[0], &n, sizeof(n)) != sizeof(n) || read(w->pair[0], &c, 1) != 1)
		die("socket");
}

static void do_io(struct worker *w, uint64_t n)
{
	static _Thread_local char buf[8192];
	char *at = buf + (4096 - ((uintptr_t)buf & 4095)) % 4096;

	for (uint64_t i = 0; i < n; i++)
		if (pread(w->file, at, 4096, (off_t)(i % 1024 * 4096)) != 4096)
			die("pread");
}

static void do_cache(struct worker *w, uint64_t kb)
{
	static _Thread_local char buf[64 * KB];

	for (uint64_t at = 0; at < kb * KB; at += sizeof(buf))
		if (pread(w->holes, buf, sizeof(buf), (off_t)at) != sizeof(buf))
			die("pread");
}

static void touch(char *p, uint64_t n, size_t stride)
{
	for (uint64_t i = 0; i < n && i * stride < ROOM; i++)
		((volatile char *)p)[i * stride] = 1;
}

static void do_map(struct worker *w, uint64_t kb, struct truth *t)
{
	uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	char *p = mmap(NULL, kb * KB, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	uint64_t between = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	(void)w;
	if (p == MAP_FAILED || munmap(p, kb * KB))
		die("map");
	t->step[MAP] += (int64_t)(between - before);
	t->step[UNMAP] += (int64_t)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - between);
}

/* malloc() is called by nobody meanwhile: connections have what they need. */
static void do_brk(uint64_t kb)
{
	char *p = sbrk((intptr_t)(kb * KB));

	if (p == (char *)-1)
		die("sbrk");
	touch(p, kb / 4, 4096);
	sbrk(-(intptr_t)(kb * KB));
}

/* One step, and which it was; -1: none that is known. */
static int do_step(struct worker *w, const char *name, uint64_t n, struct truth *t)
{
	static const char *const names[STEPS] = {"spin",  "touch",    "huge",  "purge", "map",
						 "unmap", "brk",      "sleep", "lock",	"socket",
						 "io",	  "mmaplock", "cache"};
	int s = 0;

	while (s < STEPS && strcmp(names[s], name))
		s++;
	switch (s) {
	case SPIN:
		do_spin(n);
		break;
	case TOUCH:
		touch(w->pages, n, 4096);
		break;
	case HUGE:
		touch(w->huge, n, 2 * MB);
		break;
	case PURGE:
		madvise(w->full, n * KB, MADV_DONTNEED);
		break;
	case MAP:
		do_map(w, n, t);
		break;
	case BRK:
		do_brk(n);
		break;
	case SLEEP:
		sleep_us(n);
		break;
	case LOCK:
		do_lock(w, n);
		break;
	case SOCKET:
		do_socket(w, n);
		break;
	case IO:
		do_io(w, n);
		break;
	case CACHE:
		do_cache(w, n);
		break;
	case MMAPLOCK:
		do_mmaplock(w, n);
		break;
	default:
		t->forget = !strcmp(name, "forget");
		return -1;
	}
	return s;
}

static struct truth run(struct worker *w, const char *text)
{
	struct clocks first = read_clocks(w), before = first, now;
	struct truth t = {0};
	const char *p = text;
	char name[16];
	uint64_t n;
	int used;

	while (sscanf(p, " %15[a-z] %lu%n", name, &n, &used) == 2) {
		int s;

		before = read_clocks(w);
		s = do_step(w, name, n, &t);
		now = read_clocks(w);
		if (s >= 0 && s < SLEEP && s != MAP)
			t.step[s] += (int64_t)(now.cpu - before.cpu);
		else if (s >= SLEEP)
			t.step[s] += (int64_t)(now.wall - before.wall) -
				     (int64_t)(now.cpu - before.cpu) -
				     (int64_t)(now.rq - before.rq);
		p += used;
		p += *p == ';';
	}
	now = read_clocks(w);
	t.all = (struct clocks){now.wall - first.wall, now.cpu - first.cpu, now.rq - first.rq,
				now.faults - first.faults};
	return t;
}

static void write_down(const struct conn *c, unsigned seq, const struct truth *t)
{
	pthread_mutex_lock(&out_lock);
	fprintf(out, "%u\t%u\t%lu\t%lu\t%lu\t%lu", c->port, seq, t->all.wall, t->all.cpu, t->all.rq,
		t->all.faults);
	for (int s = 0; s < STEPS; s++)
		fprintf(out, "\t%ld", t->step[s]);
	fputc('\n', out);
	fflush(out);
	pthread_mutex_unlock(&out_lock);
}

/* ---- the protocol ---- */

static const char greeting[78] = "\x4a\0\0\0\x0a"
				 "5.5.21-work\0\1\0\0\0abcdefgh\0\x08\x82\x21\2\0\0\0\0\0\0"
				 "\0\0\0\0\0\0\0\0\0abcdefghijklabcdefghijklm";

static void send_ok(int fd, uint8_t seq)
{
	const uint8_t ok[] = {7, 0, 0, seq, 0, 0, 0, 2, 0, 0, 0};

	if (send(fd, ok, sizeof(ok), MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		die("send");
}

static bool read_all(int fd, void *p, size_t n)
{
	return recv(fd, p, n, MSG_WAITALL) == (ssize_t)n;
}

/* The next request's text into c->text; false: the connection ends. */
static bool read_request(struct conn *c)
{
	uint8_t head[4], body[sizeof(c->text)];
	size_t n;

	for (;;) {
		if (!read_all(c->fd, head, 4))
			return false;
		n = head[0] | (size_t)head[1] << 8;
		if (!n || n >= sizeof(body) || !read_all(c->fd, body, n))
			return false;
		if (!c->logged_in) {
			c->logged_in = true;
			send_ok(c->fd, 2);
			continue;
		}
		if (body[0] != 3)
			return false;
		memcpy(c->text, body + 1, n - 1);
		c->text[n - 1] = '\0';
		c->seq++;
		return true;
	}
}

static void answer(struct worker *w, struct conn *c)
{
	unsigned seq = c->seq; /* once it is answered the next one may be read */
	struct truth t = run(w, c->text);

	if (!t.forget)
		send_ok(c->fd, 1);
	write_down(c, seq, &t);
	make_good(w);
}

static void *serve_conn(void *arg)
{
	struct conn *c = arg;
	struct worker *w = worker_new();

	if (send(c->fd, greeting, sizeof(greeting), MSG_NOSIGNAL) < 0)
		die("send");
	while (read_request(c))
		answer(w, c);
	close(c->fd);
	return NULL;
}

/* ---- a pool ---- */

static struct conn *queue, **queue_end = &queue;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queued = PTHREAD_COND_INITIALIZER;

static void *work(void *arg)
{
	struct worker *w = worker_new();
	struct conn *c;

	(void)arg;
	for (;;) {
		pthread_mutex_lock(&queue_lock);
		while (!queue)
			pthread_cond_wait(&queued, &queue_lock);
		c = queue;
		queue = c->next;
		if (!queue)
			queue_end = &queue;
		pthread_mutex_unlock(&queue_lock);
		answer(w, c);
	}
	return NULL;
}

/* Reads for all of a pool's connections; a client that waits for its answer sends nothing. */
static void *read_conn(void *arg)
{
	struct conn *c = arg;

	if (send(c->fd, greeting, sizeof(greeting), MSG_NOSIGNAL) < 0)
		die("send");
	while (read_request(c)) {
		pthread_mutex_lock(&queue_lock);
		c->next = NULL;
		*queue_end = c;
		queue_end = &c->next;
		pthread_cond_signal(&queued);
		pthread_mutex_unlock(&queue_lock);
	}
	return NULL;
}

/* ---- one thread for all ---- */

/* Reads one request from each of @n connections, in the order in which they came, then answers them
 * in that order, and so on. */
static void *serve_batch(struct conn **conns, unsigned n)
{
	struct worker *w = worker_new();

	for (unsigned i = 0; i < n; i++)
		if (send(conns[i]->fd, greeting, sizeof(greeting), MSG_NOSIGNAL) < 0)
			die("send");
	for (;;) {
		for (unsigned i = 0; i < n; i++)
			if (!read_request(conns[i]))
				exit(0);
		for (unsigned i = 0; i < n; i++)
			answer(w, conns[i]);
	}
	return NULL;
}

static struct conn *accept_conn(int l)
{
	struct conn *c = calloc(1, sizeof(*c));
	struct sockaddr_in in;
	socklen_t len = sizeof(in);
	int one = 1;

	if (!c)
		die("connection");
	c->fd = accept(l, (struct sockaddr *)&in, &len);
	if (c->fd < 0)
		die("accept");
	c->port = ntohs(in.sin_port);
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return c;
}

static void serve(unsigned pool, unsigned batch)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static struct conn *conns[MAX_CONNS];
	socklen_t len = sizeof(in);
	pthread_t t;

	if (l < 0 || bind(l, (struct sockaddr *)&in, len) || listen(l, MAX_CONNS) ||
	    getsockname(l, (struct sockaddr *)&in, &len))
		die("listen");
	for (unsigned i = 0; i < pool; i++)
		if (pthread_create(&t, NULL, work, NULL))
			die("pthread_create");
	printf("%u\n", ntohs(in.sin_port));
	fflush(stdout);
	for (unsigned i = 0; i < batch; i++)
		conns[i] = accept_conn(l);
	if (batch)
		serve_batch(conns, batch);
	for (;;) {
		struct conn *c = accept_conn(l);

		if (pthread_create(&t, NULL, pool ? read_conn : serve_conn, c))
			die("pthread_create");
	}
}

int main(int argc, char **argv)
{
	unsigned pool = 0, batch = 0;

	if (argc == 4 && !strcmp(argv[1], "--pool"))
		pool = (unsigned)atoi(argv[2]);
	else if (argc == 4 && !strcmp(argv[1], "--batch"))
		batch = (unsigned)atoi(argv[2]);
	else if (argc != 2) {
		fprintf(stderr, "usage: anatomywork [--pool N | --batch N] OUT\n");
		return 2;
	}
	out_path = argv[argc - 1];
	out = fopen(out_path, "we");
	if (!out || batch > MAX_CONNS)
		die(out_path);
	serve(pool, batch);
	return 0;
}
